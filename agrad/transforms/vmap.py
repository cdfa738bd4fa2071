"""``vmap``: vectorize a function over a batch."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeVar, overload

import optree

from agrad.backends import backend_of_type, selected
from agrad.dtypes import dtype_name
from agrad.engine.batching import Batch
from agrad.engine.calls import array_of_number
from agrad.engine.explain import called
from agrad.engine.layouts import copy_if_interleaved
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.namespaces import namespace_of
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import change_mode, mode
from agrad.engine.tensor import Tensor, present, strip_constant_levels, wrap
from agrad.engine.views import like_given
from agrad.errors import ConfigurationError, OperandError, ShapeError, TracedValueError, described
from agrad.expect import one_of
from agrad.ops.map_draws import RANDOMNESS, Map
from agrad.shapes import normalize_axis
from agrad.transforms.arguments import (
    check_chunk_size,
    check_function,
    chunks,
    copy_tree_if_aliased,
    is_array,
    is_bare,
    outside,
    with_constants,
)
from agrad.transforms.trees import NAMESPACE, TreePath, flatten_all, unflatten

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
Same = TypeVar("Same", bound="Overloaded")
Axes = Any
"""An axis, None, or a pytree of these that is a prefix of the arguments or results."""


@overload
def vmap(
    f: Same,
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    *,
    randomness: Literal["error", "different", "same"] = "error",
) -> Same: ...
@overload
def vmap(
    f: Callable[P, R],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    *,
    randomness: Literal["error", "different", "same"] = "error",
) -> Callable[P, R]: ...
def vmap(
    f: Function,
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    *,
    randomness: Literal["error", "different", "same"] = "error",
) -> Function:
    """Vectorize a function over a batch.

    The returned function evaluates ``f`` on all batch elements with one call per operation. Inside ``f``, a mapped
    array has the shape of a single element and no concrete value, so Python cannot branch on it (use ``agrad.where``).
    You can nest ``vmap``, and differentiate inside and outside of it.

    Parameters
    ----------
    f : callable
        Function of a single batch element. Its arguments and results are pytrees of arrays and numbers.
    in_axes : int, None, or pytree of these, default 0
        Batch axis of the arguments: one value for all, or a tuple with an entry for each positional argument. An entry
        can be a pytree that is a prefix of the argument. None means that all elements share the argument. All elements
        share keyword arguments.
    out_axes : int, None, or pytree of these, default 0
        Batch axis of the results. None requires a result that is the same for all elements.
    axis_size : int, optional
        Number of batch elements, required if no argument is mapped.
    chunk_size : int, optional
        Maximum number of elements to process at once, which limits the memory. By default, all.
    randomness : {"error", "different", "same"}, default "error"
        How ``f`` draws random numbers from a generator, for example in dropout. "different" draws separate numbers for
        each element: the same as a loop over the elements with the keys that ``agrad.random.split`` returns. "same"
        draws once for all elements. "error" raises an error. Draws with an explicit key ignore this option.

    Returns
    -------
    callable
        Function with the signature of ``f``. Its mapped arguments and its results have an additional batch axis.

    Raises
    ------
    ShapeError
        At the call, if the batch axes have different sizes.
    ConfigurationError
        If ``chunk_size`` or ``randomness`` is invalid. At the call, if the axes do not match the arguments or the
        result, or ``f`` draws random numbers with ``randomness="error"``.
    TracedValueError
        At the call, if ``f`` needs the concrete value of a mapped array.

    See Also
    --------
    agrad.grad : ``vmap(grad(f))`` computes the gradient of each element.
    agrad.jacobian : Jacobians, computed by a map over unit vectors.
    agrad.scan : Loop whose iterations depend on the previous one.
    agrad.jit : Compile a function.

    Examples
    --------
    >>> def loss(params, x):
    ...     return agrad.tanh(x @ params["w"]) ** 2
    >>> params, x = {"w": np.asarray([1.0, -1.0])}, np.asarray([[0.5, 0.0], [0.5, 0.2]])
    >>> agrad.vmap(loss, in_axes=(None, 0))(params, x).round(4)
    array([0.2136, 0.0849])
    >>> agrad.vmap(agrad.grad(loss), in_axes=(None, 0))(params, x)["w"].round(4)
    array([[0.3634, 0.    ],
           [0.2666, 0.1066]])
    """
    check_function("vmap", f)
    if hasattr(in_axes, "shape"):
        raise ConfigurationError(
            f"vmap: in_axes must be an integer, None or a tuple of these, got {described(in_axes)}. Pass the arguments "
            "of f to the returned function: agrad.vmap(f)(x)."
        )
    check_chunk_size(chunk_size, "vmap", "batch elements")
    one_of("vmap", "randomness", randomness, RANDOMNESS)
    name = f"vmap of {getattr(f, '__name__', 'a function')}"

    @functools.wraps(f, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        inputs = _Members(args, in_axes, axis_size, name)
        keys: list[Any] = []
        results = []
        for some in chunks(inputs.size, chunk_size):
            level, given = inputs.part(some)
            with _inside(Map(level, randomness, some, inputs.size, keys)):
                results.append(_results(f, level, given, kwargs, out_axes, name))
        values = results[0].values if len(results) == 1 else _joined(results, name)
        out = [outside(value, inputs.tensors) for value in values]
        return copy_tree_if_aliased(unflatten(results[0].spec, out), args, kwargs)

    return mapped


def _inside(inner: Map) -> Any:
    # not written in the mapped function, which pickles with what it names
    return change_mode(maps=(*mode().maps, inner))


def _flatten(axes: Axes, tree: Any, what: str, name: str) -> tuple[list[int | None], list[Any], Any]:
    """Return the axis of each leaf of a pytree, the leaves, and the structure.

    None is a leaf.
    """
    leaves, spec = flatten_all(tree)
    if axes is None or type(axes) is int:
        return [axes] * len(leaves), leaves, spec
    try:
        spread: list[Any] = optree.broadcast_prefix(axes, tree, none_is_leaf=True, namespace=NAMESPACE)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{name}: {what} must be an int, None, or a pytree of these that is a prefix of the "
            f"{'arguments' if what == 'in_axes' else 'result'}, got {axes!r} ({error})"
        ) from None
    for axis in spread:
        if axis is not None and (isinstance(axis, bool) or not hasattr(axis, "__index__")):
            raise ConfigurationError(f"{name}: {what} must contain only ints and None, got {axis!r}")
    return spread, leaves, spec


class _Members:
    """The arguments of one call, with their mapped axes first."""

    def __init__(self, args: tuple[Any, ...], in_axes: Axes, axis_size: int | None, name: str) -> None:
        if isinstance(in_axes, (tuple, list)):
            if len(in_axes) != len(args):
                raise ConfigurationError(
                    f"{name}: in_axes must have an entry for each of the {len(args)} positional arguments, got "
                    f"{len(in_axes)}"
                )
            in_axes = tuple(in_axes)
        axes, self.leaves, self.spec = _flatten(in_axes, args, "in_axes", name)
        self.mapped = [axis is not None and leaf is not None for axis, leaf in zip(axes, self.leaves, strict=True)]
        self.tensors = not all(map(is_bare, self.leaves))
        self.size = -1 if axis_size is None else axis_size
        origin: TreePath | None = None
        for i, (leaf, axis) in enumerate(zip(self.leaves, axes, strict=True)):
            if axis is None or leaf is None:
                if isinstance(leaf, Tensor):
                    # a new Tensor: a write in f belongs to the batch elements and is not visible after the map
                    self.leaves[i] = like_given(wrap(leaf.data, leaf.level, leaf.node), leaf)
                elif backend_of_type(type(leaf)) is not None:
                    self.leaves[i] = like_given(wrap(leaf, GLOBAL_TAPE), leaf)  # operators then see Tensors only
                continue
            place = TreePath(args, i, "argument", none_is_leaf=True)
            axis = _axis_of(leaf, axis, place, name)
            size = leaf.shape[axis]
            if self.size not in (-1, size):
                raise ShapeError(
                    f"{name}: {place} must have {self.size} elements along its batch axis, as "
                    f"{'axis_size says' if origin is None else f'{origin} has'}, got {size} (axis {axis} of shape "
                    f"{tuple(leaf.shape)})"
                )
            if self.size == -1:
                self.size, origin = size, place
            moved = strip_constant_levels(namespace_of((leaf,)).moveaxis(leaf, axis, 0) if axis else leaf)
            self.leaves[i] = copy_if_interleaved(moved)
        if self.size < 0:
            raise ConfigurationError(
                f"{name}: axis_size must be the number of batch elements if no argument is mapped, got None"
            )

    def part(self, members: slice) -> tuple[Batch, tuple[Any, ...]]:
        """Return a nesting level for some batch elements, and the arguments in it."""
        level = Batch(members.stop - members.start)
        whole = level.members == self.size
        lifted = [
            level.wrap(leaf if whole else leaf[(members, ...)]) if is_mapped else leaf
            for leaf, is_mapped in zip(self.leaves, self.mapped, strict=True)
        ]
        return level, unflatten(self.spec, lifted)


def _axis_of(leaf: Any, axis: int, place: TreePath, name: str) -> int:
    if not is_array(leaf):
        raise OperandError(
            f"{name}: {place} must be an array to be mapped, got {described(leaf)}. Set its in_axes to None to share "
            "it."
        )
    if not leaf.shape:
        raise ShapeError(
            f"{name}: {place} must have an axis to be mapped, got shape (). Set its in_axes to None to share it."
        )
    try:
        return normalize_axis(axis, len(leaf.shape))
    except IndexError:
        raise ShapeError(
            f"{name}: in_axes of {place} must be an axis of its shape {tuple(leaf.shape)}, got {axis}"
        ) from None


class _Results(NamedTuple):
    """The results for some batch elements, with the batch along ``out_axes``."""

    values: list[Any]
    axes: list[int | None]
    spec: Any


def _results(
    f: Function, level: Batch, args: tuple[Any, ...], kwargs: dict[str, Any], out_axes: Axes, name: str
) -> _Results:
    """Return the results of ``f`` for the batch elements of a nesting level.

    Raises
    ------
    TracedValueError
        If ``f`` wrote a mapped value to a Tensor from outside. The earlier value is restored.
    """
    try:
        found = _computed(f, level, args, kwargs, out_axes, name)
    except BaseException:
        level.undo_writes()
        raise
    finally:
        level.end()
    if written := level.undo_writes(lambda: flatten_all(args)[0]):
        raise TracedValueError(
            f"{name}: the function must not store a mapped value in a Tensor from outside of vmap, got one of dtype "
            f"{written[0].dtype} and shape {written[0].shape}. Return the value, or write to an argument or to a "
            "Tensor created inside the function."
        )
    return found


def _computed(
    f: Function, level: Batch, args: tuple[Any, ...], kwargs: dict[str, Any], out_axes: Axes, name: str
) -> _Results:
    out = with_constants(called, f, args, kwargs)
    if isinstance(out_axes, list) and isinstance(out, tuple):
        out_axes = tuple(out_axes)
    axes, leaves, spec = _flatten(out_axes, out, "out_axes", name)
    values = []
    for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        place = TreePath(out, i, "output", whole="the result", none_is_leaf=True)
        values.append(_moved_out(level, leaf, axis, place, name))
    return _Results(values, axes, spec)


def _moved_out(level: Batch, leaf: Any, axis: int | None, place: TreePath, name: str) -> Any:
    """Return a result without the nesting level, with the batch along an axis."""
    if leaf is None:
        return None
    leaf = present(leaf)
    if isinstance(leaf, Tensor) and leaf.level is level:
        if axis is None:
            raise ConfigurationError(
                f"{name}: out_axes must be an axis for {place}, got None: its value differs between batch elements"
            )
        value = leaf.data
    elif axis is None:
        return leaf
    else:
        value = _repeated(leaf, level.members, place, name)
    try:
        axis = normalize_axis(axis, len(value.shape))
    except IndexError:
        raise ConfigurationError(
            f"{name}: out_axes must be one of the {len(value.shape)} axes of {place} with its batch axis, got {axis}"
        ) from None
    return namespace_of((value,)).moveaxis(value, 0, axis) if axis else value


def _repeated(leaf: Any, members: int, place: TreePath, name: str) -> Any:
    """Return a result that all batch elements share, repeated for each of them."""
    leaf = array_of_number(leaf)
    if isinstance(leaf, TracedNumber):
        leaf = leaf.read()
    if isinstance(leaf, (bool, int, float, complex)):
        leaf = selected().backend.xp.asarray(leaf)
    elif not is_array(leaf):
        raise OperandError(f"{name}: {place} must be an array, got {described(leaf)}. Set its out_axes to None.")
    return namespace_of((leaf,)).broadcast_to(leaf, (members, *leaf.shape))


def _joined(results: Sequence[_Results], name: str) -> list[Any]:
    """Return the values of all chunks, joined along the batch axis."""
    joined = []
    for axis, *parts in zip(results[0].axes, *(some.values for some in results), strict=True):
        first = parts[0]
        if axis is None or first is None:
            joined.append(first)
            continue
        axis = normalize_axis(axis, len(first.shape))
        if len({(dtype_name(part.dtype), part.shape[:axis], part.shape[axis + 1 :]) for part in parts}) > 1:
            raise ShapeError(f"{name}: the results of all chunks must have the same shape and dtype")
        joined.append(namespace_of(parts).concat(parts, axis=axis))
    return joined
