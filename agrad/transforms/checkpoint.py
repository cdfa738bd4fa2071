"""``checkpoint``: recompute intermediate values in the backward pass.

The function runs and is recorded as usual. Then one call replaces the nodes that it created, on every tape of its
results. The parents of the call are the older nodes that these depend on: the nodes of the arguments and of the Tensors
that the function closes over. The pullback runs the function again and differentiates that run. It is a checkpoint
itself, so that higher derivatives store as little.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from agrad.engine.backward import backward_pass
from agrad.engine.calls import Pull, is_tensor, newest_level, record_call, recorded_part, tensor_of
from agrad.engine.explain import called
from agrad.engine.gradients import nodes_before, starting_cotangents
from agrad.engine.layouts import copy_if_aliased
from agrad.engine.levels import Forward
from agrad.engine.states import Recorded, recording_states, replaying
from agrad.engine.tape import LEAF, Node, change_mode, mode, next_id, recording_from
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.engine.views import like_given
from agrad.errors import RuleError
from agrad.registry import CALLS
from agrad.transforms.arguments import check_function, state_of, with_constants
from agrad.transforms.trees import flatten_all, replaced, unflatten

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
Same = TypeVar("Same", bound="Overloaded")
_Path = tuple[int, int]
"""Index of a result of a function, and index of a tape that records it."""


@overload
def checkpoint(f: Same) -> Same: ...
@overload
def checkpoint(f: Callable[P, R]) -> Callable[P, R]: ...
def checkpoint(f: Function) -> Function:
    """Return ``f`` as a function that stores only its inputs and outputs.

    The results and gradients are the same. The backward pass recomputes the intermediate values of ``f``. Use it if a
    gradient does not fit in memory. It works with ``.backward()``, inside transforms, and nested. It changes nothing in
    forward mode.

    Parameters
    ----------
    f : callable
        Function of pytrees that returns a pytree. It can close over Tensors. It is called once more in each backward
        pass and must be deterministic. agrad restores its own random generators, dropout and running statistics first.
        Register other state that ``f`` changes with ``agrad.note_state``.

    Returns
    -------
    callable
        Function with the signature of ``f``.

    Raises
    ------
    OperandError
        If ``f`` is not callable.
    RuleError
        In the backward pass, if the second run uses other Tensors than the first, or returns a different number of
        results.

    See Also
    --------
    agrad.note_state : Register state that the function changes.
    agrad.scan : With ``checkpoint=True``, a loop that stores only some of its carries.
    agrad.jit : Compile a function.

    Examples
    --------
    >>> calls = []
    >>> def layer(x):
    ...     calls.append("forward")
    ...     return agrad.tanh(x)
    >>> agrad.grad(lambda x: agrad.checkpoint(layer)(x))(0.0)
    np.float64(1.0)
    >>> len(calls)
    2
    """
    check_function("checkpoint", f)

    @functools.wraps(f, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return with_constants(_checkpointed, f, args, kwargs)

    return checkpointed


def _checkpointed(f: Function, /, *args: Any, **kwargs: Any) -> Any:
    leaves, spec = flatten_all((args, kwargs))
    held = [strip_constant_levels(leaf) for leaf in leaves]
    name = f"checkpoint {getattr(f, '__name__', type(f).__name__)}"
    out_spec: list[Any] = []
    written: list[Any] = []

    def run() -> list[Any]:
        # new objects for each run: if f writes to its arguments, the next run must not see it
        again = [_handle(value, leaf) for value, leaf in zip(held, leaves, strict=True)]
        before = [state_of(handle) for handle in again]
        given, named = unflatten(spec, again)
        out, found = flatten_all(called(f, *given, **named))
        changed = [i for i, handle in enumerate(again) if state_of(handle) != before[i]]
        out_spec[:], written[:] = [found], [leaves[i] for i in changed]
        return [*out, *[again[i] for i in changed]]

    outs = _cut(run, name)
    trace = mode().trace
    if trace is not None and trace.keeps_rules and trace.stops and not written:
        _in_body(f, held, spec, outs, name, trace)
    count = len(outs) - len(written)
    for leaf, value in zip(written, outs[count:], strict=True):
        CALLS["write"](leaf, value, name)
    raw = not any(isinstance(leaf, Tensor) for leaf in leaves)
    return unflatten(out_spec[0], copy_if_aliased(outs[:count], leaves) if raw else outs[:count])


def _in_body(f: Function, held: list[Any], spec: Any, outs: list[Any], name: str, trace: Any) -> None:
    """Replace the results by the results of one instruction, whose derivative is a checkpoint."""
    inputs, arrays = ([i for i, x in enumerate(values) if hasattr(x, "shape")] for values in (held, outs))
    results = [strip_constant_levels(outs[k]) for k in arrays]
    if newest_level(results) is not trace:
        return

    def function(given: list[Any]) -> list[Any]:
        args, kwargs = unflatten(spec, replaced(held, inputs, given))
        found = flatten_all(f(*args, **kwargs))[0]
        return [found[k] for k in arrays]

    def recompute(program: Function, _: Any, given: list[Any]) -> list[Any]:
        return checkpoint(program)(given)

    leaves = [held[i] for i in inputs]
    outs[:] = replaced(outs, arrays, trace.defined(name, results, function, leaves, leaves, recompute))


def _handle(value: Any, leaf: Any) -> Any:
    """Return an argument as a new object of the same kind."""
    if not isinstance(leaf, Tensor):
        return leaf
    value = strip_constant_levels(value)
    return like_given(tensor_of(value), leaf) if is_tensor(leaf) else value


def _cut(run: Callable[[], list[Any]], name: str) -> list[Any]:
    """Return the results of ``run``, recorded as one call on each tape."""
    since = next_id()
    with recording_states() as states:
        outs = run()
    tapes: dict[int, tuple[Any, dict[Node, _Path]]] = {}
    for i, out in enumerate(outs):
        for k, (level, node) in enumerate(_places(out)):
            if node.id > since:
                tapes.setdefault(level.id, (level, {}))[1].setdefault(node, (i, k))
    instead: dict[Node, Node] = {}
    for level, ends in tapes.values():
        parents = nodes_before(ends, since)
        if not parents:
            continue
        pull = _pullback(run, name, level, list(ends.values()), len(outs), parents, states)
        nodes = record_call(name, parents, len(ends), pull)
        instead.update(zip(ends, nodes, strict=True))
        for end, node in zip(ends, nodes, strict=True):
            if hasattr(end, "hooks") or hasattr(end, "owner"):
                _carry(end, node)
    return [_replaced(out, instead) for out in outs] if tapes else outs


def _carry(end: Node, node: Node) -> None:
    """Move hooks and a retained gradient from the node of a result to its replacement."""
    if end.plan is LEAF:
        return
    if hasattr(end, "hooks"):
        node.hooks, end.hooks = end.hooks, {}
    if hasattr(end, "owner"):
        node.owner, end.owner = end.owner, None
    node.plan = node.plan.primitive.variant(node.plan, retains=True)


def _places(value: Any) -> Iterator[tuple[Any, Node]]:
    """Yield the nesting level and node of a value and of its tangents, on each tape."""
    while isinstance(value, Tensor):
        if value.level.tape:
            if value.node is not None:
                yield value.level, value.node
        elif isinstance(value.level, Forward) and value.node is not None:
            yield from _places(value.node)
        value = value.data


def _replaced(value: Any, instead: dict[Node, Node]) -> Any:
    if not isinstance(value, Tensor):
        return value
    data = _replaced(value.data, instead)
    node = value.node
    if value.level.tape:
        node = instead.get(node, node)
    elif isinstance(value.level, Forward):
        node = _replaced(node, instead)
    if data is value.data and node is value.node:
        return value
    return wrap(data, value.level, node)


def _differs(name: str, how: str) -> RuleError:
    """Return the error of a function whose second run differs."""
    return RuleError(
        f"{name}: the function must be deterministic, but the second run, in the backward pass, {how}. Register state "
        "that it changes with agrad.note_state."
    )


def _pullback(
    run: Callable[[], list[Any]],
    name: str,
    level: Any,
    paths: list[_Path],
    count: int,
    parents: list[Node],
    states: Recorded,
) -> Pull:
    """Return the pullback of a checkpoint on one tape; it runs the function again.

    ``paths`` lead to the ends on that tape in the ``count`` results.
    """
    maps = mode().maps

    def recompute(given: list[Any], recorded: bool) -> list[Any]:
        since = next_id()
        # it may be called in the pass of another transform, and after the map that it was called in
        with recording_from(level.id), replaying(states), change_mode(maps=maps):
            outs = run()
        ends = []
        for i, k in paths:
            places = list(_places(outs[i])) if len(outs) == count else []
            if k >= len(places) or places[k][0] is not level:
                raise _differs(name, "returned other results")
            ends.append(places[k][1])
        starts = starting_cotangents(ends, given)
        found = backward_pass(starts, retain=recorded, level=level if recorded else None, since=since)
        known = set(parents)
        for reached in found:
            if reached.id <= since and reached not in known:
                raise _differs(name, "used another Tensor")
        return [found.get(parent) for parent in parents]

    def pull(node: Node, given: list[Any]) -> list[Any]:
        now = mode()
        recorded = any(isinstance(g, Tensor) and g.level is level for g in given)
        with recording_from(level.id), change_mode(inside_rule=False):
            found = _cut(functools.partial(recompute, given, recorded), f"backward of {name}")
        if now.oldest > level.id:  # a transform that an outer block does not record is not recorded here
            return [recorded_part(g) for g in found]
        return found

    return pull
