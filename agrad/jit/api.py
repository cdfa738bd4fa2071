"""``jit``: traced functions with a cache of signatures."""

import functools
import sys
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from agrad.backends import Selection, backend_of_type, selected
from agrad.engine.explain import called
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tape import is_recording, mode
from agrad.engine.tensor import Tensor
from agrad.errors import ConfigurationError, OperandError, described
from agrad.expect import integer
from agrad.jit import entry as entries
from agrad.jit.bindings import inputs_of
from agrad.jit.capture import Tracing
from agrad.jit.compile import AUTO, COMPILERS
from agrad.jit.entry import Entry
from agrad.jit.kinds import array_kind
from agrad.jit.passes.precision import PRECISIONS, Precision
from agrad.jit.reasons import (
    KEPT,
    CacheInfo,
    Explanation,
    Lowered,
    key_differences,
    leaf_names,
    nearest,
    signature_text,
    state_differences,
)
from agrad.jit.signatures import Key, Matches, static_places
from agrad.jit.trace import with_known
from agrad.transforms.trees import flatten, unflatten

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded


P = ParamSpec("P")
R = TypeVar("R")
_Numbers = int | Sequence[int]
_Names = str | Sequence[str]


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (int, str)) else tuple(value)


class Jitted(Generic[P, R]):
    """A traced function: see ``agrad.jit``."""

    def __init__(
        self,
        function: Callable[P, R],
        static_argnums: _Numbers,
        static_argnames: _Names,
        donate_argnums: _Numbers,
        cache_size: int,
        options: dict[str, Any],
    ) -> None:
        if not callable(function):
            raise OperandError(f"jit: function must be a function, got {described(function)}. Write agrad.jit(f)(x).")
        integer("jit", "cache_size", cache_size)
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._given = function, static_argnums, static_argnames, donate_argnums, cache_size, options
        self._name = getattr(function, "__name__", type(function).__name__)
        self._parameters, self._static = static_places(function, _tuple(static_argnums), _tuple(static_argnames))
        self._donated = frozenset(_tuple(donate_argnums))
        if any(not isinstance(n, int) or n < 0 or n in self._static for n in self._donated):
            raise ConfigurationError(
                f"jit: donate_argnums must be numbers of arguments that are not static, got {donate_argnums!r}"
            )
        self._size, self._options = cache_size, options
        self._entries: OrderedDict[Any, list[Entry]] = OrderedDict()
        self._count = self._hits = self._misses = 0
        self._known: list[Any] = []
        self._traces: deque[tuple[Key, list[str], str]] = deque(maxlen=KEPT)
        """The last traces, with what differed from the nearest program, and a sentence on the compiler."""
        self._removed: deque[int] = deque(maxlen=1024)
        """The hashes of signatures whose programs were removed."""
        self._latest: list[tuple[Matches, Entry, Selection, Key]] = []
        """Tests for the last two signatures, their entries, selected backends and keys; the last one first."""

    def __reduce__(self) -> Any:
        """Return the function's name in its module if that is this object; otherwise, how to create another."""
        name = getattr(self, "__qualname__", "")
        known = getattr(sys.modules.get(getattr(self, "__module__", "")), name, None)
        return name if known is self else (Jitted, self._given)

    # ------------------------------------------------------------------ calls

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        now = mode()
        # a jitted function inside another one is part of its program; observers must see each operation run, and each
        # element of a batch draws its own random numbers
        if now.trace is not None or now.observers or now.anomaly or now.maps:
            return self.__wrapped__(*args, **kwargs)
        entry: Entry | None = None
        leaves: Sequence[Any] = args
        inputs: Any = None
        if self._latest and not now.oldest:
            with entries.STATE_LOCK:
                latest = self._latest
                for matches, candidate, place, known in latest:
                    given = matches(args, kwargs)
                    if given is not None and selected() is place and (inputs := candidate.gather(given)) is not None:
                        entry, leaves = candidate, given
                        self._hits += 1
                        if candidate is not latest[0][1]:
                            self._latest = latest[::-1]
                            self._entries.move_to_end(known)
                        break
        if entry is None:
            leaves, key = self._signature(args, kwargs)
            # a trace records on the global tape, which no_grad disables, also for a transform that is opened inside
            inside = now.oldest and any(isinstance(leaf, Tensor) and _recorded(leaf) for leaf in leaves)
            if key is None or inside:
                return self.__wrapped__(*args, **kwargs)
            entry, inputs = self._find(key, leaves) or self._trace(key, leaves)
        run = entry.run
        if run is None:
            return self.__wrapped__(*args, **kwargs)
        try:
            values = run(inputs)
        except Exception as error:
            error.add_note(f"in the program that agrad.jit compiled from {self._name}")
            raise
        with entries.STATE_LOCK:
            return entry.finish(values, inputs, leaves)

    def _find(self, key: Key, leaves: Sequence[Any]) -> tuple[Entry, Any] | None:
        """Return the entry of a call and its inputs, or None."""
        with entries.STATE_LOCK:
            for entry in self._entries.get(key, ()):
                inputs = entry.gather(leaves)
                if inputs is not None:
                    self._hits += 1
                    self._entries.move_to_end(key)
                    if entry.matches is not None and entry.run is not None:
                        self._latest = [(entry.matches, entry, selected(), key), *self._latest[:1]]
                    return entry, inputs
        return None

    def _trace(self, key: Key, leaves: Sequence[Any]) -> tuple[Entry, Any]:
        """Trace the function for a call; return the entry and the inputs."""

        def call(given: Sequence[Any]) -> Any:
            args, kwargs = unflatten(key.spec, given)
            named = dict(key.static)
            args = [named.get(i, a) for i, a in enumerate(args)]
            return called(self.__wrapped__, *args, **{name: named.get(name, v) for name, v in (kwargs or {}).items()})

        with entries.STATE_LOCK:
            found = self._find(key, leaves)  # another thread may have been first
            if found is not None:
                return found
            reasons = self._reasons(key, leaves) if self._misses else []
            static = [value for _, value in key.static]

            def attempt(keeps_values: bool) -> Entry:
                # no variable for the tracing, which holds the state: the first run too may write over it
                given = self.__wrapped__, self._name, leaves, call, self._known, key.donated, static, self._options
                return Tracing(*given, keeps_values).run()

            entry = with_known(f"jit({self._name})", self._known, attempt)
            if key.records and not key.static and self._all_donated(key):
                entry.signature = key
            self._misses += 1
            self._traces.append((key, reasons, entry.compiler))
            self._keep(key, entry)
            return entry, inputs_of(entry, leaves)

    def _reasons(self, key: Key, leaves: Sequence[Any]) -> list[str]:
        """Return why none of the programs fits a call."""
        known = self._entries.get(key)
        if known:
            names = leaf_names(key.spec, self._parameters)
            return min((state_differences(entry, leaves, names) for entry in known), key=len)
        if hash(key) in self._removed:
            return [f"its program was removed: the last {self._size} are kept (cache_size)"]
        return key_differences(nearest(islice(reversed(self._entries), KEPT), key), key, self._parameters)

    def _keep(self, key: Key, entry: Entry) -> None:
        """Add an entry. If there are too many, remove the least recently used one."""
        self._entries.setdefault(key, []).insert(0, entry)
        self._entries.move_to_end(key)
        self._count += 1
        while self._count > self._size:
            oldest = next(iter(self._entries))
            gone = self._entries[oldest].pop()
            self._latest = [latest for latest in self._latest if latest[1] is not gone]
            self._count -= 1
            self._removed.append(hash(oldest))
            if not self._entries[oldest]:
                del self._entries[oldest]

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Key | None]:
        """Return the arguments' leaves and their key.

        The key is None if the arguments belong to transforms that no single program can record.
        """
        static: tuple[Any, ...] = ()
        if self._static:
            places = self._static
            static = tuple([(i, a) for i, a in (*enumerate(args), *kwargs.items()) if i in places])
            args = tuple([None if i in places else a for i, a in enumerate(args)])
            kwargs = {k: None if k in places else v for k, v in kwargs.items()}
        leaves, spec = flatten((args, kwargs or None))  # an empty dict would take as long as the rest
        kinds: list[Any] = []
        levels: set[Any] = set()
        for leaf in leaves:
            kind = type(leaf)
            if isinstance(leaf, Tensor):
                level, data = leaf.level, leaf.data
                if isinstance(data, Tensor) or not level.tape:
                    return leaves, None
                recorded = leaf.node is not None and is_recording(level.id)
                is_leaf = level is GLOBAL_TAPE and leaf.is_leaf
                if recorded and not is_leaf:
                    levels.add(level)
                kinds.append((Tensor, recorded, is_leaf, *array_kind(data)))
            elif kind is float or kind is complex:
                kinds.append(kind)
            elif backend_of_type(kind) is not None:
                kinds.append(array_kind(leaf))
            else:
                kinds.append((kind, leaf))
        if len(levels) > 1:
            return leaves, None
        tensors = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]
        place = selected()
        key = Key(
            spec,
            tuple(kinds),
            tuple([tensors.index(i) for i in tensors]),
            self._donated_leaves(leaves, spec) if self._donated else (),
            static,
            tuple([_types_in(value) for _, value in static]),
            is_recording(0),
            levels <= {GLOBAL_TAPE},
            place.backend.name,
            str(place.device),
        )
        try:
            hash(key)
        except TypeError:
            self._unhashable(leaves, static)
        return leaves, key

    def _donated_leaves(self, leaves: Sequence[Any], spec: Any) -> tuple[int, ...]:
        """Return the indices of donated leaves that are passed once, are not views, and are writable."""
        found = self._leaves_given_away(spec)
        raws = [leaf.data if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        counts = Counter(map(id, [*raws, *[getattr(raw, "base", None) for raw in raws]]))
        return tuple([i for i in found if counts[id(raws[i])] == 1 and _may_be_overwritten(leaves[i])])

    def _all_donated(self, key: Key) -> bool:
        """Return True if all leaves of donated arguments may be overwritten."""
        return len(key.donated) == (len(self._leaves_given_away(key.spec)) if self._donated else 0)

    def _leaves_given_away(self, spec: Any) -> list[int]:
        """Return the indices of the leaves of donated arguments."""
        found: list[int] = []
        at = 0
        for number, argument in enumerate(spec.children()[0].children()):
            if number in self._donated:
                found += range(at, at + argument.num_leaves)
            at += argument.num_leaves
        return found

    def _unhashable(self, leaves: Sequence[Any], static: Iterable[Any]) -> None:
        for value in (*leaves, *(v for _, v in static)):
            try:
                hash(value)
            except TypeError:
                if not isinstance(value, Tensor) and backend_of_type(type(value)) is None:
                    raise OperandError(
                        f"jit({self._name}): arguments must be pytrees of arrays and hashable values, got a "
                        f"{type(value).__name__}, which cannot be hashed. Pass a tuple or a dict of arrays, or let the "
                        "function capture the value as a constant."
                    ) from None
        raise OperandError(f"jit({self._name}): arguments must be hashable or arrays") from None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    # ------------------------------------------------------------------ reports

    def cache_info(self) -> CacheInfo:
        """Return the counts of replays (hits), traces (misses) and kept programs."""
        return CacheInfo(self._hits, self._misses, self._size, self._count)

    def explain(self) -> Explanation:
        """Return why the last traced calls found no matching program.

        Printed, it lists for each trace after the first what differed from the nearest program. It identifies arguments
        by name and path, and captured state by the path to it. It also says which programs JAX compiled, and which it
        would speed up.
        """
        with entries.STATE_LOCK:
            traces = [(signature_text(key, self._parameters), why, made) for key, why, made in self._traces]
            return Explanation(f"jit({self._name})", self._misses, self._hits, traces)

    def cache_clear(self) -> None:
        """Delete all programs."""
        with entries.STATE_LOCK:
            self._entries.clear()
            self._known.clear()
            self._traces.clear()
            self._removed.clear()
            self._count = self._hits = self._misses = 0
            self._latest = []

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Return the program of a call with these arguments, without running it."""
        leaves, key = self._signature(args, kwargs)
        if key is None or mode().trace is not None:
            raise OperandError(
                f"jit({self._name}).lower: arguments must not belong to a transform. Call it outside of transforms."
            )
        entry, _ = self._find(key, leaves) or self._trace(key, leaves)
        if entry.run is None:
            raise OperandError(
                f"jit({self._name}).lower: the function must not read values of transforms around the call"
            )
        return Lowered(self._name, entry)

    def __repr__(self) -> str:
        return f"<jit {self._name}>"


def _may_be_overwritten(leaf: Any) -> bool:
    """Return True if a donated argument's array may be overwritten.

    Only NumPy tells which arrays are read-only.
    """
    if isinstance(leaf, Tensor) and leaf.node is not None:
        return False
    raw = leaf.data if isinstance(leaf, Tensor) else leaf
    flags = getattr(raw, "flags", None)
    return type(raw).__module__ == "numpy" and flags is not None and bool(flags.carray) and bool(flags.owndata)


class _Decorator(Protocol):
    """``agrad.jit`` with options, before it is given a function."""

    def __call__(self, function: Callable[P, R], /) -> Jitted[P, R]: ...


class _Options(TypedDict, total=False):
    """The keyword arguments of ``jit``."""

    static_argnums: _Numbers
    static_argnames: _Names
    donate_argnums: _Numbers
    cache_size: int
    precision: Precision | None
    torch_compile: bool | None
    compiler: Literal["jax", "auto"] | None


@overload
def jit(function: "Overloaded", /, **options: Any) -> Jitted[..., Any]: ...
@overload
def jit(function: Callable[P, R], /, **options: Unpack[_Options]) -> Jitted[P, R]: ...
@overload
def jit(function: None = None, /, **options: Unpack[_Options]) -> "_Decorator": ...
def jit(  # type: ignore[misc]
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: _Numbers = (),
    static_argnames: _Names = (),
    donate_argnums: _Numbers = (),
    cache_size: int = 64,
    precision: Precision | None = None,
    torch_compile: bool | None = None,
    compiler: Literal["jax", "auto"] | None = None,
) -> Any:
    """Trace a function once for each signature, and replay the program.

    The first call of a signature runs the function and records its operations as a program. Later calls run the
    program. A signature is the structure of the arguments, the shapes, dtypes, backend and device of arrays, and the
    values of all leaves that are neither arrays nor floats. The function can be a whole training step, with
    ``value_and_grad``, ``backward`` and an optimizer inside.

    Parameters
    ----------
    function : callable
        Function from pytrees of arrays to pytrees of arrays. If omitted, a decorator is returned.
    static_argnums, static_argnames : int or str, or a sequence of them
        Compile-time constants: each distinct value is traced separately. They must be hashable.
    donate_argnums : int or a sequence of int
        Arguments that the caller does not use afterwards. NumPy arrays among them may be overwritten.
    cache_size : int, default 64
        Maximum number of programs to keep.
    precision : {"tf32", "bfloat16", "float16"}, optional
        The dtype to which ``matmul`` and ``linear`` round float32 matrices, forward and backward. "tf32" lets a GPU use
        TF32. With "bfloat16" and "float16", sums and results are float32. CPUs (torch, jax; numpy: only float16)
        compute the same numbers, but not faster.
    torch_compile : bool, optional
        True to compile programs of PyTorch arrays with ``torch.compile``, which needs seconds at the first call. By
        default, only on CUDA devices. A program that cannot be compiled runs uncompiled, with a ``RuntimeWarning``.
    compiler : {"jax", "auto"}, optional
        Compiler for programs of NumPy arrays. "jax" compiles them for the CPU with XLA, which needs seconds at the
        first call. "auto" does so if JAX supports the program and the program has many operations on small arrays, as
        loops have. ``explain()`` shows the choice.

    Returns
    -------
    callable
        Function with the same results, which share no memory with arguments or each other. ``cache_info()`` counts
        traces and programs, ``print(f.lower(*args))`` shows a program, and ``explain()`` the reasons of retraces.

    Raises
    ------
    ConfigurationError
        At a call, if the function captures more than 1,000 Python values, or the precision or the compiler does not
        support the program.
    OperandError
        At a call, if an argument is neither an array nor hashable.
    TracedValueError
        At a call, if Python needs the value of a traced array (``bool()``, ``item()``), or if the function changes
        captured values that are not state.

    See Also
    --------
    agrad.eval_shape : Shapes and dtypes of results, without computing them.
    agrad.cond, agrad.scan, agrad.while_loop : Branches and loops that depend on values.
    agrad.vmap : Evaluate a function on all elements of a batch.

    Notes
    -----
    Python floats can change between calls. If Python needs the value of one (``if lr > 0``), each outcome is traced
    separately. Integers, Booleans, strings and other objects are static.

    Captured state is found through the closure, defaults, ``self``, the globals and attributes that code names,
    containers, and called functions. Leaf Tensors, their gradients and the state of optimizers are read at each call
    and written back. Arrays are read. A change of another captured value retraces the function. C code, computed
    attribute names, the time and the environment are not observed; see docs/jit.md.

    With a precision, parameters remain float32. Use ``optim.LossScale`` for gradients that are too small for float16.
    A second derivative through a jitted call is computed in float32.

    Examples
    --------
    >>> @agrad.jit
    ... def energy(params):
    ...     return agrad.sum(agrad.sin(params["x"]) ** 2) * params["k"]
    >>> params = {"x": np.ones(3), "k": np.asarray(2.0)}
    >>> energy(params).round(4), energy({"x": np.zeros(3), "k": np.asarray(2.0)})
    (np.float64(4.2484), np.float64(0.0))
    >>> energy.cache_info().misses, energy.cache_info().hits
    (1, 1)
    >>> agrad.grad(energy)(params)["x"].round(4)
    array([1.8186, 1.8186, 1.8186])
    """
    if torch_compile not in (None, True, False):
        raise ConfigurationError(f"jit: torch_compile must be True, False or None, got {torch_compile!r}")
    if precision is not None and precision not in PRECISIONS:
        raise ConfigurationError(f"jit: precision must be one of {', '.join(PRECISIONS)}, or None, got {precision!r}")
    if compiler not in (None, AUTO, *COMPILERS):
        names = ", ".join((AUTO, *COMPILERS))
        raise ConfigurationError(f"jit: compiler must be one of {names}, or None, got {compiler!r}")
    options = {"precision": precision, "torch_compile": torch_compile, "compiler": compiler}

    def decorate(function: Callable[..., Any]) -> Jitted[..., Any]:
        return Jitted(function, static_argnums, static_argnames, donate_argnums, cache_size, options)

    return decorate if function is None else decorate(function)


def _types_in(value: Any) -> Any:
    """Return what distinguishes equal static arguments: 1, 1.0 and True; 0.0 and -0.0."""
    if type(value) is tuple:
        return (tuple, *map(_types_in, value))
    return (type(value), repr(value)) if isinstance(value, (float, complex)) else type(value)


def _recorded(leaf: Tensor) -> bool:
    return leaf.node is not None and leaf.level.derivative and is_recording(leaf.level.id)
