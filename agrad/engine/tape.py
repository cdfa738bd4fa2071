"""The tape: its nodes, the plans that nodes share, and the recording mode."""

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Generator
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agrad.engine.observing import OBSERVED, Observer
from agrad.errors import OperandError, described


class Meta(NamedTuple):
    """The shape and dtype of an argument, for rules that name ``<argument>_meta``."""

    shape: tuple[int, ...]
    dtype: Any


ARGUMENT, RESULT = "argument", "result"
"""The most frequent saved values of a node: its only argument, or its only result."""

SETTINGS = "**settings"
"""The name of the dictionary of options, the last saved value of a node."""


class PlanKey(NamedTuple):
    """The key of the plan of a call."""

    traced: tuple[int, ...]
    """The positions of the arguments that are on the tape."""
    arity: int
    """The number of arguments, including the variadic ones."""
    same_shape_and_dtype: bool = False
    """True if the result has the shape and dtype of the arguments, so that cotangents are not fitted."""
    numbers: tuple[int, ...] = ()
    """The positions of Python numbers, which are saved."""
    lifted: bool = False
    """True if there are Tensors among the values."""
    guarded: bool = False
    """True if the pullback receives a ``Masked`` cotangent."""
    retains: bool = False
    """True if a backward pass stores the cotangent of the node."""


@dataclass(slots=True, eq=False, repr=False)
class Plan:
    """The part that similar nodes of one primitive share."""

    primitive: Any
    key: PlanKey
    """The key of the plan among the ``plans`` of its primitive."""
    arguments: tuple[str, ...]
    """The names of the arguments on the tape."""
    pullback: Callable[..., tuple[Any, ...]] = field(init=False)
    """``pullback(node, g)`` returns the cotangents of the parents."""
    names: tuple[str, ...] = ()
    """The name of each value in ``saved``: ``<argument>_meta``, an argument, an output, or ``SETTINGS``."""
    needs_slow_path: bool = False
    """True if a backward pass must use the slow path: lifted, retains, or elements of an argument may be unused."""
    operands: Callable[[Any], tuple[Any, ...]] = field(init=False)
    """The function from the arguments of a call to the arguments at ``positions``."""
    keep: Callable[[tuple[Any, ...]], tuple[Any, ...]] = field(init=False)
    """The function from the tuple of arguments, outputs and options to the saved values."""
    kept: str = ""
    """``ARGUMENT`` or ``RESULT`` if a node saves only that array, so that a call does not need ``keep``."""
    count: int = field(init=False)
    positions: tuple[int, ...] = field(init=False)
    """The positions of the arguments on the tape, in the order of the ``parents`` of a node."""
    same_shape_and_dtype: bool = field(init=False)
    lifted: bool = field(init=False)
    """True if the saved values are Tensors, so that rules run in the agrad namespace."""
    retains: bool = field(init=False)

    def __post_init__(self) -> None:
        key = self.key
        self.positions, self.count, self.same_shape_and_dtype = key.traced, key.arity, key.same_shape_and_dtype
        self.lifted, self.retains = key.lifted, key.retains

    @classmethod
    def bare(cls, primitive: Any, pullback: Callable[..., tuple[Any, ...]], arguments: tuple[str, ...]) -> "Plan":
        """Return a plan without named values, with all arguments on the tape."""
        plan = cls(primitive, PlanKey(tuple(range(len(arguments))), len(arguments)), arguments)
        plan.pullback = pullback
        return plan

    def places(self) -> dict[str, int]:
        """Return the indices of the values with the shapes and dtypes of arguments."""
        places = {name: i for i, name in enumerate(self.names)}
        return {a: places[name] for a in self.arguments for name in (a, f"{a}_meta") if name in places}


LEAF = Plan.bare(None, lambda node, g: (), ())


