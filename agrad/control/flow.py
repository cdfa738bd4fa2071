"""``scan``, ``fori_loop``, ``while_loop``, ``cond`` and ``switch``, as in JAX.

Outside of ``jit`` they are Python loops and branches, whose steps are recorded as they run. Every mode and order of
derivative works, also reverse mode through ``while_loop``. Inside ``jit``, and if ``vmap`` maps a condition, the
functions are traced once, and each call is one operation with sub-programs (see ``staged``). Results share no memory
with operands (see ``results``).
"""

import math
from collections.abc import Callable, Sequence
from operator import index as as_index
from typing import Any

from agrad.backends import backend_of, selected
from agrad.control.bodies import StatefulBody, example
from agrad.control.results import copy_if_aliased
from agrad.control.staged import check_shape, staged_branches, staged_scan, staged_while
from agrad.control.steps import computed
from agrad.dtypes import as_dtype, dtype_name, is_floating
from agrad.engine.calls import array_of_number, lift_all
from agrad.engine.namespaces import namespace_of
from agrad.engine.scalars import NUMBERS
from agrad.engine.tape import mode, no_grad
from agrad.engine.tensor import BatchedTensor, Tensor, raw_of, strip_constant_levels
from agrad.errors import ConfigurationError, OperandError, ShapeError, check_functions, described
from agrad.transforms.arguments import is_array
from agrad.transforms.checkpoint import checkpoint as checkpointed
from agrad.transforms.trees import flatten, flatten_all, paths, tree_map, unflatten

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]

Function = Callable[..., Any]


def _kind(array: Any) -> str:
    return f"{dtype_name(array.dtype)}{tuple(array.shape)}"


def _check_carry(before: Any, after: Any, what: str) -> None:
    """Raise ``ShapeError`` if a step changed the structure, a shape or a dtype."""
    (old, old_spec), (new, new_spec) = flatten_all(before), flatten_all(after)
    if old_spec != new_spec:
        raise ShapeError(f"{what} must return a carry with the structure {old_spec}, got {new_spec}")
    for i, (a, b) in enumerate(zip(old, new, strict=True)):
        if is_array(a) and not (is_array(b) and _kind(a) == _kind(b)):
            if isinstance(b, NUMBERS) and tuple(a.shape) == () and mode().trace is not None:
                continue  # an array only in a trace
            place = paths(before, none_is_leaf=True)[i]
            if not is_array(b):
                raise ShapeError(f"{what} must return an array as the carry{place}, got {described(b)}")
            raise ShapeError(
                f"{what} must not change the shape and dtype of the carry{place}: it was {_kind(a)}, got {_kind(b)}"
            )


