"""Hand-written derivatives: ``custom_vjp``, ``custom_jvp``, ``stop_gradient``."""

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, Self, overload

import numpy as np

from agrad.backends import backend_of
from agrad.engine.calls import Call, lift_all, stopped
from agrad.engine.joining import moves, returned
from agrad.engine.levels import lift
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor, raw_of
from agrad.errors import (
    ConfigurationError,
    MissingRuleError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
    described,
)
from agrad.transforms.arguments import state_of, zeros
from agrad.transforms.calling import Back, Rules, Values, call, differentiable, tensors_where_given
from agrad.transforms.linear import LinearTape, nonlinear
from agrad.transforms.trees import flatten_all, replaced, tree_map, unflatten

__all__ = ["custom_jvp", "custom_vjp", "stop_gradient"]

Function = Callable[..., Any]
BATCH = ("vmap", "loop")


def stop_gradient(x: Any) -> Any:
    """Return the same values as constants, whose derivatives of any order are zero.

    Arrays that ``vmap`` maps over remain mapped. For a single Tensor, ``Tensor.detach`` does the same.

    Parameters
    ----------
    x : pytree
        Tensors and any other leaves.

    Returns
    -------
    pytree
        ``x`` with constant Tensors.

    See Also
    --------
    agrad.no_grad : Record nothing in a block.
    agrad.custom_vjp : Define the derivative of a function.

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
            raise ConfigurationError(f"{self.kind}: batch must be 'vmap' or 'loop', got {batch!r}")
        functools.update_wrapper(self, f)
        self.f = f
        self.rule: Any = None
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.batch = batch
        self.seen: list[Function] = []
        """The functions that did not write to their plain arguments when they were first called."""

    @property
    def title(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position, with defaults filled in, for the rules."""
        try:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not kwargs and isinstance(error, ValueError):  # a function without a signature
                return args
            raise OperandError(f"{self.title}: {error}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise OperandError(
                f"{self.title}: a function with custom rules must not have keyword-only arguments, got "
                f"{', '.join(bound.kwargs)}. Make them positional."
            )
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

    ``leaves`` are the leaves of the differentiated arguments. The arguments at ``nondiff_argnums`` are constants.
    """

    def __init__(self, custom: Any, args: tuple[Any, ...]) -> None:
        self.custom: Any = custom
        self.name: str = custom.title
        self.loop: bool = custom.batch == "loop"
        self.count: int = len(args)
        self.fixed: dict[int, Any] = {}
        for n in custom.nondiff:
            if not -self.count <= n < self.count:
                raise ConfigurationError(
                    f"{self.name}: nondiff_argnums must be positions among the {self.count} arguments, got {n}"
                )
            value = self.fixed[n % self.count] = args[n]
            if any(isinstance(leaf, Tensor) and leaf.node is not None for leaf in flatten_all(value)[0]):
                raise NotDifferentiableError(
                    f"{self.name}: argument {n % self.count} must not be differentiated or mapped, because it is in "
                    "nondiff_argnums. Take it out of nondiff_argnums, or pass agrad.stop_gradient of it."
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
        """Return ``f`` of the arguments.

        Raises ``OperandError`` if it writes to one of them. Plain arrays are compared only at the first call of ``f``.
        """
        first = all(f is not known for known in self.custom.seen)
        held = [(leaf.data, leaf.node) for leaf in leaves if isinstance(leaf, Tensor)]  # keeps their ids unique
        before = [state_of(leaf, first) for leaf in leaves]
        out = f(*self.arguments(leaves))
        for leaf, kept in zip(leaves, before, strict=True):
            if state_of(leaf, first) != kept:
                raise OperandError(
                    f"{self.name}: a function with custom rules must not write to an argument, but it wrote to one of "
                    f"shape {tuple(leaf.shape)}. Write to a copy, y = x + 0, and return it."
                )
        if first and not held:
            self.custom.seen.append(f)
        return out


class _VjpRules(CustomRules):
    """The rules of one call of a ``custom_vjp``."""

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        fwd, bwd = self.custom.fwd, self.custom.bwd
        if fwd is None or bwd is None:
            raise MissingRuleError(f"{self.name} has no rule yet. Define one with {self.name}.defvjp(fwd, bwd).")
        out = self.called(fwd, leaves)
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: fwd must return a pair (result, residuals), got {described(out)}")
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
            what = f"{len(found)} entries" if isinstance(found, tuple) else described(found)
            raise ShapeError(
                f"{self.name}: bwd must return a tuple with a cotangent for each of the {len(arguments)} arguments, "
                f"got {what}"
            )
        out: list[Any] = []
        for i, (g, argument) in enumerate(zip(found, arguments, strict=True)):
            leaves, spec = flatten_all(argument)
            gs, g_spec = ([None] * len(leaves), spec) if g is None else flatten_all(g)
            if g_spec != spec:
                raise ShapeError(
                    f"{self.name}: bwd must return a cotangent of argument {i} with the structure {spec}, got {g_spec}"
                )
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
                f"{self.name}: in forward mode bwd must consist of agrad functions, because it is transposed "
                f"({error}). Use custom_jvp, or differentiate in reverse mode."
            ) from error
        return outs, replaced([None] * len(outs), floating, push(list(tangents)))


class custom_vjp(_Custom):
    """Decorator for a function with a custom reverse-mode derivative (VJP).

    Set the rules with ``f.defvjp(fwd, bwd)``. For first derivatives, ``f``, ``fwd`` and ``bwd`` receive plain arrays
    and can call any library. For second derivatives they receive Tensors and must be differentiable code. Forward mode
    transposes ``bwd``.

    Parameters
    ----------
    f : callable
        Function of pytrees that returns a pytree.
    nondiff_argnums : int or sequence of int, optional
        Positions of constant arguments. ``bwd`` receives them first.
    batch : {"vmap", "loop"}, default "vmap"
        How ``vmap`` calls the function and its rules. "vmap" calls them once for the whole batch, which requires code
        with only agrad functions. "loop" calls them once for each batch element.

    Raises
    ------
    MissingRuleError
        If the function is differentiated before ``defvjp``.
    NotDifferentiableError
        If the function closes over a Tensor that is being differentiated.
    ShapeError
        If ``bwd`` returns a cotangent with a different structure than its argument.

    See Also
    --------
    agrad.custom_jvp : Define the forward-mode rule, which reverse mode transposes.
    agrad.primitive : Define an operation with rules for every mode and backend.
    agrad.numerical_rule : Use finite differences instead of a rule.

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
            ``fwd(*args)`` returns ``(result, residuals)``. The residuals are a pytree.
        bwd : callable
            ``bwd(*constants, residuals, g)`` returns a tuple with the cotangent of each differentiated argument, or
            None for zero. ``g`` is a cotangent with the structure of the result. The constants are the arguments at
            ``nondiff_argnums``.

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
            raise MissingRuleError(f"{self.name} has no rule yet. Define one with {self.name}.defjvp(rule).")
        both = lift_all([*leaves, *_with_zeros(leaves, traced, tangents)])
        primals, along = (tuple(unflatten(self.spec, half)) for half in (both[: len(leaves)], both[len(leaves) :]))
        out = rule(*self.settings(), primals, along)
        if not isinstance(out, tuple) or len(out) != 2:
            raise OperandError(f"{self.name}: the rule must return a pair (result, tangent), got {described(out)}")
        pushed, spec = flatten_all(out[1])
        outs = self.flat(out[0])
        if spec != self.out_spec and len(pushed) != len(outs):
            raise ShapeError(
                f"{self.name}: the rule must return a tangent with the structure of the result, {self.out_spec}, got "
                f"{spec}"
            )
        return outs, pushed

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        outs: list[Any] = []

        def push(ts: list[Any]) -> list[Any]:
            outs[:], pushed = self.forward(leaves, traced, ts)
            return [t for t, out in zip(pushed, outs, strict=True) if differentiable(out)]

        back = transpose(push, [leaves[i] for i in traced], f"{self.name}: the rule")

        def pullback(gs: list[Any]) -> list[Any]:
            return replaced([None] * len(leaves), traced, back(gs))

        return outs, pullback


