"""A program cut into CUDA graphs, with the other instructions between them.

Consecutive instructions that only launch kernels are captured as one graph. The address of every array that a graph
reads or writes is fixed. Inputs are copied into buffers, unless they have the same address at each call, as parameters
do. An instruction that no graph can contain is called between two graphs, and its results are copied into buffers.
Outputs are copies, unless they are the caller's own arrays, updated in place.

Such instructions are found by trying. During a capture, CuPy raises for copies between host and device, for
synchronization, and for the libraries that need either. The instruction at which captures fail then runs between two
graphs. Another thread can also invalidate a capture. The capture is therefore repeated, and only an instruction at
which several captures fail in a row is excluded.
"""

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from agrad.engine.places import picker
from agrad.jit.lower.cuda.segments import Recipe, Recording, Segment, address_of, is_view, segments
from agrad.jit.lower.cuda.streams import Streams, as_part, number_writer, placing, runs_as_part
from agrad.jit.lower.plain import Evaluation, Split, plain
from agrad.jit.passes.aliasing import donations, makes_new_arrays, overwritten
from agrad.jit.program import Instruction, Program, Variable, instruction_text, names_of
from agrad.kernels.cupy.products import Unchosen, timing

CAPTURES = 8
"""The most captures in a row that are used for fewer than ``WORTH`` replays. A program then runs without graphs."""

WORTH = 32
"""The fewest replays that are worth a capture."""

TRIES = 12
"""The most captures of a segment that other threads may spoil in a row. This call then runs without graphs."""

REFUSALS, SPOILT = 2, 4
"""The captures that must fail in a row at an instruction to keep it out of graphs: by a refusal, or after an error that
CUDA reported elsewhere."""

CHOICES = 256
"""The most products of a segment that may get an algorithm because a capture has none for them."""

LOCK = threading.RLock()
"""Held during captures and replays, as a graph always works in the same memory."""

# ------------------------------------------------------------------ graphs

_device_of = attrgetter("data.device_id")

Env = dict[Variable, Any]


class _Spoilt(RuntimeError):
    """Other threads invalidated all captures of a segment."""


