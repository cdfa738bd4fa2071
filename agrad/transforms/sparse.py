"""``sparse_jacobian`` and ``sparse_hessian``: sparse derivative matrices.

``dependence`` finds the pattern. ``coloring`` groups columns or rows so that one tangent or cotangent serves a group.
Passes work as in ``jacobian``, with a batch of these vectors instead of the unit vectors.
"""

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.control.bodies import StatefulBody, example, traced_body
from agrad.dtypes import dtype_name, is_floating
from agrad.engine.calls import lift_all
from agrad.engine.levels import Forward
from agrad.engine.namespaces import namespace_of
from agrad.engine.notation import primitive
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor, raw_of
from agrad.errors import ConfigurationError, ShapeError, TracedValueError, described
from agrad.jit.state import CapturedState
from agrad.shapes import size
from agrad.transforms.arguments import (
    ArgNums,
    Chosen,
    aux_of,
    check_chunk_size,
    check_function,
    content_of,
    copy_tree_if_aliased,
    is_array,
)
from agrad.transforms.coloring import Coloring, colored
from agrad.transforms.dependence import Entry, Walk, host, sparse_of_scipy
from agrad.transforms.grad import Recording, grad
from agrad.transforms.jacobian import Outputs, forward_call, pulled_rows, pushed_columns
from agrad.transforms.sparse_array import Coordinates, matrix_of, placed
from agrad.transforms.trees import flatten, flatten_all, tree_map, unflatten
from agrad.transforms.units import Units, shaped

__all__ = ["sparse_hessian", "sparse_jacobian"]

Function = Callable[..., Any]

AT_ONCE = 2**24
"""The maximum number of elements of the tangents or cotangents of one chunk."""

KEPT = 32
"""The maximum number of patterns that are kept for one function."""


@primitive(linear="x", constant="arrays", name="sparse.unchanged", raises=True)
def _unchanged(xp: Any, x: Any, /, *arrays: Any, contents: tuple[Any, ...]) -> Any:
    """Return ``x``, if the arrays that a pattern was found with are unchanged."""
    if tuple(map(content_of, arrays)) != contents:
        raise TracedValueError("an array that the function reads has changed since jit traced it. Call cache_clear().")
    return x


@_unchanged.vjp("x")  # type: ignore[untyped-decorator]
def _unchanged_vjp(xp: Any, g: Any) -> Any:
    return g


@_unchanged.batch
def _unchanged_batch(xp: Any, x: Any, arrays: Any, *, contents: tuple[Any, ...]) -> Any:
    return _unchanged(x, *arrays, contents=contents)


class _Seeds(Units):
    """Some of the colors, as elements of a batch: each is the sum of its unit vectors."""

    def __init__(self, places: slice, colors: np.ndarray) -> None:
        super().__init__(places)
        self.colors = colors

    def _leaf(self, like: Any, offset: int) -> Any:
        raw = raw_of(like)
        mine = self.colors[offset : offset + size(like.shape)]
        seeds = (mine == np.arange(self.start, self.stop)[:, None]).astype(dtype_name(raw.dtype))
        if self.batch is None:
            return placed(seeds.reshape(like.shape), raw)
        return self.batch.wrap(placed(seeds.reshape((self.count, *like.shape)), raw))


# ------------------------------------------------------------------ patterns


