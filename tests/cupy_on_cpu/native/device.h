// The language and the built-in functions of CUDA C++ that C++ lacks, for kernels that g++ compiles. Every kernel
// includes this header: it declares what the library has (blocks.cpp, device_math.cpp) and defines only templates,
// overloads and functions of one line.
#pragma once
#include <bits/c++config.h>
// <math.h> would instantiate the mathematical special functions of C++17 in every kernel, for 50 ms
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <assert.h>
#include <initializer_list>
#include <limits>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>

#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __device__
#define __host__
#define __global__
#define __constant__ __attribute__((externally_visible))
#define __managed__
#define __forceinline__ inline
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __grid_constant__
#define __cluster_dims__(...)
#include <vector_types.h>
#ifdef ON_CPU_HALVES
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
// in a section of its own, so that the library can overwrite it before each block
#define __shared__ static __attribute__((section("cuda_shared")))
#undef __CUDA_ARCH__

// ---------------------------------------------------------------- the library's functions

extern "C" {
extern const uint3 on_cpu_thread, on_cpu_block;
extern const dim3 on_cpu_block_size, on_cpu_grid_size;
extern char* on_cpu_dynamic_shared;

// a barrier of the block; returns how many of its threads gave a predicate that is not zero
int on_cpu_block_barrier(int line, int predicate);
void on_cpu_warp_barrier(int line, unsigned mask);
unsigned on_cpu_ballot(int line, unsigned mask, int predicate);
enum on_cpu_lanes { INDEXED, UP, DOWN, XOR };
void on_cpu_shuffle(int line, unsigned mask, on_cpu_lanes kind, int operand, int width, void* value, unsigned size);
unsigned on_cpu_active_mask();
void on_cpu_trap();

double on_cpu_ndtri(double);
double on_cpu_erfinv(double);
double on_cpu_erfcinv(double);
double on_cpu_erfcx(double);
double on_cpu_bessel_i(int, double);
}

#define threadIdx on_cpu_thread
#define blockIdx on_cpu_block
#define blockDim on_cpu_block_size
#define gridDim on_cpu_grid_size
#define warpSize 32

// What the library needs to launch a kernel. ``arguments``: a pointer to each.
struct on_cpu_kernel {
    void (*call)(void** arguments);
    const unsigned* sizes;
    unsigned count;
    char* shared_begin;
    char* shared_end;
};

template <size_t... I> struct on_cpu_indices {};

template <class... A> struct on_cpu_signature {
    static constexpr unsigned count = sizeof...(A);
    static constexpr unsigned sizes[count + 1] = {sizeof(A)..., 0};
    template <void (*kernel)(A...), size_t... I> static void call_with(void** arguments, on_cpu_indices<I...>) {
        kernel(*(A*)arguments[I]...);
    }
    template <void (*kernel)(A...)> static void call(void** arguments) {
        call_with<kernel>(arguments, on_cpu_indices<__integer_pack(sizeof...(A))...>());
    }
};
template <class... A> on_cpu_signature<A...> on_cpu_signature_of(void (*)(A...));

extern "C" char __start_cuda_shared[] __attribute__((weak));
extern "C" char __stop_cuda_shared[] __attribute__((weak));
#define ON_CPU_KERNEL(name, ...)                                                                                \
    extern "C" __attribute__((externally_visible)) const on_cpu_kernel on_cpu_kernel_##name = {                 \
        decltype(on_cpu_signature_of(&__VA_ARGS__))::call<&__VA_ARGS__>,                                        \
        decltype(on_cpu_signature_of(&__VA_ARGS__))::sizes, decltype(on_cpu_signature_of(&__VA_ARGS__))::count, \
        __start_cuda_shared, __stop_cuda_shared};

// ---------------------------------------------------------------- barriers, shuffles, votes

// The line tells barriers apart: threads of a block that wait at different ones are an error.
#define __syncthreads() ((void)on_cpu_block_barrier(__LINE__, 0))
#define __syncthreads_count(predicate) on_cpu_block_barrier(__LINE__, (predicate) != 0)
#define __syncthreads_or(predicate) (on_cpu_block_barrier(__LINE__, (predicate) != 0) != 0)
#define __syncthreads_and(predicate) (on_cpu_block_barrier(__LINE__, (predicate) == 0) == 0)

static inline void on_cpu_syncwarp(int line, unsigned mask = 0xffffffffu) { on_cpu_warp_barrier(line, mask); }
#define __syncwarp(...) on_cpu_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __ballot_sync(mask, predicate) on_cpu_ballot(__LINE__, mask, (predicate) != 0)
#define __any_sync(mask, predicate) (on_cpu_ballot(__LINE__, mask, (predicate) != 0) != 0)
#define __all_sync(mask, predicate) (on_cpu_ballot(__LINE__, mask, (predicate) == 0) == 0)
#define __activemask() on_cpu_active_mask()

template <class T> T on_cpu_shuffled(int line, on_cpu_lanes kind, unsigned mask, T value, int operand, int width = 32) {
    static_assert(sizeof(T) <= 16, "a shuffle of a value of more than 16 bytes");
    on_cpu_shuffle(line, mask, kind, operand, width, &value, sizeof value);
    return value;
}
#define __shfl_sync(...) on_cpu_shuffled(__LINE__, INDEXED, __VA_ARGS__)
#define __shfl_up_sync(...) on_cpu_shuffled(__LINE__, UP, __VA_ARGS__)
#define __shfl_down_sync(...) on_cpu_shuffled(__LINE__, DOWN, __VA_ARGS__)
#define __shfl_xor_sync(...) on_cpu_shuffled(__LINE__, XOR, __VA_ARGS__)

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}
static inline long long clock64() { return __builtin_ia32_rdtsc(); }
static inline void __trap() { on_cpu_trap(); }

