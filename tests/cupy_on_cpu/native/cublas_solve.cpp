// cuBLAS: triangular systems, and batches of small LU factorizations.
#include "solve.h"

#define CUBLAS extern "C" int

namespace {
template <class T>
Status trsm(Handle* h, const char* name, Triangle t, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb) {
    if (!is_placed(h, alpha)) return BAD_VALUE;
    if (m && n && !on_devices(name, {a, b})) return FAILED;
    auto p = scalar(h, alpha);
    return give(h, name, [=] { solve_triangle<T>(t, m, n, p.get(), a, lda, b, ldb); });
}

template <class T> Status trsm_batched(Handle* h, const char* name, Triangle t, int m, int n, const T* alpha,
                                       const T* const* a, int lda, T* const* b, int ldb, int count) {
    if (!is_placed(h, alpha)) return BAD_VALUE;
    auto p = scalar(h, alpha);
    return give(h, name, [=] {
        for (int i = 0; i < count; i++) solve_triangle<T>(t, m, n, p.get(), a[i], lda, b[i], ldb);
    });
}
}  // namespace

#define SOLVERS(X, T)                                                                                                \
    CUBLAS cublas##X##trsm_v2(Handle* h, int side, int uplo, int operation, int unit, int m, int n, const T* alpha,  \
                              const T* a, int lda, T* b, int ldb) {                                                  \
        return trsm(h, #X "trsm", {side, uplo, operation, unit}, m, n, alpha, a, lda, b, ldb);                       \
    }                                                                                                                \
    CUBLAS cublas##X##trsmBatched(Handle* h, int side, int uplo, int operation, int unit, int m, int n,              \
                                  const T* alpha, const T* const* a, int lda, T* const* b, int ldb, int count) {     \
        return trsm_batched(h, #X "trsmBatched", {side, uplo, operation, unit}, m, n, alpha, a, lda, b, ldb, count); \
    }                                                                                                                \
    CUBLAS cublas##X##getrfBatched(Handle* h, int n, T* const* a, int lda, int* pivots, int* info, int count) {      \
        return give(h, #X "getrfBatched", [=] {                                                                      \
            for (int i = 0; i < count; i++)                                                                          \
                info[i] = factorize<T>(n, n, a[i], lda, pivots ? pivots + i * n : nullptr);                          \
        });                                                                                                          \
    }                                                                                                                \
    CUBLAS cublas##X##getrsBatched(Handle* h, int operation, int n, int columns, const T* const* a, int lda,         \
                                   const int* pivots, T* const* b, int ldb, int* info, int count) {                  \
        *info = 0;                                                                                                   \
        return give(h, #X "getrsBatched", [=] {                                                                      \
            for (int i = 0; i < count; i++)                                                                          \
                solve<T>(operation, n, columns, a[i], lda, pivots ? pivots + i * n : nullptr, b[i], ldb);            \
        });                                                                                                          \
    }                                                                                                                \
    CUBLAS cublas##X##getriBatched(Handle* h, int n, const T* const* a, int lda, const int* pivots, T* const* c,     \
                                   int ldc, int* info, int count) {                                                  \
        return give(h, #X "getriBatched", [=] {                                                                      \
            for (int i = 0; i < count; i++)                                                                          \
                info[i] = invert<T>(n, a[i], lda, pivots ? pivots + i * n : nullptr, c[i], ldc);                     \
        });                                                                                                          \
    }
SOLVERS(S, float)
SOLVERS(D, double)
SOLVERS(C, Complex64)
SOLVERS(Z, Complex128)