def _with_zeros(leaves: Values, traced: Sequence[int], tangents: Values) -> list[Any]:
    """Return a tangent for each leaf.

    It is zero for other numbers and arrays, and None for other leaves.
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
    """Decorator for a function with a custom forward-mode derivative (JVP).

    Set the rule with ``f.defjvp(rule)`` or ``f.defjvps(*rules)``. Reverse mode transposes the rule and stores the
    values that its operations on the tangents need.

    Parameters
    ----------
    f : callable
        Function of pytrees that returns a pytree.
    nondiff_argnums : int or sequence of int, optional
        Positions of constant arguments. The rule receives them first.
    batch : {"vmap", "loop"}, default "vmap"
        How ``vmap`` calls the function and its rule. "vmap" calls them once for the whole batch, which requires code
        with only agrad functions. "loop" calls them once for each batch element.

    Raises
    ------
    MissingRuleError
        If the function is differentiated before a rule is set.
    NotDifferentiableError
        If the rule is not linear in the tangents, or the function closes over a Tensor that is being differentiated.

    See Also
    --------
    agrad.custom_vjp : Define the reverse-mode rule, with residuals from the forward pass.
    agrad.primitive : Define an operation with rules for every mode and backend.
    agrad.numerical_rule : Use finite differences instead of a rule.

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
            ``rule(*constants, primals, tangents)`` returns ``(result, tangent)`` and must be linear in the tangents. A
            tangent is zero if its argument is not differentiated, and None if its argument is not a floating-point
            array. The constants are the arguments at ``nondiff_argnums``.

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
            ``rule(t, result, *args)`` returns the tangent of the result for the tangent ``t`` of the argument. Use None
            for an argument without a derivative.

        Raises
        ------
        ConfigurationError
            If the function has ``nondiff_argnums``.

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
            raise ConfigurationError(f"{self.title}: defjvps does not support nondiff_argnums. Use defjvp.")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            if len(rules) != len(primals):
                raise ConfigurationError(
                    f"{self.title}: defjvps must get a rule for each of the {len(primals)} arguments, got {len(rules)}"
                )
            out = self(*primals)
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents, strict=True) if r and t is not None]
            return out, functools.reduce(operator.add, parts) if parts else zeros(out)

        self.rule = rule


