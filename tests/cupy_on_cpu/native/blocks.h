// How the threads of a grid are run.
#pragma once
#include <cstddef>

namespace on_cpu {

struct Size {
    unsigned x, y, z;
    unsigned long long count() const { return (unsigned long long)x * y * z; }
};

// What device.h says of a kernel (on_cpu_kernel).
struct Kernel {
    void (*call)(void** arguments);
    const unsigned* sizes;
    unsigned count;
    char* shared_begin;
    char* shared_end;
};

void run_grid(const Kernel& kernel, void** arguments, Size grid, Size block, size_t dynamic_shared);

}  // namespace on_cpu
