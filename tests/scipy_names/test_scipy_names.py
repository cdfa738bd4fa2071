"""``agrad.scipy``: values as SciPy's, derivatives, vmap and jit, on every backend."""

import contextlib
import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from checker import (
    assert_close,
    check_faces,
    check_jvp,
    check_second,
    check_second_elsewhere,
    check_vjp,
    cotangents,
    host,
    outputs,
    random_like,
)
from crossing import each
from scipy_calls import MINOR, Call
from scipy_page import CALLS, MISSING, MODULES, PAGE, names_of, page

import agrad
from agrad.testing import check_grads

PORTABLE = [call for call in CALLS if call.module != "optimize"]
"""Calls that do not need SciPy."""
LOOSE = {"optimize": 1e-5}
"""Relative tolerance of values on other backends, by module. Solutions are iterated."""
UNCALLED = {"OdeResult", "hadamard", "hilbert", "next_fast_len", "pascal", "savgol_coeffs"}
"""A container, and numbers that depend on no array: ``test_scipy_created.py``."""


def test_every_function_is_called_and_on_the_page() -> None:
    called = {f"{call.module} {call.label.split()[0]}" for call in CALLS}
    modules = [calls.module for calls in MODULES if calls.module != "special"]  # docs/special.md has its functions
    names = {f"{module} {name}" for module in modules for name in names_of(module) if name not in UNCALLED}
    assert len(names) > 100
    assert names - called == set()
    assert page() == PAGE.read_text(encoding="utf-8"), "write it anew: python tests/scipy_page.py"


def found(package: str, path: str) -> Any:
    """Return the object of a path in a package, None for nothing."""
    place: Any = importlib.import_module(package)
    for part in path.split("."):
        if isinstance(place, ModuleType):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{place.__name__}.{part}")
        place = getattr(place, part, None)
    return place


@pytest.mark.needs("jax")
def test_every_name_of_jax_is_there_or_on_the_page() -> None:
    modules = "cluster.vq fft integrate interpolate linalg ndimage optimize signal sparse.linalg spatial.transform"
    seen = set()
    for module in (*modules.split(), "special", "stats"):
        theirs = importlib.import_module(f"jax.scipy.{module}")
        for name, value in vars(theirs).items():
            if name.startswith("_"):
                continue
            if isinstance(value, ModuleType):
                seen |= {f"{module}.{name}.{m}" for m in vars(value) if not m.startswith("_")}
            elif callable(value):
                seen.add(f"{module}.{name}")
    assert len(seen) > 200
    absent = {name for name in seen if found("agrad.scipy", name) is None}
    assert absent == {name for name in MISSING if found("jax.scipy", name) is not None}
    assert not [name for name in MISSING if found("agrad.scipy", name) is not None]


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def module(call: Call) -> Any:
    return importlib.import_module(f"agrad.scipy.{call.module}")


def tolerance(call: Call) -> list[float]:
    return [LOOSE[call.module]] if call.module in LOOSE else []


def needs_scipy(call: Call) -> None:
    if call.module in LOOSE:
        pytest.importorskip("scipy")


def problem(call: Call, place: Any) -> tuple[Any, list[Any]]:
    """Return a function of the differentiated inputs, and these."""
    inputs = [place(x) for x in call.inputs]
    function, ours, at = call.function, module(call), call.differentiated

    def f(*xs: Any) -> Any:
        filled = list(inputs)
        for i, x in zip(at, xs, strict=True):
            filled[i] = x
        out = function(ours, *filled)
        return tuple(out) if isinstance(out, list) else out

    return f, [inputs[i] for i in at]


NEWER = {"affine_transform diagonal": 16, "periodogram complex": 16} | dict.fromkeys(
    ("comb repetition", "comb repetition of none", "cumulative_simpson complex", "fdtr infinity", "inv complex",
     "toeplitz batch"), 17,
)  # fmt: skip
"""Minor versions of SciPy in which calls gained arguments or right values. Batches of matrices came with 1.16."""


def needed(call: Call) -> int:
    return NEWER.get(call.label, 16 if call.module == "linalg" and any(x.ndim > 2 for x in call.inputs) else 15)


