"""Views: Tensors that stand for a part of another's memory, and what a write to one of them does to the others.

Underneath everything is functional: no array is ever written into. What a write does is decided by the arrays: where
the library made a view, so that in its own code a write would be seen on both sides, the Tensors are made to agree.
The new values are put into the base by the ``put`` rules of the operations that made the view, and every other view
is taken anew from the new base, so derivatives follow by the ordinary rules.
"""

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.backends.base import DEVICE_GUARDS
from agrad.engine.tape import Node, is_recording, mode
from agrad.engine.tensor import Batched, Lifted, Tensor, settle, wrap
from agrad.errors import LeafMutationError, OperandError, PrimitiveDefinitionError, ReadOnlyViewError
from agrad.registry import CALLS, namespace

Steps = tuple[Any, ...]
"""What made a view of its base: a primitive and the values of its settings, then perhaps another primitive, ..."""


class Link(weakref.ref[Tensor]):
    """What makes a Tensor a view of another one, its base. The view holds it.

    It is itself a weak reference to the base, by which the base finds its views: nothing is filed with a base, a view
    that is let go takes its link along, and there is no cycle.
    """

    __slots__ = ("base", "steps", "view")

    base: Tensor
    steps: Steps
    view: "weakref.ref[Tensor]"


class _Sharing(dict[type, bool]):
    """Whether arrays of a type may share memory, so that there are views of them; NumPy's scalars where ``scalars``."""

    def __init__(self, *, scalars: bool) -> None:
        super().__init__()
        self.scalars = scalars

    def __missing__(self, kind: type) -> bool:
        backend = backend_of_type(kind)
        shares = backend is not None and backend.shares_memory is not None
        self[kind] = shares = shares and (self.scalars or not issubclass(kind, np.generic))
        return shares


SHARING = _Sharing(scalars=False)
SPLIT = _Sharing(scalars=True)
"""The same of results that are parts of each element."""


