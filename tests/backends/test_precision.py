"""Every operation of the table on 50 digits: no Python number of 53 bits enters its values or its derivatives."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

mpmath = pytest.importorskip("mpmath")
mparray = pytest.importorskip("mparray")

import cases  # noqa: E402, F401 - files the rows
import generic_counts  # noqa: E402
import mpmath.ctx_mp_python as arithmetic  # noqa: E402
from checker import outputs, random_like  # noqa: E402
from mpmath import mp  # noqa: E402
from table import COMPOSITES, ROWS, Case  # noqa: E402

import agrad  # noqa: E402
from agrad.backends import load  # noqa: E402
from agrad.errors import DtypeError, MissingFunctionError  # noqa: E402

SHORT = 24
"""The bits of numbers such as 0.5, which are as good in any precision."""


def placed(a: np.ndarray) -> Any:
    return load("mparray").from_host(a, None)


def given(case: Case) -> set[float]:
    """Return the Python numbers that a case is given: its own, and no constants of a rule."""
    values = [*case.example.args, *case.example.settings.values()]
    flat = [v for value in values for v in (value if isinstance(value, (list, tuple)) else (value,))]
    return {abs(float(v)) for v in flat if isinstance(v, (int, float))}


def bits(x: float) -> int:
    return abs(int(x.as_integer_ratio()[0])).bit_length()


@contextmanager
def no_floats(monkeypatch: pytest.MonkeyPatch, allowed: set[float]) -> Iterator[list[float]]:
    """Collect the Python numbers of many bits that enter the arithmetic of mpmath, except random cotangents."""
    found: list[float] = []
    convert: Callable[..., Any] = arithmetic.from_float

    def watched(x: float, *args: Any) -> Any:
        if np.isfinite(x) and bits(float(x)) > SHORT and not any(abs(abs(x) - a) < 1e-15 for a in allowed):
            found.append(float(x))
        return convert(x, *args)

    def drawn(*args: Any) -> Any:
        with monkeypatch.context() as inside:
            inside.setattr(arithmetic, "from_float", convert)
            return random_like(*args)

    with monkeypatch.context() as patched:
        patched.setattr(arithmetic, "from_float", watched)
        patched.setattr(generic_counts, "random_like", drawn)
        yield found


FAULTS = ("linspace", "segment_prod", "segment_max", "segment_min")
"""Rows that mparray itself computes in 16 digits or not at all, by its ``linspace``, ``maximum`` and ``minimum``."""
REFUSED = ("erf", "gelu", "random_truncated_normal", "random_log_gamma")
"""Rows that formulas for float64 compute. They raise ``DtypeError``, as the special functions do."""


def cases_of(row: Any) -> list[Case]:
    found = [Case(row, e) for e in row.examples if not (row.constant or e.kink or e.implicit)]
    return [case for case in found if not case.is_empty and case.places]


TABLE = {name: cases_of(row) for name, row in (ROWS | COMPOSITES).items() if name not in FAULTS and cases_of(row)}


def attempt(way: Callable[..., list[Any]], name: str, *args: Any) -> list[Any] | None:
    """Return derivatives, or None for a function that the library lacks and for one that is refused by name."""
    try:
        return way(*args)
    except MissingFunctionError as error:
        assert "mparray has no" in str(error)  # noqa: PT017
    except DtypeError as error:
        assert "must have at most the digits of float64" in str(error)  # noqa: PT017
        assert name in REFUSED or name.startswith("special.")
    return None


@pytest.mark.parametrize("name", sorted(TABLE))
def test_no_number_of_16_digits_enters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mparray._mparray, "empty", mparray.zeros)  # what it holds comes from NumPy
    with mp.workdps(50), agrad.use_backend("mparray"):
        for case in TABLE[name]:
            f, xs = case.problem(placed)
            for mode, way in generic_counts.WAYS.items():
                with no_floats(monkeypatch, given(case)) as floats:
                    done = attempt(way, name, case, f, xs) is not None
                assert not (done and floats), f"{case.name}, {mode}"


@pytest.mark.parametrize("name", sorted(TABLE.keys() - {"nextafter"}))  # the library's own returns x
def test_derivatives_are_differences_to_45_digits(name: str) -> None:
    case = TABLE[name][0]
    with agrad.use_backend("mparray"):
        with mp.workdps(50):
            f, xs = case.problem(placed)
            vs = random_like(xs, case.rng())
            slopes = attempt(generic_counts.forward, name, case, f, xs)
        if slopes is None:
            return
        with mp.workdps(120):
            h = mp.mpf(10) ** -35
            ends = [outputs(f(*[x + s * v for x, v in zip(xs, vs, strict=True)])) for s in (h, -h)]
        for slope, above, below in zip(slopes, *ends, strict=True):
            for got, a, b in zip(*(np.ravel(to_host_of(y)) for y in (slope, above, below)), strict=True):
                with mp.workdps(120):
                    expected = (a - b) / (2 * h)
                    assert abs(got - expected) <= mp.mpf(10) ** -44 * max(1, abs(expected)), case.name


def to_host_of(y: Any) -> Any:
    return (y.raw if isinstance(y, agrad.Tensor) else y)._data