@pytest.mark.needs("scipy")
@each([call for call in CALLS if needed(call) <= MINOR], whole=True)
def test_values_are_those_of_scipy(case: Call) -> None:
    theirs = importlib.import_module(f"scipy.{case.module}")
    expected = parts(case.function(theirs, *[x.copy() for x in case.inputs]))
    found = parts(case.function(module(case), *case.inputs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, np.ndarray | np.generic)
        np.testing.assert_allclose(a, b, rtol=case.rtol, atol=1e-9 if case.module in LOOSE else 1e-12)


@each(CALLS)
def test_values_and_kind_on_each_backend(case: Call, place: Any) -> None:
    needs_scipy(case)
    raw = [place(x) for x in case.inputs]
    expected = parts(case.function(module(case), *case.inputs))
    tensors = [agrad.asarray(x) for x in raw]
    # a solution has the kind of its start, which is no argument here
    for given in (raw,) if case.module in LOOSE else (raw, tensors):
        for a, b in zip(parts(case.function(module(case), *given)), expected, strict=True):
            # results without axes are NumPy's scalars where its own functions give them
            kinds = (type(raw[0]), np.generic) if isinstance(raw[0], np.ndarray) else type(raw[0])
            assert isinstance(a, agrad.Tensor if given is not raw else kinds)
            assert_close(a, b, case.name, *tolerance(case))


NARROW = {"float64": "float32", "complex128": "complex64"}
WIDE = ("BSpline", "make_interp_spline", "quad", "xlogy dtypes", "zetac large")
"""Functions whose calls have constants or values of double precision."""


@each([c for c in PORTABLE if all(x.dtype.name in NARROW for x in c.inputs) and not c.label.startswith(WIDE)])
def test_single_precision_stays(case: Call, place: Any) -> None:
    found = case.function(module(case), *[place(x.astype(NARROW[x.dtype.name])) for x in case.inputs])
    assert not {agrad.asarray(x).dtype.name for x in parts(found)} & set(NARROW)


EDGES = {
    "interpolate make_interp_spline periodic 2", "linalg lu batch", "special lambertw branch", "special zetac",
    "special zeta", "stats beta logcdf", "stats uniform logsf",
}  # fmt: skip
"""Calls so near kinks or ends of the domain, as quantiles are, that only ``check_grads`` finds a step."""


@each([case for case in PORTABLE if case.order])
def test_derivatives(case: Call, place: Any, request: pytest.FixtureRequest) -> None:
    f, xs = problem(case, place)
    name, thorough = agrad.asarray(xs[0]).backend, request.config.getoption("--thorough")
    # second derivatives on Dask take half a minute a call; they are the same compositions
    order = 1 if name in ("dask", "jax") or (case.slow and not thorough) else case.order
    if thorough or (name == "numpy" and (case.name in EDGES or case.label.endswith(("isf", "ppf")))):
        check_grads(f, tuple(xs), order=min(case.order, order), directions=2 if thorough else 1)
        return
    if name == "numpy":  # one difference for all orders of modes
        for check in (check_vjp, check_jvp, *[check_second] * (order > 1)):
            check(f, xs, case.rng())
        return
    # differences by a library that checks every call take most of a run
    at_home, home = problem(case, np.asarray)
    y, pull = agrad.vjp(at_home, *home)
    expected = pull(cotangents(y, random_like(outputs(y), case.rng())))
    for a, b in zip(check_faces(f, xs, case.rng()), expected, strict=True):
        assert_close(a, b, case.name, 1e-9)
    if case.order > 1:
        check_second_elsewhere(f, xs, at_home, home, case.rng)


@each([case for case in CALLS if case.mapped])
def test_vmap(case: Call, place: Any) -> None:
    needs_scipy(case)
    f, xs = problem(case, place)
    rows = [np.stack([host(x) * s for s in (1.0, 0.97)]) for x in xs]
    got = parts(agrad.vmap(f)(*[place(r) for r in rows]))
    for k in range(2):
        for a, b in zip(got, parts(f(*[place(np.asarray(r[k])) for r in rows])), strict=True):
            assert_close(host(a)[k], host(b), case.name, *([1e-8] if case.module in LOOSE else []))


@each([case for case in PORTABLE if case.traced])
def test_jit(case: Call, place: Any) -> None:
    f, xs = problem(case, place)
    g = agrad.jit(f)
    for _ in range(2):
        for a, b in zip(parts(g(*xs)), parts(f(*xs)), strict=True):
            assert_close(a, host(b), case.name)
