"""Dependence: the elements of inputs that each element of an output depends on.

A pattern contains every element that may depend on an input, and possibly more.

The program is visited once. Each array has a Boolean matrix with a row for each of its elements and a column for each
element of the inputs. Operations that move elements are run on the indices of the elements. Composed operations are
replaced by their definitions. Only the values of constants are read.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import backend_of
from agrad.control.bodies import CustomRuleCall, RecomputedCall, traced_body
from agrad.control.branches import Switch
from agrad.control.scans import Scan
from agrad.control.whiles import While
from agrad.dtypes import dtype_name
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.primitive import Primitive
from agrad.engine.tape import Meta
from agrad.errors import ConfigurationError, MissingExtraError
from agrad.jit.program import Instruction, Program, Variable
from agrad.registry import namespace
from agrad.shapes import broadcast_shapes, kept_shape, size

UNKNOWN = object()
"""The value of an array that is not known from constants."""

LARGEST = 2**27
"""The maximum number of elements of a pattern."""


class Entry(NamedTuple):
    """The pattern of an operand, None if it depends on nothing, and its value."""

    pattern: Any
    value: Any = UNKNOWN


def sparse_of_scipy() -> Any:
    """Return ``scipy.sparse``, or raise an error that says how to install it."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingExtraError(
            "sparse_jacobian and sparse_hessian need SciPy, which holds the pattern. Install it with: pip install scipy"
        ) from error
    return scipy.sparse


def host(value: Any) -> Any:
    """Return a plain array as a NumPy array, and any other value unchanged."""
    return np.asarray(backend_of(value).to_host(value)) if hasattr(value, "shape") else value