class _Plan:
    """The plan for a matrix: its pattern, and colors of columns, or of rows if these are fewer.

    state: the values that the function reached when the pattern was found, None if the pattern was given.
    """

    def __init__(self, pattern: Any, shapes: Sequence[Any], symmetric: bool, state: Any = None) -> None:
        pattern = (pattern + pattern.T).tocsr() if symmetric else pattern.tocsr()
        pattern.sort_indices()
        self.shape, self.state = pattern.shape, state
        self.constants = None if state is None else _constants(state)
        self.rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.columns = pattern.indices.astype(np.int64)
        self.coloring: Coloring = colored(pattern, shapes[0] if len(shapes) == 1 else None, symmetric)
        self.forward = True
        if not symmetric and self.coloring.number > max(1, np.diff(pattern.tocsc().indptr).max(initial=1)):
            self._try_rows(pattern)
        self._blocks: dict[Any, Any] = {}

    def _try_rows(self, pattern: Any) -> None:
        numbered = pattern.astype(np.int64)
        numbered.data = np.arange(len(self.rows))
        numbered = numbered.T.tocsr()
        numbered.sort_indices()
        found = colored(numbered.astype(bool) if not len(self.rows) else numbered, None)
        if found.number < self.coloring.number:
            places = np.empty(len(self.rows), np.int64)
            places[numbered.data] = found.places
            self.coloring, self.forward = found._replace(places=places), False

    def holds(self) -> bool:
        """Return True if the values that the function reached are unchanged."""
        state = self.state
        if state is None:
            return True
        return state.holds() and not (state.arrays and state.changed()) and self.constants == _constants(state)

    def blocks(self, heights: tuple[int, ...], widths: tuple[int, ...]) -> list[list[tuple[Coordinates, np.ndarray]]]:
        """Return coordinates by output and input, and the positions of the elements."""
        if (heights, widths) not in self._blocks:
            ends = np.cumsum([0, *heights]), np.cumsum([0, *widths])
            self._blocks[heights, widths] = [
                [self._block(a, b, c, d) for c, d in zip(ends[1][:-1], ends[1][1:], strict=True)]
                for a, b in zip(ends[0][:-1], ends[0][1:], strict=True)
            ]
        found: list[list[tuple[Coordinates, np.ndarray]]] = self._blocks[heights, widths]
        return found

    def _block(self, a: int, b: int, c: int, d: int) -> tuple[Coordinates, np.ndarray]:
        inside = (a <= self.rows) & (self.rows < b) & (c <= self.columns) & (self.columns < d)
        where = Coordinates(self.rows[inside] - a, self.columns[inside] - c, (int(b - a), int(d - c)))
        return where, self.coloring.places[inside]