def transpose(function: Callable[[list[Any]], list[Any]], likes: Values, what: str) -> Callable[[list[Any]], list[Any]]:
    """Return the transpose of a linear function of lists of arrays.

    The function is recorded at 0. ``likes`` are arrays or Tensors like the arguments. Raises ``NotDifferentiableError``
    if an operation is not linear. If the function calls one with a custom rule, its transposes at other arguments must
    agree.
    """
    at_zero = LinearTape(function, [zeros(like) for like in likes])
    doubtful = set()
    for plan in nonlinear(at_zero.ends):
        if not isinstance(plan.primitive, Call):
            raise NotDifferentiableError(f"{what} must be linear, but it calls {plan.primitive.name}")
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
                raise NotDifferentiableError(f"{what} must be linear, but {' or '.join(doubtful)} in it is not")
        return pushed

    return push


_FAR = 1234.5


def _same(a: Any, b: Any) -> bool:
    """Return True if two results of one computation have the same values."""
    if a is None or b is None:
        return a is b
    first, second = (backend_of(raw).to_host(raw) for raw in map(raw_of, (a, b)))
    bound = 1e-3 * float(np.max(np.abs(first), initial=0.0))
    return first.shape == second.shape and bool(np.allclose(first, second, 1e-3, bound, equal_nan=True))