class Node:
    """An operation on the tape.

    It does not refer to Tensors, because a reference cycle would keep memory alive. ``id`` is a serial number in the
    order of creation, a topological order. ``owner`` (a weak reference to the Tensor) exists only on leaves and
    retaining nodes, ``where`` (a line of user code) only under ``detect_anomaly``, and ``hooks`` only if a hook was
    registered. ``links`` is the only parent, or a tuple of parents. A tuple of one would be another object for the
    garbage collector.
    """

    __slots__ = ("hooks", "id", "links", "owner", "plan", "saved", "where")

    id: int
    plan: Plan
    links: Any
    saved: tuple[Any, ...] | None
    owner: Any
    where: str
    hooks: dict[int, Any]

    @property
    def parents(self) -> "tuple[Node, ...]":
        """The nodes of the operands that are on the tape."""
        return self.links if isinstance(self.links, tuple) else (self.links,)


next_id: Callable[[], int] = itertools.count(1).__next__
"""Serial numbers of nodes and nesting levels; one call is atomic, so threads need no lock."""


def leaf_node(owner: Any = None) -> Node:
    """Return a node without an operation, at which a derivative ends."""
    node = Node()
    node.id = next_id()
    node.plan = LEAF
    node.links = node.saved = ()
    node.owner = None if owner is None else weakref.ref(owner)
    return node


class Mode(NamedTuple):
    """The recording mode of this thread or task."""

    oldest: int = 0
    """Nesting levels with smaller numbers do not record."""
    anomaly: bool = False
    """True to stop at the first NaN or infinity."""
    inside_rule: bool = False
    """True inside a rule, which may mask a NaN in its intermediate values: only its result is checked."""
    observers: tuple[Observer, ...] = ()
    trace: Any = None
    """The trace that records operations as a program, or None outside of ``jit``."""
    maps: tuple[Any, ...] = ()
    """The running functions under ``vmap``, the outermost first, for random draws."""
    replays: tuple[tuple[int, int], ...] = ()
    """For each running recomputation, the serial numbers at the recording and at its start."""


_mode: ContextVar[Mode] = ContextVar("agrad_mode", default=Mode())  # noqa: B039 (a tuple)
_recording_floor: ContextVar[float] = ContextVar("agrad_recording_floor", default=0)

recording_floor: Callable[[], float] = _recording_floor.get
"""The level number below which operations use the slow path.

It is the only part of the mode that the fast call path reads. The slow path (``levels.record_slow``) reads ``mode``.
"""

mode: Callable[[], Mode] = _mode.get


def _floor_of(now: Mode) -> float:
    return float("inf") if now.anomaly or now.trace is not None else now.oldest


class change_mode:
    """A context manager that changes fields of the mode inside it."""

    __slots__ = ("fields", "tokens")

    def __init__(self, **fields: Any) -> None:
        self.fields: dict[str, Any] = fields

    def __enter__(self) -> None:
        new = _mode.get()._replace(**self.fields)
        self.tokens: tuple[Token[Mode], Token[float]] = _mode.set(new), _recording_floor.set(_floor_of(new))

    def __exit__(self, *exc_info: object) -> None:
        earlier, floor = self.tokens
        _recording_floor.reset(floor)
        _mode.reset(earlier)