class _Patterns:
    """The plans of a function, found by tracing it, by the arguments of a call."""

    def __init__(self, f: Function, has_aux: bool, symmetric: bool) -> None:
        self.f, self.has_aux, self.symmetric = f, has_aux, symmetric
        self.kept: dict[Any, list[_Plan]] = {}
        self.floats = True
        """False after the function read the value of a float argument: each value then has its own pattern."""

    def plan(self, chosen: Chosen) -> _Plan:
        """Return the plan of a call.

        Inside a trace it is found again, because the values of the trace are unknown.
        """
        if mode().trace is not None:
            return self._found(chosen)
        key = self._key(chosen)
        for plan in self.kept.get(key, ()):
            if plan.holds():
                return plan
        try:
            plan = self._found(chosen)
        except TracedValueError:
            if not self.floats:
                raise
            self.floats = False
            return self.plan(chosen)
        if len(self.kept) >= KEPT:
            self.kept.clear()
        if plan.state is not None and key is not None:
            self.kept.setdefault(key, []).insert(0, plan)
            del self.kept[key][KEPT:]
        return plan

    def _key(self, chosen: Chosen) -> Any:
        parts: list[Any] = []
        for name, arg in (*enumerate(chosen.args), *chosen.kwargs.items()):
            leaves, spec = flatten_all(arg)
            parts.append((name, spec, *[self._mark(leaf, name in chosen.keys) for leaf in leaves]))
        try:
            hash(tuple(parts))
        except TypeError:
            return None
        return tuple(parts)

    def _is_free(self, leaf: Any) -> bool:
        """Return True for an argument value that a pattern does not depend on."""
        return self.floats and (type(leaf) in (float, complex) or (is_array(leaf) and is_floating(leaf.dtype)))

    def _mark(self, leaf: Any, differentiated: bool) -> Any:
        free = differentiated or self._is_free(leaf)
        if not is_array(leaf):
            return type(leaf), None if free else leaf
        raw = example(leaf)
        hidden = isinstance(leaf, Tensor) and (isinstance(leaf.data, Tensor) or leaf.node is not None)
        content = hidden if free or hidden else host(raw).tobytes()
        # the layout determines which reshapes are views, which a write changes
        return type(raw), tuple(leaf.shape), dtype_name(raw.dtype), backend_of(raw).strides(raw), content

    def _found(self, chosen: Chosen) -> _Plan:
        others = [arg for key, arg in (*enumerate(chosen.args), *chosen.kwargs.items()) if key not in chosen.keys]
        free = [leaf for leaf in flatten(others)[0] if self._is_free(leaf)]
        count = len(chosen.values)

        def function(given: list[Any]) -> list[Any]:
            rest = iter(given[2 * count :])

            def filled(key: Any, arg: Any) -> Any:
                if key in chosen.keys:
                    return arg
                return tree_map(lambda leaf: next(rest) if self._is_free(leaf) else leaf, arg)

            inner, level = copy.copy(chosen), Forward()
            inner.values = given[:count]
            inner.args = [filled(i, arg) for i, arg in enumerate(chosen.args)]
            inner.kwargs = {name: filled(name, arg) for name, arg in chosen.kwargs.items()}
            try:
                out = inner.call(inner.lift(level, given[count : 2 * count]))
            finally:
                level.end()
            outs = Outputs(aux_of(out, chosen.what)[0] if self.has_aux else out, None, level, inner)
            heights[:] = [size(y.shape) for y in outs.values]
            return [0.0 if t is None else t for t in outs.records]

        heights: list[int] = []
        likes = [example(x) for x in (*chosen.values, *chosen.values, *free)]
        try:
            program = traced_body(function, likes, chosen.what, False).program
        except (StatefulBody, TracedValueError) as error:
            raise TracedValueError(
                f"{chosen.what}: the pattern is found without values, and the function reads the value of an array "
                "that depends on its arguments, or state. Choose with agrad.where or agrad.cond, or pass the pattern: "
                "sparsity=..."
            ) from error
        sizes = [size(x.shape) for x in chosen.values]
        walk, identity = Walk(0).apart(sizes)
        before = len(program.inputs) - count - len(free)
        entries = [*[Entry(None)] * before, *[Entry(p) for p in identity], *[Entry(None)] * len(free)]
        found = walk.run(program, entries)
        for name in sorted(walk.notes):
            warnings.warn(
                f"{chosen.what}: of {name} it is not known which elements its results depend on, so that each counts "
                "as depending on all",
                RuntimeWarning,
                stacklevel=5,
            )
        pattern = walk.stacked([e.pattern for e in found], heights)
        return _Plan(pattern, [x.shape for x in chosen.values], self.symmetric, self._state())

    def _state(self) -> Any:
        try:
            return CapturedState(self.f, title="sparse_jacobian")
        except ConfigurationError:  # more values than are compared at each call
            return None


def _constants(state: Any) -> list[bytes]:
    """Return the content of the constant Tensors in a state."""
    return [host(t.bare).tobytes() for t in state.tensors if t.node is None and not isinstance(t.bare, Tensor)]


# ------------------------------------------------------------------ passes


def _products(chosen: Chosen, plan: _Plan, has_aux: bool, chunk_size: int) -> tuple[Outputs, list[Any]]:
    """Return the outputs, and the products with the colors, flat for each color.

    They are of shape (colors, rows) for each output, or (colors, columns) for each input.
    """
    total, seeds = plan.coloring.number, functools.partial(_Seeds, colors=plan.coloring.colors)
    if plan.forward:
        outs, found = pushed_columns(chosen, forward_call(chosen, has_aux), total, chunk_size, seeds)
    else:
        run = Recording(chosen, chosen.call, has_aux)
        outs = Outputs(run.out, run.aux, run.level, chosen)
        found = pulled_rows(run, outs, total, chunk_size, seeds)
    return outs, [shaped(x, (x.shape[0], size(x.shape[1:]))) for x in found]


