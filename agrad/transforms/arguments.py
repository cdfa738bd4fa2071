"""Arguments and results of transformed functions, with checks and nesting levels."""

import functools
import inspect
import math
import weakref
import zlib
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import as_dtype, dtype_name, is_complex, is_floating
from agrad.engine.calls import array_of_number, lift_all, recorded_part
from agrad.engine.explain import called
from agrad.engine.layouts import copy_if_aliased
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE, Level, captured
from agrad.engine.namespaces import namespace_of
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import is_over
from agrad.engine.tensor import Tensor, raw_of, strip_constant_levels, wrap
from agrad.engine.views import like_given
from agrad.errors import (
    ConfigurationError,
    DtypeError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
    described,
)
from agrad.transforms.trees import ARRAYS, TreePath, flatten, tree_map, unflatten

ArgNum = int | str
Several = Sequence[ArgNum]
ArgNums = ArgNum | Several
"""Positions or names of the differentiated arguments, one or several."""


def differentiated_value(leaf: Any, where: TreePath | str, what: str) -> Any:
    """Return the value to differentiate at a leaf.

    It is a plain floating-point array, or a Tensor that an outer transform records. Raises ``DtypeError`` for an
    integer,
    and ``OperandError`` for a leaf that is not an array. ``where`` and ``what`` identify the leaf and the transform.
    """
    leaf = array_of_number(leaf)
    if isinstance(leaf, TracedNumber):
        leaf = leaf.value
    if type(leaf) is int or type(leaf) is bool:
        raise DtypeError(
            f"{what}: {where} must be a floating-point number or array, got the {type(leaf).__name__} {leaf}. Write "
            f"{float(leaf)}."
        )
    if not is_array(leaf):
        raise OperandError(f"{what}: {where} must be a floating-point array, got {described(leaf)}")
    if not is_floating(leaf.dtype):
        check_dtype(leaf, where, what)
    return recorded_part(leaf)


def is_array(value: Any) -> bool:
    """Return True for a Tensor and for a plain array of any backend."""
    return isinstance(value, Tensor) or backend_of_type(type(value)) is not None