def _length(xs: Any, leaves: Sequence[Any], length: int | None) -> int:
    """Return the number of steps of a scan over ``xs``, of one length."""
    for leaf, place in zip(leaves, paths(xs), strict=True):
        if not is_array(leaf):
            raise OperandError(f"scan: xs{place} must be an array, got {described(leaf)}")
        if not leaf.shape:
            raise ShapeError(f"scan: xs{place} must have an axis to scan along, got shape ()")
    lengths = {int(leaf.shape[0]) for leaf in leaves} | (set() if length is None else {as_index(length)})
    if not lengths:
        raise ConfigurationError("scan: length must be an integer if xs has no arrays, got None. Pass the steps.")
    if len(lengths) > 1:
        raise ShapeError(f"scan: xs and length must have one length, got {', '.join(map(str, sorted(lengths)))}")
    count = lengths.pop()
    if count < 0:
        raise ConfigurationError(f"scan: length must not be negative, got {count}")
    return count


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Loop over the first axis of ``xs`` with ``carry, y = f(carry, x)``.

    Parameters
    ----------
    f : callable
        Function of a carry and the slices of ``xs`` at one position, which returns ``(carry, y)``.
    init : pytree
        First carry. Its structure, shapes and dtypes must not change.
    xs : pytree of arrays, optional
        Arrays with first axes of one length. Without it, ``f`` receives None.
    length : int, optional
        Number of steps, required without ``xs``.
    reverse : bool, default False
        True to loop from the last position to the first. Each y is stacked at the position of its x.
    checkpoint : bool or int, default False
        Number of steps of a checkpoint; True for the square root of the length. Only the carries between checkpoints
        are stored, and the backward pass recomputes the steps.

    Returns
    -------
    tuple
        The last carry, and a pytree of the y's stacked along a new first axis.

    Raises
    ------
    ShapeError
        If lengths differ, the carry changes, or the y's cannot be stacked.

    See Also
    --------
    agrad.fori_loop : Loop without inputs and outputs at each step.
    agrad.vmap : Batch whose elements do not depend on each other.
    agrad.checkpoint : Checkpoint of one function.

    Examples
    --------
    >>> def step(balance, payment):
    ...     balance = 1.1 * balance + payment
    ...     return balance, balance
    >>> last, balances = agrad.scan(step, np.asarray(100.0), np.asarray([10.0, 10.0, 10.0]))
    >>> balances.round(4)
    array([120. , 142. , 166.2])
    >>> agrad.grad(lambda p: agrad.scan(step, np.asarray(100.0), p)[0])(np.asarray([10.0, 10.0, 10.0])).round(4)
    array([1.21, 1.1 , 1.  ])
    """
    check_functions("scan", f=f)
    leaves, spec = flatten(xs)
    count = _length(xs, leaves, length)

    def step(carry: Any, slices: Sequence[Any]) -> tuple[Any, Any]:
        out = f(carry, unflatten(spec, slices))
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"scan: f must return a pair (carry, y), got {described(out)}")
        _check_carry(carry, out[0], "scan: f")
        return out

    if not count:
        return copy_if_aliased(init, init), _no_steps(step, init, leaves)

    if mode().trace is not None:
        try:
            return staged_scan(step, init, leaves, count, reverse, _piece(checkpoint, count))
        except StatefulBody:  # for example a random generator: each step is traced separately
            pass
    order = range(count - 1, -1, -1) if reverse else range(count)
    carry, ys = _steps(step, init, leaves, order, _piece(checkpoint, count))
    stacked = _stacked(ys[::-1] if reverse else ys)
    return copy_if_aliased((carry, stacked), (init, leaves))


def _steps(step: Function, carry: Any, leaves: Sequence[Any], order: range, size: int) -> tuple[Any, list[Any]]:
    """Return the last carry and the y's, with a checkpoint of each ``size`` steps."""

    def piece(carry: Any, parts: Sequence[Any], places: Sequence[int]) -> tuple[Any, list[Any]]:
        ys = []
        for i in places:
            carry, y = step(carry, [part[(i, ...)] for part in parts])
            ys.append(y)
        return carry, ys

    if not size:
        return piece(carry, leaves, order)
    ys: list[Any] = []
    run = checkpointed(piece)
    for start in range(0, len(order), size):
        places = order[start : start + size]
        first = min(places)
        parts = [leaf[(slice(first, max(places) + 1), ...)] for leaf in leaves]
        carry, some = run(carry, parts, [i - first for i in places])
        ys += some
    return carry, ys


def _piece(checkpoint: bool | int, count: int) -> int:
    """Return the number of steps of one checkpoint, 0 for none."""
    if checkpoint is True:
        return max(1, math.isqrt(count))
    if checkpoint is False:
        return 0
    if type(checkpoint) is not int or checkpoint < 1:
        raise ConfigurationError(f"scan: checkpoint must be a Boolean or a positive integer, got {checkpoint!r}")
    return checkpoint


def _no_steps(step: Function, init: Any, leaves: Sequence[Any]) -> Any:
    """Return the stacked results of zero steps. Their shapes are found with a step on zeros."""
    with no_grad():
        zeros = [namespace_of((leaf,)).sum(leaf, axis=0, dtype=leaf.dtype) for leaf in leaves]
        _, y = step(init, zeros)
        return tree_map(lambda leaf: leaf[(slice(0, 0), ...)], _stacked([y]))


def _stacked(ys: Sequence[Any]) -> Any:
    first, spec = flatten(ys[0])
    columns: list[list[Any]] = [[] for _ in first]
    for i, y in enumerate(ys):  # no list for each step, which the garbage collector would visit
        leaves, other = flatten(y)
        if other != spec:
            raise ShapeError(f"scan: f must return a y with the structure {spec}, got {other} at step {i}")
        for column, leaf in zip(columns, leaves, strict=True):
            column.append(leaf)
    stacked = []
    for place, column in zip(paths(ys[0]), columns, strict=True):
        given = _arrays(column)
        for part in given:
            if not is_array(part):
                raise OperandError(f"scan: y{place} must be an array, got {described(part)}. Use agrad.asarray.")
        shapes = dict.fromkeys(str(tuple(part.shape)) for part in given)
        if len(shapes) > 1:
            raise ShapeError(f"scan: y{place} must have one shape to be stacked, got {', '.join(shapes)}")
        rows_of = lift_all(given)
        stacked.append(namespace_of(rows_of).stack(rows_of))
    return unflatten(spec, stacked)


def _arrays(parts: Sequence[Any]) -> Sequence[Any]:
    """Return results of steps as arrays. Numbers become arrays like the results of other steps."""
    like = next((part for part in parts if is_array(part)), None)
    if like is None:
        return [array_of_number(part) for part in parts]
    if tuple(like.shape) != ():
        return parts
    xp = namespace_of((like,))
    return [xp.full_like(like, part) if type(part) in (bool, int, float) else part for part in parts]