def _sparse(
    f: Function, argnums: ArgNums, has_aux: bool, chunk_size: int | None, sparsity: Any, name: str, symmetric: bool
) -> Function:
    patterns = _Patterns(f, has_aux, symmetric)
    given: list[_Plan] = []

    def plan_of(chosen: Chosen) -> _Plan:
        if sparsity is None:
            return patterns.plan(chosen)
        if not given:
            matrix = sparsity if hasattr(sparsity, "tocsr") else np.asarray(sparsity)
            if len(matrix.shape) != 2 or matrix.dtype.kind not in "biuf":
                raise ShapeError(f"{chosen.what}: sparsity must be a matrix, got {described(sparsity)}.")
            pattern = sparse_of_scipy().csr_array(matrix).astype(bool)
            pattern.eliminate_zeros()
            given.append(_Plan(pattern, [x.shape for x in chosen.values], symmetric))
        return given[0]

    @functools.wraps(f)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(f, args, kwargs, argnums, f"the {name} of {getattr(f, '__name__', 'a function')}", False)
        chosen.check(False)
        plan = plan_of(chosen)
        widths = tuple([size(x.shape) for x in chosen.values])
        _check_size(chosen.what, "columns", plan.shape[1], sum(widths))
        most = chunk_size or max(1, AT_ONCE // max(*plan.shape, 1))
        outs, products = _products(chosen, plan, has_aux, most)
        outs.check(False)
        heights = tuple([size(y.shape) for y in outs.values])
        _check_size(chosen.what, "rows", plan.shape[0], sum(heights))
        parts = lift_all(products) if products else [np.zeros((1, 0))]
        xp = namespace_of(parts)
        flat = xp.reshape(parts[0] if len(parts) == 1 else xp.concat(parts, axis=1), (-1,))
        if mode().trace is not None and plan.state is not None and plan.state.arrays:
            read = plan.state.arrays
            flat = _unchanged(flat, *read, contents=tuple(map(content_of, read)))
        rows = []
        for y, blocks in zip(outs.values, plan.blocks(heights, widths), strict=True):
            row = []
            for x, (where, places) in zip(chosen.values, blocks, strict=True):
                values = xp.take(flat, placed(places, flat), axis=0)
                dtype = example(y if plan.forward else x).dtype
                values = values if values.dtype == dtype else xp.astype(values, dtype)
                row.append(matrix_of(chosen.leave(values), where))
            rows.append(chosen.result(unflatten(chosen.spec, row)))
        whole = unflatten(outs.spec, rows)
        return (whole, copy_tree_if_aliased(outs.aux, args, kwargs)) if has_aux else whole

    return matrix


def _check_size(what: str, axis: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise ShapeError(f"{what}: sparsity must have {wanted} {axis}, got {found}.")


def sparse_jacobian(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, sparsity: Any = None, chunk_size: int | None = None
) -> Function:
    """Return the function that computes the Jacobian of ``f`` as a sparse matrix.

    Use it if most elements of the Jacobian are 0 for every argument, as for models on grids. The first call traces
    ``f`` to find the elements that can differ from 0, and groups columns (or rows, if these need fewer groups) that
    share no row. Every call then needs one product with the Jacobian per group, all in one batch.

    Parameters
    ----------
    f : callable
        Real function of real arrays, as for ``agrad.jacobian``. To find the pattern it must be traceable, as for
        ``agrad.jit``.
    argnums : int, str, or a sequence of these
        Positions or names of the differentiated arguments.
    has_aux : bool
        True if ``f`` returns a pair (value, aux).
    sparsity : sparse matrix or array, optional
        Pattern of the whole Jacobian: True or nonzero at each element that can differ from 0. If it omits such an
        element, other elements are wrong. By default, the pattern is found.
    chunk_size : int, optional
        Maximum number of groups at once. By default, it bounds the memory.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns a pytree like the outputs of pytrees like the arguments. With
        ``has_aux``, it returns (pytree, aux). The leaves are matrices of shape (elements of the output, elements of the
        input): ``scipy.sparse.csr_array`` for NumPy arrays, ``cupyx.scipy.sparse.csr_matrix`` for CuPy, a sparse COO
        tensor for PyTorch, ``BCOO`` for JAX, and otherwise ``agrad.SparseArray``: for Tensors and inside of transforms.

    Raises
    ------
    MissingExtraError
        If SciPy is not installed.
    TracedValueError
        If the control flow of ``f`` depends on the values of an array. Pass ``sparsity``.
    ConfigurationError
        If the pattern is not sparse.
    DtypeError
        If an argument or an output is complex or an integer.
    ShapeError
        If the shape of ``sparsity`` is wrong.

    Warns
    -----
    RuntimeWarning
        If the dependence of an operation is unknown. Each of its results then counts as depending on all of its
        operands.

    See Also
    --------
    agrad.sparse_hessian : Second derivatives.
    agrad.jacobian : The dense matrix.

    Notes
    -----
    The pattern does not depend on the values of floating-point arguments. It is found again for other integer
    arguments, for other shapes, and if a value that ``f`` reads from outside has changed. ``agrad.jit`` finds it once.
    ``f`` is called more than once and must not write into its arguments.
    A. Gebremedhin, F. Manne and A. Pothen, What color is your Jacobian?, SIAM Review 47 (2005).

    Examples
    --------
    >>> def residual(x):
    ...     return x[1:] ** 2 - x[:-1]
    >>> matrix = agrad.sparse_jacobian(residual)(np.asarray([1.0, 2.0, 3.0, 4.0]))
    >>> matrix.nnz, type(matrix).__name__
    (6, 'csr_array')
    >>> matrix.toarray()
    array([[-1.,  4.,  0.,  0.],
           [ 0., -1.,  6.,  0.],
           [ 0.,  0., -1.,  8.]])
    """
    check_function("sparse_jacobian", f, argnums)
    check_chunk_size(chunk_size, "sparse_jacobian", "rows or columns")
    return _sparse(f, argnums, has_aux, chunk_size, sparsity, "sparse Jacobian", False)


def sparse_hessian(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, sparsity: Any = None, chunk_size: int | None = None
) -> Function:
    """Return the function that computes the Hessian of ``f`` as a sparse matrix.

    It is the sparse Jacobian of the gradient. Its groups use the symmetry: one product suffices for an element and its
    mirror image.

    Parameters
    ----------
    f : callable
        Function that returns a real array of shape (), or a pair (value, aux) with ``has_aux``.
    argnums : int, str, or a sequence of these
        Positions or names of the differentiated arguments.
    has_aux : bool
        True if ``f`` returns a pair (value, aux).
    sparsity : sparse matrix or array, optional
        Pattern of the whole Hessian, as for ``agrad.sparse_jacobian``.
    chunk_size : int, optional
        Maximum number of groups at once. By default, it bounds the memory.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns a pytree like the arguments of pytrees like the arguments, with
        the same types of matrices as ``agrad.sparse_jacobian``.

    Raises
    ------
    MissingExtraError
        If SciPy is not installed.
    TracedValueError
        If the control flow of ``f`` depends on the values of an array. Pass ``sparsity``.

    See Also
    --------
    agrad.sparse_jacobian : First derivatives, and details on patterns.
    agrad.hvp : The Hessian times a direction.

    Examples
    --------
    >>> def energy(x):
    ...     return agrad.sum(x[0] * x[1:] ** 2)
    >>> agrad.sparse_hessian(energy)(np.asarray([1.0, 2.0, 3.0])).toarray()
    array([[0., 4., 6.],
           [4., 2., 0.],
           [6., 0., 2.]])
    """
    check_function("sparse_hessian", f, argnums)
    check_chunk_size(chunk_size, "sparse_hessian", "columns")
    slope = grad(f, argnums=argnums, has_aux=has_aux)
    return _sparse(slope, argnums, has_aux, chunk_size, sparsity, "sparse Hessian", True)
