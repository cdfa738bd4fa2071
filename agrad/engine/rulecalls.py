"""Derivative rules as single operations, in a traced program or on a batch.

A backend may have a kernel for a rule. Inside a trace, rules run on Tensors, and each of their operations would be an
instruction. If the values belong only to a trace and their backend has a kernel, the rule is one instruction instead.
Likewise, if there are only batch levels between an elementwise rule and the arrays, the kernel runs once.
"""

from collections.abc import Callable
from typing import Any

from agrad.backends import backend_of_type
from agrad.dtypes import DType
from agrad.engine.batching import through_all
from agrad.engine.levels import dispatch
from agrad.engine.namespaces import NAMESPACES, Memo
from agrad.engine.operation import Operation, check_among
from agrad.engine.places import Values, picker
from agrad.engine.tape import Meta
from agrad.engine.tensor import BatchedTensor, Tensor, strip_constant_levels
from agrad.registry import KERNELS, Kernel, namespace
from agrad.shapes import broadcast_shapes


def rule_has_kernels(primitive: Any, rule: Any) -> bool:
    """Return True if any imported backend has a kernel for the rule."""
    return (primitive.name, rule.part) in [key[1:] for key in KERNELS]


def _is_mapped(value: Any) -> bool:
    """Return True for a Tensor of a batch level, inside levels at which it is constant."""
    while isinstance(value, Tensor):
        if value.node is not None:
            return type(value) is BatchedTensor
        value = value.data
    return False


def _kernel_or_rule(kernel: Kernel, pick: Callable[[Values], Values], generic: Any) -> Any:
    """Return the function that runs a kernel if it accepts the values, or the rule."""
    when, function, settings_of = kernel.when, kernel.function, kernel.settings

    def evaluate(*values: Any, **settings: Any) -> Any:
        given = pick(values)
        if when is None or when(*given):
            out = function(*given, **{name: settings[name] for name in settings_of}) if settings else function(*given)
            if out is not NotImplemented:
                return out
        return generic(*values, **settings)

    return evaluate


class RulePrimitive(Operation):
    """A rule as an operation of a traced program, or in the pullback of a lifted plan."""

    def __init__(self, primitive: Any, rule: Any) -> None:
        self.primitive = primitive
        self.rule = rule
        self.name: str = f"{primitive.name}.{rule.part}"
        self.names: tuple[str, ...] = tuple(n for n in rule.names if n != "xp")
        self.outputs: tuple[str, ...] | None = rule.targets if len(rule.targets) > 1 else None
        if primitive.kind == "elementwise":
            self.kind = "elementwise"
        self.declare(primitive.rule_traits.get(rule.part, {}))
        self.raw: Memo = Memo(self._evaluation)
        single = primitive.elementwise and len(rule.targets) == 1
        self.through_maps: bool = single and not any(n.endswith("_meta") for n in self.names)

    def __repr__(self) -> str:
        return f"<rule {self.name}>"

    def __call__(self, *values: Any, **settings: Any) -> Any:
        if self.through_maps and any(map(_is_mapped, values)):
            done = through_all(self, values, settings)
            return self.generic(values, settings) if done is None else done
        inside: list[Any] = [strip_constant_levels(value) for value in values]
        traced = None
        for value in inside:
            if isinstance(value, Tensor):
                if not value.level.is_trace:
                    return self.generic(values, settings)
                traced = value
            elif isinstance(value, tuple) and any(isinstance(part, Tensor) for part in value):
                return self.generic(values, settings)
        if traced is None or self.kernel(type(traced.raw)) is None:
            return self.generic(values, settings)
        space = NAMESPACES[type(traced.raw)]
        inside = [
            Meta(value.shape, getattr(space, value.dtype.name))
            if isinstance(value, Meta) and isinstance(value.dtype, DType)
            else value
            for value in inside
        ]
        return dispatch(self, tuple(inside), settings)

    bind = __call__

    def _evaluation(self, kind: type) -> Any:
        """Return the rule on plain arrays of a type, by a kernel if it accepts them."""
        rule, kernel, backend = self.rule, self.kernel(kind), backend_of_type(kind)
        assert backend is not None
        function, place, xp = rule.function, rule.names.index("xp") if "xp" in rule.names else None, backend.xp

        def generic(*values: Any, **settings: Any) -> Any:
            return function(*values[:place], xp, *values[place:], **settings)

        found = function if place is None else generic
        if kernel is not None:
            found = _kernel_or_rule(kernel, picker([self.names.index(name) for name in kernel.names]), found)
        return backend.placed(found)

    def kernel(self, kind: type) -> Kernel | None:
        """Return the kernel of the rule for an array type, or None."""
        primitive, rule, backend = self.primitive, self.rule, backend_of_type(kind)
        kernel = None if backend is None else KERNELS.get((backend.name, primitive.name, rule.part))
        if kernel is not None and backend is not None:
            what = f"a kernel of {primitive.name} on {backend.name}: parameters"
            check_among(what, kernel.names, rule.names, kernel.settings, rule.settings)
        return kernel

    def decomposed(self, xp: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the rule by its operations in a namespace."""
        handed = dict(zip(self.names, args, strict=True), xp=xp)
        return self.rule.function(*[handed[name] for name in self.rule.names], **settings)

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Evaluate the rule on plain arrays."""
        kind = type(args[0])
        if kind not in self.raw:  # a new array type, or a number
            kind = next(type(arg) for arg in args if backend_of_type(type(arg)) is not None)
        out = self.raw[kind](*args, **settings)
        if self.through_maps:
            shapes = {tuple(arg.shape) for arg in args if hasattr(arg, "shape")}
            if shapes != {tuple(out.shape)}:
                # a rule that returns the cotangent unchanged lacks the batch axes of the other values
                shape = broadcast_shapes(*shapes)
                if tuple(out.shape) != shape:
                    out = NAMESPACES[kind].broadcast_to(out, shape)
        return out

    def generic(self, values: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Evaluate the rule as written, in the agrad namespace."""
        return self.decomposed(namespace, values, settings)