def _truth(value: Any, what: str) -> bool:
    if hasattr(value, "shape"):
        check_shape(value, what)
    return bool(value)


def _computed(condition: Any, carry: Any) -> tuple[Any, Any]:
    """Return a condition and a carry, computed together if the library of the condition is lazy."""
    raw = raw_of(condition)
    if mode().trace is not None or not hasattr(raw, "shape") or not backend_of(raw).lazy:
        return condition, carry
    leaves, spec = flatten_all((condition, carry))
    found: tuple[Any, Any] = unflatten(spec, computed(leaves))
    return found


def _is_hidden(value: Any) -> bool:
    """Return True for a traced value, and for one that ``vmap`` maps."""
    value = strip_constant_levels(value) if isinstance(value, Tensor) else value
    if not isinstance(value, Tensor):
        return False
    if mode().trace is not None:
        return True
    while isinstance(value, Tensor):
        if isinstance(value, BatchedTensor):
            return True
        value = value.data
    return False


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """Apply ``value = body_fun(i, value)`` for ``lower <= i < upper``.

    Parameters
    ----------
    lower, upper : int, or integer array of shape ()
        First ``i``, and the end. If ``jit`` traces one of them, the loop is a ``while_loop``. Otherwise it has
        derivatives in every mode.
    body_fun : callable
        Function of ``i`` and the value, which returns the next value. Inside ``jit``, ``i`` is an integer array of
        shape ().
    init_val : pytree
        First value. Its structure, shapes and dtypes must not change.

    Returns
    -------
    pytree
        The last value.

    Raises
    ------
    ShapeError
        If the structure, a shape or a dtype changes.

    See Also
    --------
    agrad.scan : Loop with inputs and outputs at each step.
    agrad.while_loop : Loop until a condition is false.

    Examples
    --------
    >>> def power(x):
    ...     return agrad.fori_loop(0, 3, lambda i, value: value * x, np.asarray(1.0))
    >>> power(np.asarray(2.0)), agrad.grad(power)(2.0)
    (np.float64(8.0), np.float64(12.0))
    """
    check_functions("fori_loop", body_fun=body_fun)
    if _is_hidden(lower) or _is_hidden(upper):
        return while_loop(lambda v: v[0] < upper, lambda v: (v[0] + 1, body_fun(*v)), (lower + 0 * upper, init_val))[1]
    first, end = _integer(lower, "fori_loop: lower"), _integer(upper, "fori_loop: upper")

    def step(value: Any, slices: Sequence[Any]) -> tuple[Any, None]:
        after = body_fun(slices[0], value)
        if is_array(slices[0]):
            after = _of_dtypes(value, after)
        _check_carry(value, after, "fori_loop: body_fun")
        return after, None

    if mode().trace is not None and end > first:
        like = next((leaf for leaf in flatten(init_val)[0] if is_array(leaf)), None)
        try:
            return staged_scan(step, init_val, [_places(first, end, like)], end - first, False, 0)[0]
        except StatefulBody:
            pass
    value = init_val
    for i in range(first, end):
        value, _ = step(value, [i])
    return copy_if_aliased(value, init_val)


def _integer(value: Any, what: str) -> int:
    """Return an integer, or the one element of an array of integers."""
    if not hasattr(value, "shape"):
        try:
            return as_index(value)
        except TypeError:
            raise OperandError(f"{what} must be an integer, got {value!r}") from None
    return int(_checked_integer(value, what))


def _checked_integer(value: Any, what: str) -> Any:
    check_shape(value, what)
    if "integer" not in as_dtype(value.dtype).kind:
        raise OperandError(f"{what} must be an integer, got {dtype_name(value.dtype)}")
    return value


def _of_dtypes(before: Any, after: Any) -> Any:
    """Return floating-point results in the carried dtypes.

    Some libraries promote float32 to float64 with an integer array, as which a trace passes ``i``.
    """
    (old, spec), (new, new_spec) = flatten_all(before), flatten_all(after)
    if spec != new_spec:
        return after
    fitted = [
        namespace_of((b,)).astype(b, example(a).dtype)
        if is_array(a) and is_array(b) and is_floating(a.dtype) and is_floating(b.dtype) and a.dtype != b.dtype
        else b
        for a, b in zip(old, new, strict=True)
    ]
    return unflatten(new_spec, fitted)


def _places(first: int, end: int, like: Any) -> Any:
    """Return the integers from ``first`` to ``end`` - 1 as an array like another."""
    while isinstance(like, Tensor):
        like = like.data
    if like is None:
        here = selected()
        return here.backend.xp.arange(first, end, device=here.device)
    backend = backend_of(like)
    return backend.xp.arange(first, end, device=backend.device_of(like))


