"""Hand-written derivatives: ``custom_vjp``, ``custom_jvp``, ``stop_gradient``."""

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self, overload

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.engine.calls import Call, lift_all, stopped
from agrad.engine.joining import moves, returned
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor
from agrad.errors import (
    ConfigurationError,
    MissingRuleError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
    described,
)
from agrad.transforms.arguments import content_of, zeros
from agrad.transforms.calling import Back, Rules, Values, call, differentiable, tensors_where_given
from agrad.transforms.linear import LinearTape, nonlinear
from agrad.transforms.trees import flatten_all, tree_map, unflatten

__all__ = ["custom_jvp", "custom_vjp", "stop_gradient"]

Function = Callable[..., Any]
BATCH = ("vmap", "loop")


def stop_gradient(x: Any) -> Any:
    """Return the same values as constants, without a derivative of any order.

    Members that ``vmap`` maps over stay mapped. ``Tensor.detach`` is the same for one Tensor.

    Parameters
    ----------
    x : nested container
        Tensors and anything else.

    Returns
    -------
    nested container
        A container like ``x``, its Tensors replaced by constant ones.

    See Also
    --------
    agrad.no_grad : Nothing inside is recorded.
    agrad.custom_vjp : Another derivative than that of the operations.

    Examples
    --------
    >>> agrad.grad(lambda x: x * agrad.stop_gradient(x))(3.0)
    np.float64(3.0)
    >>> agrad.stop_gradient({"w": agrad.asarray([1.0], requires_grad=True)})["w"].requires_grad
    False
    """
    return tree_map(stopped, x)


