// cuSOLVER: LU and Cholesky factorizations, as CuPy calls them. What else CuPy calls goes to NumPy (see
// cuda_on_cpu_functions.py).
#include "solve.h"

#define CUSOLVER extern "C" int

// Its own codes: success and failed execution.
static int given(Handle* h, const char* name, const std::function<void()>& work) {
    return give(h, name, work) == OK ? 0 : 6;
}

CUSOLVER cusolverGetProperty(int which, int* value) {
    const int version[3] = {12, 0, 0};
    *value = version[which];
    return 0;
}

CUSOLVER cusolverDnCreate(Handle** handle) {
    *handle = new Handle{nullptr, 0, 0, 0};
    return on_cpu_cudaGetDevice(&(*handle)->device);
}

CUSOLVER cusolverDnDestroy(Handle* handle) {
    delete handle;
    return 0;
}

CUSOLVER cusolverDnSetStream(Handle* handle, void* stream) {
    handle->stream = stream;
    return 0;
}

CUSOLVER cusolverDnGetStream(Handle* handle, void** stream) {
    *stream = handle->stream;
    return 0;
}

#define FACTORIZATIONS(X, T)                                                                                 \
    CUSOLVER cusolverDn##X##getrf_bufferSize(Handle*, int m, int n, T*, int, int* size) {                    \
        *size = m * n;                                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
    CUSOLVER cusolverDn##X##getrf(Handle* h, int m, int n, T* a, int lda, T*, int* pivots, int* info) {      \
        return given(h, #X "getrf", [=] { *info = factorize<T>(m, n, a, lda, pivots); });                    \
    }                                                                                                        \
    CUSOLVER cusolverDn##X##getrs(Handle* h, int operation, int n, int columns, const T* a, int lda,         \
                                  const int* pivots, T* b, int ldb, int* info) {                             \
        return given(h, #X "getrs", [=] {                                                                    \
            solve<T>(operation, n, columns, a, lda, pivots, b, ldb);                                         \
            *info = 0;                                                                                       \
        });                                                                                                  \
    }                                                                                                        \
    CUSOLVER cusolverDn##X##potrf_bufferSize(Handle*, int, int n, T*, int, int* size) {                      \
        *size = n * n;                                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
    CUSOLVER cusolverDn##X##potrf(Handle* h, int uplo, int n, T* a, int lda, T*, int, int* info) {           \
        return given(h, #X "potrf", [=] { *info = factorize_positive<T>(uplo, n, a, lda); });                \
    }                                                                                                        \
    CUSOLVER cusolverDn##X##potrfBatched(Handle* h, int uplo, int n, T** a, int lda, int* info, int count) { \
        return given(h, #X "potrfBatched", [=] {                                                             \
            for (int i = 0; i < count; i++) info[i] = factorize_positive<T>(uplo, n, a[i], lda);             \
        });                                                                                                  \
    }
FACTORIZATIONS(S, float)
FACTORIZATIONS(D, double)
FACTORIZATIONS(C, Complex64)
FACTORIZATIONS(Z, Complex128)
