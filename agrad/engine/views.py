"""Views: Tensors that share another's memory, and writes to Tensors that share it.

The implementation is functional: no array is overwritten. If the library returned a view, a write in its code would
change both arrays, and so both Tensors change. The write-back rules of the operations of the view compute the new base,
and every other view is recomputed from it. The usual derivative rules apply.

A library without views gets those that NumPy has of row-major arrays.
"""

import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import is_complex
from agrad.engine.joining import is_numpys
from agrad.engine.layouts import SCALARS, SHARING, copy_with_strides, with_values
from agrad.engine.namespaces import Memo
from agrad.engine.operation import check_among
from agrad.engine.tape import Node, enable_grad, is_recording, mode
from agrad.engine.tensor import BatchedTensor, RecordedTensor, Tensor, strip_constant_levels, wrap
from agrad.errors import LeafMutationError, OperandError, PrimitiveDefinitionError, ReadOnlyViewError
from agrad.registry import CALLS, names_of, namespace

Steps = tuple[tuple[Any, dict[str, Any]], ...]
"""The operations from a base to its view: primitives, each with its options."""


class Link(weakref.ref[Tensor]):
    """The link from a view to its base, which belongs to the view.

    It is a weak reference to the base, by which the base finds its views without a reference cycle.
    """

    __slots__ = ("base", "steps", "view")

    base: Tensor
    steps: Steps
    view: "weakref.ref[Tensor]"


class ValueLink(Link):
    """The link from a view to its base in a library without views.

    It is valid while both Tensors have the arrays that they had when the view was created, or after the last write.
    The base is no view itself.
    """

    __slots__ = ("arrays",)

    arrays: tuple[Any, Any]


