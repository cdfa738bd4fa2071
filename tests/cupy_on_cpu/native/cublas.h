// What the parts of cuBLAS share. Matrices are stored by columns; operations: 0 none, 1 transposed, 2 conjugated too.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>

// cudaDataType
enum DataType { F32 = 0, F64 = 1, F16 = 2, I8 = 3, C64 = 4, C128 = 5, I32 = 10, BF16 = 14 };

enum Status { OK = 0, BAD_VALUE = 7, FAILED = 13, UNSUPPORTED = 15 };

struct Handle {
    void* stream;
    int scalars_on_device;
    int math_mode;
    int device;
};

// libcuda.so.1
extern "C" int on_cpu_submit(void* stream, const char* name, const std::function<void()>* work);
extern "C" int on_cpu_is_device_memory(const void* p);
extern "C" void on_cpu_complain(const char* what);
extern "C" int on_cpu_cudaGetDevice(int* device);

Status give(Handle* handle, const char* name, const std::function<void()>& work);
bool on_devices(const char* name, std::initializer_list<const void*> operands);

template <class T> T conjugate(T x) { return x; }
template <class R> std::complex<R> conjugate(std::complex<R> x) { return std::conj(x); }

// Element (i, j) of a matrix under an operation.
template <class T> T element(const T* a, ptrdiff_t ld, int operation, ptrdiff_t i, ptrdiff_t j) {
    if (operation == 0) return a[i + j * ld];
    return operation == 1 ? a[j + i * ld] : conjugate(a[j + i * ld]);
}

// A factor that is read when the call is made, or on the device when the work is done.
template <class T> struct Scalar {
    T value;
    const T* device;
    T get() const { return device ? *device : value; }
};

template <class T> Scalar<T> scalar(const Handle* handle, const T* p) {
    if (handle->scalars_on_device) return {T(), p};
    return {*p, nullptr};
}

// Whether a factor lies where the handle says.
inline bool is_placed(const Handle* handle, const void* p) {
    if (!on_cpu_is_device_memory(p) == !handle->scalars_on_device) return true;
    on_cpu_complain("a factor for cuBLAS is not where the pointer mode says");
    return false;
}

// any.cpp: matrices whose dtypes are known when they are used
std::complex<double> load(const void* p, int type, ptrdiff_t i);
void store(void* p, int type, ptrdiff_t i, std::complex<double> value);
size_t width_of(int type);
void gemm_f32(int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
              float beta, float* c, int ldc);
void gemm_f64(int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
              double beta, double* c, int ldc);
// Of real dtypes, in float64; ``tf32``: the factors are rounded to TensorFloat-32 first.
extern "C" void on_cpu_product(int ta, int tb, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const void* a, int a_type,
                               ptrdiff_t lda, const void* b, int b_type, ptrdiff_t ldb, bool tf32, double* out);
extern "C" double on_cpu_load(const void* p, int type, ptrdiff_t i);
extern "C" void on_cpu_store(void* p, int type, ptrdiff_t i, double value);