class _Custom:
    """Base class of functions with hand-written rules."""

    kind: str
    rules: type[Any]
    """The class of the rules of one call."""

    @overload
    def __new__(cls, f: Function, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap") -> Self: ...
    @overload
    def __new__(  # type: ignore[misc]
        cls, f: None = None, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap"
    ) -> Callable[[Function], Self]: ...
    def __new__(cls, f: Function | None = None, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap") -> Any:
        if f is None:
            return functools.partial(cls, nondiff_argnums=nondiff_argnums, batch=batch)
        return super().__new__(cls)

    def __init__(
        self, f: Function | None = None, nondiff_argnums: Sequence[int] | int = (), batch: str = "vmap"
    ) -> None:
        if not callable(f):
            raise OperandError(f"{self.kind}: f must be a function, got {described(f)}")
        if batch not in BATCH:
            raise ConfigurationError(f"{self.kind}: batch is 'vmap' or 'loop', not {batch!r}")
        functools.update_wrapper(self, f)
        self.f = f
        self.rule: Any = None
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.batch = batch
        self.seen: list[Function] = []
        """The functions that have written into none of their raw arguments."""

    @property
    def title(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position with defaults filled in, as rules take them."""
        try:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not kwargs and isinstance(error, ValueError):  # a function without a signature
                return args
            raise OperandError(f"{self.title}: {error}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise OperandError(f"{self.title}: a function with rules of its own has no keyword-only arguments")
        return bound.args

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rules = self.rules(self, self._positional(args, kwargs))
        out = tensors_where_given(call(rules, rules.leaves), rules.leaves)
        return unflatten(rules.out_spec, out)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the function with the instance as its first argument, for methods."""
        return self if instance is None else functools.partial(self, instance)


class CustomRules(Rules):
    """One call of a function with hand-written rules; see ``calling.Rules``.

    ``leaves`` are those of the differentiated arguments; the arguments at ``nondiff_argnums`` are settings.
    """

    def __init__(self, custom: Any, args: tuple[Any, ...]) -> None:
        self.custom: Any = custom
        self.name: str = custom.title
        self.loop: bool = custom.batch == "loop"
        self.count: int = len(args)
        self.fixed: dict[int, Any] = {}
        for n in custom.nondiff:
            if not -self.count <= n < self.count:
                raise ConfigurationError(f"{self.name}: nondiff_argnums names argument {n} of {self.count}")
            value = self.fixed[n % self.count] = args[n]
            if any(isinstance(leaf, Tensor) and leaf.node is not None for leaf in flatten_all(value)[0]):
                raise NotDifferentiableError(
                    f"{self.name}: argument {n % self.count} is among nondiff_argnums and is being differentiated or "
                    "mapped; make it an ordinary argument, or give agrad.stop_gradient of it"
                )
        self.leaves, self.spec = flatten_all(tuple([a for i, a in enumerate(args) if i not in self.fixed]))
        self.out_spec: Any = None

    def arguments(self, leaves: Values) -> list[Any]:
        """Return all arguments by position, the differentiated ones with other leaves."""
        rest = iter(unflatten(self.spec, leaves))
        return [self.fixed[i] if i in self.fixed else next(rest) for i in range(self.count)]

    def settings(self) -> list[Any]:
        """Return the arguments at ``nondiff_argnums``, in that order."""
        return [self.fixed[n % self.count] for n in self.custom.nondiff]

    def flat(self, out: Any) -> list[Any]:
        """Return the leaves of a result, and keep its structure."""
        leaves, self.out_spec = flatten_all(out)
        return leaves

    def primal(self, leaves: Values) -> list[Any]:
        return self.flat(self.called(self.custom.f, leaves))

    def called(self, f: Function, leaves: Values) -> Any:
        """Return ``f`` of the arguments. Raise ``OperandError`` if it writes into one.

        Raw arrays are compared at the first call of ``f`` alone.
        """
        first = all(f is not known for known in self.custom.seen)
        held = [(leaf.data, leaf.node) for leaf in leaves if isinstance(leaf, Tensor)]  # for their ids to stay theirs
        before = [_standing(leaf, first) for leaf in leaves]
        out = f(*self.arguments(leaves))
        for leaf, kept in zip(leaves, before, strict=True):
            if _standing(leaf, first) != kept:
                raise OperandError(
                    f"{self.name} writes into an argument of shape {tuple(leaf.shape)}; a function with rules of its "
                    "own must not: write into a copy, y = x + 0, and return it"
                )
        if first and not held:
            self.custom.seen.append(f)
        return out


def _standing(leaf: Any, whole: bool) -> Any:
    """Return a value that a write to a leaf changes; ``whole``: of a raw array too."""
    if isinstance(leaf, Tensor):
        return id(leaf.data), id(leaf.node)
    return content_of(leaf) if whole and backend_of_type(type(leaf)) is not None else None


class _VjpRules(CustomRules):
    """The rules of one call of a ``custom_vjp``."""

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        fwd, bwd = self.custom.fwd, self.custom.bwd
        if fwd is None or bwd is None:
            raise MissingRuleError(f"{self.name} has no rule yet; file one with {self.name}.defvjp(fwd, bwd)")
        out = self.called(fwd, leaves)
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: fwd gives a pair (result, residuals), not {type(out).__name__}")
        outs = self.flat(out[0])
        residuals, res_spec = flatten_all(out[1])
        out_spec, floating = self.out_spec, [differentiable(o) for o in outs]

        def back(gs: list[Any]) -> list[Any]:
            lifts = moves(*gs, *residuals) or any(isinstance(g, Tensor) for g in gs)
            kept = [lift(r) for r in residuals] if lifts else residuals
            rest = iter([lift(g) for g in gs] if lifts else gs)
            cotangent = unflatten(out_spec, [next(rest) if is_floating else None for is_floating in floating])
            return self._by_leaf(bwd(*self.settings(), unflatten(res_spec, kept), cotangent))

        return outs, back

    def _by_leaf(self, found: Any) -> list[Any]:
        """Return the result of ``bwd`` as a list with an entry for each leaf."""
        arguments = unflatten(self.spec, self.leaves)
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
            gs, g_spec = ([None] * len(leaves), spec) if g is None else flatten_all(g)
            if g_spec != spec:
                raise ShapeError(f"{self.name}: bwd's cotangent of argument {i} is {g_spec}; the argument is {spec}")
            out += gs
        return [returned(g, leaf) for g, leaf in zip(out, self.leaves, strict=True)]

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        outs, back = self.reverse(leaves, traced)
        floating = [k for k, out in enumerate(outs) if differentiable(out)]

        def transposed(gs: list[Any]) -> list[Any]:
            found = back(gs)
            return [found[i] for i in traced]

        try:
            push = transpose(transposed, lift_all([outs[k] for k in floating]), f"the bwd of {self.name}")
        except NotDifferentiableError:
            raise
        except Exception as error:
            raise NotDifferentiableError(
                f"{self.name}: forward mode transposes bwd, which must then be made of agrad's functions ({error}); "
                "give the function a custom_jvp, or differentiate in reverse mode"
            ) from error
        by_output = dict(zip(floating, push(list(tangents)), strict=True))
        return outs, [by_output.get(k) for k in range(len(outs))]


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

    See Also
    --------
    agrad.custom_jvp : The rule of forward mode, which reverse mode transposes.
    agrad.primitive : An operation with rules for every mode and backend.
    agrad.numerical_rule : Differences in place of a rule.

    Examples
    --------
    >>> @agrad.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda residuals, g: (agrad.clip(g, -1.0, 1.0),))
    >>> agrad.grad(lambda x: agrad.sum(100.0 * clipped(x)))(np.asarray([1.0, 2.0]))
    array([1., 1.])
    """

    kind = "custom_vjp"
    rules = _VjpRules
    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Set the rules.

        Parameters
        ----------
        fwd : callable
            ``fwd(*args)`` returns (result, residuals); the residuals are any container.
        bwd : callable
            ``bwd(*settings, residuals, g)`` takes a cotangent ``g`` of the result's structure and returns a tuple with
            the cotangent of each differentiated argument, None for zero.

        Examples
        --------
        >>> @agrad.custom_vjp
        ... def square(x):
        ...     return x * x
        >>> square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
        >>> agrad.grad(square)(3.0)
        np.float64(6.0)
        """
        self.fwd, self.bwd = fwd, bwd


class _JvpRules(CustomRules):
    """The rules of one call of a ``custom_jvp``."""

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        rule = self.custom.rule
        if rule is None:
            raise MissingRuleError(f"{self.name} has no rule yet; file one with {self.name}.defjvp(rule)")
        both = lift_all([*leaves, *_with_zeros(leaves, traced, tangents)])
        primals, along = (tuple(unflatten(self.spec, half)) for half in (both[: len(leaves)], both[len(leaves) :]))
        out = rule(*self.settings(), primals, along)
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: the rule gives a pair (result, tangent), not {type(out).__name__}")
        pushed, spec = flatten_all(out[1])
        outs = self.flat(out[0])
        if spec != self.out_spec and len(pushed) != len(outs):
            raise ShapeError(f"{self.name}: the tangent's structure is {spec}; the result's is {self.out_spec}")
        return outs, pushed

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        outs: list[Any] = []

        def push(ts: list[Any]) -> list[Any]:
            outs[:], pushed = self.forward(leaves, traced, ts)
            return [t for t, out in zip(pushed, outs, strict=True) if differentiable(out)]

        back = transpose(push, [leaves[i] for i in traced], f"{self.name}: the rule")

        def pullback(gs: list[Any]) -> list[Any]:
            by_place = dict(zip(traced, back(gs), strict=True))
            return [by_place.get(i) for i in range(len(leaves))]

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


class custom_jvp(_Custom):
    """A function whose pushforward is written by hand. A decorator.

    The rule is set by ``f.defjvp(rule)`` or ``f.defjvps(*rules)``. It runs in the forward pass. Reverse mode transposes
    it, and keeps the values that its operations on the tangents need.

    Parameters
    ----------
    f : callable
        Takes and returns nested containers.
    nondiff_argnums : int or sequence of int
        Positions of arguments that are settings, without a derivative. The rule takes them first.
    batch : {"vmap", "loop"}
        The way that ``vmap`` calls the function and its rule: for all members at once, where they are made of agrad's
        functions, or once a member, for raw kernels.

    Raises
    ------
    MissingRuleError
        When differentiated before a rule is set.
    NotDifferentiableError
        When the rule is not linear in the tangents, or the function closes over a Tensor that is being differentiated.

    See Also
    --------
    agrad.custom_vjp : The rule of reverse mode, on values that a forward pass keeps.
    agrad.primitive : An operation with rules for every mode and backend.
    agrad.numerical_rule : Differences in place of a rule.

    Examples
    --------
    >>> @agrad.custom_jvp
    ... def log1pexp(x):
    ...     return agrad.log1p(agrad.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), agrad.sigmoid(x) * t
    >>> agrad.grad(log1pexp)(0.0), agrad.jvp(log1pexp, (0.0,), (2.0,))[1]
    (np.float64(0.5), np.float64(1.0))
    """

    kind = "custom_jvp"
    rules = _JvpRules

    def defjvp(self, rule: Function) -> None:
        """Set the rule.

        Parameters
        ----------
        rule : callable
            ``rule(*settings, primals, tangents)`` returns (result, tangent). It must be linear in the tangents, which
            are zeros for an argument that is not differentiated, and None for one that is no floating array.

        Examples
        --------
        >>> @agrad.custom_jvp
        ... def square(x):
        ...     return x * x
        >>> square.defjvp(lambda primals, tangents: (square(*primals), 2 * primals[0] * tangents[0]))
        >>> agrad.grad(square)(3.0)
        np.float64(6.0)
        """
        self.rule = rule

    def defjvps(self, *rules: Function | None) -> None:
        """Set one rule for each argument.

        Parameters
        ----------
        *rules : callable or None
            ``rule(t, result, *args)`` returns the tangent of the result for the argument's tangent ``t``. None stands
            for an argument without a derivative.

        Raises
        ------
        ConfigurationError
            For a function with ``nondiff_argnums``.

        Examples
        --------
        >>> @agrad.custom_jvp
        ... def product(x, y):
        ...     return x * y
        >>> product.defjvps(lambda t, result, x, y: t * y, lambda t, result, x, y: t * x)
        >>> agrad.grad(product, argnums=(0, 1))(2.0, 5.0)
        (np.float64(5.0), np.float64(2.0))
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


def transpose(function: Callable[[list[Any]], list[Any]], likes: Values, what: str) -> Callable[[list[Any]], list[Any]]:
    """Return the transpose of a linear function of lists of arrays.

    The function is recorded at 0. ``likes`` are arrays or Tensors like the arguments. Raises ``NotDifferentiableError``
    if an operation is not linear. That cannot be seen of a function with a hand-written rule: there the transposes at
    other arguments must agree.
    """
    at_zero = LinearTape(function, [zeros(like) for like in likes])
    doubtful = set()
    for plan in nonlinear(at_zero.ends):
        if not isinstance(plan.primitive, Call):
            raise NotDifferentiableError(f"{what} is not linear, as {plan.primitive.name} in it is not")
        doubtful.add(plan.primitive.name)
    elsewhere = [
        LinearTape(function, [namespace_of((like,)).full_like(like, number) for like in likes])
        for number in (_FAR, -_FAR)
        if doubtful
    ]

    def push(ts: list[Any]) -> list[Any]:
        pushed = at_zero.transposed(ts)
        for other in elsewhere:
            if not all(map(_same, pushed, other.transposed(ts))):
                raise NotDifferentiableError(f"{what} is not linear, as {' or '.join(doubtful)} in it is not")
        return pushed

    return push


_FAR = 1234.5


def _same(a: Any, b: Any) -> bool:
    """Return True if two results of one computation have the same values."""
    if a is None or b is None:
        return a is b
    first, second = (backend_of(raw).to_host(raw) for raw in (x.raw if isinstance(x, Tensor) else x for x in (a, b)))
    bound = 1e-3 * float(np.max(np.abs(first), initial=0.0))
    return first.shape == second.shape and bool(np.allclose(first, second, 1e-3, bound, equal_nan=True))