// ---------------------------------------------------------------- bits

template <class T> static inline T __ldg(const T* p) { return *p; }
template <class To, class From> static inline To on_cpu_bits(From x) {
    To y;
    static_assert(sizeof x == sizeof y);
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return on_cpu_bits<float>(x); }
static inline int __float_as_int(float x) { return on_cpu_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return on_cpu_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return on_cpu_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return on_cpu_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return on_cpu_bits<long long>(x); }
static inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)hi << 32 | (unsigned)lo);
}
static inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }

// ---------------------------------------------------------------- arithmetic

// glibc declares __expf and __logf
static inline float on_cpu_expf(float x) { return expf(x); }
static inline float on_cpu_logf(float x) { return logf(x); }
static inline float on_cpu_powf(float x, float y) { return powf(x, y); }
#define __expf on_cpu_expf
#define __logf on_cpu_logf
#define __powf on_cpu_powf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline double __drcp_rn(double x) { return 1.0 / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
static inline double sinpi(double x) { return sin(M_PI * remainder(x, 2.0)); }
static inline double cospi(double x) { return cos(M_PI * remainder(x, 2.0)); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static inline double normcdfinv(double x) { return on_cpu_ndtri(x); }
static inline double erfinv(double x) { return on_cpu_erfinv(x); }
static inline double erfcinv(double x) { return on_cpu_erfcinv(x); }
static inline double erfcx(double x) { return on_cpu_erfcx(x); }
static inline double cyl_bessel_i0(double x) { return on_cpu_bessel_i(0, x); }
static inline double cyl_bessel_i1(double x) { return on_cpu_bessel_i(1, x); }
static inline float j0(float x) { return ::j0((double)x); }
static inline float j1(float x) { return ::j1((double)x); }
static inline float y0(float x) { return ::y0((double)x); }
static inline float y1(float x) { return ::y1((double)x); }
static inline float jn(int n, float x) { return ::jn(n, (double)x); }
static inline float yn(int n, float x) { return ::yn(n, (double)x); }
// in float32: computed in float64 and rounded once
#define ON_CPU_FLOAT(name)                                        \
    static inline float name(float x) { return name((double)x); } \
    static inline float name##f(float x) { return name((double)x); }
ON_CPU_FLOAT(sinpi)
ON_CPU_FLOAT(cospi)
ON_CPU_FLOAT(normcdf)
ON_CPU_FLOAT(normcdfinv)
ON_CPU_FLOAT(erfinv)
ON_CPU_FLOAT(erfcinv)
ON_CPU_FLOAT(erfcx)
ON_CPU_FLOAT(cyl_bessel_i0)
ON_CPU_FLOAT(cyl_bessel_i1)

template <class A, class B> using on_cpu_common =
    std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;
template <class A, class B> static inline on_cpu_common<A, B> max(A a, B b) {
    using C = on_cpu_common<A, B>;
    if constexpr (std::is_floating_point_v<C>) return fmax(C(a), C(b));
    return C(a) > C(b) ? C(a) : C(b);
}
template <class A, class B> static inline on_cpu_common<A, B> min(A a, B b) {
    using C = on_cpu_common<A, B>;
    if constexpr (std::is_floating_point_v<C>) return fmin(C(a), C(b));
    return C(a) < C(b) ? C(a) : C(b);
}

// ---------------------------------------------------------------- atomic operations

// Plain ones: one thread runs at a time.
#define ON_CPU_ATOMIC(name, T, stored) \
    static inline T name(T* p, T v) {  \
        T old = *p;                    \
        *p = stored;                   \
        return old;                    \
    }
#define ON_CPU_ATOMICS(T)                \
    ON_CPU_ATOMIC(atomicAdd, T, old + v) \
    ON_CPU_ATOMIC(atomicExch, T, v)
#define ON_CPU_INTEGER_ATOMICS(T)                  \
    ON_CPU_ATOMIC(atomicMax, T, old > v ? old : v) \
    ON_CPU_ATOMIC(atomicMin, T, old < v ? old : v) \
    ON_CPU_ATOMIC(atomicAnd, T, old& v)            \
    ON_CPU_ATOMIC(atomicOr, T, old | v)            \
    ON_CPU_ATOMIC(atomicXor, T, old ^ v)
ON_CPU_ATOMICS(int)
ON_CPU_ATOMICS(unsigned)
ON_CPU_ATOMICS(unsigned long long)
ON_CPU_ATOMICS(float)
ON_CPU_ATOMICS(double)
ON_CPU_INTEGER_ATOMICS(int)
ON_CPU_INTEGER_ATOMICS(unsigned)
ON_CPU_INTEGER_ATOMICS(unsigned long long)
ON_CPU_ATOMIC(atomicSub, int, old - v)
ON_CPU_ATOMIC(atomicSub, unsigned, old - v)
ON_CPU_ATOMIC(atomicMax, long long, old > v ? old : v)
ON_CPU_ATOMIC(atomicMin, long long, old < v ? old : v)
#define ON_CPU_ATOMIC_CAS(T)                           \
    static inline T atomicCAS(T* p, T compared, T v) { \
        T old = *p;                                    \
        if (old == compared) *p = v;                   \
        return old;                                    \
    }
ON_CPU_ATOMIC_CAS(int)
ON_CPU_ATOMIC_CAS(unsigned)
ON_CPU_ATOMIC_CAS(unsigned long long)
ON_CPU_ATOMIC_CAS(unsigned short)
