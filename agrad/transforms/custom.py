"""Hand-written derivatives: ``custom_vjp``, ``custom_jvp``, ``stop_gradient``."""

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.engine.backward import backward_pass, topological_order
from agrad.engine.calls import Call, lift_all
from agrad.engine.gradients import starting_cotangents
from agrad.engine.levels import GLOBAL_TAPE, Reverse, lift, namespace_of
from agrad.engine.tape import LEAF, leaf_node
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.errors import ConfigurationError, MissingRuleError, NotDifferentiableError, OperandError, ShapeError
from agrad.transforms.arguments import split, zeros
from agrad.transforms.calling import Back, Values, call, differentiable
from agrad.transforms.linear import is_linear
from agrad.transforms.trees import flatten_all, tree_map, unflatten

Function = Callable[..., Any]
BATCH = ("vmap", "loop")


def stop_gradient(x: Any) -> Any:
    """Return the same values as constants, without a derivative of any order.

    x: a nested container. Members that ``vmap`` maps over stay mapped. ``Tensor.detach`` is the same for one Tensor at
    the newest level.
    """
    return tree_map(_stopped, x)


def _stopped(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    inner = value
    while isinstance(inner, Tensor):
        if not inner.level.derivative:
            data = _stopped(inner.data)
            return wrap(settle(data), inner.level, inner.node)
        inner = inner.data
    return wrap(inner, GLOBAL_TAPE)


class _Custom:
    """Base class of functions with hand-written rules."""

    kind = "custom"

    def __new__(cls, f: Function | None = None, **settings: Any) -> Any:
        if f is None:
            return functools.partial(cls, **settings)
        return super().__new__(cls)

    def __init__(self, f: Function, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap") -> None:
        if not callable(f):
            raise OperandError(f"{self.kind} takes a function, not {type(f).__name__}")
        if batch not in BATCH:
            raise ConfigurationError(f"{self.kind}: batch is 'vmap' or 'loop', not {batch!r}")
        self.f = f
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.batch = batch
        functools.update_wrapper(self, f)

    @property
    def title(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position with defaults filled in, as rules take them."""
        try:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not kwargs and isinstance(error, ValueError):  # a function that tells nothing of its arguments
                return args
            raise OperandError(f"{self.title}: {error}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise OperandError(f"{self.title}: a function with rules of its own has no keyword-only arguments")
        return bound.args

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = _Given(self, self._positional(args, kwargs))
        out = call(self._rules(given), given.leaves)
        return unflatten(given.out_spec, out)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: the instance is the first argument."""
        return self if instance is None else functools.partial(self, instance)

    def _rules(self, given: "_Given") -> Any:
        raise NotImplementedError


class _Given:
    """The arguments of one call: differentiated leaves, and settings."""

    def __init__(self, custom: _Custom, args: tuple[Any, ...]) -> None:
        for n in custom.nondiff:
            if not -len(args) <= n < len(args):
                raise ConfigurationError(f"{custom.title}: nondiff_argnums names argument {n} of {len(args)}")
        self.custom = custom
        self.fixed = {n % len(args): args[n % len(args)] for n in custom.nondiff}
        self.count = len(args)
        for n, value in self.fixed.items():
            if any(isinstance(leaf, Tensor) and leaf.node is not None for leaf in flatten_all(value)[0]):
                raise NotDifferentiableError(
                    f"{custom.title}: argument {n} is among nondiff_argnums and is being differentiated or mapped; "
                    "make it an ordinary argument, or give agrad.stop_gradient of it"
                )
        self.leaves, self.spec = flatten_all(tuple([a for i, a in enumerate(args) if i not in self.fixed]))
        self.out_spec: Any = None

    def arguments(self, leaves: Values) -> list[Any]:
        """Return the arguments by position, around other leaves."""
        rest = iter(unflatten(self.spec, leaves))
        return [self.fixed[i] if i in self.fixed else next(rest) for i in range(self.count)]

    def settings(self) -> list[Any]:
        """Return the arguments at ``nondiff_argnums``, in that order."""
        return [self.fixed[n % self.count] for n in self.custom.nondiff]

    def flat(self, out: Any) -> list[Any]:
        """Return the leaves of a result, whose structure is remembered."""
        leaves, self.out_spec = flatten_all(out)
        return leaves

    def trees(self, leaves: Values) -> tuple[Any, ...]:
        """Return the differentiated arguments' containers, around other leaves."""
        return tuple(unflatten(self.spec, leaves))


class custom_vjp(_Custom):
    """A function whose pullback is written by hand. A decorator.

    The rules are set by ``f.defvjp(fwd, bwd)``. At the innermost level ``f``, ``fwd`` and ``bwd`` take raw arrays, and
    may call anything. For second derivatives they take Tensors, and must then be code that agrad can differentiate.
    Forward mode transposes ``bwd``.

    Parameters
    ----------
    f : callable
        Takes and returns nested containers.
    nondiff_argnums : int or sequence of int
        Positions of arguments that are settings, without a derivative. ``bwd`` takes them first.
    batch : {"vmap", "loop"}
        The way that ``vmap`` calls the function and its rules: for all members at once, where they are made of agrad's
        functions, or once a member, for raw kernels.

    Raises
    ------
    MissingRuleError
        When differentiated before ``defvjp``.
    NotDifferentiableError
        When the function closes over a Tensor that is being differentiated.
    ShapeError
        When ``bwd`` returns a cotangent of another structure.
    """

    kind = "custom_vjp"

    def __init__(self, f: Function, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap") -> None:
        super().__init__(f, nondiff_argnums, batch)
        self.fwd: Function | None = None
        self.bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Set the rules.

        Parameters
        ----------
        fwd : callable
            ``fwd(*args)`` returns (result, residuals); the residuals are any container.
        bwd : callable
            ``bwd(*settings, residuals, g)`` takes a cotangent ``g`` of the result's structure and returns a tuple with
            the cotangent of each differentiated argument, None for zero.
        """
        self.fwd, self.bwd = fwd, bwd

    def _rules(self, given: _Given) -> "_VjpRules":
        return _VjpRules(self, given)


class _Rules:
    """Base class of the rules of both kinds; see ``calling.Rules``."""

    def __init__(self, custom: Any, given: _Given) -> None:
        self.custom, self.given = custom, given
        self.name = custom.title
        self.loop = custom.batch == "loop"

    def primal(self, leaves: Values) -> list[Any]:
        return self.given.flat(self.custom.f(*self.given.arguments(leaves)))


class _VjpRules(_Rules):
    """See ``calling.Rules``."""

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        custom, given = self.custom, self.given
        if custom.fwd is None or custom.bwd is None:
            raise MissingRuleError(f"{self.name} has no rule yet; file one with {self.name}.defvjp(fwd, bwd)")
        bwd = custom.bwd
        out = custom.fwd(*given.arguments(leaves))
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: fwd gives a pair (result, residuals), not {type(out).__name__}")
        outs = given.flat(out[0])
        residuals, res_spec = flatten_all(out[1])
        out_spec, floating = given.out_spec, [differentiable(o) for o in outs]

        def back(gs: list[Any]) -> list[Any]:
            lifts = any(isinstance(g, Tensor) for g in gs)
            kept = [lift(r) for r in residuals] if lifts else residuals
            rest = iter(gs)
            cotangent = unflatten(out_spec, [next(rest) if is_floating else None for is_floating in floating])
            return self._by_leaf(bwd(*given.settings(), unflatten(res_spec, kept), cotangent))

        return outs, back

    def _by_leaf(self, found: Any) -> list[Any]:
        """Return ``bwd``'s result by the arguments' leaves."""
        arguments = unflatten(self.given.spec, self.given.leaves)
        if isinstance(found, list):
            found = tuple(found)
        if not isinstance(found, tuple) or len(found) != len(arguments):
            what = f"{len(found)} entries" if isinstance(found, tuple) else f"a {type(found).__name__}"
            raise ShapeError(
                f"{self.name}: bwd gives a tuple with the cotangent of each argument, {len(arguments)} in all, "
                f"not {what}"
            )
        out: list[Any] = []
        for i, (g, argument) in enumerate(zip(found, arguments, strict=True)):
            leaves, spec = flatten_all(argument)
            if g is None:
                out += [None] * len(leaves)
                continue
            gs, g_spec = flatten_all(g)
            if g_spec != spec:
                raise ShapeError(f"{self.name}: bwd's cotangent of argument {i} is {g_spec}; the argument is {spec}")
            out += gs
        return out

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        outs, back = self.reverse(leaves, traced)
        floating = [k for k, out in enumerate(outs) if differentiable(out)]
        likes = lift_all([outs[k] for k in floating])

        def transposed(gs: list[Any]) -> list[Any]:
            found = back(gs)
            return [found[i] for i in traced]

        try:
            push = transpose(transposed, likes, f"the bwd of {self.name}")
        except NotDifferentiableError:
            raise
        except Exception as error:
            raise NotDifferentiableError(
                f"{self.name}: forward mode transposes bwd, which must then be made of agrad's functions ({error}); "
                "give the function a custom_jvp, or differentiate in reverse mode"
            ) from error
        pushed: list[Any] = [None] * len(outs)
        for k, t in zip(floating, push(list(tangents)), strict=True):
            pushed[k] = t
        return outs, pushed


def transpose(function: Callable[[list[Any]], list[Any]], likes: Values, what: str) -> Callable[[list[Any]], list[Any]]:
    """Return the transpose of a linear function of lists of arrays.

    It is recorded at 0.

    ``likes``: arrays or Tensors like the arguments. Raises ``NotDifferentiableError`` where an operation is not linear.
    A function with a hand-written rule does not tell; for these the transposes at other arguments must agree.
    """
    at_zero = _Recorded(function, [zeros(like) for like in likes])
    doubtful: list[str] = []
    for node in topological_order([end for end in at_zero.ends if end is not None]):
        if node.plan is LEAF or is_linear(node.plan):
            continue
        if not isinstance(node.plan.primitive, Call):
            raise NotDifferentiableError(f"{what} is not linear, as {node.plan.primitive.name} in it is not")
        doubtful.append(node.plan.primitive.name)
    elsewhere = [
        _Recorded(function, [namespace_of((like,)).full_like(like, number) for like in likes])
        for number in (_FAR, -_FAR)
        if doubtful
    ]

    def push(ts: list[Any]) -> list[Any]:
        pushed = at_zero.pulled(ts)
        for other in elsewhere:
            if not all(map(_same, pushed, other.pulled(ts))):
                raise NotDifferentiableError(f"{what} is not linear, as {' or '.join(set(doubtful))} in it is not")
        return pushed

    return push


_FAR = 1234.5


class _Recorded:
    """A function of a list of arrays, recorded at one point."""

    def __init__(self, function: Callable[[list[Any]], list[Any]], point: Values) -> None:
        level = Reverse()
        self.roots = [leaf_node() for _ in point]
        outs = function([wrap(settle(x), level, root) for x, root in zip(point, self.roots, strict=True)])
        self.ends = [None if out is None else split(out, level)[1] for out in outs]

    def pulled(self, ts: list[Any]) -> list[Any]:
        """Return the arguments' cotangents for those of the results, None for zero."""
        starts = starting_cotangents(self.ends, [settle(t) for t in ts])
        found = backward_pass(starts, retain=True)
        return [found.get(root) for root in self.roots]


def _same(a: Any, b: Any) -> bool:
    """Return True if two results of one computation have the same values."""
    if a is None or b is None:
        return a is b
    first, second = (backend_of(raw).to_host(raw) for raw in (x.raw if isinstance(x, Tensor) else x for x in (a, b)))
    bound = 1e-3 * float(np.max(np.abs(first), initial=0.0))
    return first.shape == second.shape and bool(np.allclose(first, second, 1e-3, bound, equal_nan=True))


class custom_jvp(_Custom):
    """A function whose pushforward is written by hand. A decorator.

    The rule is set by ``f.defjvp(rule)`` or ``f.defjvps(*rules)``. It runs in the forward pass. Reverse mode transposes
    it, and keeps the values that its operations on the tangents need.

    Parameters
    ----------
    f, nondiff_argnums, batch
        As for ``custom_vjp``.

    Raises
    ------
    MissingRuleError
        When differentiated before a rule is set.
    NotDifferentiableError
        When the rule is not linear in the tangents, or the function closes over a Tensor that is being differentiated.
    """

    kind = "custom_jvp"

    def __init__(self, f: Function, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap") -> None:
        super().__init__(f, nondiff_argnums, batch)
        self.rule: Function | None = None

    def defjvp(self, rule: Function) -> None:
        """Set the rule, ``rule(*settings, primals, tangents) -> (result, tangent)``.

        It must be linear in the tangents, which are zeros where an argument is not differentiated, and None where it is
        no floating array.
        """
        self.rule = rule

    def defjvps(self, *rules: Function | None) -> None:
        """Set one rule for each argument.

        ``rule(t, result, *args)`` returns the tangent of the result for the argument's tangent ``t``.

        None stands for an argument without a derivative.
        """
        if self.nondiff:
            raise ConfigurationError(f"{self.title}: defjvps is for functions without nondiff_argnums; use defjvp")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            if len(rules) != len(primals):
                raise ConfigurationError(f"{self.title} has {len(rules)} rules for {len(primals)} arguments")
            out = self(*primals)
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents, strict=True) if r and t is not None]
            return out, functools.reduce(operator.add, parts) if parts else zeros(out)

        self.rule = rule

    def _rules(self, given: _Given) -> "_JvpRules":
        return _JvpRules(self, given)


class _JvpRules(_Rules):
    """See ``calling.Rules``."""

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        custom, given = self.custom, self.given
        if custom.rule is None:
            raise MissingRuleError(f"{self.name} has no rule yet; file one with {self.name}.defjvp(rule)")
        both = lift_all([*leaves, *_with_zeros(leaves, traced, tangents)])
        primals, along = both[: len(leaves)], both[len(leaves) :]
        out = custom.rule(*given.settings(), given.trees(primals), given.trees(along))
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: the rule gives a pair (result, tangent), not {type(out).__name__}")
        pushed, spec = flatten_all(out[1])
        outs = given.flat(out[0])
        if spec != given.out_spec and len(pushed) != len(outs):
            raise ShapeError(f"{self.name}: the tangent's structure is {spec}; the result's is {given.out_spec}")
        return outs, pushed

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        outs: list[Any] = []

        def push(ts: list[Any]) -> list[Any]:
            outs[:], pushed = self.forward(leaves, traced, ts)
            return [t for t, out in zip(pushed, outs, strict=True) if differentiable(out)]

        back = transpose(push, [leaves[i] for i in traced], f"{self.name}: the rule")

        def pullback(gs: list[Any]) -> list[Any]:
            found: list[Any] = [None] * len(leaves)
            for i, g in zip(traced, back(gs), strict=True):
                found[i] = g
            return found

        return outs, pullback


def _with_zeros(leaves: Values, traced: Sequence[int], tangents: Values) -> list[Any]:
    """Return a tangent for each leaf.

    Numbers and arrays not traced have zeros, other leaves None.
    """
    by_place = dict(zip(traced, tangents, strict=True))
    full = []
    for i, leaf in enumerate(leaves):
        if i in by_place:
            full.append(by_place[i])
        elif differentiable(leaf):
            full.append(zeros(leaf))
        else:
            full.append(type(leaf)(0) if type(leaf) in (float, complex) else None)
    return full
