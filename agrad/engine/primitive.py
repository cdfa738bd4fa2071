"""Primitive: an operation with its rules, its plans, and its evaluation on arrays.

The parameter names of a rule determine its arguments and the values that the tape stores. They are checked when the
rule is registered. ``notation.py`` defines primitives.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.backends.base import Backend
from agrad.engine.batching import SHARED, BatchRule, own_rule
from agrad.engine.call import build_call, pair_evaluation
from agrad.engine.explain import explained
from agrad.engine.layouts import with_scalars
from agrad.engine.namespaces import NUMBERS, Memo
from agrad.engine.operation import Operation, check_among
from agrad.engine.plans import plan_of
from agrad.engine.pullback import build_pullback
from agrad.engine.pushforward import build_pushforward
from agrad.engine.rulecalls import RulePrimitive
from agrad.engine.tape import Plan, PlanKey
from agrad.engine.views import write_back_rule
from agrad.errors import AgradError, MissingRuleError, OperandError, PrimitiveDefinitionError
from agrad.registry import KERNELS, PRIMITIVES, names_of

Function = Callable[..., Any]


class Rule:
    """A derivative rule, whose parameters determine the values that the tape stores."""

    __slots__ = ("function", "kept", "names", "part", "settings", "targets")

    def __init__(self, function: Function, primitive: "Primitive", targets: tuple[str, ...], kind: str) -> None:
        self.names: tuple[str, ...]
        self.settings: tuple[str, ...]
        self.names, self.settings = names_of(function)
        self.function: Function = function
        self.targets: tuple[str, ...] = targets
        self.part: str = f"{kind}:{','.join(targets)}"
        incoming = primitive.incoming(kind)
        alphabet = {"xp", *incoming, *(primitive.all_arrays if kind == "batch" else primitive.alphabet)}
        what = f"the {kind} of {primitive.name}"
        check_among(f"{what}: parameters", self.names, sorted(alphabet), self.settings, primitive.settings)
        check_among(f"{what}: arguments", targets, primitive.all_arrays)
        self.kept: tuple[str, ...] = tuple(n for n in self.names if n != "xp" and n not in incoming)


class Primitive(Operation):
    """An operation with its derivative rules; ``bind`` calls it."""

    definition: Function | None = None
    """``f(xp, *arrays, **options)`` by standard operations, if ``forward`` calls a library function."""
    operator: Function | None = None
    """The Python operator of the operation, for two arguments."""
    joins = True
    keeps_type = False
    """True if the result of an elementwise operation has the dtype of the arguments."""
    jointly = False
    """True if it is jointly linear in all arguments with a derivative."""
    rule_traits: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """The traits of rules as operations, by their part, such as ``{"vjp:x": {"no_alias": True}}``."""

    def __init__(
        self,
        forward: Function | None,
        *,
        name: str,
        arrays: tuple[str, ...],
        variadic: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        settings: tuple[str, ...] = (),
        overwrites: tuple[str, ...] = (),
        batch: str | None = None,
        **traits: Any,
    ) -> None:
        if batch is not None and batch not in SHARED:
            raise PrimitiveDefinitionError(
                f"{name}: batch must be one of {', '.join(map(repr, SHARED))}, got {batch!r}. Define any other rule "
                "with .batch."
            )
        self.batching: BatchRule | None = None if batch is None else SHARED[batch]
        self.is_own = forward is None or str(forward.__module__).startswith("agrad.")
        # kernels and generated code are found by names
        self.name = name if self.is_own or name not in PRIMITIVES else f"{forward.__module__}.{name}"
        self.forward = forward
        self.by_name: bool = forward is None
        self.arrays: tuple[str, ...] = arrays
        self.variadic: str | None = variadic
        self.all_arrays: tuple[str, ...] = (*arrays, *((variadic,) if variadic else ()))
        self.settings: tuple[str, ...] = settings
        self.defaults: dict[str, Any] = dict(defaults or {})
        vars(self).update(traits)
        self.takes_numbers: bool = self.elementwise
        check_among(f"{name}: overwrites", overwrites, arrays)
        if overwrites and "donate" not in settings:
            raise PrimitiveDefinitionError(f"{name}: overwrites requires an option 'donate'. Add it after the star.")
        self.overwrites: tuple[int, ...] = tuple([arrays.index(argument) for argument in overwrites])
        self.kind = "elementwise" if self.elementwise else "other"
        self.vjps: dict[str, Rule] = {}
        self.jvps: dict[str, Rule] = {}
        self.may_alias: bool = not self.is_own
        self.data_dependent_shape: bool = batch == "values decide"
        self.alphabet: tuple[str, ...] = (
            *self.all_arrays,
            *(f"{a}_meta" for a in self.all_arrays),
            *(() if self.spreads else self.outputs or ("y",)),
        )
        self._check_names()
        self.plans: Memo = Memo(functools.partial(plan_of, self))
        self.pushes: Memo = Memo(lambda key: build_pushforward(self, *key))
        """Pushforwards by the positions of arguments with tangents, the number of arguments, and True for Tensors."""
        self._rule_primitives = Memo(functools.partial(RulePrimitive, self))
        self.raw: Memo = Memo(self._evaluation)
        self.pairs: Memo = Memo(functools.partial(pair_evaluation, self))
        self.write_back_rules: list[Function] = []
        """The write-back rule, if it is defined."""
        self.bind: Function = build_call(self)

    def _check_names(self) -> None:
        """Raise ``PrimitiveDefinitionError`` for reserved or unknown names."""
        name, outputs = self.name, self.outputs
        self._reserve(("xp",) if outputs is not None else ("xp", "y"), outputs or ())
        if self.spreads and (self.variadic is not None or len(outputs or ()) != 1):
            raise PrimitiveDefinitionError(
                f"{name}: out='*name' must be the only output, and requires a fixed number of arguments"
            )
        check_among(f"{name}: linear and constant", (*self.linear, *self.constant), self.all_arrays)

    def __repr__(self) -> str:
        return (
            f"<primitive {self.name}({', '.join([*self.arrays, *([f'*{self.variadic}'] if self.variadic else [])])})>"
        )

    # ---------------------------------------------------------------- queries of the call path

    def incoming(self, kind: str) -> tuple[str, ...]:
        """Return the names of cotangents, tangents or flags in rules of a kind."""
        if kind == "batch":
            return ("batch_size", *(f"{name}_mapped" for name in self.all_arrays))
        if kind == "jvp":
            return ("t", "g")  # an elementwise rule serves both modes, under the name g
        return ("g",) if self.outputs is None else tuple(f"g_{name}" for name in self.outputs)

    def differentiable(self, position: int) -> bool:
        """Return True if the argument at a position is not declared constant."""
        return self.argument_of(position) not in self.constant

    def rules_for(self, positions: tuple[int, ...]) -> list[Rule]:
        """Return the vjp rules of these arguments, each once."""
        rules: list[Rule] = []
        for i in positions:
            rule = self.vjps.get(self.argument_of(i)) or self._missing_rule("vjp", self.argument_of(i))
            if rule not in rules:
                rules.append(rule)
        return rules

    def _missing_rule(self, kind: str, argument: str) -> Rule:
        def missing() -> Any:
            raise MissingRuleError(
                f"{self.name} has no {kind} rule for {argument}. Define one with "
                f"@{self.identifier}.{kind}({argument!r}), or declare constant={argument!r} if it has no derivative."
            )

        return Rule(missing, self, (argument,), kind)

    def forward_rule(self, argument: str) -> Rule:
        """Return the jvp rule of an argument."""
        return self.jvps.get(argument) or self._missing_rule("jvp", argument)

    def variant(self, plan: Plan, *, lifted: bool = False, guarded: bool = False, retains: bool = False) -> Plan:
        """Return the plan with other flags, from the cache."""
        found: Plan = self.plans[PlanKey(*plan.key[:4], lifted or plan.lifted, guarded, retains or plan.retains)]
        return found

    def decomposed(self, xp: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operation by its definition or its body."""
        body = self.definition or self.forward
        return None if body is None else body(xp, *args, **settings)

    def rule_primitive(self, rule: Rule) -> RulePrimitive:
        """Return a rule as an operation, which runs the kernels of the rule."""
        found: RulePrimitive = self._rule_primitives[rule]
        return found

    def kernel_filed(self) -> None:
        """Rebuild the existing pullbacks after a backend has registered a kernel."""
        self.pushes.clear()
        for found in self._rule_primitives.values():
            found.raw.clear()
        for plan in self.plans.values():
            if plan is not None:
                plan.pullback = build_pullback(self, plan, guarded=plan.key.guarded)

    # ---------------------------------------------------------------- rules, and evaluation on plain arrays

    def _reserve(self, words: Sequence[str], outputs: Sequence[str] = ()) -> None:
        """Raise ``PrimitiveDefinitionError`` for a name that rules use."""
        for name in (*self.all_arrays, *self.settings, *outputs):
            if name in words or name.startswith("_"):
                raise PrimitiveDefinitionError(f"{self.name}: {name!r} must not be a name, as rules use it. Rename it.")

    def file(self, kind: str, function: Function, targets: tuple[str, ...]) -> Function:
        """Register a rule for the arguments ``targets``, by default the first."""
        targets = targets or self.all_arrays[:1]
        self._reserve(("g", "t"))
        rule = Rule(function, self, targets, kind)
        table = self.vjps if kind == "vjp" else self.jvps
        for target in targets:
            if target in self.constant:
                raise PrimitiveDefinitionError(f"{self.name}: {target!r} must not have a {kind}, as it is constant")
            table[target] = rule
        self.plans.clear()
        self.pushes.clear()
        return function

    def file_write_back(self, function: Function) -> Function:
        """Register the write-back rule, which returns the first array after a write."""
        self.write_back: Function | None = write_back_rule(self, function)
        self.write_back_rules[:] = [self.write_back]
        self.may_alias = True
        return function

    def file_batching(self, function: Function) -> Function:
        """Register the batching rule: one call for all batch elements (``batching``)."""
        self._reserve(("batch_size",))
        self.batching = own_rule(Rule(function, self, (), "batch"), self)
        return function

    def _evaluation(self, kind: type) -> Function:
        """Return the evaluation on arrays of a type, by a kernel if there is one."""
        backend = backend_of_type(kind)
        if backend is None:
            raise self.not_an_array(kind)
        if [key for key in KERNELS if key[:2] == (backend.name, self.name) and key[2] != "forward"]:
            self.kernel_filed()  # ``kernel`` does not notify the primitives of users
        return backend.placed(self.resolve_kernel(backend))

    def resolve_kernel(self, backend: Backend) -> Function:
        generic = self.generic(backend)
        if self.elementwise and self.write_back is None:
            generic = with_scalars(generic, backend)
        kernel = KERNELS.get((backend.name, self.name, "forward"))
        if kernel is None:
            return generic
        what = f"a kernel of {self.name} on {backend.name}: parameters"
        check_among(what, kernel.names, self.all_arrays, kernel.settings, self.settings)
        when, function = kernel.when, kernel.function
        if when is None:
            return function

        def guarded(*arrays: Any, **settings: Any) -> Any:
            return function(*arrays, **settings) if when(*arrays) else generic(*arrays, **settings)

        return guarded

    def generic(self, backend: Backend) -> Function:
        """Return the evaluation on plain arrays of a backend without its kernel."""
        xp = backend.xp
        forward = self.forward
        if forward is None:
            place: Any = xp
            for part in self.name.split("."):
                place = getattr(place, part)
            return place
        return functools.partial(forward, xp)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the primitive on plain arrays and numbers of one backend."""
        kind = type(args[0])
        for arg in args:
            if type(arg) is not kind and type(arg) not in NUMBERS:
                kind = self._kind_of(args)
                break
        if kind not in self.raw:
            kind = self._kind_of(args)
        try:
            return self.raw[kind](*args, **settings)
        except AgradError:
            raise
        except Exception as error:
            raise self.explain(args, error) from error

    def _kind_of(self, args: tuple[Any, ...]) -> type:
        """Return the array type for arguments, with NumPy scalars and numbers."""
        backends: list[Any] = []
        for arg in args:
            kind = type(arg)
            if kind in NUMBERS or kind is complex or issubclass(kind, np.generic):
                continue
            backends.append(backend_of_type(kind))
            if backends[-1] is None:
                raise self.not_an_array(kind)
        if not backends and not any(isinstance(a, np.generic) for a in args):
            raise OperandError(f"{self.name}: an operand must be an array, got only numbers. Use agrad.asarray.")
        return backends[0].array_types[0] if backends else np.ndarray

    def not_an_array(self, kind: type) -> OperandError:
        return OperandError(
            f"{self.name}: operands must be Tensors, arrays of a known library or numbers, got {kind.__name__}. Make "
            "an array with agrad.asarray."
        )

    explain = explained