def put_rule(primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """What a primitive's argument is after a write to the result, as a function of the argument, value and settings.

    ``function`` is the rule, which may name ``xp``, the argument, ``value``, and settings after a star.
    """
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    settings = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    alphabet = ("xp", *primitive.arrays, "value")
    unknown = [n for n in names if n not in alphabet] + [n for n in settings if n not in primitive.settings]
    if unknown or len(primitive.arrays) != 1 or primitive.outputs is not None:
        raise PrimitiveDefinitionError(
            f"the put rule of {primitive.name} names {', '.join(map(repr, unknown)) or 'what it may'}; one is filed "
            f"for an operation on one array with one output, and may name {', '.join(alphabet)} and settings"
        )

    def put(base: Any, value: Any, given: dict[str, Any]) -> Any:
        handed = {"xp": namespace, primitive.arrays[0]: base, "value": value}
        return function(*[handed[n] for n in names], **{n: given[n] for n in settings})

    return put


def link(view: Tensor, base: Tensor, steps: Steps) -> None:
    """Have ``view``, which ``steps`` made of ``base``, follow what is written into it, and the other way round."""
    made = view._link = Link(base)
    made.base, made.steps, made.view = base, steps, weakref.ref(view)


class _CopiedElements(dict[tuple[type, bool], bool]):
    """Whether an element picked from an array of a type is a copy, as NumPy's are where no ``...`` is in the index."""

    def __missing__(self, key: tuple[type, bool]) -> bool:
        kind, with_ellipsis = key
        backend = backend_of_type(kind)
        assert backend is not None
        assert backend.shares_memory is not None
        x = backend.xp.asarray([0.0])
        element = backend.xp.getitem(x, index=(0, ...) if with_ellipsis else (0,))
        self[key] = copied = not backend.shares_memory(element, x)
        return copied


COPIED_ELEMENTS = _CopiedElements()


class _Scalars(dict[type, bool]):
    """Whether a result of no dimensions, for an array of a type, is a scalar of which there are no views: NumPy's."""

    def __missing__(self, kind: type) -> bool:
        backend = backend_of_type(kind)
        assert backend is not None
        assert backend.shares_memory is not None
        total = backend.xp.sum(backend.xp.asarray([0.0]))
        self[kind] = scalar = not backend.shares_memory(backend.xp.reshape(total, (1,)), total)
        return scalar


SCALARS = _Scalars()


def with_scalars(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """An elementwise function that gives scalars of no dimensions where the library's own elementwise ones do."""
    if isinstance(function, np.ufunc) or backend.shares_memory is None or not SCALARS[backend.array_types[0]]:
        return function

    def scalar(*arrays: Any, **settings: Any) -> Any:
        out = function(*arrays, **settings)
        return out if out.shape else out[()]

    return scalar


def linked(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """The result of an operation that may give a view, as a view of its first argument where there are views."""
    base = args[0]
    alone = len(args) == len(primitive.arrays)  # what is picked by index arrays is a copy
    shares = SPLIT if primitive.splits else SHARING
    if alone and isinstance(out, Tensor) and isinstance(base, Tensor) and shares[type(out.raw)]:
        # an element of each member of a map lies in a view of all members' elements
        element = primitive.name == "getitem" and not out.shape
        if element and COPIED_ELEMENTS[type(out.raw), Ellipsis in settings["index"]]:
            return out
        if not primitive.splits and _is_scalar_member(base):
            out._link = None
            return out
        link(out, base, (primitive, *[settings[name] for name in primitive.settings]))
    return out


def _is_scalar_member(tensor: Tensor) -> bool:
    """Whether each member of a map that this is made of would, computed alone, be a scalar and no array."""
    if tensor.shape or hasattr(tensor, "_link") or not SCALARS[type(tensor.raw)]:
        return False
    inner: Any = tensor
    while isinstance(inner, Tensor) and type(inner) is not Batched:
        inner = inner.data
    return isinstance(inner, Tensor)


def is_view_at(view: Any, base: Any, steps: Steps) -> bool:
    """Whether ``view`` is a Tensor that ``steps`` made of ``base``, and still shares its memory."""
    made = getattr(view, "_link", None) if isinstance(view, Tensor) else None
    return made is not None and made.base is base and made.steps == steps and shares_memory(view, made)


def shares_memory(view: Tensor, made: Link) -> bool:
    """Whether a view and its base still lie in the same memory. A trace is told where the base's layout decides."""
    trace = mode().trace
    if trace is not None and any(getattr(step, "by_layout", False) for step in made.steps):
        trace.by_layout = True
    one, other = view.raw, made.base.raw
    if isinstance(one, np.generic) and isinstance(other, np.generic):  # a part of a scalar
        return True
    backend = backend_of(other)
    return backend.shares_memory is not None and backend_of(one) is backend and backend.shares_memory(one, other)


def lies_in_a_row(vector: Tensor) -> bool:
    """Whether the elements of a Tensor of one dimension follow one another in memory. A trace is told of a no."""
    raw = vector.raw
    backend = backend_of(raw)
    if backend.shares_memory is None or vector.size < 2:
        return True
    one = backend.xp.empty((2,), dtype=raw.dtype, device=backend.device_of(raw))
    in_a_row = backend.strides(raw)[-1:] == backend.strides(one)
    trace = mode().trace
    if trace is not None and not in_a_row:
        trace.by_layout = True
    return bool(in_a_row)


def _split(steps: Steps) -> list[tuple[Any, dict[str, Any]]]:
    found, i = [], 0
    while i < len(steps):
        names = steps[i].settings
        found.append((steps[i], dict(zip(names, steps[i + 1 : i + 1 + len(names)], strict=True))))
        i += 1 + len(names)
    return found


def _replay(base: Tensor, steps: Steps) -> Any:
    value: Any = base
    for primitive, settings in _split(steps):
        value = primitive.bind(value, **settings)
    return value


def _put(base: Tensor, steps: Steps, value: Any) -> Any:
    """What ``base`` is after ``value`` was put into the view of it that ``steps`` make."""
    split = _split(steps)
    stages: list[Any] = [base]
    for primitive, settings in split[:-1]:
        stages.append(primitive.bind(stages[-1], **settings))
    for stage, (primitive, settings) in zip(reversed(stages), reversed(split), strict=True):
        value = primitive.put(stage, value, settings)
    return value


def _above(tensor: Tensor) -> list[tuple["weakref.ref[Tensor]", Steps]]:
    """The Tensors that this one is a view of, from the nearest up, each with the steps that lead down from it."""
    found = []
    made = getattr(tensor, "_link", None)
    while made is not None and shares_memory(tensor, made):
        tensor = made.base
        found.append((weakref.ref(tensor), made.steps))
        made = getattr(tensor, "_link", None)
    return found


def bases_of(tensor: Tensor) -> list[tuple[Tensor, Steps]]:
    """The Tensors that a write to this one must reach, from the nearest up, with the steps down to the one before.

    A base that only this view held is forgotten: nobody can look at it, nor at another view of it.
    """
    above = _above(tensor)
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
        link(tensor, *bases[0])
    return bases


def _below(root: Tensor) -> list[tuple[Tensor, Tensor, Steps, bool]]:
    """The views of a Tensor and their views: view, base, steps, and whether it was taken while nothing was recorded."""
    found, bases = [], [root]
    for base in bases:
        for made in weakref.getweakrefs(base):
            view = made.view() if isinstance(made, Link) else None
            if view is None:
                continue
            if shares_memory(view, made):
                found.append((view, base, made.steps, view.node is None and base.node is not None))
                bases.append(view)
            else:
                view._link = None
    return found


def _check_readable(tensor: Tensor, what: str) -> None:
    """Raise ``ReadOnlyViewError`` for a view that the library gives for reading alone, whether or not it is a copy."""
    backend = backend_of(tensor.raw)
    if backend.read_only(tensor.raw):
        root = tensor
        while (made := getattr(root, "_link", None)) is not None:
            root = made.base
        if not backend_of(root.raw).read_only(root.raw):
            raise ReadOnlyViewError(
                f"{what} on a view that {backend.name} gives for reading alone; "
                "write to a copy: agrad.asarray(x, copy=True)"
            )


def _check(tensor: Tensor, bases: list[tuple[Tensor, Steps]], what: str) -> None:
    root = bases[-1][0]
    if is_protected(root):
        _check_argument(root)
        raise LeafMutationError(
            f"{what} on a view of a leaf that requires a gradient would lose the leaf; "
            "change it under agrad.no_grad(), or change a view of a copy: y = x + 0"
        )
    for base, _ in bases:
        if tensor.node is None and base.node is not None and is_recording(base.level.id):
            raise LeafMutationError(
                f"{what} on a view that was taken under agrad.no_grad() of a Tensor that requires a gradient "
                "would lose its derivative; take the view again, or write under agrad.no_grad() or to x.detach()"
            )
        tensor = base


def become(tensor: Tensor, result: Tensor) -> None:
    """Make a Tensor stand for ``result``, of the same shape and dtype, from now on.

    Where nothing is recorded the values alone change: a leaf stays the leaf it is, and a result keeps its place on
    the tape, whose derivatives are those at the values it was recorded with.
    """
    if result.level.id < 0:  # what stands for a raw array while a function is traced: nothing but values
        tensor.__class__ = result.__class__
        tensor.data, tensor.level, tensor.node = result.data, result.level, result.node
        return
    value, before = _unrecorded(tensor, settle(result)), tensor.node
    if isinstance(value, Tensor) and value.level.id >= 0:
        tensor.__class__ = value.__class__
        tensor.data, tensor.level, tensor.node = value.data, value.level, value.node
        retained = type(before) is Node and before.plan.retains and hasattr(before, "owner")  # and no hook alone
        if retained and before is not value.node:
            del before.owner
            CALLS["retain_grad"](tensor)
    else:
        tensor.__class__ = Tensor if result.level.tape and not isinstance(value, Tensor) else Lifted
        tensor.data, tensor.level, tensor.node = value, result.level, None


def _with_values(data: Any, raw: Any) -> Any:
    """``raw`` in the place of the raw array of ``data``, at all of its levels and in all of its places on tapes."""
    return wrap(_with_values(data.data, raw), data.level, data.node) if isinstance(data, Tensor) else raw


def _unrecorded(old: Any, new: Any) -> Any:
    """``new``, but in the places of ``old`` on those tapes that record nothing here and now."""
    if not isinstance(old, Tensor):
        return new
    if isinstance(new, Tensor):
        if new.level is old.level and not new.level.derivative:  # what is recorded is recorded inside
            return wrap(_unrecorded(old.data, settle(new.data)), new.level, new.node)
        return new
    silent = old.node is not None and old.level.derivative and not is_recording(old.level.id)
    return wrap(_unrecorded(old.data, new), old.level, old.node) if silent else new


def _replace(tensor: Tensor, result: Any) -> None:
    """Make a Tensor stand for ``result``, with its axes in memory in the order in which they were."""
    old = tensor.raw
    become(tensor, result)
    if SHARING[type(old)]:
        new = tensor.raw
        # a Tensor that vmap has begun to map over has one axis more
        laid = backend_of(old).laid_out_like(new, old) if tuple(new.shape) == tuple(old.shape) else new
        if laid is not new:
            tensor.data = _with_values(tensor.data, laid)


def members_apart(mapped: Any, *, packed: bool) -> Any:
    """The same members, each in a stretch of memory of its own, its axes there in the order in which they were.

    mapped: an array or a Tensor whose first axis is the mapped one. Results are laid out as operands are, so with that
    axis among a member's own, a reshape of a member might be a copy where it is a view for a member alone. Unless
    ``packed``, a gap stays where the mapped axis was: a reshape of what lay on both sides of it is still a copy.
    """
    raw = mapped.raw if isinstance(mapped, Tensor) else mapped
    backend = backend_of(raw)
    if backend.shares_memory is None:
        return mapped
    step, *steps = map(abs, backend.strides(raw))
    if all(other <= step or n == 1 for other, n in zip(steps, raw.shape[1:], strict=True)):
        return mapped
    order = sorted(range(1, raw.ndim), key=lambda i: -steps[i - 1])
    inner = [i for i in order if steps[i - 1] < step and raw.shape[i] > 1]
    gap = inner[:1] if not packed else []
    room = (raw.shape[0], *(raw.shape[i] + (i in gap) for i in order))
    apart = backend.xp.empty(room, dtype=raw.dtype, device=backend.device_of(raw))
    apart = backend.xp.permute_dims(apart, (0, *(1 + order.index(i) for i in range(1, raw.ndim))))
    apart = apart[tuple([slice(n) for n in raw.shape])]
    apart[...] = raw
    return _with_values(mapped, apart)


def is_protected(tensor: Tensor) -> bool:
    """Whether this is a leaf that requires a gradient, here and now, so that it must not be changed in place."""
    # inside a transform the leaf is the transform's own, and this object may well stand for something else
    return tensor.node is not None and tensor.level.id == 0 and tensor.is_leaf and is_recording(0)


def _check_argument(tensor: Tensor) -> None:
    """Raise ``TracedValueError`` where a leaf stands for a traced function's argument that is none."""
    trace = mode().trace
    if trace is not None:
        trace.check_writable(tensor)


def check_writable(tensor: Tensor, what: str) -> None:
    """Raise ``LeafMutationError`` for a leaf that must not be changed in place."""
    if is_protected(tensor):
        _check_argument(tensor)
        raise LeafMutationError(
            f"{what} on a leaf that requires a gradient would lose the leaf; "
            "change it under agrad.no_grad(), or change a copy: y = x + 0"
        )


def write(tensor: Tensor, result: Any, what: str) -> Any:
    """Make a Tensor stand for ``result``, and every Tensor that shares its memory see it: how all change in place ends.

    No array is written into. Gives the Tensor itself, or NotImplemented where that is the result. Raises, before
    anything is changed, ``OperandError`` for another shape or dtype, ``LeafMutationError`` for a leaf that requires a
    gradient and a view of one, ``ReadOnlyViewError`` for a view that cannot be written to.
    """
    if result is NotImplemented or result is tensor:
        return result
    check_writable(tensor, what)
    if result.shape != tensor.shape or result.dtype != tensor.dtype:
        raise OperandError(
            f"{what} would turn {tensor.dtype}{tensor.shape} into {result.dtype}{result.shape}; "
            "in place, shape and dtype stay: write x = x + y instead"
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
        value = _put(root, steps, value)
    views = _below(root)
    _replace(root, value)
    for view, base, steps, silent in views:
        taken = _replay(base, steps)
        if silent:
            taken = taken.detach()
        become(view, taken)


def owned(values: Iterable[Any], given: Sequence[Any] = ()) -> list[Any]:
    """The values, copied where they cannot be written into or share memory with an earlier one or one ``given``.

    Raw arrays, and Tensors around them outside of all transforms; anything else stays as it is.
    """
    values = list(values)
    kinds = set(map(type, values))
    if len(kinds) == 1 and not given:  # most often: gradients of leaves
        only = backend_of_type(kinds.pop())
        if only is not None and only.apart(values):
            return values
    held: dict[Any, list[Any]] = {}
    for value in given:
        raw = value.raw if isinstance(value, Tensor) else value
        if SHARING[type(raw)]:
            held.setdefault(backend_of(raw).memory(raw), []).append(raw)
    out = []
    for value in values:
        outside = type(value) is Tensor and value.level.id == 0
        raw = value.data if outside else value
        if SHARING[type(raw)]:
            backend = backend_of(raw)
            block = backend.memory(raw)
            assert backend.shares_memory is not None
            if block is None or any(backend.shares_memory(raw, other) for other in held.get(block, ())):
                raw = copied(raw)
                value = wrap(raw, value.level, value.node) if outside else raw
                block = backend.memory(raw)
            held.setdefault(block, []).append(raw)
        out.append(value)
    return out


def copied(value: Any) -> Any:
    """A copy of a raw array of a library in which arrays share memory; anything else as it is."""
    if not SHARING[type(value)]:
        return value
    backend = backend_of(value)
    if DEVICE_GUARDS:  # an assignment would not go to the device
        return backend.xp.asarray(value, copy=True)
    out = backend.xp.empty(tuple(value.shape), dtype=value.dtype, device=backend.device_of(value))
    out[...] = value
    return out


CALLS["check_writable"] = check_writable
CALLS["lies_in_a_row"] = lies_in_a_row
CALLS["write"] = write
