// cuBLAS: handles, and products. What CuPy links and this has not is made by cuda_on_cpu.py: it says its name and
// fails.
#include "cublas.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

typedef std::complex<float> Complex64;
typedef std::complex<double> Complex128;
typedef long long Long;

#define CUBLAS extern "C" int

Status give(Handle* handle, const char* name, const std::function<void()>& work) {
    int device;
    on_cpu_cudaGetDevice(&device);
    if (device != handle->device) {
        on_cpu_complain("a handle of cuBLAS is used while another device than its own is current");
        return FAILED;
    }
    return on_cpu_submit(handle->stream, name, &work) ? FAILED : OK;
}

bool on_devices(const char* name, std::initializer_list<const void*> operands) {
    for (const void* p : operands) {
        if (on_cpu_is_device_memory(p)) continue;
        on_cpu_complain((std::string(name) + " is given memory that is not the current device's").c_str());
        return false;
    }
    return true;
}

// ---------------------------------------------------------------- handles

CUBLAS cublasCreate_v2(Handle** handle) {
    *handle = new Handle{nullptr, 0, 0, 0};
    return on_cpu_cudaGetDevice(&(*handle)->device);
}

CUBLAS cublasDestroy_v2(Handle* handle) {
    delete handle;
    return OK;
}

CUBLAS cublasGetVersion_v2(Handle*, int* version) {
    *version = 130000;
    return OK;
}

CUBLAS cublasSetStream_v2(Handle* handle, void* stream) {
    handle->stream = stream;
    return OK;
}

CUBLAS cublasGetStream_v2(Handle* handle, void** stream) {
    *stream = handle->stream;
    return OK;
}

CUBLAS cublasSetPointerMode_v2(Handle* handle, int mode) {
    handle->scalars_on_device = mode;
    return OK;
}

CUBLAS cublasGetPointerMode_v2(Handle* handle, int* mode) {
    *mode = handle->scalars_on_device;
    return OK;
}

CUBLAS cublasSetMathMode(Handle* handle, int mode) {
    handle->math_mode = mode;
    return OK;
}

CUBLAS cublasGetMathMode(Handle* handle, int* mode) {
    *mode = handle->math_mode;
    return OK;
}

CUBLAS cublasSetWorkspace_v2(Handle*, void*, size_t) { return OK; }

// ---------------------------------------------------------------- products of one dtype

namespace {
struct Shape {
    int ta, tb, m, n, k, lda, ldb, ldc;

