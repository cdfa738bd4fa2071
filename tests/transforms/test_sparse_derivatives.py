"""Sparse Jacobians and Hessians: no element outside of the pattern, values as dense, colors, modes and backends."""

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import CASES
from crossing import each
from modes import DERIVATIVES, check_same
from refusals import fails, refuses
from table import Case

import agrad
from agrad.dtypes import is_complex, is_floating
from agrad.errors import ConfigurationError, DtypeError, MissingExtraError, OperandError, ShapeError, TracedValueError
from agrad.transforms.coloring import colored

pytestmark = pytest.mark.needs("scipy")

X = np.linspace(0.3, 1.4, 8)

TABLE = [case for case in CASES if not case.row.constant and case.places]
SEEDS = int(os.environ.get("RANDOM_PROGRAMS", "150"))


def dense_of(matrix: Any) -> np.ndarray:
    """Return a sparse matrix of any library as an array of NumPy."""
    for name in ("toarray", "todense", "to_dense"):
        if hasattr(matrix, name):
            return np.asarray(agrad.asarray(getattr(matrix, name)()).to("numpy").numpy())
    raise AssertionError(type(matrix))


def agrees(f: Callable[..., Any], *args: Any, tolerance: float = 1e-10, **how: Any) -> Any:
    """Check the sparse Jacobian beside the dense one, and return it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = agrad.jacobian(f, **how)(*args)
        found = agrad.sparse_jacobian(f, **how)(*args)
    rows = agrad.tree.leaves(wanted), agrad.tree.leaves(agrad.tree.map(dense_of, found))
    for one, other in zip(*rows, strict=True):
        one = np.asarray(agrad.asarray(one).to("numpy").numpy())
        scale = max(1.0, float(np.abs(one[np.isfinite(one)]).max(initial=0)))
        np.testing.assert_allclose(other.reshape(one.shape), one, rtol=tolerance, atol=tolerance * scale)
    return found


def count(matrix: Any) -> int:
    return int(matrix.nnz)


def neighbours(x: Any) -> Any:
    return x[:-2] * x[1:-1] - 2 * x[1:-1] ** 2 + agrad.sin(x[2:])


def energy(x: Any) -> Any:
    return agrad.sum((x[1:] - x[:-1]) ** 2 * x[1:]) + agrad.sum(x**4)


@agrad.sparse_jacobian
def branch(x: Any) -> Any:
    return x if x[0] > 0 else -x


# ---------------------------------------------------------------- patterns


@each(TABLE)
def test_the_table_of_cases(case: Case) -> None:
    arguments, places = case.arguments(), case.places
    given = [arguments[i] for i in places]

    def f(*xs: Any) -> Any:
        full = list(arguments)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        out = case.call(*full)
        outs = out if isinstance(out, tuple | list) else (out,)
        return tuple(y for y in outs if hasattr(y, "dtype") and is_floating(y.dtype) and not is_complex(y.dtype))

    argnums = tuple(range(len(given)))
    if any(x.dtype.kind == "c" for x in given):
        fails(DtypeError, "must be real", lambda: agrad.sparse_jacobian(f, argnums=argnums)(*given))
    elif case.row.primitive == "getitem" and "mask" in case.name:
        jacobian = agrad.sparse_jacobian(f, argnums=argnums)
        fails(TracedValueError, "the pattern is found without values", jacobian, *given)
    else:
        agrees(f, *given, argnums=argnums, tolerance=1e-7)


def real_programs(start: int) -> Iterator[tuple[int, Any]]:
    """Yield the random programs of some seeds that have real derivatives."""
    from random_programs.program import generate
    from random_programs.ways import Case as ProgramCase

    for seed in range(start, start + SEEDS // 3):
        case = ProgramCase(generate(seed))
        values = [*case.inputs, *[np.asarray(case.expected[i]) for i in case.moving]]
        if case.moving and all(x.dtype.kind != "c" for x in values):
            yield seed, case


@pytest.mark.parametrize("piece", range(3))
def test_random_programs(piece: int, pytestconfig: pytest.Config) -> None:
    start = SEEDS * pytestconfig.getoption("--round") + piece * SEEDS // 3
    done = 0
    for seed, case in real_programs(start):
        try:
            agrees(case.smooth, *case.fresh(), argnums=case.argnums, tolerance=10 * case.close)
        except TracedValueError:  # it branches on values
            continue
        except AssertionError as error:
            pytest.fail(f"seed {seed}\n{case.program.source()}\n{error}")
        done += 1
    assert done > SEEDS // 6


INDEX = np.asarray([3, 1, 1, 6])
WEIGHTS = np.arange(12.0).reshape(3, 4)

PATTERNS: list[tuple[str, Callable[..., Any], int]] = [
    ("elementwise", lambda x: agrad.sin(x) * x, 8),
    ("slices", neighbours, 18),
    ("gather", lambda x: x[INDEX] ** 2, 4),
    ("scatter", lambda x: agrad.segment_sum(x * x, np.arange(8) % 3, 3), 8),
    ("write", lambda x: (y := x * 1.0, y.__setitem__(slice(0, 3), x[5:] ** 2), y)[2], 8),
    ("view and alias", lambda x: (y := x * 1.0, v := y[::2], v.__imul__(x[:4]), y)[3], 11),
    ("where", lambda x: agrad.where(x > 1, x, agrad.flip(x)), 16),
    ("reduction", lambda x: agrad.sum(agrad.reshape(x, (2, 4)), axis=0), 8),
    ("maximum of an axis", lambda x: agrad.max(agrad.reshape(x, (2, 4)), axis=1), 8),
    ("cumulative", lambda x: agrad.cumulative_sum(x), 36),
    ("constant matrix", lambda x: agrad.reshape(WEIGHTS @ agrad.reshape(x, (4, 2)), (-1,)), 24),
    ("product", lambda x: agrad.reshape(x[:4], (2, 2)) @ agrad.reshape(x[4:], (2, 2)), 16),
    ("batch of matrices", lambda x: agrad.linalg.inv(agrad.reshape(x**2, (2, 2, 2))), 32),
    ("tensordot", lambda x: agrad.tensordot(agrad.reshape(x, (2, 4)), WEIGHTS.T, axes=1), 24),
    ("convolution", lambda x: agrad.nn.functional.conv1d(x[None, None], np.ones((1, 1, 3)), padding=1), 22),
    ("convolve", lambda x: np.convolve(x, np.asarray([1.0, -2.0, 1.0]), "same"), 22),
    ("pool", lambda x: agrad.nn.functional.max_pool1d(x[None, None], 2), 8),
    ("sort", lambda x: agrad.sort(agrad.reshape(x, (4, 2)), axis=1), 64),
    ("argsort as index", lambda x: x[agrad.argsort(x[:2])], 16),
    ("index of the argument", lambda x: x[agrad.astype(x * 3, agrad.int64) % 8], 64),
    ("concat and stack", lambda x: agrad.concat([x[:2], agrad.stack([x[3], x[4] * x[5]])]), 5),
    ("diff and roll", lambda x: agrad.diff(x) * agrad.roll(x, 1)[1:], 14),
    ("fft of rows", lambda x: agrad.real(agrad.fft.fft(agrad.reshape(x, (4, 2)), axis=1)), 16),
    ("softmax of rows", lambda x: agrad.nn.functional.softmax(agrad.reshape(x, (4, 2)), dim=1), 16),
    ("no dependence", lambda x: agrad.stop_gradient(x) + agrad.floor(x), 0),
    ("both branches", lambda x: agrad.cond(x[0] > 0, lambda y: y, agrad.flip, x), 16),
    ("scan", lambda x: agrad.scan(lambda c, v: (c + v, c * v), x[0] * 0, x)[1], 36),
    ("map by scan", lambda x: agrad.scan(lambda c, v: (c, v**2), x[0] * 0, x)[1], 8),
    ("reverse scan", lambda x: agrad.scan(lambda c, v: (c + v, c), x[7] * 0, x, reverse=True)[1], 29),
    ("fori_loop", lambda x: agrad.fori_loop(0, 2, lambda i, y: y + agrad.roll(y, 1), x), 24),
    ("while_loop", lambda x: agrad.while_loop(lambda y: agrad.sum(y) < 20, lambda y: y * 2, x), 8),
    ("custom rule", lambda x: doubled(x)[1:], 7),
    ("checkpoint", lambda x: agrad.checkpoint(neighbours)(x), 18),
    ("jit inside", lambda x: agrad.jit(neighbours)(x), 18),
    ("vmap inside", lambda x: agrad.vmap(lambda row: agrad.sum(row) * row)(agrad.reshape(x, (4, 2))), 16),
    ("gradient inside", agrad.grad(energy), 22),
    ("scalar", agrad.sum, 8),
    ("constant", lambda x: agrad.asarray([1.0, 2.0]), 0),
]


@agrad.custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvp(lambda primals, tangents: (2 * primals[0], 2 * tangents[0]))


@pytest.mark.parametrize(("f", "elements"), [p[1:] for p in PATTERNS], ids=[p[0] for p in PATTERNS])
def test_patterns_are_exact(f: Callable[..., Any], elements: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert count(agrad.sparse_jacobian(f)(X)) == elements
    agrees(f, X)
    agrees(f, X[::-1].copy())


def test_nan_and_infinity_stay_where_they_belong() -> None:
    """A dense pass spreads them by products with 0; elements outside of the pattern are 0 whatever the values are."""
    with np.errstate(all="ignore"):
        found = agrad.sparse_jacobian(agrad.sqrt)(np.asarray([0.0, 1.0, np.nan, 4.0, np.inf]))
    np.testing.assert_array_equal(found.data, [np.inf, 0.5, np.nan, 0.25, 0.0])


def test_a_pattern_does_not_depend_on_the_point() -> None:
    jac = agrad.sparse_jacobian(lambda x: agrad.where(x > 1, x, 0.0) + agrad.max(x[:3]) * x[0])
    one, other = jac(X), jac(-X)
    assert (one.indices == other.indices).all()


def test_the_layout_of_an_argument_tells_which_writes_are_seen() -> None:
    def f(x: Any) -> Any:
        y = agrad.permute_dims(x * 1, (1, 0))
        np.ravel(y)[...] = 3.0
        return y

    jac, x = agrad.sparse_jacobian(f), X.reshape(2, 4)
    for given in (x, np.asfortranarray(x), x):
        np.testing.assert_array_equal(jac(given).toarray(), agrad.jacobian(f)(given).reshape(8, 8))
    assert jac(x).nnz != jac(np.asfortranarray(x)).nnz


def test_an_unknown_operation_is_dense_and_says_so() -> None:
    @agrad.primitive(batch="loop")
    def turned(xp: Any, x: Any, /) -> Any:
        return xp.flip(x)

    @turned.vjp
    def _(xp: Any, g: Any) -> Any:
        return xp.flip(g)

    @turned.jvp
    def _(xp: Any, t: Any) -> Any:
        return turned(t)

    with pytest.warns(RuntimeWarning, match="of turned it is not known which elements its results depend on"):
        found = agrad.sparse_jacobian(turned)(X)
    assert count(found) == 64
    agrees(turned, X)


def test_sums_over_all_that_are_spread_again_are_refused_where_they_are_large() -> None:
    dense = agrad.sparse_jacobian(lambda x: x * agrad.sum(x))
    fails(ConfigurationError, "is not sparse: multiply makes 20,000 elements", dense, np.ones(20_000))


# ---------------------------------------------------------------- what patterns are kept for


def test_a_pattern_is_kept_until_what_it_was_found_with_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from agrad.transforms import sparse

    traced: list[str] = []
    trace = sparse.traced_body
    monkeypatch.setattr(sparse, "traced_body", lambda *args: (traced.append(args[2]), trace(*args))[1])
    index, shift = np.arange(40_000) % 8, 1

    def f(x: Any, t: float, n: int) -> Any:
        return x[index] * t + agrad.roll(x, shift * n)[0]

    jac = agrad.sparse_jacobian(f)
    for count_of_traces, x, t, n in ((1, X, 0.5, 1), (1, X + 1, 0.75, 1), (2, X, 0.5, 2), (2, X, 2.5, 1)):
        np.testing.assert_allclose(jac(x, t, n).toarray(), agrad.jacobian(f)(x, t, n))
        assert len(traced) == count_of_traces
    index[:] = index[::-1].copy()
    np.testing.assert_allclose(jac(X, 0.5, 1).toarray(), agrad.jacobian(f)(X, 0.5, 1))
    shift = 3
    np.testing.assert_allclose(jac(X, 0.5, 1).toarray(), agrad.jacobian(f)(X, 0.5, 1))
    assert len(traced) == 4


def test_integers_among_the_arguments_tell_the_pattern() -> None:
    jac = agrad.sparse_jacobian(lambda x, i: x[i] ** 2)
    for index in (INDEX, INDEX[::-1].copy()):
        found = jac(X, index)
        assert count(found) == 4
        np.testing.assert_array_equal(found.indices, index)
    many = np.stack([INDEX, INDEX[::-1]])  # of a mapped index no value is known
    mapped = agrad.vmap(jac, in_axes=(None, 0))(X, many)
    for i, index in enumerate(many):
        np.testing.assert_allclose(agrad.SparseArray(mapped.values[i], mapped.where).toarray(), jac(X, index).toarray())


def test_a_captured_tensor_of_integers_is_read_again() -> None:
    index = agrad.asarray([1, 2, 3])
    jac = agrad.sparse_jacobian(lambda x: x[index] ** 2)
    for value in (1, 1, 5):
        index[0] = value
        np.testing.assert_array_equal(jac(X).indices, [value, 2, 3])


def test_jit_finds_the_pattern_once_and_refuses_other_indices() -> None:
    index = np.arange(40_000) % 8
    f = agrad.jit(agrad.sparse_jacobian(lambda x: x[index] ** 2))
    for x in (X, 2 * X):
        np.testing.assert_allclose(f(x).toarray(), agrad.jacobian(lambda v: v[index] ** 2)(x))
    assert f.cache_info().misses == 1
    index[:] = 7 - index
    fails(TracedValueError, "has changed since jit traced it", f, X)


# ---------------------------------------------------------------- colors


def test_grids_take_the_least_number_of_colors() -> None:
    from scipy.sparse import csr_array, diags_array, kron

    band = csr_array(diags_array([np.ones(49), np.ones(50), np.ones(49)], offsets=[-1, 0, 1]))
    eye = csr_array(diags_array(np.ones(50)))
    assert colored(band, (50,)).number == 3
    grid = csr_array((kron(band, eye) + kron(eye, band)) > 0)
    assert colored(grid, (50, 50)).number == 5
    assert colored(grid, None).number <= 9


@pytest.mark.parametrize("symmetric", [False, True])
def test_colors_are_valid_and_stars_need_few(symmetric: bool) -> None:
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        matrix = np.asarray(rng.random((n, n)) < 3 / n) | np.eye(n, dtype=bool)
        matrix = matrix | matrix.T if symmetric else matrix
        values = np.where(matrix, rng.normal(size=(n, n)), 0)
        values = values + values.T if symmetric else values
        pattern = csr_array(matrix)
        found = colored(pattern, None, symmetric)
        seeds = found.colors == np.arange(found.number)[:, None]
        products = (seeds @ values.T).ravel()
        rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
        np.testing.assert_allclose(products[found.places], values[rows, pattern.indices])
    arrow = np.eye(50, dtype=bool)
    arrow[0], arrow[:, 0] = True, True
    assert colored(csr_array(arrow), None, symmetric).number == (2 if symmetric else 50)


def test_rows_are_colored_if_they_need_fewer() -> None:
    assert count(agrees(lambda x: agrad.sum(agrad.reshape(x, (2, 4)) ** 2, axis=1), X)) == 8
    jac = agrad.sparse_jacobian(lambda x: agrad.sum(x**2)[None])
    assert jac(np.ones(5000)).nnz == 5000


# ---------------------------------------------------------------- modes and backends


def test_all_backends(place: Any) -> None:
    found = agrad.sparse_jacobian(neighbours)(place(X))
    np.testing.assert_allclose(dense_of(found), agrad.jacobian(neighbours)(X), rtol=1e-12)
    hessian = agrad.sparse_hessian(energy)(place(X))
    np.testing.assert_allclose(dense_of(hessian), agrad.hessian(energy)(X), rtol=1e-12)
    kind = {"numpy": "csr_array", "cupy": "csr_matrix", "torch": "Tensor", "jax": "BCOO"}
    name = agrad.asarray(place(X)).backend
    assert type(found).__name__ == kind.get(name, "SparseArray")
    assert type(agrad.sparse_jacobian(neighbours)(agrad.asarray(place(X)))).__name__ == "SparseArray"
    gradient = agrad.grad(lambda x: agrad.sum(agrad.sparse_jacobian(neighbours)(x).values ** 2))(place(X))
    wanted = agrad.grad(lambda x: agrad.sum(agrad.jacobian(neighbours)(x) ** 2))(X)
    np.testing.assert_allclose(agrad.asarray(gradient).to("numpy").numpy(), wanted, rtol=1e-12)


def test_modes() -> None:
    sparse, dense = agrad.sparse_jacobian(neighbours), agrad.jacobian(neighbours)
    many = np.stack([X, 2 * X, X**2])

    ours, theirs = lambda x: agrad.sum(sparse(x).values ** 3), lambda x: agrad.sum(dense(x) ** 3)
    # the value of an array that no transform sees is a matrix of SciPy, without ``values``
    modes = [*DERIVATIVES, "vmap of the gradient", "jit of the gradient", "gradient of jit"]
    check_same(ours, theirs, (X,), [mode for mode in modes if mode != "value"], 1e-11)
    mapped = agrad.vmap(sparse)(many)
    for i, x in enumerate(many):
        np.testing.assert_array_equal(mapped.values[i], sparse(x).data)
    np.testing.assert_allclose(agrad.jit(sparse)(X).toarray(), dense(X))
    np.testing.assert_allclose((sparse(agrad.asarray(X)) @ X).numpy(), dense(X) @ X)
    np.testing.assert_allclose((sparse(agrad.asarray(X)) @ np.eye(8)).numpy(), dense(X))


def test_chunks_arguments_and_aux() -> None:
    def f(p: Any, c: Any, *, scale: Any) -> Any:
        return {"r": p["a"] * c[0] * scale, "s": agrad.cumulative_sum(p["b"], axis=1)}, "aux"

    p, c = {"a": X[:3], "b": np.ones((2, 2))}, np.ones(2)
    for chunk in (None, 1, 2):
        found, aux = agrad.sparse_jacobian(f, argnums=(0, "scale"), has_aux=True, chunk_size=chunk)(p, c, scale=X[:1])
        assert aux == "aux"
        assert found["r"][0]["a"].shape == (3, 3)
        assert count(found["r"][0]["a"]) == 3
        assert found["s"][1].shape == (4, 1)
    agrees(lambda *v: f(*v, scale=2.0)[0], p, c, argnums=(0, 1))
    assert agrad.sparse_jacobian(lambda x: x * 2)(np.ones(0)).shape == (0, 0)
    assert agrad.sparse_jacobian(neighbours)(X.astype("float32")).dtype == np.float32


def test_hessians() -> None:
    chain = agrad.sparse_hessian(energy)(X)
    assert count(chain) == 22
    np.testing.assert_allclose(chain.toarray(), agrad.hessian(energy)(X), rtol=1e-12)

    def arrow(x: Any) -> Any:
        return agrad.sum(x[0] * x[1:] ** 2)

    found = agrad.sparse_hessian(arrow)(X)
    assert count(found) == 21
    np.testing.assert_allclose(found.toarray(), agrad.hessian(arrow)(X), rtol=1e-12)
    blocks, aux = agrad.sparse_hessian(lambda a, b: (agrad.sum(a * a[::-1] * b), 3), argnums=(0, 1), has_aux=True)(X, X)
    wanted = agrad.hessian(lambda a, b: agrad.sum(a * a[::-1] * b), argnums=(0, 1))(X, X)
    assert aux == 3
    for block, values in zip(agrad.tree.leaves(blocks), agrad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(block.toarray(), values, atol=1e-14)


def writes_into_arguments(case: Any) -> bool:
    """Return True for a function that changes its other arguments: a second call then computes something else."""
    given, before = case.fresh(), case.fresh()
    with np.errstate(all="ignore"):
        case.loss(*given)
    return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True))


def test_hessians_of_random_programs() -> None:
    done = 0
    for _, case in real_programs(0):
        if case.single or writes_into_arguments(case):
            continue
        try:
            with np.errstate(all="ignore"):
                wanted = agrad.hessian(case.loss)(*case.fresh())
                found = agrad.sparse_hessian(case.loss)(*case.fresh())
        except (TracedValueError, agrad.errors.NotDifferentiableError):
            continue
        scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
        ours = found.toarray().reshape(wanted.shape)
        np.testing.assert_allclose(ours, wanted, rtol=1e-7, atol=1e-9 * scale, err_msg=case.program.source())
        done += 1
    assert done > SEEDS // 12


# ---------------------------------------------------------------- others


def test_a_given_pattern() -> None:
    from scipy.sparse import csr_array

    def branches(x: Any) -> Any:
        return x**2 if x[0] > 0 else -x

    for given in (np.eye(8), csr_array(np.eye(8))):
        found = agrad.sparse_jacobian(branches, sparsity=given)(X)
        np.testing.assert_allclose(found.toarray(), np.diag(2 * X))
    for wrong, text in ((np.eye(7), "have 8 columns, got 7"), ("diag", "be a matrix"), (np.eye(8)[:7], "have 8 rows")):
        fails(ShapeError, f"sparsity must {text}", agrad.sparse_jacobian(branches, sparsity=wrong), X)


test_errors = refuses(
    [
        (OperandError, "sparse_jacobian: f must be a function", lambda: agrad.sparse_jacobian(3)),
        (ConfigurationError, "sparse_hessian: chunk_size", lambda: agrad.sparse_hessian(energy, chunk_size=0)),
        (DtypeError, "floating-point dtype, got int64", lambda: agrad.sparse_jacobian(neighbours)(np.arange(8))),
        (DtypeError, "must be real", lambda: agrad.sparse_jacobian(neighbours)(X + 1j)),
        (DtypeError, "its output must be real", lambda: agrad.sparse_jacobian(lambda x: x * 1j)(X)),
        (TracedValueError, "the pattern is found without values, and the function reads the value", lambda: branch(X)),
        (ShapeError, "must have shape (8, ...)", lambda: agrad.sparse_jacobian(neighbours)(agrad.asarray(X)) @ X[:3]),
    ]
)


def test_scipy_takes_them() -> None:
    from scipy.optimize import least_squares

    n = 30

    def residual(x: Any) -> Any:
        padded = np.pad(x, 1)
        return 4 * x + x**3 - padded[2:] - padded[:-2] - 1

    jac = agrad.sparse_jacobian(residual)
    found = least_squares(lambda x: np.asarray(residual(x)), np.zeros(n), jac=jac)
    wanted = least_squares(lambda x: np.asarray(residual(x)), np.zeros(n), jac=agrad.jacobian(residual))
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-5)
    pattern = jac(np.zeros(n)) != 0
    by_pattern = least_squares(residual, np.zeros(n), jac_sparsity=pattern, method="trf")
    np.testing.assert_allclose(by_pattern.x, found.x, atol=1e-6)


def test_without_scipy_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    missing = r"need SciPy, which holds the pattern\. Install it with"
    fails(MissingExtraError, missing, agrad.sparse_jacobian(neighbours), X)
