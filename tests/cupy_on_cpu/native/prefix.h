// Precompiled, and included before the text of each kernel that includes headers: those that CuPy's own texts include.
#define ON_CPU_HALVES
#include "device.h"

// CuPy defines these without "inline": each kernel would compile them
class float16;
class bfloat16;
inline float16 max(float16, float16), min(float16, float16), fmax(float16, float16), fmin(float16, float16);
inline bfloat16 max(bfloat16, bfloat16), min(bfloat16, bfloat16), fmax(bfloat16, bfloat16), fmin(bfloat16, bfloat16);
inline bfloat16 nextafter(bfloat16, bfloat16), _floor_divide(bfloat16, bfloat16);
inline int isnan(float16), isinf(float16), isfinite(float16), iszero(float16), signbit(float16);
inline int isnan(bfloat16), isinf(bfloat16), isfinite(bfloat16), iszero(bfloat16), signbit(bfloat16);
inline int _floor_divide(int, int);
inline unsigned _floor_divide(unsigned, unsigned);
inline long long _floor_divide(long long, long long), atomicAdd(long long*, long long);
inline unsigned long long _floor_divide(unsigned long long, unsigned long long);
inline float _floor_divide(float, float), atomicMax(float*, float), atomicMin(float*, float);
inline double _floor_divide(double, double), atomicMax(double*, double), atomicMin(double*, double);

#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
