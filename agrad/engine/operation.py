"""Operation: what a node of the tape, or an instruction of a program, refers to, and its traits."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.tape import Plan
from agrad.errors import PrimitiveDefinitionError

Function = Callable[..., Any]

KINDS = frozenset({"elementwise", "reduction", "reshape", "transpose", "indexing", "product", "other"})
"""What ``Operation.kind`` may be."""

TRAITS = frozenset(
    {"commutative", "decompose", "decompose_rules", "is_view", "kind", "may_alias", "takes_traced_numbers"}
)
"""The traits that the definition of a primitive may declare."""


def function_in(operation: "Operation", table: Mapping[type, Function], kind: type | None) -> Function:
    """Return the function of a table by array type; for numbers alone the operation's ``evaluate``."""
    backend = None if kind is None else backend_of_type(kind)
    if backend is None:
        return lambda *args, **settings: operation.evaluate(args, settings)
    return table[backend.array_types[0]]


class Operation:
    """Base class of whatever a node or an instruction refers to; its attributes are the defaults of the traits.

    A subclass overrides what differs, and asks nothing of the tables of others.
    """

    name: str
    arrays: tuple[str, ...] = ()
    """The names of the array arguments, without the variadic one."""
    variadic: str | None = None
    settings: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    """The arguments without a derivative."""
    outputs: tuple[str, ...] | None = None
    """The names of several outputs; None: one output, which stands in no tuple."""
    spreads = False
    """Whether the number of outputs is what a call gives."""
    elementwise = False
    """Whether the Jacobian is diagonal, so that one rule serves both modes."""
    broadcasts = False
    masks = False
    """Whether elements of an argument may go unused."""
    overwrites: tuple[int, ...] = ()
    """The numbers of the operands that may be written into where the setting ``donate`` is true."""
    put: Function | None = None
    """Gives the first argument after a write into the result, which may be a view of it."""

    kind = "other"
    """One of ``KINDS``. elementwise: each element of the result is made of the operands' elements at its place.
    reduction: over the axes ``axis``, also of the results for parts of them. reshape, transpose: the elements of the
    operand, in another shape or order. indexing: elements at positions. product: of matrices."""
    is_view = False
    """Whether the one result has elements of the first operand, and may lie in its memory."""
    is_own = True
    """Whether it is agrad's own; nothing is known of an operation that a user defines."""
    may_alias = False
    """Whether a result may lie in an operand's memory."""
    commutative = False
    """Whether real operands give the same bits in either order."""
    data_dependent_shape = False
    """Whether the shape of a result depends on values."""
    takes_traced_numbers = False
    """Whether no rule asks for the value of a number among the operands, so that it may change after a trace."""
    decompose = False
    """Whether it runs faster as the operations that it is made of, where these are fused."""

    def declare(self, traits: Mapping[str, Any]) -> None:
        """Set traits. Raise ``PrimitiveDefinitionError`` for names and kinds that there are not."""
        unknown = sorted(traits.keys() - TRAITS)
        if unknown:
            raise PrimitiveDefinitionError(
                f"{self.name}: {', '.join(map(repr, unknown))} is no trait; there are {', '.join(sorted(TRAITS))}"
            )
        if traits.get("kind", self.kind) not in KINDS:
            raise PrimitiveDefinitionError(
                f"{self.name}: {traits['kind']!r} is no kind; there are {', '.join(sorted(KINDS))}"
            )
        for name, value in traits.items():
            setattr(self, name, value)
        self.may_alias = self.may_alias or self.is_view

    @property
    def identifier(self) -> str:
        """The name without the namespaces in front of it."""
        return self.name.rpartition(".")[2]

    def bind(self, *args: Any, **settings: Any) -> Any:
        """Call the operation on Tensors or arrays, as a user does."""
        raise NotImplementedError(f"{self.name} cannot be called")

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operation on raw arrays and numbers, all of one backend."""
        return self.bind(*args, **settings)

    def function_of(self, kind: type | None) -> Function:
        """Return the function that computes the operation on raw arrays of one type (None: on numbers)."""
        return self.bind

    def decomposed(self, xp: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operation by others, in a namespace; give None where it is not made of others."""
        return None

    def argument_names(self, count: int) -> tuple[str, ...]:
        """Return the names of ``count`` arguments, the variadic ones numbered."""
        return (*self.arrays, *(f"{self.variadic}_{i}" for i in range(count - len(self.arrays))))

    def argument_of(self, position: int) -> str:
        """Return the declared argument that stands at a position."""
        return self.arrays[position] if position < len(self.arrays) else str(self.variadic)

    def output_name(self, output: int) -> str:
        """Return the name of one of several outputs; where their number varies, the name of all with its number."""
        names = self.outputs or ("y",)
        return f"{names[0]}[{output}]" if self.spreads else names[output]

    def variant(self, plan: Plan, *, lifted: bool = False, guarded: bool = False, retains: bool = False) -> Plan:
        """Return the plan for other values or another pass.

        lifted: Tensors are among the values. guarded: zero cotangents stay zero. retains: the pass keeps the cotangent.
        """
        twin = copy.copy(plan)
        twin.lifted = lifted or plan.lifted
        twin.retains = retains or plan.retains
        twin.detours = lifted or retains or plan.detours
        twin.pull = self.pull_of(twin, guarded)
        return twin

    def pull_of(self, plan: Plan, guarded: bool = False) -> Function:
        """Return the pullback of the nodes of a plan."""
        return plan.pull
