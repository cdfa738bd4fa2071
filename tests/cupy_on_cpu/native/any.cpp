// Matrices whose dtypes are known when they are used, and products by the OpenBLAS that NumPy brings.
#include "cublas.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <vector>

typedef std::complex<float> Complex64;
typedef std::complex<double> Complex128;
typedef int64_t Long;
typedef void (*Sgemm)(int, int, int, Long, Long, Long, float, const float*, Long, const float*, Long, float, float*,
                      Long);
typedef void (*Dgemm)(int, int, int, Long, Long, Long, double, const double*, Long, const double*, Long, double,
                      double*, Long);

static const int COLUMNS = 102, PLAIN = 111, TRANSPOSED = 112;
static Sgemm sgemm = nullptr;
static Dgemm dgemm = nullptr;

// Use the OpenBLAS that is loaded from ``path``.
extern "C" int on_cpu_use_blas(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return 1;
    sgemm = (Sgemm)dlsym(library, "scipy_cblas_sgemm64_");
    dgemm = (Dgemm)dlsym(library, "scipy_cblas_dgemm64_");
    return !sgemm || !dgemm;
}

void gemm_f32(int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
              float beta, float* c, int ldc) {
    sgemm(COLUMNS, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm_f64(int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
              double beta, double* c, int ldc) {
    dgemm(COLUMNS, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <class To, class From> static To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static float from_bfloat16(uint16_t x) { return bits<float>(uint32_t(x) << 16); }

static uint16_t to_bfloat16(float x) {
    uint32_t u = bits<uint32_t>(x);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

static float to_tf32(float x) {
    uint32_t u = bits<uint32_t>(x);
    if ((u & 0x7f800000) == 0x7f800000) return x;
    return bits<float>((u + 0xfff + ((u >> 13) & 1)) & 0xffffe000);
}

Complex128 load(const void* p, int type, ptrdiff_t i) {
    switch (type) {
    case F32: return ((const float*)p)[i];
    case F64: return ((const double*)p)[i];
    case F16: return (double)((const _Float16*)p)[i];
    case BF16: return from_bfloat16(((const uint16_t*)p)[i]);
    case I8: return ((const int8_t*)p)[i];
    case I32: return ((const int32_t*)p)[i];
    case C64: return ((const Complex64*)p)[i];
    case C128: return ((const Complex128*)p)[i];
    }
    return NAN;
}

void store(void* p, int type, ptrdiff_t i, Complex128 value) {
    switch (type) {
    case F32: ((float*)p)[i] = value.real(); break;
    case F64: ((double*)p)[i] = value.real(); break;
    case F16: ((_Float16*)p)[i] = (_Float16)value.real(); break;
    case BF16: ((uint16_t*)p)[i] = to_bfloat16(value.real()); break;
    case I32: ((int32_t*)p)[i] = value.real(); break;
    case C64: ((Complex64*)p)[i] = Complex64(value); break;
    case C128: ((Complex128*)p)[i] = value; break;
    }
}

size_t width_of(int type) {
    switch (type) {
    case I8: return 1;
    case F16: return 2;
    case BF16: return 2;
    case F64: return 8;
    case C64: return 8;
    case C128: return 16;
    }
    return 4;
}

extern "C" double on_cpu_load(const void* p, int type, ptrdiff_t i) { return load(p, type, i).real(); }
extern "C" void on_cpu_store(void* p, int type, ptrdiff_t i, double value) { store(p, type, i, value); }

// The rows of a matrix (the columns with ``by_columns``) one after another, in float64.
static std::vector<double> rows_of(const void* p, int type, ptrdiff_t ld, bool by_columns, ptrdiff_t rows,
                                   ptrdiff_t columns, bool tf32) {
    std::vector<double> out(rows * columns);
    for (ptrdiff_t i = 0; i < rows; i++) {
        for (ptrdiff_t j = 0; j < columns; j++) {
            double value = on_cpu_load(p, type, by_columns ? j + i * ld : i + j * ld);
            out[i * columns + j] = tf32 ? to_tf32(value) : value;
        }
    }
    return out;
}

extern "C" void on_cpu_product(int ta, int tb, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const void* a, int a_type,
                               ptrdiff_t lda, const void* b, int b_type, ptrdiff_t ldb, bool tf32, double* out) {
    std::vector<double> left = rows_of(a, a_type, lda, ta != 0, m, k, tf32);
    std::vector<double> right = rows_of(b, b_type, ldb, tb == 0, n, k, tf32);
    if (k) {
        gemm_f64(1, 0, m, n, k, 1.0, left.data(), k, right.data(), k, 0.0, out, m);
    } else {
        for (ptrdiff_t i = 0; i < m * n; i++) out[i] = 0;
    }
}
