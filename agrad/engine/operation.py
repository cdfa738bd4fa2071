"""Operation, the base class of the operations of nodes and instructions."""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.tape import Plan
from agrad.errors import PrimitiveDefinitionError
from agrad.shapes import too_few_axes

Function = Callable[..., Any]

KINDS = frozenset(
    {"elementwise", "reduction", "row_sum", "broadcast", "reshape", "transpose", "indexing", "product", "other"}
)
"""The values of ``Operation.kind``."""

TRAITS = frozenset(
    {
        "averages", "capturable", "combine", "commutative", "core_axes", "decompose", "finite_slopes", "has_effect",
        "is_update", "is_view", "kind", "may_alias", "moves", "neutral", "no_alias", "numpy_view", "operator",
        "product_rules", "raises", "rows", "rule_traits", "sparsity", "takes_traced_numbers", "used",
    }
)  # fmt: skip
"""The traits that the definition of a primitive may declare."""


def check_among(
    what: str,
    names: Iterable[str],
    allowed: Collection[str],
    settings: Iterable[str] = (),
    options: Collection[str] = (),
) -> None:
    """Raise an error for names that are not allowed, or keywords that are not options."""
    unknown = [name for name in names if name not in allowed] + [name for name in settings if name not in options]
    if unknown:
        more = f" and, after a *, the options {', '.join(options)}" if options else ""
        raise PrimitiveDefinitionError(
            f"{what} must be among {', '.join(allowed)}{more}, got {', '.join(map(repr, unknown))}"
        )