def joined(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the Boolean matrix with True at some positions."""
    return sparse_of_scipy().csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def numbers(shape: Sequence[int], out: Sequence[int] | None = None) -> np.ndarray:
    """Return the indices of the elements of an array, broadcast to another shape."""
    found = np.arange(size(tuple(shape))).reshape(shape)
    return found if out is None else np.broadcast_to(found, out)


class Walk:
    """A walk over programs.

    width: the number of elements that patterns have columns for.
    """

    def __init__(self, width: int) -> None:
        self.sparse: Any = sparse_of_scipy()
        self.width = width
        self.notes: set[str] = set()
        """The names of operations whose dependence is unknown."""
        self.within: tuple[Any, ...] = ()
        """The operations whose definitions are walked."""

    def run(self, program: Program, given: Sequence[Entry]) -> list[Entry]:
        """Return the entries of the outputs of a program, from the entries of its inputs."""
        known: dict[Any, Entry] = dict(zip(program.inputs, given, strict=True))
        known.update({v: Entry(None, raw) for v, raw in program.constants.items()})

        def entry(value: Any) -> Entry:
            return known[value] if isinstance(value, Variable) else Entry(None, value)

        for instruction in program.instructions:
            operands = [entry(v) for v in instruction.operands]
            settings = {name: entry(v) for name, v in instruction.settings.items()}
            found = self._results(instruction, operands, settings)
            known.update({v: e for v, e in zip(instruction.outputs, found, strict=True) if v is not None})
        return [entry(v) for v in program.outputs]

    def _results(self, i: Instruction, operands: Sequence[Entry], settings: dict[str, Entry]) -> list[Entry]:
        active = [p for p, e in enumerate(operands) if e.pattern is not None]
        if not active:
            return [Entry(None) for _ in i.outputs]
        step = _Step(self, i, operands, active, {name: e.value for name, e in settings.items()})
        found = step.everything() if any(v is UNKNOWN for v in step.settings.values()) else step.patterns()
        return [Entry(p if p is not None and p.nnz else None) for p in found]

    def empty(self, rows: int) -> Any:
        """Return the pattern of elements that do not depend on an input."""
        return self.sparse.csr_array((rows, self.width), dtype=bool)

    def stacked(self, entries: Sequence[Any], sizes: Sequence[int]) -> Any:
        """Return the patterns of several arrays, one below the other."""
        parts = [self.empty(n) if p is None else p for p, n in zip(entries, sizes, strict=True)]
        return self.sparse.vstack(parts, format="csr") if len(parts) > 1 else parts[0] if parts else self.empty(0)

    def apart(self, sizes: Sequence[int]) -> tuple["Walk", list[Any]]:
        """Return a walk for some arrays, each element of which depends on itself."""
        inner = Walk(sum(sizes))
        inner.notes, inner.within = self.notes, self.within
        whole = self.sparse.eye_array(inner.width, dtype=bool, format="csr")
        return inner, split(whole, sizes)


def split(pattern: Any, sizes: Sequence[int]) -> list[Any]:
    """Return the patterns of several arrays that are stacked in one."""
    ends = np.cumsum([0, *sizes])
    return [pattern[a:b] for a, b in itertools.pairwise(ends)]


class _Step:
    """One operation whose operands at ``active`` have patterns: its rules, from the most precise to the coarsest."""

    def __init__(
        self, walk: Walk, i: Instruction, operands: Sequence[Entry], active: Sequence[int], settings: dict[str, Any]
    ) -> None:
        self.walk, self.operation, self.inputs = walk, i.operation, i.operands
        self.operands, self.active, self.settings = operands, active, settings
        self.outputs = [None if v is None else tuple(v.shape) for v in i.outputs]

    def shape(self, position: int) -> tuple[int, ...]:
        return tuple(getattr(self.inputs[position], "shape", ()))

    def patterns(self) -> list[Any]:
        """Return the pattern of each output."""
        op = self.operation
        if isinstance(op, Switch):
            return self.everything() if 0 in self.active else self._branches(op)
        if isinstance(op, Scan | While):
            return self._loop(op)
        if isinstance(op, CustomRuleCall):
            found = self.walk.run(op.program, [self.operands[p] for p in op.places])
            return [found[k].pattern for k in op.kept]
        if isinstance(op, RecomputedCall):
            return [e.pattern for e in self.operands[: op.count]]
        if op.kind == "elementwise" or op.sparsity == "same":
            return [self._broadcast(out) for out in self.outputs]
        if op.kind == "reduction" and "axis" in self.settings:
            return self._along_axes()
        if op.sparsity == "picks":
            return self._picked()
        if op.sparsity == "adds":
            return [self._added(self.outputs[0])]
        if op.sparsity == "before":
            return [self._before(self.outputs[0])]
        if op.kind == "product" and len(self.inputs) == 2:
            return [self._product(self.outputs[0])]
        return self._or_everything(self._defined)

    # ------------------------------------------------------------------ movements

    def union(self, parts: Sequence[Any]) -> Any:
        """Return the union of patterns of one shape."""
        different = list({id(p): p for p in parts}.values())
        return sum(different[1:], different[0])

    def moved(self, position: int, rows: Any, elements: Any, count: int) -> Any:
        """Return a pattern whose rows at ``rows`` depend on elements of an operand.

        count: the number of rows.
        """
        pattern = self.operands[position].pattern
        return joined(rows, elements, (count, pattern.shape[0])) @ pattern

    def repeated(self, pattern: Any, rows: np.ndarray) -> Any:
        """Return a pattern with some rows of another, unless it is too large."""
        if rows.size * pattern.nnz > LARGEST:
            self.check(int(np.diff(pattern.indptr)[rows].sum()), len(rows))
        return pattern[rows]

    def check(self, count: int, rows: int) -> None:
        """Raise ``ConfigurationError`` for a pattern of too many elements."""
        if count > LARGEST:
            raise ConfigurationError(
                f"the derivative is not sparse: {self.operation.name} makes {rows:,} elements that depend on "
                f"{count / rows:,.0f} elements of the arguments each. Use agrad.jvp or agrad.vjp."
            )

    def _broadcast(self, out: Any) -> Any:
        if out is None:
            return None
        return self.union([self.spread(self.operands[p].pattern, self.shape(p), out) for p in self.active])

    def spread(self, pattern: Any, shape: Sequence[int], out: Any) -> Any:
        """Return the pattern of an array broadcast to another shape."""
        return pattern if shape == out else self.repeated(pattern, numbers(shape, out).ravel())

    def _picked(self) -> list[Any]:
        """Run the operation on the indices of the elements, from 1 on; 0 means no element."""
        args: list[Any] = []
        first = 1
        for p, e in enumerate(self.operands):
            if self.operation.argument_of(p) in self.operation.constant:
                if e.value is UNKNOWN:  # any element may be picked
                    return self.everything()
                args.append(host(e.value))
            elif p in self.active:
                args.append(numbers(self.shape(p)) + first)
                first += args[-1].size
            else:
                args.append(np.zeros(self.shape(p), int))
        patterns = [self.operands[p].pattern for p in self.active]
        stack = self.walk.stacked(patterns, [p.shape[0] for p in patterns])
        found = self.operation.evaluate(tuple(args), self.settings)
        out = []
        for part in (found,) if self.operation.outputs is None else found:
            at = np.asarray(part).ravel()
            if at.all():
                out.append(self.repeated(stack, at - 1))
            else:
                rows = np.flatnonzero(at)
                out.append(joined(rows, at[rows] - 1, (at.size, stack.shape[0])) @ stack)
        return out

    def _added(self, out: Any) -> Any:
        """Pull the indices of the result's elements back to the operands, whose elements are added there."""
        given: dict[str, Any] = {"xp": NAMESPACES[np.ndarray], "g": numbers(out) + 1}
        if self.operation.constant:
            if any(e.value is UNKNOWN for e in self.operands[1:]):
                return self.everything()[0]
            given[str(self.operation.variadic)] = tuple([host(e.value) for e in self.operands[1:]])
        rule = next(iter(self.operation.vjps.values()))
        settings = {name: self.settings[name] for name in rule.settings}
        found = rule.function(*[given[name] for name in rule.names], **settings)
        parts = []
        for p in self.active:
            at = np.asarray(found[p] if isinstance(found, list) else found).ravel() - 1
            parts.append(self.moved(p, at, np.arange(at.size), size(out)))
        return self.union(parts)

    # ------------------------------------------------------------------ groups

    def _along_axes(self) -> list[Any]:
        """Elements mix along the axes that the keyword arguments specify."""
        axes = self.settings.get("axis", self.settings.get("axes"))
        common = broadcast_shapes(*[self.shape(p) for p in range(len(self.inputs))])
        named = range(len(common)) if axes is None else (axes,) if isinstance(axes, int) else axes
        kept = kept_shape(common, [a % len(common) for a in named])
        group, parts = numbers(kept, common).ravel(), []
        for p in self.active:
            parts.append(self.moved(p, group, numbers(self.shape(p), common).ravel(), size(kept)))
        union = self.union(parts)
        return [
            union if out is None or size(out) == size(kept) else self.spread(union, kept, out) for out in self.outputs
        ]

    def _before(self, out: Any) -> Any:
        """Elements depend on the elements up to their own position along the axis."""
        (p,), shape = self.active, self.shape(self.active[0])
        axis = self.settings["axis"] % len(shape)
        n, m = shape[axis], out[axis]
        self.check(m * n // 2 * (size(shape) // max(n, 1)), size(out))
        later, earlier = np.tril_indices(m, n - m, n)
        rows, elements = np.moveaxis(numbers(out), axis, -1), np.moveaxis(numbers(shape), axis, -1)
        return self.moved(p, rows[..., later].ravel(), elements[..., earlier].ravel(), size(out))

    def _product(self, out: Any) -> Any:
        """For matrices: rows of the first, columns of the second."""
        parts = []
        for p in self.active:
            shape = self.shape(p)
            kept = (*shape[:-1], 1) if p == 0 else (*shape[:-2], 1, shape[-1])
            union = self.moved(p, numbers(kept, shape).ravel(), np.arange(size(shape)), size(kept))
            parts.append(self.spread(union, kept, out))
        return self.union(parts)

    def _by_batch(self) -> list[Any] | None:
        """The last axes mix, and those before them are a batch; None for other operations."""
        op, shapes = self.operation, [self.shape(p) for p in range(len(self.inputs))]
        leads = [shape[: len(shape) - op.own_axes(p)] for p, shape in enumerate(shapes)]
        lead = broadcast_shapes(*leads)
        if not all(map(op.own_axes, range(len(shapes)))) or any(
            out[: len(lead)] != lead for out in self.outputs if out
        ):
            return None
        parts = []
        for p in self.active:
            count, elements = size(leads[p]), np.arange(size(shapes[p]))
            one = self.moved(p, elements // max(elements.size // max(count, 1), 1), elements, count)
            parts.append(self.spread(one, leads[p], lead))
        union = self.union(parts)
        rows = np.arange(size(lead))
        return [
            None if out is None else self.repeated(union, np.repeat(rows, size(out[len(lead) :])))
            for out in self.outputs
        ]

    def everything(self) -> list[Any]:
        """Every element depends on all elements of the operands."""
        counts = [size(self.shape(p)) for p in self.active]
        parts = [self.moved(p, np.zeros(n, int), np.arange(n), 1) for p, n in zip(self.active, counts, strict=True)]
        union = self.union(parts)
        return [None if out is None else self.repeated(union, np.zeros(size(out), int)) for out in self.outputs]

    def _or_everything(self, rule: Callable[[], list[Any] | None]) -> list[Any]:
        """Return the patterns by a rule. If it fails, use the axes that mix, and otherwise all elements."""
        op = self.operation
        if op not in self.walk.within:
            try:
                found = rule()
            except (ConfigurationError, MissingExtraError):
                raise
            except Exception:  # a definition that reads values, or that only one library supports
                found = None
            if found is not None:
                return found
        found = None
        if op.is_own and isinstance(op, Primitive):
            if op.core_axes:
                found = self._by_batch()
            elif {"axis", "axes"} & self.settings.keys():
                return self._along_axes()
        if found is None and any(size(self.shape(p)) > 1 for p in self.active):
            self.walk.notes.add(str(op.name))
        return self.everything() if found is None else found

    # ------------------------------------------------------------------ definitions

    def _defined(self) -> list[Any] | None:
        """Walk the definition; None if it is the operation itself."""
        op = self.operation
        if not op.is_own:
            return None
        places = [p for p, e in enumerate(self.operands) if e.value is UNKNOWN]

        def function(given: list[Any]) -> Sequence[Any]:
            full = [_on_numpy(e.value) for e in self.operands]
            for p, value in zip(places, given, strict=True):
                full[p] = value
            out = op.decomposed(namespace, tuple(full), self.settings)
            return (out,) if op.outputs is None else out

        likes = [np.ones(self.inputs[p].shape, dtype_name(self.inputs[p].dtype)) for p in places]
        program = traced_body(function, likes, str(op.name), captures=False).program
        if any(i.operation is op for i in program.instructions):
            return None
        before = self.walk.within
        self.walk.within = (*before, op)
        try:
            found = self.walk.run(program, [e for e in self.operands if e.value is UNKNOWN])
        finally:
            self.walk.within = before
        return [e.pattern for e in found]

    # ------------------------------------------------------------------ control flow

    def _branches(self, op: Any) -> list[Any]:
        """Return the union of the branches."""
        found = [self.walk.run(program, self.operands[1:]) for program in op.programs]
        out = []
        for entries in zip(*found, strict=True):
            parts = [e.pattern for e in entries if e.pattern is not None]
            out.append(self.union(parts) if parts else None)
        return out

    def _loop(self, op: Any) -> list[Any]:
        """Follow the steps with the pattern of one step. Repeat a loop of unknown length until nothing changes."""
        counts, program = op.counts, op.program
        a, b = counts.fixed, counts.fixed + counts.carried
        sizes, outs = (
            [v.size if isinstance(v, Variable) else 1 for v in vs] for vs in (program.inputs, program.outputs)
        )
        inner, own = self.walk.apart(sizes)
        values = [e.value if i < a else UNKNOWN for i, e in enumerate(self.operands)]
        known = [Entry(i if v is UNKNOWN else None, v) for i, v in zip(own, values, strict=True)]
        step = inner.stacked([e.pattern for e in inner.run(program, known)], outs)
        parts = [e.pattern for e in self.operands]
        carry, rows = self.walk.stacked(parts[a:b], sizes[a:b]), []
        heights = [*sizes[:a], carry.shape[0], *sizes[b:]]
        ends = isinstance(op, Scan)
        for t in range(op.length)[:: -1 if op.reversed else 1] if ends else itertools.count():
            slices = [None if p is None else p[t * n : (t + 1) * n] for p, n in zip(parts[b:], sizes[b:], strict=True)]
            found = step @ self.walk.stacked([*parts[:a], carry, *slices], heights)
            before, carry = carry, found[: carry.shape[0]]
            rows.append(split(found[carry.shape[0] :], outs[counts.carried :]))
            if not ends:
                carry = carry + before
                if carry.nnz == before.nnz:
                    break
        rows = rows[:: -1 if ends and op.reversed else 1]
        stacks = [
            self.walk.stacked(list(c), [n] * len(c))
            for c, n in zip(zip(*rows, strict=True), outs[counts.carried :], strict=False)
        ]
        return [*split(carry, sizes[a:b]), *stacks]


def _on_numpy(value: Any) -> Any:
    if isinstance(value, Meta):
        return Meta(value.shape, getattr(NAMESPACES[np.ndarray], dtype_name(value.dtype)))
    return tuple(map(_on_numpy, value)) if type(value) is tuple else host(value)
