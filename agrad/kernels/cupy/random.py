"""Random numbers for CuPy, from one CUDA kernel that reads the key on the device."""

import math
from typing import Any

import numpy as np

from agrad import philox
from agrad.kernels.cupy.elementwise import compiled, elementwise_kernel
from agrad.kernels.cupy.source import THREADS
from agrad.registry import kernel

SOURCE = """
extern "C" __global__ void philox4x64(const unsigned int* key, unsigned long long data, unsigned long long data_high,
                                      unsigned long long domain, long long blocks, unsigned long long* out) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= blocks) return;
  unsigned long long k0 = key[0] | (unsigned long long)key[1] << 32;
  unsigned long long k1 = key[2] | (unsigned long long)key[3] << 32;
  unsigned long long c0 = i, c1 = data, c2 = data_high, c3 = domain;
  for (int turn = 0; turn < 10; ++turn) {
    unsigned long long high0 = __umul64hi(0xD2E7470EE14C6C93ULL, c0), low0 = 0xD2E7470EE14C6C93ULL * c0;
    unsigned long long high1 = __umul64hi(0xCA5A826395121157ULL, c2), low1 = 0xCA5A826395121157ULL * c2;
    c0 = high1 ^ c1 ^ k0; c1 = low1; c2 = high0 ^ c3 ^ k1; c3 = low0;
    k0 += 0x9E3779B97F4A7C15ULL; k1 += 0xBB67AE8584CAA73BULL;
  }
  out[4 * i] = c0; out[4 * i + 1] = c1; out[4 * i + 2] = c2; out[4 * i + 3] = c3;
}
"""


def _words(key: Any, count: int, domain: int = philox.DRAWS, data: int = 0) -> Any:
    """Return at least ``count`` words of a key, at most 3 more, as uint64."""
    import cupy

    blocks = -(-count // 4)
    with key.device:
        out = cupy.empty(4 * blocks, np.uint64)
        if blocks:
            key = cupy.ascontiguousarray(key)
            low, high = np.uint64(data & (2**64 - 1)), np.uint64(data >> 64)
            arguments = (key, low, high, np.uint64(domain), np.int64(blocks), out)
            compiled(SOURCE, "philox4x64")((-(-blocks // THREADS),), (THREADS,), arguments)
    return out


def _stream(key: Any) -> philox.Stream:
    def stream(count: int, domain: int = philox.DRAWS, data: int = 0) -> Any:
        return _words(key, count, domain, data).view(np.int64)[:count]

    return stream


@kernel("cupy", "random_keys", "forward", gain=460.0)
def keys(key: Any, *, count: int, domain: int, data: int) -> Any:
    return _words(key, 2 * count, domain, data).view(np.uint32)[: 4 * count].reshape(count, 4)


@kernel("cupy", "random_bits", "forward", gain=460.0)
def bits(key: Any, *, shape: tuple[int, ...], dtype: str) -> Any:
    n = math.prod(shape)
    return _words(key, -(-n * philox.WIDTHS[dtype] // 64)).view(dtype)[:n].reshape(shape)


@kernel("cupy", "random_uniform", "forward", gain=230.0)
def uniform(key: Any, *, shape: tuple[int, ...], dtype: str, interior: bool) -> Any:
    import cupy

    kind = np.dtype(dtype).type
    shift, offset, scale = philox.scaling(dtype, interior)
    n = math.prod(shape)
    words = _words(key, n)
    with key.device:
        out = cupy.empty(shape, dtype)
        elementwise_kernel("uniform")(words[:n].reshape(shape), np.int32(shift), kind(offset), kind(scale), out)
    return out


@kernel("cupy", "random_mask", "forward", gain=150.0)
def mask(key: Any, *, shape: tuple[int, ...], threshold: int) -> Any:
    n = math.prod(shape)
    drawn = _words(key, -(-n // 2)).view(np.uint32)[:n].reshape(shape)
    with key.device:
        return drawn.astype(np.uint64) < np.uint64(threshold)


@kernel("cupy", "random_integers", "forward", gain=58.0)
def integers(key: Any, *, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Any:
    import array_api_compat.cupy as compat

    with key.device:
        return philox.integers(compat, _stream(key), low, high, shape, dtype)


@kernel("cupy", "random_permutation", "forward", gain=230.0)
def permutation(key: Any, *, n: int) -> Any:
    import cupy

    with key.device:
        # the sort of CuPy is always stable
        return cupy.argsort(_words(key, n).view(np.int64)[:n])