def cond(pred: Any, true_fn: Function, false_fn: Function, *operands: Any) -> Any:
    """Call ``true_fn`` on the operands if ``pred`` is true, otherwise ``false_fn``.

    Only the selected function runs. If ``vmap`` maps ``pred``, both run, and ``where`` selects the results.

    Parameters
    ----------
    pred : bool, number, or array of shape ()
        Condition.
    true_fn, false_fn : callable
        Functions of the operands. Inside ``jit`` both are traced, and must return pytrees with the same structure,
        shapes and dtypes.
    *operands
        Arguments of both functions.

    Returns
    -------
    object
        The result of the function that ran.

    Raises
    ------
    ShapeError
        If the shape of ``pred`` is not (), or if the results differ inside ``jit``.

    See Also
    --------
    agrad.switch : Select one of several functions.
    agrad.where : Select element by element, after both sides are computed.

    Examples
    --------
    >>> def f(x):
    ...     return agrad.cond(x > 0, lambda x: x**2, lambda x: -x, x)
    >>> f(3.0), agrad.grad(f)(3.0), agrad.grad(f)(-3.0)
    (9.0, np.float64(6.0), np.float64(-1.0))
    """
    check_functions("cond", true_fn=true_fn, false_fn=false_fn)
    if _is_hidden(pred):
        return staged_branches("cond", _chosen(pred, "cond: pred", True), (false_fn, true_fn), operands)
    return copy_if_aliased((true_fn if _truth(pred, "cond: pred") else false_fn)(*operands), operands)


def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """Call the function at ``index`` on the operands.

    Only the selected function runs. If ``vmap`` maps ``index``, all run, and ``where`` selects the results.

    Parameters
    ----------
    index : int, or integer array of shape ()
        Index of the function, clipped to the range of the branches.
    branches : sequence of callable
        Functions of the operands, as for :func:`agrad.cond`.
    *operands
        Arguments of all functions.

    Returns
    -------
    object
        The result of the function that ran.

    Raises
    ------
    ShapeError
        If the shape of ``index`` is not (), or if the results differ inside ``jit``.

    See Also
    --------
    agrad.cond : Select one of two functions by a Boolean.

    Examples
    --------
    >>> branches = [agrad.sin, agrad.exp, lambda x: 3 * x]
    >>> [float(agrad.grad(lambda x: agrad.switch(i, branches, x))(0.0)) for i in range(3)]
    [1.0, 1.0, 3.0]
    """
    if not len(branches):
        raise OperandError("switch: branches must have at least one function, got none")
    if _is_hidden(index):
        return staged_branches("switch", _chosen(index, "switch: index", False), branches, operands)
    place = _integer(index, "switch: index")
    return copy_if_aliased(branches[min(max(place, 0), len(branches) - 1)](*operands), operands)


def _chosen(value: Any, what: str, truth: bool) -> Any:
    """Return the index of a branch as an integer array."""
    if not truth:
        return _checked_integer(value, what)
    check_shape(value, what)
    chosen = value if as_dtype(value.dtype).kind == "bool" else value != 0
    return namespace_of((value,)).astype(chosen, backend_of(example(value)).xp.int64)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Apply ``value = body_fun(value)`` while ``cond_fun(value)`` is true.

    The memory of reverse mode grows with the number of steps. Reverse mode is not available inside ``jit``, and if
    ``vmap`` maps the condition.

    Parameters
    ----------
    cond_fun : callable
        Function of the value, which returns a Boolean or an array of shape ().
    body_fun : callable
        Function of the value, which returns the next value.
    init_val : pytree
        First value. Its structure, shapes and dtypes must not change.

    Returns
    -------
    pytree
        The last value. Under ``vmap`` each batch element stops by its own condition.

    Raises
    ------
    ShapeError
        If the structure, a shape or a dtype changes.
    NotDifferentiableError
        If you differentiate in reverse mode inside ``jit``.

    See Also
    --------
    agrad.fori_loop : Loop with a known number of steps.
    agrad.fixed_point : Iteration that is differentiated through the solution.

    Examples
    --------
    >>> def halved(x):
    ...     return agrad.while_loop(lambda value: value > 1.0, lambda value: value / 2, x)
    >>> halved(np.asarray(10.0)), agrad.grad(halved)(10.0)
    (np.float64(0.625), np.float64(0.0625))
    """
    check_functions("while_loop", cond_fun=cond_fun, body_fun=body_fun)

    def step(value: Any) -> Any:
        after = body_fun(value)
        _check_carry(value, after, "while_loop: body_fun")
        return after

    value = init_val
    while True:
        goes_on = cond_fun(value)
        if _is_hidden(goes_on):
            return staged_while(cond_fun, step, value)
        goes_on, value = _computed(goes_on, value)
        if not _truth(goes_on, "while_loop: the result of cond_fun"):
            return copy_if_aliased(value, init_val)
        value = step(value)
