// The devices and their properties (an H100's), errors, counters, the trace, and how CuPy's own CUDA runtime is
// replaced.
#include "state.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace on_cpu {

thread_local int current_device = 0;
static thread_local int last_error = SUCCESS;
Counts counts;
bool idle = false;

static bool tracing = false;
static std::string traced;

int device_count() {
    const char* given = getenv("CUPY_ON_CPU_DEVICES");
    return given ? atoi(given) : 1;
}

static bool logs() {
    static const bool found = getenv("CUPY_ON_CPU_LOG") != nullptr;
    return found;
}

bool says() { return tracing || logs(); }

void say(const std::string& what) {
    if (tracing) traced += what + "\n";
    if (logs()) fprintf(stderr, "[cuda] %s\n", what.c_str());
}

void complain(const std::string& what) { fprintf(stderr, "CUDA on the CPU: %s\n", what.c_str()); }

int fail(int error) {
    last_error = error;
    return error;
}

const char* error_name(int error) {
    switch (error) {
    case SUCCESS: return "cudaSuccess";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case INVALID_CONFIGURATION: return "cudaErrorInvalidConfiguration";
    case NO_DEVICE: return "cudaErrorNoDevice";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case INVALID_IMAGE: return "cudaErrorInvalidKernelImage";
    case INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
    case NOT_FOUND: return "cudaErrorSymbolNotFound";
    case ILLEGAL_ADDRESS: return "cudaErrorIllegalAddress";
    case LAUNCH_FAILURE: return "cudaErrorLaunchFailure";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    case CAPTURE_UNSUPPORTED: return "cudaErrorStreamCaptureUnsupported";
    case CAPTURE_INVALIDATED: return "cudaErrorStreamCaptureInvalidated";
    case CAPTURE_UNJOINED: return "cudaErrorStreamCaptureUnjoined";
    case CAPTURE_ISOLATION: return "cudaErrorStreamCaptureIsolation";
    case CAPTURE_IMPLICIT: return "cudaErrorStreamCaptureImplicit";
    case CAPTURE_WRONG_THREAD: return "cudaErrorStreamCaptureWrongThread";
    }
    return "cudaErrorUnknown";
}

static int attribute(int which) {
    switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX: return 1024;
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY: return 65535;
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 << 10;
    case cudaDevAttrTotalConstantMemory: return 64 << 10;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxRegistersPerBlock: return 65536;
    case cudaDevAttrClockRate: return 1980000;
    case cudaDevAttrMultiProcessorCount: return 132;
    case cudaDevAttrConcurrentKernels: return 1;
    case cudaDevAttrMemoryClockRate: return 2619000;
    case cudaDevAttrGlobalMemoryBusWidth: return 5120;
    case cudaDevAttrL2CacheSize: return 50 << 20;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrUnifiedAddressing: return 1;
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 227 << 10;
    }
    return 0;
}

}  // namespace on_cpu

using namespace on_cpu;

// ---------------------------------------------------------------- for cuda_on_cpu.py

extern "C" void on_cpu_counts(Counts* out) { *out = counts; }

extern "C" void on_cpu_idle(int on) { idle = on != 0; }

extern "C" void on_cpu_trace(int on) {
    tracing = on != 0;
    if (on) traced.clear();
}

extern "C" const char* on_cpu_traced() { return traced.c_str(); }

// Let the function at ``from`` jump to the one at ``to``: mov rax, to; jmp rax.
extern "C" int on_cpu_replace(char* from, void* to) {
    const size_t page = sysconf(_SC_PAGESIZE);
    unsigned char jump[12] = {0x48, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0};
    memcpy(jump + 2, &to, sizeof to);
    char* first = from - (size_t)from % page;
    size_t size = from + sizeof jump - first;
    if (mprotect(first, size, PROT_READ | PROT_WRITE | PROT_EXEC)) return 1;
    memcpy(from, jump, sizeof jump);
    return mprotect(first, size, PROT_READ | PROT_EXEC);
}

