"""Control flow as one operation: trace functions, check results, call it."""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.control.bodies import Body, Flat, StatefulBody, example, repeated, traced_body
from agrad.control.branches import Switch
from agrad.control.results import copy_if_aliased
from agrad.control.scans import Scan
from agrad.control.steps import Counts
from agrad.control.whiles import While
from agrad.dtypes import as_dtype, dtype_name
from agrad.engine.calls import array_of_number, capture_key, lift_all
from agrad.engine.joining import is_numpys, moved_beside
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.namespaces import namespace_of
from agrad.engine.scalars import NUMBERS, TracedNumber
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import OperandError, ShapeError, TracedValueError, described
from agrad.jit.program import Program, Variable
from agrad.transforms.arguments import is_array
from agrad.transforms.calling import call
from agrad.transforms.trees import flatten, flatten_all, paths, replaced, unflatten
from agrad.transforms.units import shaped

Function = Callable[..., Any]


def check_shape(value: Any, what: str) -> None:
    """Raise ``ShapeError`` unless an array has shape ()."""
    if tuple(value.shape) != ():
        raise ShapeError(f"{what} must be a scalar, got shape {tuple(value.shape)}. Reduce it first.")


def _is_number(value: Any) -> bool:
    return type(value) in NUMBERS or isinstance(value, TracedNumber)


def _as_array(number: Any, likes: Sequence[Any]) -> Any:
    """Return a number as an array with the dtype of the first of ``likes``, if that is an array.

    Otherwise any array among ``likes`` determines only the library.
    """
    if is_array(likes[0]):
        like = example(likes[0])
        if isinstance(number, TracedNumber):
            return array_of_number(number, like)
        return backend_of(like).xp.full_like(like, number)
    beside = next((example(x) for x in likes if is_array(x)), None)
    if isinstance(number, TracedNumber) or beside is None:
        return array_of_number(float(number) if beside is None else number)
    backend = backend_of(beside)
    return backend.xp.asarray(number, device=backend.device_of(beside))