class _Builder:
    """One run of a program that captures its graphs and replays each at once."""

    def __init__(self, owner: "GraphProgram", made: Recording, streams: Streams) -> None:
        self.owner, self.made, self.streams = owner, made, streams
        self.env: Env = dict(owner.program.constants)
        self.recipes: dict[Variable, Recipe] = {}
        self.done = 0
        """The number of finished instructions, whose results are in ``env``."""
        captured = [i for s in owner.segments if s.captured for i in s.instructions]
        views = [i for i in owner.program.instructions if is_view(i)]
        self.at_addresses = {v for i in (*captured, *views) for v in i.reads()}
        """The variables that graphs may read, at the addresses that they have now."""

    def build(self, values: Sequence[Any], numbers: list[float]) -> None:
        """Fill the recording. Raises ``MemoryError`` if memory is short, and ``_Spoilt``."""
        owner, made, env, program = self.owner, self.made, self.env, self.owner.program
        for i, v in enumerate(program.inputs[: len(values)]):
            if v.on_host or i in made.addresses or v not in self.at_addresses:
                env[v], self.recipes[v] = values[i], itemgetter(i)
            else:
                env[v] = sys.modules["cupy"].empty_like(values[i])
                made.copied.append((i, env[v]))
        env.update({v: sys.modules["cupy"].zeros((), v.dtype) for _, v in owner.pairs})
        made.write_numbers = number_writer([env[v] for _, v in owner.pairs])
        made.write(values, numbers)
        last = program.last_uses()
        k = 0
        while k < len(owner.segments):
            segment = owner.segments[k]
            if segment.captured and not self._graph(segment, last):
                owner.segments[k:] = segments(program.instructions[self.done :], owner.can, owner.outputs)
                continue
            if not segment.captured:
                for instruction in segment.instructions:
                    self._between(instruction, values)
                    self.done += 1
            k += 1
            for v in [v for v in env if v not in program.constants and last.get(v, -1) < self.done]:
                del env[v]  # its memory is free for later segments
        made.outputs += [self.recipes.get(v) or _copied(env[v]) for v in program.outputs]

    def finish(self, values: Sequence[Any]) -> list[Any]:
        """Run the remaining instructions without graphs, and return the outputs.

        Memory is freed as early as possible.
        """
        program, env, made = self.owner.program, self.env, self.made
        for i, _ in made.copied:
            env[program.inputs[i]] = values[i]
        self.recipes.clear()
        made.steps.clear()
        made.copied.clear()
        made.fresh.clear()
        if not self.done:
            env.clear()
            made.write_numbers = number_writer(())
            self.streams.pool.free_all_blocks()
            return list(self.owner.elsewhere(values))
        last = program.last_uses()
        for k in range(self.done, len(program.instructions)):
            self.streams.pool.free_all_blocks()
            self._evaluate(program.instructions[k])
            for v in [v for v in env if last.get(v, -1) <= k]:
                del env[v]
        return [env[v] for v in program.outputs]

    def _graph(self, segment: Segment, last: dict[Variable, int]) -> bool:
        """Capture and replay a segment; on failure record the instruction and the reason.

        A product without an algorithm ends a capture. An algorithm is then chosen, and the capture is repeated. last:
        the index of the last instruction that reads each variable. From there on, later arrays of the same graph may
        use the memory of the segment's own arrays.
        """
        at: Instruction | None = None

        def run() -> None:
            nonlocal at
            own: set[Variable] = set()
            for k, at in enumerate(segment.instructions, self.done):
                self._evaluate(at)
                self._follow(at)
                own.update(at.results)
                for v in [v for v in (*at.reads(), *at.results) if v in own and last.get(v, -1) <= k]:
                    self.env.pop(v, None)
            at = None

        failed: list[Instruction | None] = []
        choices, choose, launch = 0, None, None
        while launch is None:
            try:
                if choose is not None:
                    with timing():
                        choose()
                    choose = None
                launch = self.streams.capture(run)
            except MemoryError:
                raise
            except Exception as error:
                for v in [v for i in segment.instructions for v in i.results]:
                    self.recipes.pop(v, None)
                if isinstance(error, Unchosen) and choices < CHOICES:
                    choices, choose = choices + 1, error.choose
                    continue
                failed.append(at)
                count = SPOILT if "INVALIDATED" in str(error).upper() else REFUSALS
                if len(failed) >= count and all(i is at for i in failed[-count:]):
                    for instruction in segment.instructions if at is None else [at]:
                        self.owner.reasons[instruction] = f"{type(error).__name__}: {error}"
                    return False
                if len(failed) == TRIES:
                    raise _Spoilt from error
        launch(self.streams.stream)
        self.made.add(launch, segment.instructions, is_graph=True)
        self.done += len(segment.instructions)
        return True

    def _evaluate(self, instruction: Instruction) -> None:
        def value(v: Any) -> Any:
            return self.env[v] if isinstance(v, Variable) else v

        settings = {name: value(v) for name, v in instruction.settings.items()}
        out = self.owner.functions[instruction](*[value(v) for v in instruction.operands], **settings)
        parts = out if instruction.operation.outputs is not None else (out,)
        self.env.update({v: x for v, x in zip(instruction.outputs, parts, strict=True) if v is not None})

    def _follow(self, instruction: Instruction) -> None:
        """Record the results of captured work that share the memory of inputs.

        They are recomputed at each call, because no reference to that memory may be kept.
        """
        env, recipes = self.env, self.recipes
        for v in instruction.results:
            for operand in instruction.operands:
                if operand in recipes and env[v] is env[operand]:
                    recipes[v] = recipes[operand]
                    break
            else:
                if is_view(instruction) and any(o in recipes for o in instruction.operands):
                    recipes[v] = self._call(instruction)

    def _call(self, instruction: Instruction) -> Recipe:
        """Return the instruction as a function of the inputs of a call."""
        function = self.owner.functions[instruction]

        def recipe(value: Any) -> Recipe:
            if not isinstance(value, Variable):
                return _constant(value)
            return self.recipes.get(value) or _constant(self.env[value])

        operands = [recipe(v) for v in instruction.operands]
        settings = [(name, recipe(v)) for name, v in instruction.settings.items()]
        return lambda values: function(*[of(values) for of in operands], **{n: of(values) for n, of in settings})

    def _between(self, instruction: Instruction, values: Sequence[Any]) -> None:
        """Call the instruction now and at each replay, and keep its results for later graphs."""
        env, recipes, cupy = self.env, self.recipes, sys.modules["cupy"]
        call = self._call(instruction)
        several = instruction.operation.outputs is not None
        out = call(values)
        parts = out if several else (out,)
        if is_view(instruction) and cupy.may_share_memory(out, env[instruction.operands[0]]):
            (view,) = instruction.results
            env[view] = out
            if instruction.operands[0] in recipes:
                recipes[view] = call
            return
        targets: list[Any] = []
        cells: list[list[Any] | None] = []
        for v, x in zip(instruction.outputs, parts, strict=True):
            target = cell = None
            if v is not None:
                alias = next((o for o in overwritten(instruction) if o in recipes and env[o] is x), None)
                if alias is not None:  # the operand, updated in place
                    env[v], recipes[v] = x, recipes[alias]
                elif v in self.at_addresses or not makes_new_arrays(instruction):
                    env[v] = target = cupy.empty_like(x)
                    target[...] = x
                else:
                    cell, env[v] = [x], x
                    recipes[v] = _first(cell)
                    self.made.fresh.append(cell)
            targets.append(target)
            cells.append(cell)

        def step(values: Sequence[Any]) -> None:
            found = call(values)
            for target, cell, x in zip(targets, cells, found if several else (found,), strict=True):
                if target is not None:
                    target[...] = x
                elif cell is not None:
                    cell[:] = [x]

        self.made.add(step, [instruction])


