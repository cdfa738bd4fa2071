"""What the tape is made of: a node an operation, the plan its nodes share, and whether recording is on."""

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

from agrad.engine.observing import SWITCH, Observer


class Meta(NamedTuple):
    """Of an argument, only its shape and dtype: what a rule gets that names ``<argument>_meta``."""

    shape: tuple[int, ...]
    dtype: Any


class Plan:
    """What all nodes of one primitive share that keep the same things for the same differentiable arguments.

    ``positions`` are those of the arguments that are on the tape, in the order of a node's ``parents``.
    ``names`` says what each entry of a node's ``saved`` is: an argument, an output, a setting, ``<argument>_meta``,
    or ``~<argument>`` for an operand that no rule names and that is held weakly, for ``op.args`` alone.
    ``pull(node, g)`` gives the cotangents of the parents.
    """

    __slots__ = (
        "arguments",
        "count",
        "detours",
        "exact",
        "lifted",
        "names",
        "pack",
        "pool",
        "positions",
        "primitive",
        "pull",
        "retains",
    )

    primitive: Any
    count: int
    """Of how many arguments, the variadic ones counted."""
    exact: bool
    """Whether cotangents need no fitting: the result has the arguments' own shape and dtype."""
    detours: bool
    """Whether a backward pass has to look closer here: the plan is lifted or retains, or the operation leaves some
    elements of an argument unused, as ``where`` does (see ``sweep``)."""
    retains: bool
    """Whether a backward pass adds the cotangent to the node's ``grad``."""
    lifted: bool
    """Whether the values kept are Tensors, so that rules run in agrad's own namespace."""
    pool: tuple[Callable[..., Any], int, int] | None
    """For a part of an array: what adds up many parts' cotangents, and where a node keeps the index and the array's
    shape (see ``sweep.Pool``)."""
    arguments: tuple[str, ...]
    positions: tuple[int, ...]
    names: tuple[str, ...]
    pack: Callable[..., tuple[Any, ...]]
    pull: Callable[..., tuple[Any, ...]]

    def __init__(self) -> None:
        self.pool = None


LEAF = Plan()
LEAF.primitive = None
LEAF.detours = LEAF.lifted = LEAF.retains = False
LEAF.arguments = LEAF.positions = LEAF.names = ()


class Node:
    """One operation on the tape. It holds no Tensor, so that no reference cycle keeps memory alive.

    ``id`` numbers nodes by birth, which is a topological order. ``owner`` (a weak reference to the Tensor) exists on
    leaves and retaining nodes only, ``where`` (a line of the user's code) only under ``detect_anomaly``, ``hooks``
    only where one was registered.
    """

    __slots__ = ("hooks", "id", "owner", "parents", "plan", "saved", "where")

    id: int
    plan: Plan
    parents: tuple["Node", ...]
    saved: tuple[Any, ...] | None
    owner: Any
    where: str
    hooks: dict[int, Any]


next_id: Callable[[], int] = itertools.count(1).__next__
"""Serial numbers of nodes and levels; one call is atomic, so threads need no lock."""


def leaf_node(owner: Any = None) -> Node:
    """A node with no operation: where a derivative ends."""
    node = Node()
    node.id = next_id()
    node.plan = LEAF
    node.parents = node.saved = ()
    node.owner = None if owner is None else weakref.ref(owner)
    return node


def loosely(value: Any) -> Any:
    """A weak reference to an array, or the value itself where it takes none (numbers, NumPy's scalars)."""
    try:
        return weakref.ref(value)
    except TypeError:
        return value


class Mode(NamedTuple):
    """How operations are recorded in this thread or task."""

    oldest: int = 0
    """Levels numbered below this do not record."""
    anomaly: bool = False
    """Whether to stop at the first NaN or infinity."""
    inside_rule: bool = False
    """Whether a rule runs that is looked at as a whole: what it makes on its way may be masked before its end."""
    observers: tuple[Observer, ...] = ()
    trace: Any = None
    """The trace that operations are recorded in as a program, or None outside of ``jit``."""


