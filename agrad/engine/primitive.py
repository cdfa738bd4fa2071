"""Primitive: an operation, its rules, its plans, and its evaluation on raw arrays and on tangents.

A rule is a function of names: what it names it is handed, and what it names the tape keeps. Names are checked when the
rule is filed, at import. The notation that makes primitives is in ``notation.py``.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.backends.base import Backend
from agrad.engine.batching import SHARED, BatchRule, own_rule
from agrad.engine.callpath import call_stub, call_text, observed_text
from agrad.engine.explain import explained
from agrad.engine.levels import NUMBERS
from agrad.engine.observing import SWITCH
from agrad.engine.operation import Operation, function_in
from agrad.engine.plans import RESERVED, build_plan, compile_function
from agrad.engine.pullback import build_pullback, picker
from agrad.engine.pushforward import Push, build_pushforward
from agrad.engine.tape import Plan
from agrad.engine.views import put_rule, with_scalars
from agrad.errors import (
    AgradError,
    MissingRuleError,
    MixedBackendsError,
    OperandError,
    PrimitiveDefinitionError,
)
from agrad.registry import KERNELS, Kernel

Function = Callable[..., Any]


class Rule:
    """One derivative rule. Its signature is its memory contract: it is handed, and the tape keeps, what it names."""

    __slots__ = ("function", "kept", "names", "part", "settings", "targets")

    def __init__(self, function: Function, primitive: "Primitive", targets: tuple[str, ...], kind: str) -> None:
        parameters = inspect.signature(function).parameters.values()
        self.function = function
        self.targets = targets
        self.part = f"{kind}:{','.join(targets)}"
        self.names = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.settings = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        incoming = primitive.incoming(kind)
        alphabet = {"xp", *incoming, *(primitive.all_arrays if kind == "batch" else primitive.alphabet)}
        unknown = [n for n in self.names if n not in alphabet]
        unknown += [n for n in self.settings if n not in primitive.settings]
        if unknown:
            raise PrimitiveDefinitionError(
                f"the {kind} of {primitive.name} names {', '.join(map(repr, unknown))}; it may name "
                f"{', '.join(sorted(alphabet))}"
                + (f", and after a * the settings {', '.join(primitive.settings)}" if primitive.settings else "")
            )
        strange = [t for t in targets if t not in primitive.all_arrays]
        if strange:
            raise PrimitiveDefinitionError(
                f"the {kind} of {primitive.name} is for {', '.join(map(repr, strange))}, no array argument of it; "
                f"those are {', '.join(primitive.all_arrays)}"
            )
        self.kept = tuple(n for n in self.names if n != "xp" and n not in incoming)


class _Raw(dict[type, Function]):
    """A primitive's evaluation on raw arrays, by their type; resolved at the first array of a type."""

    def __init__(self, primitive: "Primitive", part: str) -> None:
        super().__init__()
        self.primitive, self.part = primitive, part

    def __missing__(self, kind: type) -> Function:
        backend = backend_of_type(kind)
        if backend is None:
            raise self.primitive.not_an_array(kind)
        return self.setdefault(kind, self.primitive.adopt(backend, self.part))


class _RuleKernels(dict[type, Function | None]):
    """The backends' own versions of a rule, by array type, None where there is none; found at the first cotangent."""

    def __init__(self, primitive: "Primitive", rule: Rule) -> None:
        super().__init__()
        self.primitive = primitive
        self.rule = rule

    def __missing__(self, kind: type) -> Function | None:
        primitive, rule, backend = self.primitive, self.rule, backend_of_type(kind)
        found = None
        if backend is not None:
            kernel = KERNELS.get((backend.name, primitive.name, rule.part))
            if kernel is not None:
                primitive.check_kernel(kernel, rule.names, rule.settings, backend.name)
                found = _guarded(kernel, rule)
        self[kind] = found
        return found