class Operation:
    """Base class of the operations of nodes and instructions, with default traits."""

    name: str
    raw: Mapping[type, Function] | None = None
    """The functions on arrays, by type; None: ``bind`` for all types."""
    arrays: tuple[str, ...] = ()
    """The names of the array arguments, without the variadic argument."""
    variadic: str | None = None
    settings: tuple[str, ...] = ()
    linear: Any = ()
    """The arguments in which the operation is linear; True for a linear function."""
    constant: tuple[str, ...] = ()
    """The arguments without a derivative."""
    outputs: tuple[str, ...] | None = None
    """The names of several outputs; None for a single output that is not in a tuple."""
    spreads = False
    """True if the number of outputs varies from call to call."""
    elementwise = False
    """True if the Jacobian is diagonal: one rule then serves both modes."""
    broadcasts = False
    core_axes: int | tuple[int, ...] = 0
    """The number of last axes of each array argument that are not a batch.

    One number for all arguments, or one for each. An array with fewer axes raises an error, also under ``vmap``.
    """
    masks = False
    """True if elements of an argument may be unused."""
    used: Function | None = None
    """Function like a rule for the used elements of the first argument, if they are known.

    It returns a function without arguments that computes the Booleans, or None if all elements are used.
    """
    rows: Any = None
    """Axes of the first argument, or "axis" for those of the option, if each result depends on a whole row."""
    moves: bool = False
    """True if its rules only move and add cotangents."""
    overwrites: tuple[int, ...] = ()
    """The positions of operands that may be overwritten if ``donate`` is true."""
    flags: dict[str, tuple[int, ...]] | None = None
    """Options of operations with several parts that replace ``donate``, each with the positions that it allows."""
    sketches: bool = False
    """True if ``sketch`` returns other values than ``evaluate``."""
    joins = False
    """True if all arrays must be on one backend. False for loops, for example."""
    is_update = False
    """True if the results are new values of the operands at ``overwrites``, which a trace does not compute."""
    write_back: Function | None = None
    """The write-back rule, which returns the first argument after a write to the result."""

    kind = "other"
    """One of ``KINDS``.

    - elementwise: each element of the result depends on the elements of the operands at the same index;
    - reduction: over the axes ``axis``, in parts if there is ``combine``;
    - row_sum: the sum of the first operand over all axes except the last;
    - broadcast, reshape, transpose: the elements of the operand, in another shape or order;
    - indexing: elements at indices;
    - product: a product of matrices.
    """
    combine: Any = None
    """For a reduction, the elementwise operation of two arguments that combines the results for two parts."""
    averages: bool = False
    """True if a reduction divides the combined result by the number of elements."""
    neutral: float | None = None
    """For an operation of two arguments, the number that leaves the other argument unchanged."""
    capturable: bool = True
    """False if a CUDA graph cannot hold the work: it uses memory or a stream that the graph does not know."""
    sparsity: str = ""
    """How elements of results depend on elements of operands, if ``kind`` and the options do not define it.

    - picks: each is an element of an operand, or 0;
    - adds: elements of the operands are added at indices of the result, and the reverse rule picks them;
    - same: on the elements at the same index;
    - before: along ``axis``, on the elements up to the same index.
    """
    is_view = False
    """True if the one result has elements of the first operand, perhaps in its memory."""
    numpy_view = False
    """True if NumPy returns a view that can be written. Libraries without views then get one of agrad."""
    is_own = True
    """True if it is defined in agrad. Nothing is known about an operation that a user defines."""
    may_alias: bool = False
    """True if a result may share an operand's memory."""
    no_alias = False
    """True if results are always new arrays, or overwritten operands."""
    commutative = False
    """True if the result for real operands has the same bits in either order."""
    data_dependent_shape = False
    """True if the shape of a result depends on values."""
    takes_traced_numbers = False
    """True if no rule reads the value of a number among the operands, so that it may change after a trace."""
    product_rules = False
    """True if each rule is the product of the cotangent and its other parameter."""
    finite_slopes = False
    """True if the derivative is finite for all arguments, including NaN and infinities."""
    raises = False
    """True if some array library raises an error for some values of the operands."""
    has_effect = False
    """True if a call has an effect besides its result, for example on other processes.

    Programs do not drop, merge, fold or reorder such calls, and a trace does not make them.
    """
    by_layout = False
    """True if the layout of the argument determines if the result is a view."""
    sum_slices: Function | None = None
    """The function that adds the cotangents of parts of one array, if the operation returns the part at ``index``."""
    length: int | None = None
    """The number of steps of a loop, if it is known before the loop runs."""
    programs: Sequence[Any] = ()
    """The sub-programs, for example of a loop step."""
    decompose = False
    """True if it runs faster as its separate operations, if these are fused."""

    def declare(self, traits: Mapping[str, Any]) -> None:
        """Set traits. Raise ``PrimitiveDefinitionError`` for unknown names and kinds."""
        check_among(f"{self.name}: traits", sorted(traits), sorted(TRAITS))
        check_among(f"{self.name}: kind", [traits.get("kind", self.kind)], sorted(KINDS))
        core = traits.get("core_axes", 0)
        if isinstance(core, tuple) and len(core) != len(self.arrays):
            raise PrimitiveDefinitionError(
                f"{self.name}: core_axes must be an integer or one for each array, got {core!r} for "
                f"{', '.join(self.arrays)}"
            )
        combine = traits.get("combine")
        if combine is not None and getattr(getattr(combine, "primitive", None), "neutral", None) is None:
            raise PrimitiveDefinitionError(
                f"{self.name}: combine must be an operation with a neutral number, such as agrad.add or agrad.maximum, "
                f"got {combine!r}"
            )
        for name, value in traits.items():
            setattr(self, name, value)
        self.may_alias = self.may_alias or self.is_view
        self.moves = self.moves or self.is_view or self.kind in ("broadcast", "reshape", "transpose", "indexing")
        self.sketches = self.sketches or self.is_update or self.has_effect
        if self.moves and self.is_own and self.kind not in ("elementwise", "reduction"):
            self.sparsity = self.sparsity or "picks"

    @property
    def identifier(self) -> str:
        """The name without its namespaces."""
        return self.name.rpartition(".")[2]

    def bind(self, *args: Any, **settings: Any) -> Any:
        """Call the operation on Tensors or arrays, as a user does."""
        raise NotImplementedError(f"{self.name} cannot be called")

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operation on plain arrays and numbers of one backend."""
        return self.bind(*args, **settings)

    def sketch(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return arrays like the results for a trace, without computing loops and updates."""
        if self.is_update and not [x for x in settings.values() if hasattr(x, "shape")]:
            given = tuple([args[i] for i in self.overwrites])
            if all(x.shape for x in given):  # NumPy returns scalars for arrays of shape ()
                return given
        return self.evaluate(args, settings)

    def function_of(self, kind: type | None) -> Function:
        """Return the function of the operation on arrays of one type; None: on numbers."""
        if self.raw is None:
            return self.bind
        backend = None if kind is None else backend_of_type(kind)
        if backend is None:
            return lambda *args, **settings: self.evaluate(args, settings)
        return self.raw[backend.array_types[0]]

    def function_in_graph(self, kind: type) -> Function:
        """Return the function of an operation with a ``length`` for CUDA graphs.

        Its results share no memory with operands.
        """
        return self.function_of(kind)

    def decomposed(self, xp: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operation by other operations, or return None if there are none."""
        return None

    def argument_names(self, count: int) -> tuple[str, ...]:
        """Return the names of ``count`` arguments, the variadic ones numbered."""
        return (*self.arrays, *(f"{self.variadic}_{i}" for i in range(count - len(self.arrays))))

    def too_few_axes(self, args: Sequence[Any]) -> Exception | None:
        """Return the error of an argument with too few axes, or None."""
        for i, arg in enumerate(args):
            least = self.own_axes(i)
            if hasattr(arg, "shape") and len(arg.shape) < least:
                return too_few_axes(self.identifier, self.argument_of(i), arg.shape, least)
        return None

    def own_axes(self, position: int) -> int:
        """Return the number of core axes of the argument at a position."""
        return self.core_axes if isinstance(self.core_axes, int) else self.core_axes[position]

    def argument_of(self, position: int) -> str:
        """Return the declared argument at a position."""
        return self.arrays[position] if position < len(self.arrays) else str(self.variadic)

    def output_name(self, output: int) -> str:
        """Return the name of one of several outputs, with an index if their number varies."""
        names = self.outputs or ("y",)
        return f"{names[0]}[{output}]" if self.spreads else names[output]

    def variant(self, plan: Plan, *, lifted: bool = False, guarded: bool = False, retains: bool = False) -> Plan:
        """Return the plan with other flags (``PlanKey``)."""
        twin = copy.copy(plan)
        twin.lifted = lifted or plan.lifted
        twin.retains = retains or plan.retains
        twin.needs_slow_path = lifted or retains or plan.needs_slow_path
        return twin
