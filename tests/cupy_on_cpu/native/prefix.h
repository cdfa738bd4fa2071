// Precompiled, and included before the text of each kernel: the headers that CuPy's own texts include.
#include "device.h"
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
