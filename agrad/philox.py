"""Philox4x64-10: random words of a key and a counter, in integer operations.

J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11 (2011). A
block of four 64-bit words is a bijection of a 256-bit counter, selected by a 128-bit key. Elements are independent of
the order in which they are computed.

Words are int64, because PyTorch supports few operations on unsigned integers. Their products wrap around like products
of uint64. These functions define the bits. Backends may replace ``generic`` by a faster ``Stream`` of the same bits.
"""

import math
from collections.abc import Callable
from typing import Any

Stream = Callable[..., Any]
"""``stream(count, domain=DRAWS, data=0)``: that many words of a key, as int64 of shape (count,)."""

Block = tuple[Any, Any, Any, Any]
"""Four words."""

DRAWS, SPLIT, FOLD, RETRY, ATTEMPT, PAIR = range(6)
"""The last word of the counter, by the use of the words, so that no two uses of a key share a word."""

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10
_LOW = 0xFFFFFFFF
_RETRIES = 128
"""Maximum number of repeated draws for values outside the range. Each is outside with probability at most 1/2."""

WIDTHS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
FRACTIONS = {"float32": 24, "float64": 53}
"""Bits of a uniform number: the precision of the dtype between 1/2 and 1."""


def signed(word: int) -> int:
    """Return the int64 with the bits of a word."""
    word &= 2**64 - 1
    return word - 2**64 if word >> 63 else word


def _high(p: Any) -> Any:
    return (p >> 32) & _LOW


def _times(x: Any, factor: int) -> tuple[Any, Any]:
    """Return the high and low word of the product of words with a constant."""
    m_low, m_high = factor & _LOW, factor >> 32
    low, high = x & _LOW, _high(x)
    first = high * m_low + _high(low * m_low)
    second = low * m_high + (first & _LOW)
    return high * m_high + _high(first) + _high(second), x * signed(factor)


def turn(counter: Block, key: tuple[Any, Any]) -> tuple[Block, tuple[Any, Any]]:
    """Return one round, and the key of the next."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    high0, low0 = _times(c0, _MULTIPLIERS[0])
    high1, low1 = _times(c2, _MULTIPLIERS[1])
    return (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0), (k0 + signed(_WEYL[0]), k1 + signed(_WEYL[1]))


def blocks(counter: Block, key: tuple[Any, Any]) -> Block:
    """Return the four words of each block, int64 arrays, from its counter."""
    for _ in range(ROUNDS):
        counter, key = turn(counter, key)
    return counter


def generic(xp: Any, key: Any, blocks: Callable[[Block, tuple[Any, Any]], Block] = blocks) -> Stream:
    """Return the stream of a key, uint32 of shape (4,), on the device of the key.

    ``blocks`` may be another implementation of the function ``blocks``.
    """
    halves = xp.astype(key, xp.int64)
    k0 = halves[0:1] | (halves[1:2] << 32)
    k1 = halves[2:3] | (halves[3:4] << 32)

    def stream(count: int, domain: int = DRAWS, data: int = 0) -> Any:
        number = xp.astype(xp.arange_like(key, -(-count // 4)), xp.int64)
        zero = number ^ number
        counter = (number, zero + signed(data), zero + signed(data >> 64), zero + domain)
        return xp.reshape(xp.stack(blocks(counter, (k0, k1)), axis=1), (-1,))[:count]

    return stream


def keys(xp: Any, stream: Stream, count: int, domain: int, data: int) -> Any:
    """Return ``count`` keys from the words of a domain: uint32 of shape (count, 4)."""
    return bits(xp, lambda n: stream(n, domain, data), (count, 4), "uint32")


def bits(xp: Any, stream: Stream, shape: tuple[int, ...], dtype: str) -> Any:
    """Return random bits as unsigned integers, cut from the words, low bits first."""
    width, n = WIDTHS[dtype], math.prod(shape)
    per_word = 64 // width
    words = stream(-(-n // per_word))
    if per_word > 1:
        parts = [(words >> (width * i)) & (2**width - 1) for i in range(per_word)]
        words = xp.reshape(xp.stack(parts, axis=1), (-1,))[:n]
    return xp.reshape(xp.astype(words, getattr(xp, dtype)), shape)


def scaling(dtype: str, interior: bool) -> tuple[int, float, float]:
    """Return the right shift, summand and factor that make a word uniform.

    On [0, 1) the numbers are multiples of 2**-24 or 2**-53. In the ``interior`` they are midpoints between multiples of
    2**-23 or 2**-52, without 0 and 1.
    """
    count = FRACTIONS[dtype] - interior
    return 64 - count, 0.5 if interior else 0.0, 2.0**-count


def uniform(xp: Any, stream: Stream, shape: tuple[int, ...], dtype: str, interior: bool) -> Any:
    """Return uniform numbers of a floating-point dtype, each from one word."""
    shift, offset, scale = scaling(dtype, interior)
    whole = (stream(math.prod(shape)) >> shift) & (2 ** (64 - shift) - 1)
    out = xp.astype(whole, getattr(xp, dtype))
    return xp.reshape((out + offset if interior else out) * scale, shape)


def mask(xp: Any, stream: Stream, shape: tuple[int, ...], threshold: int) -> Any:
    """Return True for ``bits`` of uint32 below a threshold from 0 to 2**32."""
    n = math.prod(shape)
    words = stream(-(-n // 2))
    below = xp.stack([(words & _LOW) < threshold, _high(words) < threshold], axis=1)
    return xp.reshape(xp.reshape(below, (-1,))[:n], shape)


def integers(xp: Any, stream: Stream, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Return integers from ``low`` to ``high`` - 1, with equal probabilities.

    The range has at most 2**63 integers. Each is the remainder of the 63 high bits of a word. Words in the last,
    incomplete span are drawn again.
    """
    n, span = math.prod(shape), high - low
    draw = _draw63(stream(n))
    missing = 2**63 % span
    if missing:
        last = 2**63 - missing - 1
        # enough rounds for one miss in 2**128; fewer if the values can be read
        rounds = min(_RETRIES, math.ceil(128 / (63 - math.log2(missing))))
        for attempt in range(rounds):
            missed = draw > last
            if truth(xp.any(missed)) is False:
                break
            draw = xp.where(missed, _draw63(stream(n, RETRY, attempt)), draw)
    found = draw % span if span < 2**63 else draw
    return xp.reshape(xp.astype(found + low, getattr(xp, dtype)), shape)


def _draw63(words: Any) -> Any:
    return (words >> 1) & (2**63 - 1)


def permutation(xp: Any, stream: Stream, n: int) -> Any:
    """Return the integers below n in random order, the stable order of n words."""
    return xp.argsort(stream(n), stable=True)


def truth(value: Any) -> bool | None:
    """Return the Boolean value of an array of shape (), or None if it is traced."""
    try:
        return bool(value)
    except Exception:  # the exception types differ between libraries
        return None


def half(n: int) -> int:
    """Return the number of pairs of uniform numbers for ``n`` normal ones."""
    return 4 * -(-n // 8)


def normal(xp: Any, u1: Any, u2: Any, n: int) -> Any:
    """Return ``n`` standard normal numbers from twice ``half(n)`` uniform ones.

    G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", Ann. Math. Stat. 29 (1958).
    """
    r = xp.sqrt(-2 * xp.log1p(-u1))
    angle = 2 * math.pi * u2
    return xp.concat([r * xp.cos(angle), r * xp.sin(angle)])[:n]