def _constant(value: Any) -> Recipe:
    return lambda values: value


def _first(cell: list[Any]) -> Recipe:
    return lambda values: cell[0]


def _copied(x: Any) -> Recipe:
    empty, shape, dtype, data, size = sys.modules["cupy"].ndarray, x.shape, x.dtype, x.data, x.nbytes
    is_packed = x.flags.c_contiguous

    def copy(values: Sequence[Any]) -> Any:
        out = empty(shape, dtype)
        if is_packed:
            out.data.copy_from_device_async(data, size)
        else:
            out[...] = x
        return out

    return copy


class GraphProgram:
    """A program as a function of its inputs. The first run is without graphs.

    split: the computations on host numbers, and those on arrays. program: the array part; its further inputs are arrays
    instead of numbers. pairs: each number and its array. can_capture: returns True for instructions to be tried in a
    graph. function_of: returns the function of an instruction; it is called on the device of the graphs.
    """

    def __init__(
        self,
        split: Split,
        program: Program,
        pairs: list[tuple[Variable, Variable]],
        can_capture: Callable[[Instruction], bool],
        function_of: Evaluation,
    ) -> None:
        self.split, self.program, self.pairs = split, program, pairs
        self.outputs: set[Variable] = {v for v in program.outputs if isinstance(v, Variable)}
        self.segments: list[Segment] = []
        """Empty before the first run."""
        self.reasons: dict[Instruction, str] = {}
        """Errors of instructions that could not be captured."""
        self.given_up = self.remark = ""
        self.home: int = -1
        """The device of the graphs: the device of the arrays of the first call."""
        self._can_capture, self._function_of = can_capture, function_of
        self._captures = self._replays = 0
        self._wasted = "its arrays lay elsewhere"
        """Why the newest capture was not used for long."""
        self._seen: dict[int, Any] | None = None
        self._moved: set[int] = set()
        places = {v: i for i, v in enumerate(program.inputs)}
        self._numbers = picker([places[number] for number, _ in pairs])
        self._arrays = [i for i, v in enumerate(split.body.inputs) if not v.on_host]
        self._arrays_of = picker(self._arrays)
        self._flags = self._find_flags(places)
        self._flags_of = picker([i for i, _ in self._flags])

    def _find_flags(self, places: dict[Variable, int]) -> list[tuple[int, list[int]]]:
        """Return the indices of the inputs that allow in-place updates, each with the arrays that may be updated."""
        found = []
        for instruction in self.program.instructions:
            for flag, variables in donations(instruction):
                own = [places[v] for v in variables if v in places]
                found.append((places[flag], [i for i in own if i in self._arrays]))
        return found

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        given = self.split.before(inputs)
        values = given[: self.split.count]
        cuda = sys.modules["cupy"].cuda
        current = cuda.runtime.getDevice()
        devices = set(map(_device_of, self._arrays_of(values)))
        device = self.home if self.home in devices else min(devices, default=current)
        if device == current:
            return self.split.outputs(self._here(values, devices), given)
        with cuda.Device(device):
            return self.split.outputs(self._here(values, devices), given)

    def run_into(self, inputs: Sequence[Any], places: dict[int, Any]) -> list[Any]:
        """Run as a part of a graph.

        places: arrays for outputs, by index. An output is that array if its kernel could write into it.
        """
        found = self.split.variables(places)
        with placing(found):
            return self(inputs)

    def _here(self, values: Sequence[Any], devices: set[int]) -> list[Any]:
        """Run on the current device, in graphs if possible."""
        cuda = sys.modules["cupy"].cuda
        if self.home < 0:
            with LOCK:
                self._prepare(int(cuda.runtime.getDevice()))
        stream = cuda.get_current_stream()
        # a user's capture could contain a replay, but not the copies before and after it
        plainly = self.given_up or runs_as_part() or stream.is_capturing()
        if plainly or not devices <= {self.home}:
            return list(self.elsewhere(values))
        with LOCK:
            return self._run(values, stream)

    def _prepare(self, device: int) -> None:
        if self.home >= 0:
            return  # another thread was first
        self.elsewhere = plain(self.split.body, self._function_of)
        self.plainly = plain(self.program, self._function_of)
        self.functions: dict[Instruction, Callable[..., Any]] = {
            i: self._function_of(i) for i in self.program.instructions
        }
        self._streams = Streams()
        weakref.finalize(self, self._streams.release).atexit = False
        self.home = device  # the last: other threads read it without the lock

    def can(self, instruction: Instruction) -> bool:
        """Return True for an instruction to be tried in a graph."""
        return instruction not in self.reasons and (is_view(instruction) or self._can_capture(instruction))

    def _warm(self, values: Sequence[Any]) -> list[Any]:
        """Run without graphs, to compile their kernels and choose the algorithms of products."""
        scalars = [sys.modules["cupy"].zeros((), v.dtype) for _, v in self.pairs]
        number_writer(scalars)([*map(float, self._numbers(values))])
        with as_part(), timing():
            return list(self.plainly([*values, *scalars]))

    def _run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        flags = tuple(map(bool, self._flags_of(values)))
        numbers = [*map(float, self._numbers(values))]
        # no local variable refers to the graphs: their memory must be freed if a replay fails
        if self._streams.recording is not None and self._streams.recording.fits(flags, values):
            return self._replay(values, numbers, stream)
        now = dict(zip(self._arrays, map(address_of, self._arrays_of(values)), strict=True))
        seen, self._seen = self._seen, now
        if seen is None:  # the first run compiles kernels, outside of a capture
            out = self._warm(values)
            self.segments = segments(self.program.instructions, self.can, self.outputs)
            self._check_worth()
            return out
        self._captures = 1 if self._replays >= WORTH else self._captures + 1
        self._replays = 0
        if self._streams.recording is not None:
            self._wasted = "its arrays lay elsewhere"
        if self._captures > CAPTURES:
            self._give_up(f"{self._wasted} in each of {CAPTURES} captures")
            return list(self.elsewhere(values))
        if self._streams.recording is not None:
            self._moved |= {i for i, at in self._streams.recording.addresses.items() if at != now[i]}
        donated = {i for flag, (_, own) in zip(flags, self._flags, strict=True) if flag for i in own}
        resident = {i for i in self._arrays if seen[i] == now[i] and i not in self._moved} | donated
        self._streams.recording = None
        return self._build(values, numbers, Recording(flags, {i: now[i] for i in resident}))

    def _replay(self, values: Sequence[Any], numbers: list[float], stream: Any) -> list[Any]:
        """Replay the graphs, or run without them from now on if memory is short.

        Raises ``MemoryError`` if the replay may have overwritten an input already.
        """
        self._replays += 1
        self._streams.follow(stream)
        try:
            return list(self._streams.recording.run(values, numbers, stream))
        except MemoryError as error:
            self.given_up = f"{type(error).__name__}: {error}"
            if self._streams.recording.changed:
                raise
        self._give_up(self.given_up)
        return list(self.elsewhere(values))

    def _build(self, values: Sequence[Any], numbers: list[float], made: Recording) -> list[Any]:
        """Run the program in new graphs.

        If other threads invalidate the captures, it runs without graphs once; if memory is short, from now on.
        """
        builder = _Builder(self, made, self._streams)
        try:
            with self._streams.building():
                builder.build(values, numbers)
            for cell in made.fresh:  # earlier graphs may have had other arrays at these addresses
                cell[0] = cell[0].copy()
            out = made.results(values)
        except MemoryError as error:
            self.given_up = f"{type(error).__name__}: {error}"
        except _Spoilt:
            self._wasted = "other threads spoilt it"
            return builder.finish(values)
        if self.given_up:
            out = builder.finish(values)
            del builder, made
            self._give_up(self.given_up)
            return out
        self._streams.recording = made
        self._check_worth()
        return out

    def _check_worth(self) -> None:
        if not any(s.captured for s in self.segments):
            self._give_up("nothing in it can be captured")

    def _give_up(self, why: str) -> None:
        self.given_up = why
        self._streams.release()

    @property
    def text(self) -> str:
        """The segments with their instructions, and the errors of failed captures."""
        names = names_of(self.program)
        lines = [f"# runs without graphs: {self.given_up}"] if self.given_up else []
        lines += [f"# {self.remark}"] if self.remark else []
        for segment in self.segments:
            lines.append("graph:" if segment.captured else "between graphs:")
            for i in segment.instructions:
                why = f"  # could not be captured: {self.reasons[i]}" if i in self.reasons else ""
                lines.append(f"    {instruction_text(i, names)}{why}")
        return "\n".join(lines) + "\n"