class _ModeChange(ContextDecorator):
    """A context manager and decorator that changes the mode. It can be nested."""

    looks = False
    """True if operations inside are observed (see ``observing``)."""

    def __init__(self, *given: Any) -> None:
        if given:
            name = type(self).__name__
            raise OperandError(
                f"{name}: there must be no argument, got {described(given[0])}. Write 'with agrad.{name}():' or put "
                f"'@agrad.{name}()' above a function."
            )
        self._tokens: list[tuple[Token[Mode], Token[float]]] = []

    __init__.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])  # type: ignore[attr-defined]

    def _change(self, now: Mode) -> Mode:
        raise NotImplementedError

    def _recreate_cm(self) -> "_ModeChange":
        return type(self)()

    def __call__(self, function: Any) -> Any:
        """Return the function with the mode in force while its body runs or resumes."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self._recreate_cm():
                    return await function(*args, **kwargs)

            return awaited
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def resumed(*args: Any, **kwargs: Any) -> Any:
                return (yield from _each_resumption(function(*args, **kwargs), self._recreate_cm))

            return resumed
        return super().__call__(function)

    def __enter__(self) -> Any:
        if self.looks:
            OBSERVED.append(None)
        new = self._change(_mode.get())
        self._tokens.append((_mode.set(new), _recording_floor.set(_floor_of(new))))
        return self

    def __exit__(self, *exc_info: object) -> None:
        earlier, seen = self._tokens.pop()
        _recording_floor.reset(seen)
        _mode.reset(earlier)
        if self.looks:
            OBSERVED.pop()


def _each_resumption(generator: Any, change: Callable[[], _ModeChange]) -> Generator[Any, Any, Any]:
    """Run a generator with the mode in force, except while its caller runs."""
    resume, value = generator.send, None
    try:
        while True:
            try:
                with change():
                    out = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = generator.send, (yield out)
            except GeneratorExit:
                raise
            except BaseException as error:
                resume, value = generator.throw, error
    finally:
        with change():
            generator.close()


def replay(recorded: int, replays: tuple[tuple[int, int], ...]) -> change_mode:
    """Treat levels as open that were open at the serial number ``recorded``.

    ``replays`` are the recomputations that ran at that time.
    """
    return change_mode(replays=(*replays, (recorded, next_id())))


def is_over(level: Any) -> bool:
    """Return True for a level of a transform that has ended."""
    return level.ended > 0 and not any(since < level.ended < start for since, start in _mode.get().replays)


class no_grad(_ModeChange):
    """Context manager and decorator that stops recording: results are constants.

    A transform that is called inside (``grad(f)(x)``) still differentiates.

    See Also
    --------
    agrad.enable_grad : Record again inside.
    agrad.stop_gradient : Return one value as a constant.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> with agrad.no_grad():
    ...     y = agrad.sum(x * 2)
    >>> y.requires_grad, agrad.sum(x * 2).requires_grad
    (False, True)
    """

    def _change(self, now: Mode) -> Mode:
        return now._replace(oldest=next_id())


class enable_grad(_ModeChange):
    """Context manager and decorator that records again inside ``no_grad``.

    See Also
    --------
    agrad.no_grad : Stop recording.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> with agrad.no_grad():
    ...     with agrad.enable_grad():
    ...         y = agrad.sum(x * 2)
    >>> y.backward()
    >>> x.grad
    Tensor([2.0, 2.0], dtype=float64, backend=numpy, device=cpu)
    """

    def _change(self, now: Mode) -> Mode:
        return now._replace(oldest=0)


def recording_from(level_id: int) -> change_mode:
    """Record the level with a number too, to recompute values that it recorded."""
    return change_mode(oldest=min(_mode.get().oldest, level_id))


class detect_anomaly(_ModeChange):
    """Context manager and decorator that raises an error at the first NaN or infinity.

    It checks the result of every operation and every derivative rule, in every transform, and raises ``AnomalyError``
    with the line of your code. Errors of failed rules include the line too. Operations are several times slower inside.

    See Also
    --------
    agrad.graph : Show operations and their values.

    Examples
    --------
    >>> def length(x):
    ...     return agrad.sqrt(agrad.sum(x**2))
    >>> with np.errstate(all="ignore"), agrad.detect_anomaly():
    ...     agrad.grad(length)(np.zeros(2))
    Traceback (most recent call last):
        ...
    agrad.errors.AnomalyError: ...
    """

    looks = True

    def _change(self, now: Mode) -> Mode:
        return now._replace(anomaly=True)


def is_recording(level_id: int) -> bool:
    """Return True if a level records in the current mode. A trace always records."""
    return level_id < 0 or level_id >= _mode.get().oldest