def write_back_rule(primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a write-back rule as a function of the argument, value and options.

    It returns the argument of the primitive after a write to the result. The parameters of the rule ``function`` may be
    ``xp``, the argument, ``value``, and options after a star.
    """
    names, settings = names_of(function)
    what = f"the write-back rule of {primitive.name}"
    check_among(f"{what}: parameters", names, ("xp", *primitive.arrays, "value"), settings, primitive.settings)
    if len(primitive.arrays) != 1 or primitive.outputs is not None:
        raise PrimitiveDefinitionError(f"{what}: the operation must have one array and one output")

    def write_back(base: Any, value: Any, given: dict[str, Any]) -> Any:
        handed = {"xp": namespace, primitive.arrays[0]: base, "value": value}
        return function(*[handed[n] for n in names], **{n: given[n] for n in settings})

    return write_back


def link(view: Tensor, base: Tensor, steps: Steps) -> None:
    """Link ``view``, the result of ``steps`` on ``base``, for writes to both."""
    made = view._link = Link(base)
    made.base, made.steps, made.view = base, steps, weakref.ref(view)


def link_array(view: Tensor, base: Tensor, steps: Steps) -> None:
    """Link a view, unless one of the two is a scalar."""
    if not (view.shape == () and _is_element(*steps[0])) and not (base.shape == () and is_scalar(base)):
        link(view, base, steps)


def link_values(view: Tensor, base: Tensor, steps: Steps) -> None:
    """Link a Tensor of a library without views, if NumPy returns a view."""
    primitive, settings = steps[0]
    if not primitive.numpy_view or (view.shape == () and _is_element(primitive, settings)) or is_scalar(base):
        return
    base, steps = _root(base, steps)
    if not primitive.by_layout or _is_numpy_view(base.shape, steps):
        _link_values(view, base, steps)


def is_scalar(tensor: Tensor) -> bool:
    """Return True for a 0-D result of an operation, on every backend.

    Like a NumPy scalar, it shares memory with nothing, and ``s += v`` assigns a new Tensor to ``s``. Leaves, new
    arrays and arrays that have been written have ``_link`` and are arrays.
    """
    return not hasattr(tensor, "_link") and not tensor.shape


def like_given(tensor: Tensor, given: Any) -> Tensor:
    """Return a Tensor that stands for ``given``: a scalar if that is one, or a number."""
    if hasattr(given, "_link" if isinstance(given, Tensor) else "shape") and not isinstance(given, np.generic):
        tensor._link = None
    return tensor


def _is_element(primitive: Any, settings: dict[str, Any]) -> bool:
    """Return True if a 0-D result is an element, and so a scalar: ``x[0]``, but not ``x[0, ...]``."""
    return primitive.sum_slices is not None and Ellipsis not in settings["index"]


def _root(base: Tensor, steps: Steps) -> tuple[Tensor, Steps]:
    """Return the Tensor that ``base`` is a view of, or itself, with the steps from there."""
    made = getattr(base, "_link", None)
    if made is None or not shares_memory(base, made):
        return base, steps
    above = made.steps
    if steps and steps[0][0].by_layout and above[-1][0].by_layout:  # the second of two reshapes is enough
        above = above[:-1]
    return made.base, above + steps


def _link_values(view: Tensor, base: Tensor, steps: Steps) -> None:
    made = view._link = ValueLink(base)
    made.base, made.steps, made.view, made.arrays = base, steps, weakref.ref(view), (view.raw, base.raw)


def _are_arrays(tensors: tuple[Tensor, Tensor], arrays: tuple[Any, Any]) -> bool:
    """Return True if the Tensors have these arrays. A computed array of a lazy library has the name of the lazy one."""
    for tensor, known in zip(tensors, arrays, strict=True):
        raw = tensor.raw
        if raw is not known:
            one, other = (backend_of(x).content(x) if backend_of(x).lazy else None for x in (raw, known))
            if one is None or other is None or one() != other():
                return False
    return True


def relinking(tensor: Tensor) -> Callable[[Tensor], None]:
    """Return a function that restores the link of a view by values.

    It is called after the arrays of view and base are restored.
    """
    made = getattr(tensor, "_link", None)
    if not isinstance(made, ValueLink):
        return lambda view: None
    reference, steps, arrays = weakref.ref(made.base), made.steps, made.arrays

    def relink(view: Tensor) -> None:
        base = reference()
        if base is not None and _are_arrays((view, base), arrays):
            _link_values(view, base, steps)

    return relink


def linked_base(x: Any) -> Any:
    """Return the base of a view of a library without views; other objects unchanged."""
    return _root(x, ())[0] if isinstance(getattr(x, "_link", None), ValueLink) else x


def _is_numpy_view(shape: tuple[int, ...], steps: Steps) -> bool:
    """Return True if ``steps`` of a row-major NumPy array, of which the last is a reshape, are a view."""
    if len(steps) == 1:
        return True
    try:
        np.reshape(_of_numpy(shape, np.complex64, steps[:-1]), steps[-1][1]["shape"], copy=False)
    except ValueError:
        return False
    return True


def _of_numpy(shape: tuple[int, ...], dtype: Any, steps: Steps) -> Any:
    view = np.empty(shape, dtype)
    for primitive, settings in steps:
        view = primitive.raw[np.ndarray](view, **settings)
    return view


def as_numpy(view: Tensor) -> Any:
    """Return a NumPy array of any values with the layout of a view."""
    base, steps = _root(view, ())
    return _of_numpy(base.shape, np.complex64 if is_complex(base.dtype) else np.float32, steps)


def _linking(kind: type) -> Callable[[Tensor, Tensor, Steps], None] | None:
    backend = backend_of_type(kind)
    if backend is not None and backend.shares_memory is None:
        return link_values
    if SHARING[kind] is None:
        return None
    return link if SCALARS[kind] else link_array


LINKS = Memo(_linking)
"""The function that links a view, by array type. None for NumPy scalars, which have no views."""


def linked(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """Return the result of an operation, linked to the first argument if it is a view."""
    base = args[0]
    alone = len(args) == len(primitive.arrays)  # indexing by index arrays copies
    if alone and isinstance(out, Tensor) and isinstance(base, Tensor) and (make := LINKS[type(out.raw)]):
        if make is link:  # an element of each batch element is an array of NumPy
            make = link_array
        make(out, base, ((primitive, settings),))
    return out


def is_view_at(view: Any, base: Any, steps: Steps) -> bool:
    """Return True if ``view`` is ``steps`` of ``base``, and shares its memory."""
    made = getattr(view, "_link", None) if isinstance(view, Tensor) else None
    if isinstance(made, ValueLink):
        base, steps = _root(base, steps)
    return made is not None and made.base is base and made.steps == steps and shares_memory(view, made)


def shares_memory(view: Tensor, made: Link) -> bool:
    """Return True if a view and its base share memory. Traces may depend on layouts."""
    if isinstance(made, ValueLink):
        return _are_arrays((view, made.base), made.arrays)
    trace = mode().trace
    if trace is not None and any(primitive.by_layout for primitive, _ in made.steps):
        trace.by_layout = True
    one, other = view.raw, made.base.raw
    backend = SHARING[type(other)]
    return backend is not None and SHARING[type(one)] is backend and bool(backend.shares_memory(one, other))


def _replay(base: Tensor, steps: Steps) -> Any:
    value: Any = base
    for primitive, settings in steps:
        value = primitive.bind(value, **settings)
    return value


def _written_back(base: Tensor, steps: Steps, value: Any) -> Any:
    """Return ``base`` with ``value`` written to its view ``steps``."""
    stages: list[Any] = [base]
    for primitive, settings in steps[:-1]:
        stages.append(primitive.bind(stages[-1], **settings))
    for stage, (primitive, settings) in zip(reversed(stages), reversed(steps), strict=True):
        value = primitive.write_back(stage, value, settings)
    return value


def _above(tensor: Tensor) -> list[tuple["weakref.ref[Tensor]", Steps]]:
    """Return the bases of a Tensor, nearest first, with the steps of its view."""
    found = []
    made = getattr(tensor, "_link", None)
    while made is not None and shares_memory(tensor, made):
        tensor = made.base
        found.append((weakref.ref(tensor), made.steps))
        made = getattr(tensor, "_link", None)
    return found


def bases_of(tensor: Tensor) -> list[tuple[Tensor, Steps]]:
    """Return the bases that a write to this Tensor changes, nearest first, with steps.

    A base to which only this view refers is omitted, because nothing can read it.
    """
    above = _above(tensor)
    connect = _link_values if isinstance(getattr(tensor, "_link", None), ValueLink) else link
    tensor._link = None
    bases: list[tuple[Tensor, Steps]] = []
    steps: Steps = ()
    for reference, these in above:
        steps = these + steps
        base = reference()
        if base is not None:
            bases.append((base, steps))
            steps = ()
    if bases:
        connect(tensor, *bases[0])
    return bases


def _below(root: Tensor) -> list[tuple[Tensor, Tensor, Steps, bool]]:
    """Return the views of a Tensor and their views: view, base, steps, silent.

    ``silent`` is True for a view that was not recorded.
    """
    found, bases = [], [root]
    for base in bases:
        for made in weakref.getweakrefs(base):
            view = made.view() if isinstance(made, Link) else None
            inner = strip_constant_levels(base.data)
            if view is None or (isinstance(inner, Tensor) and not isinstance(view.data, Tensor)):
                continue  # a view that was taken before a trace keeps its values
            if shares_memory(view, made):
                found.append((view, base, made.steps, view.node is None and base.node is not None))
                bases.append(view)
            else:
                view._link = None
    return found


def _check_readable(tensor: Tensor, what: str) -> None:
    """Raise ``ReadOnlyViewError`` for a read-only view."""
    backend = backend_of(tensor.raw)
    if backend.read_only(tensor.raw):
        root = tensor
        while (made := getattr(root, "_link", None)) is not None:
            root = made.base
        if not backend_of(root.raw).read_only(root.raw):
            raise ReadOnlyViewError(
                f"{what}: the view must be writable, but {backend.name} returned a read-only one. Write to a copy: "
                "agrad.asarray(x, copy=True)."
            )


def _check(tensor: Tensor, bases: list[tuple[Tensor, Steps]], what: str) -> None:
    root = bases[-1][0]
    if is_protected(root):
        _refuse(root, what)
    for base, _ in bases:
        if tensor.node is None and base.node is not None and is_recording(base.level.id):
            raise LeafMutationError(
                f"{what} must not change a view that was created under agrad.no_grad(), because the Tensor requires a "
                "gradient. Create the view again, or write under agrad.no_grad() or to x.detach()."
            )
        tensor = base


def become(tensor: Tensor, result: Tensor) -> None:
    """Replace a Tensor by ``result``, of the same shape and dtype, in place.

    If nothing is recorded, only the values change. A leaf remains the same leaf, and a result keeps its node.
    """
    if result.level.id < 0:  # a tracer of a plain array, without a derivative
        tensor.__class__ = result.__class__
        tensor.data, tensor.level, tensor.node = result.data, result.level, result.node
        return
    value, before = with_nodes_of(tensor, strip_constant_levels(result)), tensor.node
    inner: Any = value
    while isinstance(inner, Tensor):
        if type(inner) is BatchedTensor:
            inner.level.note_write(tensor)
        inner = inner.data
    if isinstance(value, Tensor) and value.level.id >= 0:
        tensor.__class__ = value.__class__
        tensor.data, tensor.level, tensor.node = value.data, value.level, value.node
        retained = type(before) is Node and before.plan.retains and hasattr(before, "owner")  # a hook alone: no owner
        if retained and before is not value.node:
            del before.owner
            CALLS["retain_grad"](tensor)
    else:
        tensor.__class__ = Tensor if result.level.tape and not isinstance(value, Tensor) else RecordedTensor
        tensor.data, tensor.level, tensor.node = value, result.level, None


def with_nodes_of(old: Any, new: Any) -> Any:
    """Return ``new`` with the nodes of ``old`` on tapes that do not record at present."""
    if not isinstance(strip_constant_levels(old), Tensor):
        return new
    if isinstance(new, Tensor) and new.level.id > old.level.id:
        if new.level.derivative:
            return wrap(with_nodes_of(old, strip_constant_levels(new.data)), new.level, new.node)
        old = _mapped_by(new.level, old)
    alike = isinstance(new, Tensor) and new.level is old.level
    if type(old) is BatchedTensor and not alike:
        new, alike = _mapped_by(old.level, new), True
    if old.level.keeps_rules:
        return old.level.with_nodes_of(old, new) if alike else new
    data = with_nodes_of(old.data, strip_constant_levels(new.data) if alike else new)
    if old.node is not None and old.level.derivative and not is_recording(old.level.id):
        if is_numpys(old) and not is_numpys(data):  # its derivatives are NumPy arrays
            raise OperandError('a write under agrad.no_grad(): v must be a NumPy array like x. Move it: v.to("numpy").')
        return wrap(data, old.level, old.node)
    return wrap(data, new.level, new.node) if alike else data


def _mapped_by(level: Any, value: Any) -> Any:
    """Return a value broadcast over the batch of a level, so that derivatives add up."""
    with enable_grad():
        return level.wrap(namespace.broadcast_to(value, (level.members, *value.shape)))


def _replace(tensor: Tensor, result: Any) -> Any:
    """Replace a Tensor by ``result`` in place, and keep the order of axes in memory. Return the new plain array."""
    old = tensor.raw
    become(tensor, result)
    new, backend = tensor.raw, SHARING[type(old)]
    if backend is not None and (
        SHARING[type(new)] is backend or isinstance(new, np.generic)
    ):  # a NumPy array may have moved
        if tuple(new.shape) == tuple(old.shape):
            laid = backend.laid_out_like(new, old)
        else:  # vmap has begun to map over it
            laid = copy_with_strides(new, backend.strides(old)[old.ndim - len(tensor.shape) :])
        if laid is not new:
            tensor.data = with_values(tensor.data, laid)
            new = laid
    return new


def is_protected(tensor: Tensor) -> bool:
    """Return True for a recorded leaf that requires a gradient."""
    # inside a transform the leaf belongs to the transform, so this Tensor object may be replaced
    return tensor.node is not None and tensor.level.id == 0 and tensor.is_leaf and is_recording(0)


def _refuse(leaf: Tensor, what: str) -> NoReturn:
    """Raise the error of a write to a leaf, or to one that stands for an argument."""
    trace = mode().trace
    if trace is not None:
        trace.check_writable(leaf)
    raise LeafMutationError(
        f"{what} must not change a leaf that requires a gradient, or a view of it. Write under agrad.no_grad(), or to "
        "a copy: y = x + 0."
    )


def check_writable(tensor: Tensor, what: str) -> None:
    """Raise ``LeafMutationError`` for a leaf that must not change in place."""
    trace = mode().trace
    if trace is not None and trace.keeps_rules:
        trace.check_writable(tensor)
    if is_protected(tensor):
        _refuse(tensor, what)


def _share_hooks(before: Any, node: Any) -> None:
    """Add the hooks of the earlier value of a view to its new value."""
    if type(node) is Node and node is not before and hasattr(before, "hooks"):
        node.hooks = before.hooks
        if not node.plan.retains:
            node.plan = node.plan.primitive.variant(node.plan, retains=True)


def write(tensor: Tensor, result: Any, what: str) -> Any:
    """Replace a Tensor by ``result``, and update every Tensor that shares its memory.

    All changes in place use this function. It returns the Tensor, or NotImplemented if that is the result. Errors are
    raised before any change.
    """
    if result is NotImplemented or result is tensor:
        return result
    check_writable(tensor, what)
    if not isinstance(result, Tensor):  # of a constant whose transform has ended
        result = wrap(result, tensor.level)
    if result.shape != tensor.shape or result.dtype != tensor.dtype:
        raise OperandError(
            f"{what}: the result must have dtype {tensor.dtype} and shape {tensor.shape}, got {result.dtype} and "
            f"{result.shape}. Write x = x + y instead."
        )
    _write_through(tensor, result, what)
    return tensor


def _write_through(tensor: Tensor, result: Tensor, what: str) -> None:
    if getattr(tensor, "_link", None) is None and not weakref.getweakrefcount(tensor):
        _replace(tensor, result)
        return
    _check_readable(tensor, what)
    bases = bases_of(tensor)
    if bases:
        _check(tensor, bases, what)
    root, value = tensor, result
    for root, steps in bases:
        value = _written_back(root, steps, value)
    views = _below(root)
    value = value if isinstance(value, Tensor) else wrap(value, root.level)
    by_value = LINKS[type(_replace(root, value))] is link_values
    for view, base, steps, silent in views:
        # hooks of a recorded base are called for the cotangents of its views, also of the written one
        known = by_value and view is tensor and base.node is None and not isinstance(base.data, Tensor)
        taken = result if known else _replay(base, steps)
        if not isinstance(taken, Tensor):
            taken = wrap(taken, view.level)
        if silent:
            taken = taken.detach()
        before = view.node
        become(view, taken)
        if by_value:
            _link_values(view, *_root(base, steps))
        if view is not tensor:  # its own value before the write leads to the new one, and keeps the hooks
            _share_hooks(before, view.node)


CALLS["check_writable"] = check_writable
CALLS["write"] = write
