// The CUDA driver: modules are shared objects that cuda_on_cpu.py had g++ compile, and their kernels run at once.
#include "blocks.h"
#include "state.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace on_cpu;

#define DRIVER extern "C" int

namespace {
const char MARK[] = "CUPY_ON_CPU:";
void* const CONTEXT = (void*)16;
const int SHARED_LIMIT = 48 << 10;
const int SHARED_LIMIT_ASKED = 227 << 10;
enum Attribute { MAX_THREADS = 0, SHARED_SIZE = 1, REGISTERS = 4, MAX_DYNAMIC_SHARED = 8 };

struct Module {
    void* handle;
    int device;
};

struct Function {
    const Kernel* kernel;
    std::string name;
    int device;
    std::map<int, int> attributes;

    int shared() const { return int(kernel->shared_end - kernel->shared_begin); }
    int most_dynamic_shared() const {
        auto found = attributes.find(MAX_DYNAMIC_SHARED);
        return found == attributes.end() ? SHARED_LIMIT - shared() : found->second;
    }
};

// A copy of a kernel's arguments, for as long as a capture keeps them.
struct Arguments {
    std::vector<std::vector<char>> held;
    std::vector<void*> pointers;

    Arguments(const Kernel& kernel, void** given) {
        for (unsigned k = 0; k < kernel.count; k++) {
            const char* at = (const char*)given[k];
            held.emplace_back(at, at + kernel.sizes[k]);
        }
        for (auto& one : held) pointers.push_back(one.data());
    }

    // Whether one of them is, or has as a member, an address in the memory of another device.
    bool elsewhere() const {
        if (device_count() == 1) return false;
        for (auto& one : held) {
            for (size_t at = 0; at + sizeof(void*) <= one.size(); at += sizeof(void*)) {
                void* word;
                memcpy(&word, &one[at], sizeof word);
                int device = device_of(word);
                if (device >= 0 && device != current_device) return true;
            }
        }
        return false;
    }
};
}  // namespace

// ---------------------------------------------------------------- versions, errors, contexts

DRIVER cuInit(unsigned) { return SUCCESS; }

DRIVER cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

DRIVER cuGetErrorName(int error, const char** name) {
    *name = error_name(error);
    return SUCCESS;
}

DRIVER cuGetErrorString(int error, const char** text) {
    *text = error == NOT_FOUND ? "named symbol not found" : error_name(error);
    return SUCCESS;
}

DRIVER cuGetProcAddress_v2(const char*, void** address, int, unsigned long long, int*) {
    *address = nullptr;
    return NOT_FOUND;
}

DRIVER cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

DRIVER cuCtxGetCurrent(void** context) {
    *context = CONTEXT;
    return SUCCESS;
}

DRIVER cuCtxSetCurrent(void*) { return SUCCESS; }

DRIVER cuCtxCreate_v2(void** context, unsigned, int) { return cuCtxGetCurrent(context); }

DRIVER cuCtxDestroy_v2(void*) { return SUCCESS; }

DRIVER cuCtxGetDevice(int* device) {
    *device = current_device;
    return SUCCESS;
}

DRIVER cuStreamGetCtx(void*, void** context) { return cuCtxGetCurrent(context); }

DRIVER cuLinkCreate_v2() { return NOT_SUPPORTED; }
DRIVER cuLinkAddData_v2() { return NOT_SUPPORTED; }
DRIVER cuLinkAddFile_v2() { return NOT_SUPPORTED; }
DRIVER cuLinkComplete() { return NOT_SUPPORTED; }
DRIVER cuLinkDestroy() { return NOT_SUPPORTED; }

// ---------------------------------------------------------------- modules and functions

DRIVER cuModuleLoadData(void** module, const void* image) {
    if (strncmp((const char*)image, MARK, sizeof MARK - 1)) {
        complain("a module that g++ did not compile");
        return INVALID_IMAGE;
    }
    void* handle = dlopen((const char*)image + sizeof MARK - 1, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        complain(dlerror());
        return INVALID_IMAGE;
    }
    *module = new Module{handle, current_device};
    return SUCCESS;
}