class Inputs:
    """The differentiated leaves of one call, which become Tensors of a transform.

    ``word`` and ``keys`` describe the arguments in error messages.
    """

    def __init__(self, trees: Sequence[Any], what: str, word: str = "primal", keys: Sequence[Any] = ()) -> None:
        self.what: str = what
        self.word: str = word
        self.keys: Sequence[Any] = keys
        self.trees: tuple[Any, ...] = tuple(trees)
        leaves, self.spec = flatten(self.trees)
        self.leaves: list[Any] = [captured(leaf) for leaf in leaves] if CAPTURED else leaves
        self.values = []
        self.tensors: bool = False
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                self.tensors = self.tensors or not is_bare(leaf)
            elif ARRAYS[type(leaf)] and is_floating(leaf.dtype):
                self.values.append(leaf)
                continue
            self.values.append(differentiated_value(leaf, self.path(i), what))

    def path(self, number: int) -> TreePath:
        """Return the path of a leaf, for an error message."""
        return TreePath(self.trees, number, self.word, keys=self.keys)

    def check(self, holomorphic: bool) -> None:
        """Raise ``DtypeError`` unless all are real, or complex if ``holomorphic``."""
        for i, value in enumerate(self.values):
            check_dtype(value, self.path(i), self.what, holomorphic)

    def lift(self, level: Level, nodes: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments as Tensors of a transform, with ``nodes`` for their leaves."""
        lifted = []
        for value, node, leaf in zip(self.values, nodes, self.leaves, strict=True):
            tensor = wrap(value, level, node)
            if not value.shape:
                like_given(tensor, leaf)
            if level.tape:
                node.owner = weakref.ref(tensor)
            lifted.append(tensor)
        return unflatten(self.spec, lifted)

    def tangents(self, given: Any) -> list[Any]:
        """Return the leaves of a tuple of tangents, checked against the arguments."""
        leaves, spec = flatten(tuple(given))
        if spec != self.spec:
            raise ShapeError(f"{self.what}: the tangents must have the structure {self.spec}, got {spec}")
        pairs = enumerate(zip(self.values, leaves, strict=True))
        return [strip_constant_levels(_tangent_for(value, t, self.path(i), self.what)) for i, (value, t) in pairs]

    def restore(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return pytrees like the arguments with ``values`` as leaves.

        An array is returned as a Tensor if the argument's leaf was one.
        """
        pairs = zip(values, self.leaves, strict=True)
        return unflatten(self.spec, [outside(value, self.tensors and not is_bare(leaf)) for value, leaf in pairs])

    def leave(self, value: Any) -> Any:
        """Return a result for the caller: a Tensor if any leaf was one."""
        return outside(value, self.tensors)


class Chosen(Inputs):
    """The arguments that ``argnums`` selects, and the call with other values."""

    def __init__(
        self, f: Callable[..., Any], args: Any, kwargs: dict[str, Any], argnums: ArgNums, what: str, holomorphic: bool
    ) -> None:
        self.f: Callable[..., Any] = f
        self.args: Any = args
        self.kwargs: dict[str, Any] = kwargs
        self.single: bool = isinstance(argnums, (int, str))
        keys: list[int | str] = []
        values = []
        for key in (argnums,) if isinstance(argnums, (int, str)) else tuple(argnums):
            key = key if type(key) is int and 0 <= key < len(args) else self._key(key, what)
            keys.append(key)
            values.append(args[key] if isinstance(key, int) else kwargs[key])
        if len(set(keys)) != len(keys):
            raise ConfigurationError(f"{what}: argnums must list each argument once, got {argnums}")
        super().__init__(values, what, "argument", keys)
        if holomorphic:
            self.check(holomorphic)

    def _key(self, key: int | str, what: str) -> int | str:
        """Return the position of an argument, or its keyword."""
        count = len(self.args)
        if isinstance(key, str):
            if key in self.kwargs:
                return key
            try:
                names = [
                    p.name
                    for p in inspect.signature(self.f).parameters.values()
                    if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
                ]
            except (TypeError, ValueError):  # a function without a signature
                names = []
            if key in names[:count]:
                return names.index(key)
            known = [*names[:count], *self.kwargs]
            raise ConfigurationError(
                f"{what}: argnums must be an argument of the call, got {key!r}. "
                + (f"Choose from {', '.join(map(repr, known))}." if known else "Pass its position.")
            )
        if not -count <= key < count:
            raise ConfigurationError(
                f"{what}: argnums must be a position among the {count} positional arguments, got {key}. For a keyword "
                "argument, pass argnums='name'."
            )
        return key % count

    def call(self, values: Sequence[Any]) -> Any:
        """Call ``f`` with these values as the chosen arguments."""
        args, kwargs = list(self.args), dict(self.kwargs)
        for key, value in zip(self.keys, values, strict=True):
            (args if isinstance(key, int) else kwargs)[key] = value
        return with_constants(called, self.f, args, kwargs)

    def result(self, values: Sequence[Any]) -> Any:
        """Return the value of each selected argument: a tuple if ``argnums`` is one."""
        return values[0] if self.single else tuple(values)


_MIXTURE = "Multiple namespaces for array inputs"
"""Part of the error of ``array_api_compat.array_namespace`` for plain arrays mixed with Tensors, in all its copies."""

_asks: dict[int, tuple[dict[Any, bool], weakref.ref[Any]]] = {}
"""For each function that was called: True if it requests the one namespace of all its arrays.

The keys are the id of its code and the code of the functions it closes over. An entry is removed with the code."""


def with_constants(call: Callable[..., Any], f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return ``call(f, *args, **kwargs)``, with constant Tensors if ``f`` needs them.

    ``array_namespace`` raises an error if a function requests the namespace of plain arrays mixed with Tensors. The
    function is then called again with its plain numeric arrays as constant Tensors, and so are later calls. Other
    functions receive the caller's arrays.

    Raises
    ------
    OperandError
        If the first call of such a function wrote to an argument before it requested the namespace.
    """
    while isinstance(f, functools.partial):
        f, args, kwargs = f.func, (*f.args, *args), {**f.keywords, **kwargs}
    known, key = _answers(f)
    asks = known.get(key)
    if not asks or not any(isinstance(leaf, Tensor) for leaf in flatten((args, kwargs))[0]):
        watched = [(raw, content_of(raw)) for raw in _raw_numbers((args, kwargs))] if asks is None else []
        try:
            out = call(f, *args, **kwargs)
            known.setdefault(key, False)
            return out
        except Exception as error:
            if not _is_mixture(error) or not _raw_numbers((args, kwargs)):
                raise
            for raw, content in watched:
                if content_of(raw) != content:
                    raise OperandError(
                        f"{getattr(f, '__name__', type(f).__name__)} must not write to an argument before it calls "
                        f"array_namespace: agrad has to call it again. It wrote to an array of shape "
                        f"{tuple(raw.shape)}. Call array_namespace first, or write to a copy."
                    ) from error
    made: dict[int, Tensor] = {}

    def constant(leaf: Any) -> Any:
        # one Tensor for an array that occurs several times
        return made.setdefault(id(leaf), like_given(wrap(leaf, GLOBAL_TAPE), leaf)) if _is_raw_number(leaf) else leaf

    def lifted(arg: Any) -> Any:
        # a pytree without plain arrays is passed as it is
        return tree_map(constant, arg) if _raw_numbers(arg) else arg

    out = call(f, *[lifted(arg) for arg in args], **{name: lifted(arg) for name, arg in kwargs.items()})
    known[key] = True
    return out


def _forget(answers: dict[int, Any], place: int, _: Any) -> None:
    answers.pop(place, None)


def _answers(f: Any) -> tuple[dict[Any, bool], Any]:
    """Return the entries of functions with the code of ``f``, and its key. Nothing is stored for other objects."""
    code = getattr(f, "__code__", None)
    if code is None:
        return {None: False}, None
    place = id(code)
    if place not in _asks:
        # bound, because at the interpreter's end the module's names are gone before the code
        _asks[place] = {}, weakref.ref(code, functools.partial(_forget, _asks, place))
    key = []
    for cell in getattr(f, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # the cell is empty
            value = None
        key.append(value.__code__ if isinstance(value, FunctionType | MethodType) else None)
    return _asks[place][0], tuple(key)


def content_of(raw: Any) -> Any:
    """Return a version number or a checksum, which changes if the array is written to."""
    backend = backend_of(raw)
    look = backend.content(raw)
    if look is not None:
        return look()
    return zlib.crc32(np.ascontiguousarray(backend.to_host(raw)).reshape(-1).view(np.uint8).data)


def state_of(leaf: Any, content: bool = False) -> Any:
    """Return a value that changes with a write to a Tensor; ``content``: to any array."""
    if isinstance(leaf, Tensor):
        return id(leaf.data), id(leaf.node)
    return content_of(leaf) if content and backend_of_type(type(leaf)) is not None else None


def _raw_numbers(tree: Any) -> list[Any]:
    return [leaf for leaf in flatten(tree)[0] if _is_raw_number(leaf)]


def _is_mixture(error: BaseException | None) -> bool:
    """Return True for the error of ``array_namespace``, and for one that a library raised because of it."""
    seen: set[BaseException] = set()
    while error is not None and error not in seen:
        if isinstance(error, TypeError) and _MIXTURE in str(error):
            return True
        seen.add(error)  # errors may be causes of one another
        error = error.__cause__ or error.__context__
    return False


def _is_raw_number(value: Any) -> bool:
    """Return True for a plain array of numbers or Booleans."""
    return (
        not isinstance(value, (Tensor, np.generic))
        and backend_of_type(type(value)) is not None
        and (not isinstance(value, np.ndarray) or value.dtype.kind in "biufc")
    )


def check_function(name: str, f: Any, argnums: Any = 0, call: str = "(f)(x)") -> None:
    """Raise an error unless ``f`` is a function and ``argnums`` positions or names.

    ``call`` is how the transform ``name`` is called, for the message.
    """
    if not callable(f):
        raise OperandError(f"{name}: f must be a function, got {described(f)}. Write agrad.{name}{call}.")
    keys = argnums if isinstance(argnums, Sequence) else (argnums,)
    if not all(isinstance(key, (int, str)) for key in keys):
        raise ConfigurationError(
            f"{name}: argnums must be a position, a name or a tuple of these, got {described(argnums)}. Pass the "
            f"arguments of f to the returned function: agrad.{name}(f)(x)."
        )


def outside(value: Any, tensors: bool) -> Any:
    """Return a result for the caller, as a Tensor or as a plain array."""
    if isinstance(value, Tensor):
        return strip_constant_levels(value) if not tensors else wrap(value, GLOBAL_TAPE) if is_bare(value) else value
    return wrap(value, GLOBAL_TAPE) if tensors and is_array(value) else value


def is_bare(value: Any) -> bool:
    """Return True for a plain value, and for one that only ``jit`` records."""
    return not isinstance(value, Tensor) or value.level.id < 0


def split_level(value: Any, level: Level) -> tuple[Any, Any]:
    """Return a result's value without the transform, and its node there, or None."""
    while isinstance(value, Tensor):
        if value.level is level:
            return value.data, value.node
        if not is_over(value.level):
            break
        value = value.level.outlived(value)
    return value, None


_PLAIN = (bool, int, float, complex, str, bytes)


def outputs_of(out: Any, level: Level, what: str) -> tuple[list[tuple[Any, Any]], Any]:
    """Return a result's leaves, each split by ``split_level``, and its structure.

    Raises ``OperandError`` for an object that is not a pytree of arrays, because its content would lose its derivative.
    """
    leaves, spec = flatten(out)
    for i, leaf in enumerate(leaves):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, _PLAIN):
            path = TreePath(out, i, "output", whole="its output")
            raise OperandError(
                f"{what}: {path} must be an array or a dict, list, tuple, namedtuple or dataclass of arrays, got "
                f"{described(leaf)}. Return it as aux with has_aux=True if it needs no derivative."
            )
    return [split_level(leaf, level) for leaf in leaves], spec


def leave_tree(tree: Any, level: Level, inputs: Inputs) -> Any:
    """Return a pytree of results without the transform, for the caller."""
    return tree_map(lambda leaf: inputs.leave(split_level(leaf, level)[0]), tree)


def copy_tree_if_aliased(tree: Any, *given: Any) -> Any:
    """Return a pytree of results that own their memory.

    No array shares memory with another one or with the arrays in ``given``.
    """
    leaves, spec = flatten(tree)
    return unflatten(spec, copy_if_aliased(leaves, flatten(given)[0]))


def paired(values: Sequence[Any], gs: Sequence[Any]) -> Any:
    """Return the inner product of values and cotangents, Re(sum(a * b))."""
    parts = []
    for a, b in zip(values, gs, strict=True):
        a, b = lift_all([a, b])
        xp = namespace_of((a, b))
        total = xp.sum(a * b)
        parts.append(xp.real(total) if is_complex(total.dtype) else total)
    return sum(parts[1:], parts[0])


def zeros(value: Any) -> Any:
    """Return zeros like an array or a Tensor."""
    return namespace_of((value,)).zeros_like(value)


def aux_of(out: Any, what: str) -> tuple[Any, Any]:
    """Return the value and aux of a function that returns both."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise NotDifferentiableError(f"{what}: with has_aux=True the function must return a pair, got {described(out)}")
    return out


def check_scalar(y: Any, what: str, holomorphic: bool = False) -> None:
    """Raise an error unless ``y`` is a number or an array with a single element.

    It must be real, or complex if ``holomorphic``.
    """
    if type(y) is bool:
        raise DtypeError(f"{what}: the function must return a floating-point number, got the bool {y}")
    if type(y) in ((complex,) if holomorphic else (int, float)):
        return
    if not hasattr(y, "shape"):
        raise NotDifferentiableError(
            f"{what}: the function must return an array with a single real number, got {described(y)}. For a pair "
            "(value, aux), set has_aux=True. For other results, use agrad.vjp."
        )
    if math.prod(y.shape) != 1:
        raise ShapeError(
            f"{what}: the function must return an array of shape (), got {tuple(y.shape)}. Reduce it, for example "
            "with agrad.sum, or use agrad.jacobian (all derivatives), agrad.elementwise_grad (an elementwise function) "
            "or agrad.vjp (one cotangent)."
        )
    check_dtype(y, "the result", what, holomorphic)


def check_dtype(value: Any, where: TreePath | str, what: str, holomorphic: bool | None = None) -> None:
    """Raise ``DtypeError`` unless an array is floating-point.

    With ``holomorphic`` it must be complex, with False real.
    """
    dtype = as_dtype(value.dtype)
    if dtype.kind not in ("real floating", "complex floating"):
        raise DtypeError(f"{what}: {where} must have a floating-point dtype, got {dtype}. Cast it first: agrad.astype.")
    if holomorphic and dtype.kind == "real floating":
        raise DtypeError(f"{what}: with holomorphic=True {where} must be complex, got dtype {dtype}. Cast it.")
    if holomorphic is False and dtype.kind == "complex floating":
        raise DtypeError(
            f"{what}: {where} must be real, got dtype {dtype}. Take the real part, set holomorphic=True if the "
            "function is holomorphic, or use agrad.vjp or agrad.jvp."
        )


def _tangent_for(value: Any, t: Any, place: TreePath, what: str) -> Any:
    """Return the tangent ``t`` of ``value``; check its shape and dtype."""
    raw = raw_of(value)
    t = array_of_number(t, raw)
    if not hasattr(t, "shape"):
        raise OperandError(f"{what}: the tangent of {place} must be an array, got {described(t)}")
    shape = tuple(value.shape)
    if tuple(t.shape) != shape or dtype_name(t.dtype) != dtype_name(raw.dtype):
        raise ShapeError(
            f"{what}: the tangent of {place} must have dtype {dtype_name(raw.dtype)} and shape {shape}, got "
            f"{dtype_name(t.dtype)} and {tuple(t.shape)}"
        )
    return t


def out_tangent(y: Any, t: Any) -> Any:
    """Return the tangent of a result, zeros if ``t`` is None."""
    if t is not None:
        return t
    if hasattr(y, "shape"):
        return zeros(strip_constant_levels(y))
    return 0j if type(y) is complex else 0.0


def check_chunk_size(chunk_size: int | None, name: str, of: str) -> None:
    """Raise ``ConfigurationError`` unless the chunk size is None or positive."""
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ConfigurationError(f"{name}: chunk_size must be a positive number of {of} or None, got {chunk_size!r}")


def chunks(total: int, chunk_size: int | None) -> list[slice]:
    """Return slices of length ``chunk_size`` that cover ``total`` positions.

    The last slice may be shorter. If ``total`` is 0, the only slice is empty.
    """
    step = chunk_size or total or 1
    return [slice(start, min(start + step, total)) for start in range(0, total, step)] or [slice(0, 0)]