class _Carry:
    """The carried leaves of a loop. Numbers that a step changes become arrays."""

    def __init__(self, init: Any, beside: Sequence[Any]) -> None:
        self.leaves, self.spec = flatten_all(init)
        self.beside = [x for x in (*self.leaves, *beside) if is_array(x)]
        self.after: list[Any] = []

    @property
    def places(self) -> list[int]:
        """The indices of the leaves that are arrays."""
        return [i for i, leaf in enumerate(self.leaves) if is_array(leaf)]

    def arrays(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def examples(self) -> list[Any]:
        return [example(leaf) for leaf in self.arrays()]

    def filled(self, given: Sequence[Any]) -> Any:
        """Return the carry with other arrays."""
        return unflatten(self.spec, replaced(self.leaves, self.places, given))

    def found(self, carry: Any) -> list[Any]:
        """Return the arrays of a step's carry."""
        self.after = flatten_all(carry)[0]
        found = [
            _as_array(self.after[i], [self.leaves[i]]) if _is_number(self.after[i]) else self.after[i]
            for i in self.places
        ]
        return moved_beside(found, self.arrays())

    def widened(self) -> bool:
        """Convert numbers that the last step changed to arrays; True if there are any."""
        before = list(self.leaves)
        for i, (old, new) in enumerate(zip(before, self.after, strict=True)):
            same = old is new or (type(old) is type(new) and _is_number(old) and bool(old == new))
            if not (_is_number(old) or is_array(old)) and not (same or old == new):
                raise OperandError(
                    f"a step must not change leaf {i} of the carry, because it is not an array: it was {old!r}, got "
                    f"{described(new)}. Carry arrays and numbers from the start."
                )
            if _is_number(old) and not same:
                if not (is_array(new) or _is_number(new)) or (is_array(new) and new.shape):
                    kind = ShapeError if is_array(new) else OperandError
                    raise kind(f"a step must return a number for the number {old!r} of the carry, got {described(new)}")
                self.leaves[i] = _as_array(old, [new, *self.beside])
        return any(a is not b for a, b in zip(before, self.leaves, strict=True))


class _Moved:
    """The operands of sub-programs that were moved to the selected backend.

    Moves inside a sub-program would copy at each step, and JAX could not trace them.
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.captures: dict[Any, Any] = {}

    def any_new(self, bodies: Sequence[Body], *operands: list[Any]) -> bool:
        """Move the NumPy arrays of bodies that compute on the selected backend, in place.

        Return True if there are any. The bodies must then be traced again.
        """
        arrays = [raw for body in bodies for raw in body.examples.values()]
        captures = [value for body in bodies for value in body.captures]
        changed = False
        for old in (captures, *operands):
            new = moved_beside(old, arrays)
            changed = changed or any(a is not b for a, b in zip(old, new, strict=True))
            if old is captures:
                self.captures.update({capture_key(a): b for a, b in zip(old, new, strict=True) if a is not b})
            self.kept += old
            old[:] = new
        return changed


def _as_given(outs: Sequence[Any], tensors: bool, operands: Sequence[Any]) -> list[Any]:
    """Return results that share no memory with operands, as Tensors if an operand is one or if ``tensors``."""
    outs = copy_if_aliased(list(outs), operands)
    if not (tensors or any(isinstance(x, Tensor) and x.level is GLOBAL_TAPE for x in operands)):
        return list(outs)
    return [wrap(out, GLOBAL_TAPE) if isinstance(out, Tensor) and out.level.id < 0 else out for out in outs]


def staged_scan(
    step: Function, init: Any, leaves: Sequence[Any], count: int, reverse: bool, piece: int, level_id: Any = None
) -> tuple[Any, Any]:
    """Return the result of ``scan``, computed by one operation.

    ``step`` maps a carry and slices to a carry and y. ``piece`` is the number of steps of a checkpoint, or 0.
    ``level_id`` is the number of the trace of the step, by default a new one.
    """
    carry = _Carry(init, leaves)
    spec: Any = None

    leaves = list(leaves)
    moved = _Moved()

    def function(given: list[Any]) -> list[Any]:
        nonlocal spec
        n = len(carry.places)
        after, y = step(carry.filled(given[:n]), given[n:])
        rows, spec = flatten(y)
        for place, row in zip(paths(y), rows, strict=True):
            if not (is_array(row) or _is_number(row)):
                raise OperandError(f"scan: y{place} must be an array, got {described(row)}. Use agrad.asarray.")
        new = carry.found(after)
        return [*new, *[row if is_array(row) else _as_array(row, [None, *new, *given]) for row in rows]]

    def traced() -> Body:
        examples = [*carry.examples(), *[example(x)[(0, ...)] for x in leaves]]
        return traced_body(function, examples, "scan: f", level_id=level_id, moved=moved.captures)

    body = traced()
    while carry.widened() or moved.any_new([body], carry.leaves, leaves):
        body = traced()
    counts = Counts(len(body.captures), len(carry.places), len(leaves))
    made = Scan("scan", body.program, counts, count, reverse, body.examples, bool(piece))
    operands = lift_all([*body.captures, *carry.arrays(), *leaves])
    outs = _in_pieces(made, body, operands, piece) if 0 < piece < count else call(made, operands)
    outs = _as_given(outs, body.tensors, [*carry.arrays(), *leaves])
    n = counts.carried
    return carry.filled(outs[:n]), unflatten(spec, outs[n:])


def _in_pieces(scan: Scan, body: Body, operands: Sequence[Any], size: int) -> list[Any]:
    """Call a scan as a scan over checkpoints of ``size`` steps, and one over the rest."""
    counts, program = scan.counts, scan.program
    whole, left = divmod(scan.length, size)
    split = whole * size
    fixed, carry, slices = counts.split(operands)

    def steps(length: int) -> Scan:
        return Scan(scan.name, program, counts, length, scan.reversed, body.examples, True)

    def pieces(carry: Sequence[Any]) -> list[Any]:
        piece = steps(size)
        examples = counts.split(scan.examples)
        rows = [repeated(x, size) for x in examples[2]]
        outer = traced_body(
            lambda given: call(piece, given), [*examples[0], *examples[1], *rows], scan.name, captures=False
        )
        over = Scan(scan.name, outer.program, counts, whole, scan.reversed, outer.examples)
        xs = [shaped(x[(slice(0, split), ...)], (whole, size, *x.shape[1:])) for x in slices]
        outs = call(over, lift_all([*fixed, *carry, *xs]))
        n = counts.carried
        return [*outs[:n], *[shaped(y, (split, *y.shape[2:])) for y in outs[n:]]]

    def rest(carry: Sequence[Any]) -> list[Any]:
        return call(steps(left), lift_all([*fixed, *carry, *[x[(slice(split, None), ...)] for x in slices]]))

    n = counts.carried
    if not left:
        return pieces(carry)
    first, second = (rest, pieces) if scan.reversed else (pieces, rest)
    a = first(carry)
    b = second(a[:n])
    low, high = (b, a) if scan.reversed else (a, b)
    rows = [lift_all([x, y]) for x, y in zip(low[n:], high[n:], strict=True)]
    return [*b[:n], *[namespace_of(pair).concat(pair, axis=0) for pair in rows]]


def _together(bodies: Sequence[Body]) -> tuple[list[Any], list[Program]]:
    """Return the captures of several functions, and programs with all of them as inputs."""
    captures = [value for body in bodies for value in body.captures]
    programs = []
    before = 0
    for body in bodies:
        program, count = body.program, len(body.captures)
        own, rest = program.inputs[:count], program.inputs[count:]
        others = [Variable((), None, None) for _ in captures]
        others[before : before + count] = own
        programs.append(
            Program([*others, *rest], program.constants, program.instructions, program.outputs, program.notes)
        )
        before += count
    return captures, programs


def _no_state(what: str, error: StatefulBody) -> TracedValueError:
    return TracedValueError(
        f"{what} must not use the state of a {error} inside jit, because it is traced once for all steps. Read the "
        "state, or draw the numbers, before the call, and pass them as operands."
    )


def staged_while(cond_fun: Function, step: Function, init: Any, level_id: Any = None) -> Any:
    """Return the result of ``while_loop`` by one operation; see ``staged_scan``."""
    carry = _Carry(init, ())

    def condition(given: list[Any]) -> list[Any]:
        goes_on = cond_fun(carry.filled(given))
        if not is_array(goes_on):
            goes_on = _as_array(bool(goes_on), [None, *given])
        check_shape(goes_on, "while_loop: the result of cond_fun")
        return [goes_on if as_dtype(goes_on.dtype).kind == "bool" else goes_on != 0]

    def body(given: list[Any]) -> list[Any]:
        return carry.found(step(carry.filled(given)))

    moved = _Moved()

    def traced(function: Flat, part: str) -> Body:
        named = f"while_loop: {part}"
        return traced_body(function, carry.examples(), named, level_id=level_id, moved=moved.captures)

    try:
        after = traced(body, "body_fun")
        while carry.widened():
            after = traced(body, "body_fun")
        asked = traced(condition, "cond_fun")
        while moved.any_new([after, asked], carry.leaves):
            after, asked = traced(body, "body_fun"), traced(condition, "cond_fun")
    except StatefulBody as error:
        raise _no_state("while_loop", error) from None
    captures, (first, second) = _together([asked, after])
    counts = Counts(len(captures), len(carry.places), 0)
    examples = [*map(example, captures), *carry.examples()]
    results = [after.examples[v] for v in second.outputs]
    made = While("while_loop", first, second, counts, examples, results)
    outs = call(made, lift_all([*captures, *carry.arrays()]))
    return carry.filled(_as_given(outs, after.tensors or asked.tensors, carry.arrays()))


class _Branches:
    """The functions of a choice, traced to programs with similar results."""

    def __init__(self, what: str, functions: Sequence[Function], operands: Sequence[Any]) -> None:
        self.what = what
        self.leaves, self.spec = flatten_all(tuple(operands))
        self.places = [i for i, leaf in enumerate(self.leaves) if is_array(leaf)]
        self.out_spec: Any = None
        self.numbers: dict[int, Any] = {}
        """By index, an array like a result that is a number or a NumPy array in some branch, or None."""
        self.results: list[list[Any]] = []
        """The results of each branch, with plain arrays."""
        self._moved = _Moved()
        self.bodies = self._traced_all(functions)
        while self._moved.any_new(self.bodies, self.leaves):
            self.bodies = self._traced_all(functions)
        for k, parts in enumerate(zip(*self.results, strict=True)):
            self._compare(k, parts)
        if self.numbers:
            self.bodies = self._traced_all(functions)
        for k, parts in enumerate(zip(*self.results, strict=True)):
            kinds = sorted({f"{dtype_name(x.dtype)}{tuple(x.shape)}" for x in parts if is_array(x)})
            if len(kinds) > 1:
                raise ShapeError(f"{what}: result {k} must be the same in all branches, got {' and '.join(kinds)}")

    def _traced_all(self, functions: Sequence[Function]) -> list[Body]:
        self.results, self.examples = [], [example(self.leaves[i]) for i in self.places]
        return [self._traced(function) for function in functions]

    def _traced(self, function: Function) -> Body:
        outs: list[Any] = []

        def run(given: list[Any]) -> list[Any]:
            found, spec = flatten_all(function(*unflatten(self.spec, replaced(self.leaves, self.places, given))))
            if self.out_spec is None:
                self.out_spec = spec
            if spec != self.out_spec:
                raise ShapeError(
                    f"{self.what}: all branches must return the same structure, got {self.out_spec} and {spec}"
                )
            for k, like in self.numbers.items():
                if _is_number(found[k]):
                    found[k] = _as_array(found[k], [like, *found, *given])
                elif is_array(found[k]) and is_array(like):
                    (found[k],) = moved_beside([found[k]], [like])
            outs[:] = found
            return [out for out in found if is_array(out)]

        body = traced_body(run, self.examples, f"{self.what}: a branch", moved=self._moved.captures)
        arrays = iter([body.examples[v] for v in body.program.outputs])
        self.results.append([next(arrays) if is_array(out) else out for out in outs])
        return body

    def _compare(self, k: int, parts: Sequence[Any]) -> None:
        like = min(filter(is_array, parts), key=is_numpys, default=None)
        if all(is_array(x) or _is_number(x) for x in parts):
            first = parts[0]
            moved = len({is_numpys(x) for x in parts if is_array(x)}) > 1
            if moved or not all(is_array(x) or (like is None and type(x) is type(first) and x == first) for x in parts):
                self.numbers[k] = like
        elif any(x is not parts[0] and x != parts[0] for x in parts[1:]):
            found = " and ".join(map(described, parts))
            raise ShapeError(f"{self.what}: result {k} must be an array, or the same in all branches, got {found}")


def staged_branches(what: str, which: Any, functions: Sequence[Function], operands: Sequence[Any]) -> Any:
    """Return the result of ``cond`` or ``switch``, computed by one operation."""
    try:
        found = _Branches(what, functions, operands)
    except StatefulBody as error:
        raise _no_state(what, error) from None
    captures, programs = _together(found.bodies)
    results = found.results[0]
    made = Switch(what, programs, [*map(example, captures), *found.examples], [x for x in results if is_array(x)])
    given = [which, *captures, *[found.leaves[i] for i in found.places]]
    operands = [which, *[found.leaves[i] for i in found.places]]
    outs = iter(_as_given(call(made, lift_all(given)), any(b.tensors for b in found.bodies), operands))
    return unflatten(found.out_spec, [next(outs) if is_array(x) else x for x in results])