    bool is_bad() const {
        return m < 0 || n < 0 || k < 0 || lda < std::max(1, ta ? k : m) || ldb < std::max(1, tb ? n : k) ||
               ldc < std::max(1, m);
    }
};

template <class T> void product(const Shape& s, T alpha, const T* a, const T* b, T beta, T* c) {
    if constexpr (std::is_same_v<T, float>) {
        if (s.k) return gemm_f32(s.ta, s.tb, s.m, s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
    }
    if constexpr (std::is_same_v<T, double>) {
        if (s.k) return gemm_f64(s.ta, s.tb, s.m, s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
    }
    for (Long j = 0; j < s.n; j++) {
        for (Long i = 0; i < s.m; i++) {
            T sum = 0;
            for (Long p = 0; p < s.k; p++) sum += element(a, s.lda, s.ta, i, p) * element(b, s.ldb, s.tb, p, j);
            T& out = c[i + j * s.ldc];
            // with beta = 0 the result may hold anything before
            out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
        }
    }
}

template <class T> Status gemm(Handle* h, const char* name, Shape s, const T* alpha, const T* a, Long a_step,
                               const T* b, Long b_step, const T* beta, T* c, Long c_step, int count) {
    if (s.is_bad() || count < 0 || !is_placed(h, alpha) || !is_placed(h, beta)) return BAD_VALUE;
    if (s.m && s.n && s.k && count && !on_devices(name, {a, b, c})) return FAILED;
    auto p = scalar(h, alpha), q = scalar(h, beta);
    return give(h, name, [=] {
        for (int i = 0; i < count; i++) product(s, p.get(), a + i * a_step, b + i * b_step, q.get(), c + i * c_step);
    });
}

template <class T> Status gemm_of_pointers(Handle* h, const char* name, Shape s, const T* alpha, const T* const* a,
                                           const T* const* b, const T* beta, T* const* c, int count) {
    if (s.is_bad() || count < 0 || !is_placed(h, alpha) || !is_placed(h, beta)) return BAD_VALUE;
    if (count && !on_devices(name, {a, b, c})) return FAILED;
    auto p = scalar(h, alpha), q = scalar(h, beta);
    return give(h, name, [=] {
        for (int i = 0; i < count; i++) product(s, p.get(), a[i], b[i], q.get(), c[i]);
    });
}
}  // namespace

#define PRODUCTS(X, T)                                                                                                \
    CUBLAS cublas##X##gemm_v2(Handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda,    \
                              const T* b, int ldb, const T* beta, T* c, int ldc) {                                    \
        return gemm(h, #X "gemm", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, a, 0, b, 0, beta, c, 0, 1);                \
    }                                                                                                                 \
    CUBLAS cublas##X##gemmStridedBatched(Handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* a,  \
                                         int lda, Long a_step, const T* b, int ldb, Long b_step, const T* beta, T* c, \
                                         int ldc, Long c_step, int count) {                                           \
        return gemm(h, #X "gemmStridedBatched", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, a, a_step, b, b_step, beta,  \
                    c, c_step, count);                                                                                \
    }                                                                                                                 \
    CUBLAS cublas##X##gemmBatched(Handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* const* a,  \
                                  int lda, const T* const* b, int ldb, const T* beta, T* const* c, int ldc,           \
                                  int count) {                                                                        \
        return gemm_of_pointers(h, #X "gemmBatched", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, a, b, beta, c, count);  \
    }
PRODUCTS(S, float)
PRODUCTS(D, double)
PRODUCTS(C, Complex64)
PRODUCTS(Z, Complex128)

// ---------------------------------------------------------------- sums of two matrices

namespace {
// c = alpha op(a) + beta op(b), which CuPy transposes by
template <class T> Status geam(Handle* h, const char* name, int ta, int tb, int m, int n, const T* alpha, const T* a,
                               int lda, const T* beta, const T* b, int ldb, T* c, int ldc) {
    if (m < 0 || n < 0 || lda < std::max(1, ta ? n : m) || ldb < std::max(1, tb ? n : m) || ldc < std::max(1, m)) {
        return BAD_VALUE;
    }
    if (!is_placed(h, alpha) || !is_placed(h, beta)) return BAD_VALUE;
    if (m && n && !on_devices(name, {a, b, c})) return FAILED;
    auto p = scalar(h, alpha), q = scalar(h, beta);
    return give(h, name, [=] {
        for (Long j = 0; j < n; j++) {
            for (Long i = 0; i < m; i++) {
                T sum = p.get() == T(0) ? T(0) : p.get() * element(a, lda, ta, i, j);
                // a matrix with the factor 0 is not read
                c[i + j * ldc] = q.get() == T(0) ? sum : sum + q.get() * element(b, ldb, tb, i, j);
            }
        }
    });
}
}  // namespace

#define SUMS(X, T)                                                                                                    \
    CUBLAS cublas##X##geam(Handle* h, int ta, int tb, int m, int n, const T* alpha, const T* a, int lda,              \
                           const T* beta, const T* b, int ldb, T* c, int ldc) {                                       \
        return geam(h, #X "geam", ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                                 \
    }
SUMS(S, float)
SUMS(D, double)
SUMS(C, Complex64)
SUMS(Z, Complex128)

// ---------------------------------------------------------------- products of several dtypes

namespace {
enum Compute { COMPUTE_F16 = 64, COMPUTE_F32 = 68, COMPUTE_F64 = 70, COMPUTE_I32 = 72, COMPUTE_TF32 = 77 };

// An operand: its memory, dtype, and how far it is to the next of a batch.
struct Operand {
    const void* p;
    int type;
    Long step;

    char* at(int i) const { return (char*)p + i * step * width_of(type); }
    bool is_complex() const { return type == C64 || type == C128; }
};

// the dtypes that cuBLAS's table of cublasGemmEx has
bool is_legal(int a, int b, int c) {
    if (a != b) return false;
    if (a == F16 || a == BF16) return c == a || c == F32;
    if (a == I8) return c == I32 || c == F32;
    return c == a;
}

int scalar_type(int compute, const Operand& a) {
    // each kind of computing has a pedantic one next to it
    switch (compute & ~1) {
    case COMPUTE_F16: return F16;
    case COMPUTE_F64: return a.is_complex() ? C128 : F64;
    case COMPUTE_I32: return I32;
    }
    return a.is_complex() ? C64 : F32;
}

void complex_product(const Shape& s, const char* a, const char* b, int type, Complex128* out) {
    for (Long j = 0; j < s.n; j++) {
        for (Long i = 0; i < s.m; i++) {
            Complex128 sum = 0;
            for (Long p = 0; p < s.k; p++) {
                Complex128 x = load(a, type, s.ta ? p + i * s.lda : i + p * s.lda);
                Complex128 y = load(b, type, s.tb ? j + p * s.ldb : p + j * s.ldb);
                sum += (s.ta == 2 ? std::conj(x) : x) * (s.tb == 2 ? std::conj(y) : y);
            }
            out[i + j * s.m] = sum;
        }
    }
}

void mixed_product(const Shape& s, Complex128 alpha, const Operand& a, const Operand& b, Complex128 beta,
                   const Operand& c, bool tf32, int i) {
    std::vector<Complex128> found(s.m * s.n);
    if (a.is_complex()) {
        complex_product(s, a.at(i), b.at(i), a.type, found.data());
    } else {
        std::vector<double> real(s.m * s.n);
        on_cpu_product(s.ta, s.tb, s.m, s.n, s.k, a.at(i), a.type, s.lda, b.at(i), b.type, s.ldb, tf32, real.data());
        std::copy(real.begin(), real.end(), found.begin());
    }
    for (Long j = 0; j < s.n; j++) {
        for (Long r = 0; r < s.m; r++) {
            Complex128 value = alpha * found[r + j * s.m];
            if (beta != Complex128(0)) value += beta * load(c.at(i), c.type, r + j * s.ldc);
            store(c.at(i), c.type, r + j * s.ldc, value);
        }
    }
}

Status gemm_ex(Handle* h, const char* name, Shape s, const void* alpha, Operand a, Operand b, const void* beta,
               Operand c, int compute, int count) {
    if (s.is_bad() || count < 0 || !is_placed(h, alpha) || !is_placed(h, beta)) return BAD_VALUE;
    if (!is_legal(a.type, b.type, c.type)) return UNSUPPORTED;
    if (s.m && s.n && s.k && count && !on_devices(name, {a.p, b.p, c.p})) return FAILED;
    const int type = scalar_type(compute, a);
    const bool later = h->scalars_on_device, tf32 = compute == COMPUTE_TF32 && a.type == F32;
    Complex128 p = later ? 0 : load(alpha, type, 0), q = later ? 0 : load(beta, type, 0);
    return give(h, name, [=] {
        Complex128 x = later ? load(alpha, type, 0) : p, y = later ? load(beta, type, 0) : q;
        for (int i = 0; i < count; i++) mixed_product(s, x, a, b, y, c, tf32, i);
    });
}
}  // namespace

CUBLAS cublasGemmEx(Handle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type,
                    int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                    int compute, int) {
    return gemm_ex(h, "gemmEx", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, {a, a_type, 0}, {b, b_type, 0}, beta,
                   {c, c_type, 0}, compute, 1);
}

CUBLAS cublasGemmStridedBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                                  int a_type, int lda, Long a_step, const void* b, int b_type, int ldb, Long b_step,
                                  const void* beta, void* c, int c_type, int ldc, Long c_step, int count, int compute,
                                  int) {
    return gemm_ex(h, "gemmStridedBatchedEx", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, {a, a_type, a_step},
                   {b, b_type, b_step}, beta, {c, c_type, c_step}, compute, count);
}

CUBLAS cublasSgemmEx(Handle* h, int ta, int tb, int m, int n, int k, const float* alpha, const void* a, int a_type,
                     int lda, const void* b, int b_type, int ldb, const float* beta, void* c, int c_type, int ldc) {
    return gemm_ex(h, "SgemmEx", {ta, tb, m, n, k, lda, ldb, ldc}, alpha, {a, a_type, 0}, {b, b_type, 0}, beta,
                   {c, c_type, 0}, COMPUTE_F32, 1);
}