_mode: ContextVar[Mode] = ContextVar("agrad_mode", default=Mode())  # noqa: B039 (a tuple)
_attention: ContextVar[float] = ContextVar("agrad_attention", default=0)

attention: Callable[[], float] = _attention.get
"""The call path's one question: operations of levels numbered below this take the long way.

The long way (``levels.unusual``) then asks ``mode`` whether recording is off or anomalies are looked for.
"""

mode: Callable[[], Mode] = _mode.get


def _heed(now: Mode) -> float:
    return float("inf") if now.anomaly or now.trace is not None else now.oldest


@contextmanager
def tracing(trace: Any) -> Iterator[None]:
    """Have operations on Tensors that the trace does not know shown to it, which all take the long way."""
    new = _mode.get()._replace(trace=trace)
    token, seen = _mode.set(new), _attention.set(_heed(new))
    try:
        yield
    finally:
        _attention.reset(seen)
        _mode.reset(token)


class _ModeChange(ContextDecorator):
    """A context manager, usable again and nested, and a decorator, that changes the mode inside it."""

    looks = False
    """Whether operations inside are looked at (see ``observing``)."""

    def __init__(self) -> None:
        self._tokens: list[tuple[Token[Mode], Token[float]]] = []

    def _change(self, now: Mode) -> Mode:
        raise NotImplementedError

    def _recreate_cm(self) -> "_ModeChange":
        return type(self)()

    def __call__(self, function: Any) -> Any:
        """The function with the mode in force while its body runs; for generators and coroutines, each time it does."""
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
            SWITCH.look(1)
        new = self._change(_mode.get())
        self._tokens.append((_mode.set(new), _attention.set(_heed(new))))
        return self

    def __exit__(self, *exc_info: object) -> None:
        earlier, seen = self._tokens.pop()
        _attention.reset(seen)
        _mode.reset(earlier)
        if self.looks:
            SWITCH.look(-1)


def _each_resumption(generator: Any, change: Callable[[], _ModeChange]) -> Generator[Any, Any, Any]:
    """The generator, with the mode in force while it runs and not while its caller does."""
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


class no_grad(_ModeChange):
    """Record nothing inside: results are constants. A context manager and a decorator.

    It silences what was opened outside of it. A transform called inside (``grad(f)(x)``) still records its own level.
    """

    def _change(self, now: Mode) -> Mode:
        return now._replace(oldest=next_id())


class enable_grad(_ModeChange):
    """Record again, inside ``no_grad``. A context manager and a decorator."""

    def _change(self, now: Mode) -> Mode:
        return now._replace(oldest=0)


class recording_from(_ModeChange):
    """Record the level of that number, and what is recorded anyway: for what computes again what a level recorded."""

    def __init__(self, level_id: int) -> None:
        super().__init__()
        self.level_id = level_id

    def _change(self, now: Mode) -> Mode:
        return now._replace(oldest=min(now.oldest, self.level_id))


class outside_rules(_ModeChange):
    """Look at each operation, where anomalies are looked for, inside a rule too: for one that is a pass of its own."""

    def _change(self, now: Mode) -> Mode:
        return now._replace(inside_rule=False)


class detect_anomaly(_ModeChange):
    """Stop at the first operation that makes a NaN or an infinity, forward or backward, naming the user's line.

    Every operation is looked at, recorded or not, at every level and in every transform; a derivative rule's result is,
    not what the rule makes on its way. Operations are several times slower inside. Raises ``AnomalyError``; a rule that
    fails inside also names the line.
    """

    looks = True

    def _change(self, now: Mode) -> Mode:
        return now._replace(anomaly=True)


@contextmanager
def inside_rule() -> Iterator[None]:
    """While a rule runs whose result is looked at as a whole."""
    token = _mode.set(_mode.get()._replace(inside_rule=True))
    try:
        yield
    finally:
        _mode.reset(token)


def is_recording(level_id: int) -> bool:
    """Whether operations of that level are recorded here and now. A trace, numbered below 0, records always."""
    return level_id < 0 or level_id >= _mode.get().oldest