// ---------------------------------------------------------------- errors and versions

RUNTIME(unsupported)() { return fail(NOT_SUPPORTED); }

RUNTIME(cudaGetLastError)() {
    int error = last_error;
    last_error = SUCCESS;
    return error;
}

extern "C" const char* on_cpu_cudaGetErrorName(int error) { return error_name(error); }
extern "C" const char* on_cpu_cudaGetErrorString(int error) { return error_name(error); }

RUNTIME(cudaDriverGetVersion)(int* version) {
    *version = 13000;
    return SUCCESS;
}

RUNTIME(cudaRuntimeGetVersion)(int* version) {
    *version = 13000;
    return SUCCESS;
}

RUNTIME(cudaProfilerStart)() { return SUCCESS; }
RUNTIME(cudaProfilerStop)() { return SUCCESS; }

// ---------------------------------------------------------------- devices

static bool exists(int device) { return device >= 0 && device < device_count(); }

RUNTIME(cudaGetDeviceCount)(int* count) {
    *count = device_count();
    return *count ? SUCCESS : fail(NO_DEVICE);
}

RUNTIME(cudaGetDevice)(int* device) {
    *device = current_device;
    return SUCCESS;
}

RUNTIME(cudaSetDevice)(int device) {
    if (!exists(device)) return fail(INVALID_DEVICE);
    current_device = device;
    return SUCCESS;
}

RUNTIME(cudaDeviceGetAttribute)(int* value, int which, int device) {
    if (!exists(device)) return fail(INVALID_DEVICE);
    *value = attribute(which);
    return SUCCESS;
}

RUNTIME(cudaGetDeviceProperties)(cudaDeviceProp* p, int device) {
    if (!exists(device)) return fail(INVALID_DEVICE);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "CUDA on the CPU");
    p->major = attribute(cudaDevAttrComputeCapabilityMajor);
    p->minor = attribute(cudaDevAttrComputeCapabilityMinor);
    p->totalGlobalMem = size_t(8) << 30;
    p->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
    p->warpSize = attribute(cudaDevAttrWarpSize);
    p->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
    p->sharedMemPerBlock = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    p->sharedMemPerBlockOptin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    for (int k = 0; k < 3; k++) {
        p->maxThreadsDim[k] = attribute(cudaDevAttrMaxBlockDimX + k);
        p->maxGridSize[k] = attribute(cudaDevAttrMaxGridDimX + k);
    }
    p->l2CacheSize = attribute(cudaDevAttrL2CacheSize);
    p->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    p->regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock);
    return SUCCESS;
}

RUNTIME(cudaDeviceGetPCIBusId)(char* id, int size, int device) {
    snprintf(id, size, "0000:%02x:00.0", device);
    return SUCCESS;
}

RUNTIME(cudaDeviceGetByPCIBusId)(int* device, const char* id) {
    *device = (int)strtol(id + strlen("0000:"), nullptr, 16);
    return exists(*device) ? SUCCESS : fail(INVALID_DEVICE);
}

// The devices cannot reach each other's memory: what would need that is an error.
RUNTIME(cudaDeviceCanAccessPeer)(int* can, int, int) {
    *can = 0;
    return SUCCESS;
}

RUNTIME(cudaDeviceGetLimit)(size_t* value, int) {
    *value = 1024;
    return SUCCESS;
}

RUNTIME(cudaDeviceSetLimit)(int, size_t) { return SUCCESS; }

// ---------------------------------------------------------------- for the other libraries

extern "C" void on_cpu_complain(const char* what) { complain(what); }

// Whether it is memory of the current device.
extern "C" int on_cpu_is_device_memory(const void* p) {
    Lock lock(gate);
    return device_of(p) == current_device;
}

// What the functions do that CuPy links and no library here has.
extern "C" int on_cpu_not_emulated(const char* name, int error) {
    complain(std::string(name) + " is not emulated");
    return error;
}