DRIVER cuModuleLoad(void**, const char*) { return NOT_SUPPORTED; }

DRIVER cuModuleUnload(void*) { return SUCCESS; }

DRIVER cuModuleGetFunction(void** function, void* handle, const char* name) {
    auto* module = (Module*)handle;
    auto* kernel = (const Kernel*)dlsym(module->handle, (std::string("on_cpu_kernel_") + name).c_str());
    if (!kernel) return NOT_FOUND;
    *function = new Function{kernel, name, module->device, {}};
    return SUCCESS;
}

DRIVER cuModuleGetGlobal_v2(void** address, size_t* size, void* handle, const char* name) {
    Lock lock(gate);
    auto* module = (Module*)handle;
    *address = dlsym(module->handle, name);
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (!*address || !dladdr1(*address, &info, (void**)&symbol, RTLD_DL_SYMENT) || !symbol) return NOT_FOUND;
    add_variable((char*)*address, symbol->st_size, module->device);
    if (size) *size = symbol->st_size;
    return SUCCESS;
}

DRIVER cuFuncGetAttribute(int* value, int which, void* handle) {
    auto* function = (Function*)handle;
    switch (which) {
    case MAX_THREADS: *value = 1024; break;
    case SHARED_SIZE: *value = function->shared(); break;
    case REGISTERS: *value = 32; break;
    case MAX_DYNAMIC_SHARED: *value = function->most_dynamic_shared(); break;
    default: *value = 0;
    }
    return SUCCESS;
}

DRIVER cuFuncSetAttribute(void* handle, int which, int value) {
    auto* function = (Function*)handle;
    if (which == MAX_DYNAMIC_SHARED && (value < 0 || value + function->shared() > SHARED_LIMIT_ASKED)) {
        return INVALID_VALUE;
    }
    function->attributes[which] = value;
    return SUCCESS;
}

DRIVER cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int size, size_t) {
    *blocks = 2048 / (size ? size : 1);
    return SUCCESS;
}

DRIVER cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void*, void*, size_t, int) {
    *grid = 264;
    *block = 1024;
    return SUCCESS;
}

// ---------------------------------------------------------------- launches

static bool is_possible(const Function& function, Size grid, Size block, unsigned shared) {
    if (!grid.count() || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return false;
    if (!block.count() || block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > 1024) return false;
    return function.shared() <= SHARED_LIMIT && (int)shared <= function.most_dynamic_shared();
}

static std::string shown(Size size) {
    std::string text = std::to_string(size.x);
    if (size.y > 1 || size.z > 1) text += "x" + std::to_string(size.y);
    if (size.z > 1) text += "x" + std::to_string(size.z);
    return text;
}

DRIVER cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** given, void**) {
    Lock lock(gate);
    const auto& function = *(Function*)handle;
    const Kernel* kernel = function.kernel;
    Size grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
    if (!is_possible(function, grid, block, shared)) return INVALID_VALUE;
    if (function.device != current_device) {
        complain(function.name + " was loaded on device " + std::to_string(function.device) +
                 " and is launched on another");
        return INVALID_HANDLE;
    }
    auto arguments = std::make_shared<Arguments>(*kernel, given);
    if (arguments->elsewhere()) {
        complain(function.name + " is given memory of another device");
        return ILLEGAL_ADDRESS;
    }
    counts.launches++;
    Work work = [=] { run_grid(*kernel, arguments->pointers.data(), grid, block, shared); };
    std::string sizes = says() ? " <<<" + shown(grid) + ", " + shown(block) + ">>>" : "";
    return submit(stream, function.name, work, Devices::SAME, sizes);
}

DRIVER cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** given) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, given, nullptr);
}
