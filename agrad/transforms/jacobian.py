"""``jacrev``, ``jacfwd``, ``jacobian`` and ``hessian``: derivative matrices.

One pass carries the unit vectors as a batch of cotangents or tangents; ``chunk_size`` bounds the size of the batch.
For pytrees, the result is a pytree like the outputs whose leaves are pytrees like the inputs.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, overload

from agrad.backends import selected
from agrad.dtypes import is_complex
from agrad.engine.backward import backward_pass
from agrad.engine.gradients import starting_cotangents
from agrad.engine.levels import Forward, Level
from agrad.engine.namespaces import namespace_of
from agrad.errors import DetachError, NotDifferentiableError, RuleError, described
from agrad.transforms.arguments import (
    ArgNums,
    Chosen,
    Inputs,
    aux_of,
    check_chunk_size,
    check_dtype,
    check_function,
    chunks,
    copy_tree_if_aliased,
    leave_tree,
    split_level,
)
from agrad.transforms.grad import P, Recording
from agrad.transforms.linear import pushforward_of
from agrad.transforms.trees import TreePath, flatten, unflatten
from agrad.transforms.units import Units, count_elements, joined, parts_of, shaped

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]

Function = Callable[..., Any]


class Outputs:
    """Result of a function in a transform: structure, values, records, and aux."""

    def __init__(self, out: Any, aux: Any, level: Level, inputs: Inputs) -> None:
        what = self.what = inputs.what
        self.aux = leave_tree(aux, level, inputs)
        leaves, self.spec = flatten(out)
        self.places = [TreePath(out, i, "output", whole="its output") for i in range(len(leaves))]
        pairs = [
            split_level(_as_array(leaf, place, what), level) for leaf, place in zip(leaves, self.places, strict=True)
        ]
        self.values, self.records = [y for y, _ in pairs], [record for _, record in pairs]
        for y, place in zip(self.values, self.places, strict=True):
            check_dtype(y, place, what)

    def check(self, holomorphic: bool) -> None:
        """Raise ``DtypeError`` if an output should be real and is complex, or the reverse."""
        for y, place in zip(self.values, self.places, strict=True):
            check_dtype(y, place, self.what, holomorphic)


def _as_array(leaf: Any, place: TreePath, what: str) -> Any:
    if hasattr(leaf, "shape"):
        return leaf
    if type(leaf) in (float, complex):
        return selected().backend.xp.asarray(leaf)
    raise NotDifferentiableError(f"{what}: {place} must be an array, got {described(leaf)}. Return it as aux.")


Push = Callable[[list[Any]], tuple[Outputs, list[Any]]]
"""A function from the tangents of the input leaves, None for zero, to the outputs and their tangents."""
UnitsOf = Callable[[slice], Units]
"""A function that returns the vectors at some positions as a batch: cotangents, or tangents."""


def pulled_rows(
    run: Recording, outs: Outputs, total: int, chunk_size: int | None, units_of: UnitsOf = Units
) -> list[Any]:
    """Return the products of ``total`` cotangents and the Jacobian, by input leaf."""
    rows = []
    for places in chunks(total, chunk_size):
        units = units_of(places)
        found = backward_pass(starting_cotangents(outs.records, units.of(outs.values)), retain=places.stop < total)
        rows.append([units.rows(found.get(root), x) for root, x in zip(run.roots, run.inputs.values, strict=True)])
    return [joined(part) for part in zip(*rows, strict=True)]


def pushed_columns(
    inputs: Inputs, push: Push, total: int, chunk_size: int | None, units_of: UnitsOf = Units
) -> tuple[Outputs, list[Any]]:
    """Return the outputs, and the products of the Jacobian and ``total`` tangents."""
    columns = []
    for places in chunks(total, chunk_size):
        units = units_of(places)  # their transform is outside of one that ``push`` opens to carry them
        outs, tangents = push(units.of(inputs.values))
        columns.append([units.rows(t, y) for t, y in zip(tangents, outs.values, strict=True)])
    return outs, [joined(part) for part in zip(*columns, strict=True)]


def forward_call(chosen: Chosen, has_aux: bool) -> Push:
    """Return a function that calls ``f`` in forward mode."""

    def push(tangents: list[Any]) -> tuple[Outputs, list[Any]]:
        level = Forward()
        try:
            out = chosen.call(chosen.lift(level, tangents))
        finally:
            level.end()
        out, aux = aux_of(out, chosen.what) if has_aux else (out, None)
        outs = Outputs(out, aux, level, chosen)
        return outs, outs.records

    return push


def _in_reverse(run: Recording, outs: Outputs, chunk_size: int | None) -> list[list[Any]]:
    """Return the Jacobian by output and input leaf, in reverse mode."""
    inputs, rows = run.inputs, pulled_rows(run, outs, count_elements(outs.values), chunk_size)
    by_input = [parts_of(part, outs.values) for part in rows]
    return [
        [shaped(part, (*y.shape, *x.shape)) for part, x in zip(parts, inputs.values, strict=True)]
        for y, parts in zip(outs.values, zip(*by_input, strict=True), strict=True)
    ]


def _forward(inputs: Inputs, push: Push, chunk_size: int | None) -> tuple[Outputs, list[list[Any]]]:
    """Return the outputs, and the Jacobian by output and input leaf."""
    outs, columns = pushed_columns(inputs, push, count_elements(inputs.values), chunk_size)
    return outs, [_by_input(part, y, inputs) for part, y in zip(columns, outs.values, strict=True)]


def _by_input(columns: Any, y: Any, inputs: Inputs) -> list[Any]:
    """Return the tangents of an output by input, with the axes of the output first."""
    ndim, out = len(y.shape), []
    for value, block in zip(inputs.values, parts_of(columns, inputs.values), strict=True):
        if ndim:
            block = namespace_of((block,)).permute_dims(block, (*range(1, ndim + 1), 0))
        out.append(shaped(block, (*y.shape, *value.shape)))
    return out


def _forward_mode(
    chosen: Chosen, chunk_size: int | None, has_aux: bool, holomorphic: bool
) -> tuple[Outputs, list[list[Any]]]:
    """Return the outputs, and the Jacobian by output and input leaf.

    The function is called once for each chunk, in forward mode.
    """
    if not holomorphic:
        chosen.check(False)

    outs, blocks = _forward(chosen, forward_call(chosen, has_aux), chunk_size)
    if holomorphic:
        outs.check(holomorphic)
    return outs, blocks


def _on_tape(
    chosen: Chosen, chunk_size: int | None, has_aux: bool, holomorphic: bool, any_way: bool
) -> tuple[Outputs, list[list[Any]]]:
    """Return the same as ``_forward_mode``, with one call of the function on a tape.

    The mode is reverse, or with ``any_way`` the cheaper mode.
    """
    run = Recording(chosen, chosen.call, has_aux)
    outs = Outputs(run.out, run.aux, run.level, chosen)
    if any_way and _forward_is_less(chosen, outs, holomorphic):
        if holomorphic:
            outs.check(holomorphic)
        # a pullback that does not support Tensors, for example one that calls NumPy, cannot be recorded
        with contextlib.suppress(DetachError, RuleError):
            push = pushforward_of(outs.values, outs.records, run.roots)
            return _forward(chosen, lambda tangents: (outs, push(tangents)), chunk_size)
    outs.check(holomorphic)
    return outs, _in_reverse(run, outs, chunk_size)


def _forward_is_less(inputs: Inputs, outs: Outputs, holomorphic: bool) -> bool:
    if not holomorphic:
        if any(is_complex(value.dtype) for value in inputs.values):
            return False
        if any(is_complex(y.dtype) for y in outs.values):
            return True
    return count_elements(inputs.values) < count_elements(outs.values)


def _jacobian(
    f: Function, argnums: ArgNums, has_aux: bool, holomorphic: bool, chunk_size: int | None, name: str, mode: str = ""
) -> Function:
    check_function(name.lower(), f, argnums)
    check_chunk_size(chunk_size, name.lower(), "rows or columns")

    @functools.wraps(f, updated=())
    def matrix(*args: Any, **kwargs: Any) -> Any:
        what = f"the {name} of {getattr(f, '__name__', 'a function')}"
        chosen = Chosen(f, args, kwargs, argnums, what, holomorphic)
        if (mode or name) == "jacfwd":
            outs, blocks = _forward_mode(chosen, chunk_size, has_aux, holomorphic)
        else:
            outs, blocks = _on_tape(chosen, chunk_size, has_aux, holomorphic, name == "Jacobian")
        leaves = [chosen.result(unflatten(chosen.spec, [chosen.leave(block) for block in row])) for row in blocks]
        whole = unflatten(outs.spec, leaves)
        return copy_tree_if_aliased((whole, outs.aux) if has_aux else whole, args, kwargs)

    return matrix


class DerivativeMatrix(Protocol):
    """The type of ``jacrev``, ``jacfwd``, ``jacobian`` and ``hessian``."""

    @overload
    def __call__(self, f: "Overloaded", *how: Any, **options: Any) -> Function: ...
    @overload
    def __call__(
        self,
        f: Callable[P, Any],
        argnums: ArgNums = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        chunk_size: int | None = None,
    ) -> Callable[P, Any]: ...


def _typed(f: Any) -> DerivativeMatrix:
    matrix: DerivativeMatrix = f
    return matrix


@_typed
def jacrev(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None
) -> Function:
    """Return a function that computes the Jacobian of ``f`` in reverse mode.

    It computes one vector-Jacobian product for each element of the outputs, as a batch. Use it if the outputs have
    fewer elements than the inputs.

    Parameters
    ----------
    f : callable
        Function to differentiate, as for :func:`agrad.jacobian`.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments.
    chunk_size : int, optional
        Maximum number of rows to compute at once, which limits the memory. By default, all.

    Returns
    -------
    callable
        Function with the arguments of ``f`` and the results of :func:`agrad.jacobian`.

    Raises
    ------
    DtypeError
        At the call, if an argument or output is not a floating-point array, or an output is complex without
        ``holomorphic``.

    See Also
    --------
    agrad.jacobian : The cheaper mode.
    agrad.jacfwd : Forward mode, for fewer inputs than outputs.
    agrad.vjp : Product of a cotangent and the Jacobian.

    Examples
    --------
    >>> agrad.jacrev(lambda x: agrad.stack([x[0] * x[1], agrad.sin(x[2])]))(np.asarray([2.0, 3.0, 0.0]))
    array([[3., 2., 0.],
           [0., 0., 1.]])
    >>> agrad.jacrev(agrad.matmul, argnums=(0, 1))(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
    (array([3., 4.]), array([1., 2.]))
    """
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "jacrev")


@_typed
def jacfwd(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None
) -> Function:
    """Return a function that computes the Jacobian of ``f`` in forward mode.

    It computes one Jacobian-vector product for each element of the inputs, as a batch. Use it if the inputs have fewer
    elements than the outputs. It calls ``f`` once for each chunk and needs no tape.

    Parameters
    ----------
    f : callable
        Function to differentiate, as for :func:`agrad.jacobian`.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments.
    chunk_size : int, optional
        Maximum number of columns to compute at once, which limits the memory. By default, all.

    Returns
    -------
    callable
        Function with the arguments of ``f`` and the results of :func:`agrad.jacobian`.

    Raises
    ------
    DtypeError
        At the call, if an argument or output is not a floating-point array, or an argument is complex without
        ``holomorphic``.

    See Also
    --------
    agrad.jacobian : The cheaper mode.
    agrad.jacrev : Reverse mode, for fewer outputs than inputs.
    agrad.jvp : Product of the Jacobian and a tangent.

    Examples
    --------
    >>> agrad.jacfwd(lambda x: agrad.stack([x[0] * x[1], x[0], x[1]]))(np.asarray([2.0, 3.0]))
    array([[3., 2.],
           [1., 0.],
           [0., 1.]])
    >>> agrad.jacfwd(agrad.matmul, argnums=(0, 1))(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
    (array([3., 4.]), array([1., 2.]))
    """
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "jacfwd")


@_typed
def jacobian(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None
) -> Function:
    """Return a function that computes the Jacobian of ``f``.

    It calls ``f`` once and uses the mode that costs less for the number of elements in its arguments and outputs. For
    real functions of complex arguments it uses reverse mode, and for complex functions of real arguments forward mode.
    Results are plain arrays for plain arrays, and Tensors for Tensors.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a pytree of floating-point arrays, or with ``has_aux`` a pair
        ``(value, aux)``. The arguments to differentiate with respect to are pytrees of floating-point arrays or
        Tensors. Python floats count as arrays of the selected backend.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``. ``aux`` is returned unchanged.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments with complex outputs.
    chunk_size : int, optional
        Maximum number of rows or columns to compute at once, which limits the memory. By default, all.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns a pytree with the structure of the outputs, whose leaves are
        pytrees with the structure of the arguments. Their leaves are arrays of shape ``(*output, *input)``. With
        ``has_aux``, it returns this pytree and ``aux``.

    Raises
    ------
    DtypeError
        At the call, if an argument or output is not a floating-point array, or both are complex without
        ``holomorphic``.

    See Also
    --------
    agrad.jacfwd, agrad.jacrev : Forward mode, reverse mode.
    agrad.hessian : Second derivatives.
    agrad.jvp, agrad.vjp : Products with the Jacobian.
    agrad.elementwise_grad : Diagonal of the Jacobian of an elementwise function.

    Examples
    --------
    >>> agrad.jacobian(lambda x: agrad.stack([x[0] * x[1], agrad.sin(x[2])]))(np.asarray([2.0, 3.0, 0.0]))
    array([[3., 2., 0.],
           [0., 0., 1.]])
    >>> params = {"a": np.asarray(2.0), "b": np.asarray([1.0, 4.0])}
    >>> blocks = agrad.jacobian(lambda p: {"y": p["a"] * p["b"]})(params)
    >>> blocks["y"]["a"], blocks["y"]["b"]
    (array([1., 4.]), array([[2., 0.],
           [0., 2.]]))
    """
    return _jacobian(f, argnums, has_aux, holomorphic, chunk_size, "Jacobian")


@_typed
def hessian(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None
) -> Function:
    """Return a function that computes the Hessian of ``f``.

    It is ``jacfwd(jacrev(f))``. If the arguments have many elements, use ``hvp``, which computes products with the
    Hessian without the matrix.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a real array, usually of shape (), or with ``has_aux`` a pair
        ``(value, aux)``.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``. ``aux`` is returned unchanged.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments with complex outputs.
    chunk_size : int, optional
        Maximum number of columns to compute at once, which limits the memory. By default, all.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns a pytree with the structure of the argument, whose leaves are
        pytrees with that structure. Their leaves are arrays of shape ``(*output, *input, *input)``.

    See Also
    --------
    agrad.hvp : Product of the Hessian and a vector.
    agrad.gnvp : Product of the Gauss-Newton matrix and a vector.
    agrad.jacobian : First derivatives.

    Examples
    --------
    >>> agrad.hessian(lambda x: x[0] ** 2 * x[1])(np.asarray([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    >>> blocks = agrad.hessian(lambda p: p["a"] ** 2 * p["b"])({"a": np.asarray(2.0), "b": np.asarray(3.0)})
    >>> blocks["a"]["a"], blocks["a"]["b"], blocks["b"]["b"]
    (array(6.), array(4.), array(0.))
    """
    gradient = _jacobian(f, argnums, has_aux, holomorphic, None, "Hessian", "jacrev")
    return _jacobian(gradient, argnums, has_aux, holomorphic, chunk_size, "Hessian", "jacfwd")