class Primitive(Operation):
    """An operation with its derivative rules. Made by ``@agrad.primitive``; called through ``public``."""

    def __init__(
        self,
        forward: Function | None,
        *,
        name: str,
        arrays: tuple[str, ...],
        variadic: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        settings: tuple[str, ...] = (),
        linear: tuple[str, ...] = (),
        constant: tuple[str, ...] = (),
        broadcasts: bool = False,
        elementwise: bool = False,
        keeps_type: bool = False,
        outputs: tuple[str, ...] | None = None,
        spreads: bool = False,
        masks: bool = False,
        jointly: bool = False,
        overwrites: tuple[str, ...] = (),
        batch: str | None = None,
    ) -> None:
        if batch is not None and batch not in SHARED:
            raise PrimitiveDefinitionError(
                f"{name}: batch is one of {', '.join(map(repr, SHARED))}, not {batch!r}; "
                "write any other rule with .batch"
            )
        self.batching: BatchRule | None = None if batch is None else SHARED[batch]
        self.name = name
        self.forward = forward
        self.by_name = forward is None
        self.arrays = arrays
        self.variadic = variadic
        self.all_arrays = (*arrays, *((variadic,) if variadic else ()))
        self.settings = settings
        self.defaults = dict(defaults or {})
        self.linear = linear
        self.constant = constant
        self.broadcasts = broadcasts
        self.elementwise = elementwise
        self.keeps_type = keeps_type
        self.takes_numbers = elementwise
        self.outputs = outputs
        self.spreads = spreads
        self.masks = masks
        self.jointly = jointly
        self.overwrites = tuple([self._overwritten(argument) for argument in overwrites])
        """The numbers of the arguments that a kernel may write its results into where ``donate`` is true."""
        self.product = False
        """Whether each rule is the product of the cotangent and the one other value that it names."""
        self.definition: Function | None = None
        """``f(xp, *arrays, **settings)`` by operations of the standard, where ``forward`` calls the library's own."""
        if elementwise:
            self.kind = "elementwise"
        self.vjps: dict[str, Rule] = {}
        self.jvps: dict[str, Rule] = {}
        self.is_own = forward is None or str(forward.__module__).startswith("agrad.")
        self.may_alias = not self.is_own
        self.data_dependent_shape = batch == "values decide"
        self.decompose_rules: tuple[str, ...] = ()
        """The parts of the rules that run faster as the operations that they are made of, where these are fused."""
        self.by_layout = False
        """Whether the result is a view or a copy by how the axes of its argument lie in memory."""
        self.splits = False
        """Whether the result is a part of each element, so that it is a view of a scalar too."""
        self.pool: Function | None = None
        """For an operation that gives the part of its array at its ``index``: what adds up many cotangents of parts."""
        self.plans: dict[tuple[Any, ...], Plan] = {}
        self._variants: dict[tuple[Plan, bool, bool, bool], Plan] = {}
        self._kernels: dict[Rule, _RuleKernels] = {}
        self._recorded: dict[tuple[tuple[int, ...], int, bool, bool], Plan | None] = {}
        self._pushes: dict[tuple[tuple[int, ...], int, bool], Push | None] = {}
        self.raw, self.on_levels = _Raw(self, "forward"), _Raw(self, "level")
        self.alphabet = (
            *self.all_arrays,
            *(f"{a}_meta" for a in self.all_arrays),
            *(() if spreads else outputs or ("y",)),
        )
        taken = RESERVED if outputs is not None else RESERVED | {"y"}
        for given in (*self.all_arrays, *settings, *(outputs or ())):
            if given in taken or given.startswith("_"):
                raise PrimitiveDefinitionError(
                    f"{name}: no argument, setting or output may be named {given!r}, which means something else in "
                    "rules or in generated code; give it another name"
                )
        if spreads and (variadic is not None or len(outputs or ()) != 1):
            raise PrimitiveDefinitionError(
                f"{name}: outputs whose number varies, out='*name', stand alone, and beside a fixed number of arguments"
            )
        for given in (*linear, *constant):
            if given not in self.all_arrays:
                raise PrimitiveDefinitionError(
                    f"{name} is declared linear or constant in {given!r}, which is no array argument of it; "
                    f"those are {', '.join(self.all_arrays)}"
                )
        self.scope: dict[str, Any] = {"DEFAULTS": self.defaults, "BUILD": self.build}
        self._built = False
        self.bind: Function = compile_function(self.identifier, call_stub(self), self.scope)
        self._code = self._stub = self.bind.__code__
        self._observed: CodeType | None = None
        SWITCH.enlist(self)

    def __repr__(self) -> str:
        return (
            f"<primitive {self.name}({', '.join([*self.arrays, *([f'*{self.variadic}'] if self.variadic else [])])})>"
        )

    def _overwritten(self, argument: str) -> int:
        if argument not in self.arrays or "donate" not in self.settings:
            raise PrimitiveDefinitionError(
                f"{self.name} is declared to overwrite {argument!r}; it may overwrite its array arguments "
                f"{', '.join(self.arrays)}, and has a setting 'donate' that says whether a call may"
            )
        return self.arrays.index(argument)

    # ---------------------------------------------------------------- what the call path asks

    def incoming(self, kind: str) -> tuple[str, ...]:
        """The names under which a rule is handed cotangents (``g``), a tangent (``t``), or what is mapped."""
        if kind == "batch":
            return ("batch_size", *(f"{name}_mapped" for name in self.all_arrays))
        if kind == "jvp":
            return ("t", "g")  # an elementwise rule serves both ways under the name g
        return ("g",) if self.outputs is None else tuple(f"g_{name}" for name in self.outputs)

    def differentiable(self, position: int) -> bool:
        """Whether a derivative flows to the argument at a position, by its rules or for want of a decision."""
        return self.argument_of(position) not in self.constant

    def rules_for(self, positions: tuple[int, ...]) -> list[Rule]:
        """The vjp rules that serve these arguments, each once."""
        rules: list[Rule] = []
        for i in positions:
            rule = self.vjps.get(self.argument_of(i)) or self._missing_rule("vjp", self.argument_of(i))
            if rule not in rules:
                rules.append(rule)
        return rules

    def _missing_rule(self, kind: str, argument: str) -> Rule:
        def missing() -> Any:
            raise MissingRuleError(
                f"{self.name} has no {kind} rule for {argument}; write one, @{self.identifier}.{kind}({argument!r}), "
                f"or declare constant={argument!r} if it has no derivative"
            )

        return Rule(missing, self, (argument,), kind)

    def push(self, traced: tuple[int, ...], count: int, lifted: bool) -> Push | None:
        """See ``pushforward.build_pushforward``; made at the first question."""
        key = (traced, count, lifted)
        try:
            return self._pushes[key]
        except KeyError:
            found = self._pushes[key] = build_pushforward(self, traced, count, lifted)
            return found

    def recorded(self, traced: tuple[int, ...], count: int, lifted: bool, exact: bool = False) -> Plan | None:
        """The plan of nodes of ``count`` arguments, those at ``traced`` on the tape; None where none has a derivative.

        ``lifted``: for values among which are Tensors. ``exact``: cotangents need no fitting.
        """
        key = (traced, count, lifted, exact)
        try:
            return self._recorded[key]
        except KeyError:
            positions = tuple([i for i in traced if self.differentiable(i)])
            plan = self.plan(positions, count, exact=exact) if positions else None
            if lifted and plan is not None:
                plan = self.variant(plan, lifted=True)
            self._recorded[key] = plan
            return plan

    def forward_rule(self, argument: str) -> Rule:
        """The jvp rule of an argument."""
        return self.jvps.get(argument) or self._missing_rule("jvp", argument)

    def plan(self, positions: tuple[int, ...], count: int, *, exact: bool = False) -> Plan:
        """The plan of nodes of ``count`` arguments with those at ``positions`` on the tape."""
        key = (positions, count, exact)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = build_plan(self, positions, count, exact)
        return plan

    def variant(self, plan: Plan, *, lifted: bool = False, guarded: bool = False, retains: bool = False) -> Plan:
        """See ``Operation.variant``; each is made once."""
        key = (plan, lifted or plan.lifted, guarded, retains or plan.retains)
        twin = self._variants.get(key)
        if twin is None:
            twin = self._variants[key] = super().variant(plan, lifted=lifted, guarded=guarded, retains=retains)
        return twin

    def function_of(self, kind: type | None) -> Function:
        """See ``Operation.function_of``."""
        return function_in(self, self.raw, kind)

    def decomposed(self, xp: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """See ``Operation.decomposed``."""
        body = self.definition or self.forward
        return None if body is None else body(xp, *args, **settings)

    def pull_of(self, plan: Plan, guarded: bool = False) -> Function:
        """See ``Operation.pull_of``."""
        return build_pullback(self, plan, guarded=guarded)

    def kernels(self, rule: Rule) -> dict[type, Function | None]:
        """The backends' own versions of a rule, by array type, to be asked with ``[]``."""
        if rule not in self._kernels:
            self._kernels[rule] = _RuleKernels(self, rule)
        return self._kernels[rule]

    def kernel_filed(self) -> None:
        """A backend has filed a kernel of a rule: plans that were made before are to ask for it too."""
        self._pushes.clear()
        for found in self._kernels.values():
            found.clear()
        for plan in self.plans.values():
            plan.pull = build_pullback(self, plan)
        for (_, _, guarded, _), twin in self._variants.items():
            twin.pull = build_pullback(self, twin, guarded=guarded)

    # ---------------------------------------------------------------- raw arrays

    def build(self) -> Function:
        """Give ``bind`` its code: at the first call, when all rules are filed, or anew after a later rule."""
        built = compile_function(self.identifier, call_text(self), self.scope)
        self._code = built.__code__
        self._built = True
        self.install()
        return self.bind

    def install(self) -> None:
        """Give ``bind`` the code due now: its own, or, while operations are looked at, that of the long way."""
        with SWITCH.lock:  # else another thread's switch may come between the question and the answer
            if SWITCH.lookers and self._observed is None:
                # in a scope of its own, as compiling binds the name
                self._observed = compile_function(self.identifier, observed_text(self), dict(self.scope)).__code__
            self.bind.__code__ = self._observed if SWITCH.lookers and self._observed else self._code

    def file(self, kind: str, function: Function, targets: tuple[str, ...]) -> None:
        """File a rule for the arguments ``targets`` (by default the first one)."""
        targets = targets or self.all_arrays[:1]
        if clash := {"g", "t"} & {*self.all_arrays, *self.settings}:
            raise PrimitiveDefinitionError(
                f"{self.name} has an argument named {clash.pop()!r}, which in a rule is the cotangent or the tangent; "
                "give it another name"
            )
        rule = Rule(function, self, targets, kind)
        table = self.vjps if kind == "vjp" else self.jvps
        for target in targets:
            if target in self.constant:
                raise PrimitiveDefinitionError(
                    f"{self.name} is declared constant in {target!r}, so it has no {kind} for it"
                )
            table[target] = rule
        self.build_anew()
        for made in (self.plans, self._variants, self._recorded, self._pushes):
            made.clear()

    def build_anew(self) -> None:
        if self._built:
            self._code = self._stub
            self._built = False
            self.install()

    def file_put(self, function: Function) -> None:
        """File the rule of a write to the result, which may be a view: what the first array is after it."""
        self.put = put_rule(self, function)
        self.may_alias = True
        self.build_anew()

    def file_batching(self, function: Function) -> None:
        """File the rule that calls the primitive once for all members of a batch; see ``batching``."""
        if "batch_size" in (*self.all_arrays, *self.settings):
            raise PrimitiveDefinitionError(
                f"{self.name} has an argument named 'batch_size', which in a batching rule is the number of members; "
                "give it another name"
            )
        self.batching = own_rule(Rule(function, self, (), "batch"), self)

    def adopt(self, backend: Backend, part: str) -> Function:
        """Take up a backend at its first array: the evaluation on its arrays, by its kernel where it has one."""
        if any(key[:2] == (backend.name, self.name) and key[2] != part for key in KERNELS):
            self.kernel_filed()  # of a primitive that is not agrad's own nobody else says so
        return backend.placed(self._adopted(backend, part))

    def _adopted(self, backend: Backend, part: str) -> Function:
        generic = self.generic(backend) if part == "forward" else self.raw[backend.array_types[0]]
        if part == "forward" and self.elementwise and self.put is None:
            generic = with_scalars(generic, backend)
        kernel = KERNELS.get((backend.name, self.name, part))
        if kernel is None:
            return generic
        self.check_kernel(kernel, self.all_arrays, self.settings, backend.name)
        when, function = kernel.when, kernel.function
        if when is None:
            return function

        def guarded(*arrays: Any, **settings: Any) -> Any:
            return function(*arrays, **settings) if when(*arrays) else generic(*arrays, **settings)

        return guarded

    def check_kernel(
        self, kernel: Kernel, known: tuple[str, ...], known_settings: tuple[str, ...], backend: str
    ) -> None:
        """Raise ``PrimitiveDefinitionError`` for a kernel that names more than the code it stands for."""
        unknown = [n for n in kernel.names if n not in known] + [n for n in kernel.settings if n not in known_settings]
        if unknown:
            raise PrimitiveDefinitionError(
                f"a kernel of {self.name} on {backend} names {', '.join(map(repr, unknown))}; it may name what the "
                f"generic code names: {', '.join([*known, *known_settings])}"
            )

    def generic(self, backend: Backend) -> Function:
        """The evaluation on raw arrays of a backend without its kernel."""
        xp = backend.xp
        forward = self.forward
        if forward is None:
            place: Any = xp
            for part in self.name.split("."):
                place = getattr(place, part)
            return place
        return functools.partial(forward, xp)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The primitive on raw arrays and numbers, all of one backend."""
        kind = type(args[0])
        for arg in args:
            if type(arg) is not kind and type(arg) not in NUMBERS:
                break
        else:
            if kind in self.on_levels:  # met before: the ordinary case, spared the questions below
                try:
                    return self.on_levels[kind](*args, **settings)
                except AgradError:
                    raise
                except Exception as error:
                    raise self.explain(args, error) from error
        backend = None
        for arg in args:
            kind = type(arg)
            if kind in NUMBERS or kind is complex or issubclass(kind, np.generic):
                continue
            found = backend_of_type(kind)
            if found is None:
                raise self.not_an_array(kind)
            if backend is None:
                backend = found
            elif found is not backend:
                raise MixedBackendsError(
                    f"{self.name} was given arrays of {backend.name} and of {found.name}; "
                    f'move one: x.to("{backend.name}")'
                )
        if backend is None:
            if not any(isinstance(a, np.generic) for a in args):
                raise OperandError(f"{self.name} takes an array; make one of a number with agrad.asarray")
            backend = backend_of_type(np.ndarray)
            assert backend is not None
        try:
            return self.on_levels[backend.array_types[0]](*args, **settings)
        except AgradError:
            raise
        except Exception as error:
            raise self.explain(args, error) from error

    def not_an_array(self, kind: type) -> OperandError:
        return OperandError(
            f"{self.name} takes Tensors, arrays of a known library and numbers, not {kind.__name__}; "
            "make an array with agrad.asarray"
        )

    explain = explained


def _guarded(kernel: Any, rule: Rule) -> Function:
    """Return a kernel that takes what the rule takes; it gives NotImplemented where its guard says no."""
    pick = picker([rule.names.index(name) for name in kernel.names])
    when, function, names = kernel.when, kernel.function, kernel.settings

    def run(*values: Any, **settings: Any) -> Any:
        chosen = pick(values)
        if when is not None and not when(*chosen):
            return NotImplemented
        return function(*chosen, **{name: settings[name] for name in names})

    return run
