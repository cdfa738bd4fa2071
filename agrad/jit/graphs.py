"""A program cut into segments that a GPU replays by itself, and what runs between them.

Runs of instructions that launch kernels alone are captured, each run as one graph. All arrays that a graph reads or
writes stay where they are: inputs are copied into buffers, or used in place where they lie at the same address call
after call, as parameters do. What no graph can hold is called between two graphs, and its results are copied into
buffers. Results that leave are copies, unless they are the caller's own arrays, updated in place.

The recorder is the GPU's library, or what a test puts in its place.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agrad.jit.ir import Instruction, Program, Variable, instruction_text, names_of
from agrad.jit.lowerings import plain, split_host
from agrad.jit.memory import VIEWS, overwritten

CAPTURES = 8
"""A program that would have to be captured anew more often than this runs without graphs."""


class Recorder(Protocol):
    """What a GPU's library does for a program; see ``lower_cupy.Recorder``."""

    def building(self) -> Any: ...
    def capture(self, run: Callable[[], None]) -> Callable[[], None]: ...
    def before_replay(self) -> None: ...
    def serves(self, arrays: Sequence[Any]) -> bool: ...
    def address(self, x: Any) -> Any: ...
    def shares_memory(self, a: Any, b: Any) -> bool: ...
    def buffer(self, x: Any) -> Any: ...
    def scalar(self, dtype: Any) -> Any: ...
    def write_numbers(self, targets: Sequence[Any], values: Sequence[float]) -> None: ...
    def copy(self, target: Any, source: Any) -> None: ...
    def fresh(self, x: Any) -> Any: ...
    def evaluate(self, function: Callable[..., Any], args: Sequence[Any], settings: dict[str, Any]) -> Any: ...


@dataclass
class Segment:
    """Instructions in order, and whether they can be one graph."""

    captured: bool
    instructions: list[Instruction]


def is_view(instruction: Instruction) -> bool:
    """Whether the result shares the operand's memory, or is a copy that the GPU makes by itself.

    Indices that are arrays may come from the host's memory, and a transfer does.
    """
    arrays = [v for v in instruction.operands if isinstance(v, Variable)]
    return (
        instruction.name in VIEWS and instruction.name != "transfer" and len(arrays) == len(instruction.operands) == 1
    )


def segments(program: Program, can_capture: Callable[[Instruction], bool]) -> list[Segment]:
    """The program's instructions, in order, in the fewest segments; views alone are not worth a graph."""
    found: list[Segment] = []
    for instruction in program.instructions:
        captured = can_capture(instruction) or is_view(instruction)
        if not found or found[-1].captured is not captured:
            found.append(Segment(captured, []))
        found[-1].instructions.append(instruction)
    for segment in found:
        segment.captured = segment.captured and any(not is_view(i) for i in segment.instructions)
    merged: list[Segment] = []
    for segment in found:
        if merged and not merged[-1].captured and not segment.captured:
            merged[-1].instructions += segment.instructions
        else:
            merged.append(segment)
    return merged


Env = dict[Variable, Any]


class _Recording:
    """The graphs of a program for inputs at certain addresses, with their buffers."""

    def __init__(self, owner: "GraphProgram", resident: frozenset[int], key: Any) -> None:
        self.owner = owner
        self.resident = resident
        self.key = key
        self.steps: list[Callable[[Sequence[Any]], None]] = []
        self.copied: list[tuple[int, Any]] = []
        self.numbers: list[Any] = []
        self.written: list[float] | None = None
        self.outputs: list[Callable[[Sequence[Any]], Any]] = []

    # a recipe finds an array of this call: one in a buffer, or one that lies in an input's memory
    def build(self, values: Sequence[Any], numbers: Sequence[float]) -> None:
        """Capture segment by segment, and replay each at once, so that this is the program's run for these values."""
        owner, recorder, program = self.owner, self.owner.recorder, self.owner.device
        env: Env = dict(program.constants)
        recipes: dict[Variable, Callable[[Sequence[Any]], Any]] = {}
        for i, v in enumerate(program.inputs[: len(values)]):
            if v.on_host or i in self.resident:
                env[v] = values[i]
                if not v.on_host:
                    recipes[v] = _item(i)
            else:
                env[v] = recorder.buffer(values[i])
                self.copied.append((i, env[v]))
        for _, v in owner.pairs:
            env[v] = recorder.scalar(v.dtype)
            self.numbers.append(env[v])
        self._write(values, numbers)
        last = program.last_uses()
        position = 0
        for k, segment in enumerate(owner.segments):
            if segment.captured and k not in owner.reasons:
                try:
                    replay = recorder.capture(lambda s=segment: self._run(s.instructions, env))
                except Exception as error:
                    owner.reasons[k] = f"{type(error).__name__}: {error}"
                else:
                    replay()
                    self.steps.append(_without_values(replay))
                    for instruction in segment.instructions:
                        self._follow(instruction, env, recipes)
            if not segment.captured or k in owner.reasons:
                for instruction in segment.instructions:
                    self._between(instruction, env, recipes, values)
            position += len(segment.instructions)
            for v in [v for v in env if v not in program.constants and last.get(v, -1) < position]:
                del env[v]  # its memory is free for later segments
        self._hand_out(env, recipes)

    def _write(self, values: Sequence[Any], numbers: Sequence[float]) -> None:
        for i, buffer in self.copied:
            self.owner.recorder.copy(buffer, values[i])
        given = list(numbers)
        if self.numbers and given != self.written:
            self.owner.recorder.write_numbers(self.numbers, given)
            self.written = given

    def _arguments(self, instruction: Instruction, env: Env) -> tuple[list[Any], dict[str, Any]]:
        def value(v: Any) -> Any:
            return env[v] if isinstance(v, Variable) else v

        settings = {name: value(v) for name, v in instruction.settings.items()}
        return [value(v) for v in instruction.operands], settings

    def _run(self, instructions: Sequence[Instruction], env: Env) -> None:
        for instruction in instructions:
            args, settings = self._arguments(instruction, env)
            out = self.owner.recorder.evaluate(self.owner.functions[instruction], args, settings)
            parts = out if instruction.operation.outputs is not None else (out,)
            env.update({v: x for v, x in zip(instruction.outputs, parts, strict=True) if v is not None})

    def _follow(self, instruction: Instruction, env: Env, recipes: dict[Variable, Any]) -> None:
        """Note which results of captured work lie in the memory of inputs, of which nothing may be kept here."""
        for v in instruction.results:
            for operand in instruction.operands:
                if operand in recipes and env[v] is env[operand]:
                    recipes[v] = recipes[operand]
                    break
            else:
                if is_view(instruction) and any(o in recipes for o in instruction.operands):
                    recipes[v] = self._call(instruction, env, recipes)

    def _call(self, instruction: Instruction, env: Env, recipes: dict[Variable, Any]) -> Callable[[Sequence[Any]], Any]:
        """The instruction as a function of the call's values."""
        function = self.owner.functions[instruction]
        inputs = {v: i for i, v in enumerate(self.owner.device.inputs) if v.on_host}

        def recipe(value: Any) -> Callable[[Sequence[Any]], Any]:
            if not isinstance(value, Variable):
                return lambda values: value
            if value in inputs:
                return _item(inputs[value])
            if value in recipes:
                found: Callable[[Sequence[Any]], Any] = recipes[value]
                return found
            kept = env[value]
            return lambda values: kept

        operands = [recipe(v) for v in instruction.operands]
        settings = [(name, recipe(v)) for name, v in instruction.settings.items()]
        return lambda values: function(*[of(values) for of in operands], **{n: of(values) for n, of in settings})

    def _between(self, instruction: Instruction, env: Env, recipes: dict[Variable, Any], values: Sequence[Any]) -> None:
        """Call the instruction now and at each replay, and keep its results where the graphs after it look."""
        recorder = self.owner.recorder
        call = self._call(instruction, env, recipes)
        several = instruction.operation.outputs is not None
        out = call(values)
        parts = out if several else (out,)
        if is_view(instruction):
            (v,), (x,) = instruction.outputs, parts
            assert v is not None
            env[v] = x
            if any(recorder.shares_memory(x, env[o]) for o in instruction.operands if isinstance(o, Variable)):
                if any(o in recipes for o in instruction.operands):
                    recipes[v] = call
            else:
                # what had to be a copy is made anew in each replay
                env[v] = buffer = recorder.buffer(x)
                recorder.copy(buffer, x)
                self.steps.append(lambda values: recorder.copy(buffer, call(values)))
            return
        targets: list[Any] = []
        for v, x in zip(instruction.outputs, parts, strict=True):
            if v is None:
                targets.append(None)
                continue
            alias = next((o for o in instruction.operands if o in recipes and env[o] is x), None)
            if alias is not None:  # updated in place
                env[v], recipes[v] = x, recipes[alias]
                targets.append(None)
                continue
            env[v] = recorder.buffer(x)
            recorder.copy(env[v], x)
            targets.append(env[v])

        def step(values: Sequence[Any]) -> None:
            found = call(values)
            for target, x in zip(targets, found if several else (found,), strict=True):
                if target is not None:
                    recorder.copy(target, x)

        self.steps.append(step)

    def _hand_out(self, env: Env, recipes: dict[Variable, Any]) -> None:
        fresh = self.owner.recorder.fresh
        inputs = {v: i for i, v in enumerate(self.owner.device.inputs)}
        for v in self.owner.device.outputs:
            if not isinstance(v, Variable):
                self.outputs.append(_constant(v))
            elif v in inputs:
                self.outputs.append(_item(inputs[v]))
            elif v in self.owner.device.constants:
                self.outputs.append(_constant(self.owner.device.constants[v]))
            elif v in recipes:
                self.outputs.append(recipes[v])
            else:
                self.outputs.append(lambda values, x=env[v]: fresh(x))  # type: ignore[misc]

    def run(self, values: Sequence[Any], numbers: Sequence[float]) -> list[Any]:
        """Replay for other values at the same addresses."""
        self._write(values, numbers)
        for step in self.steps:
            step(values)
        return self.results(values)

    def results(self, values: Sequence[Any]) -> list[Any]:
        """The outputs of the run just done."""
        return [of(values) for of in self.outputs]


def _item(i: int) -> Callable[[Sequence[Any]], Any]:
    return lambda values: values[i]


def _constant(value: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda values: value


def _without_values(replay: Callable[[], None]) -> Callable[[Sequence[Any]], None]:
    return lambda values: replay()


class GraphProgram:
    """A program as a function of its inputs, first run plainly, then in graphs.

    recorder: makes the recorder, at the first capture. can_capture: whether an instruction may be part of a graph.
    function_of: what computes an instruction. numbers_on_device: the pass that puts arrays in the place of numbers.
    """

    def __init__(
        self,
        program: Program,
        recorder: Callable[[], Any],
        can_capture: Callable[[Instruction], bool],
        function_of: Callable[[Instruction, Program], Callable[..., Any]],
        numbers_on_device: Callable[[Program], tuple[Program, list[tuple[Variable, Variable]]]],
    ) -> None:
        host, device = split_host(program)
        self.first = plain(host)
        self.elsewhere = plain(device, function_of)
        self.device, self.pairs = numbers_on_device(device)
        self.plainly = plain(self.device, function_of)
        self.segments: list[Segment] = []
        """Empty until the program has run once, which tells what can be captured."""
        self.functions = {i: function_of(i, self.device) for i in self.device.instructions}
        self.reasons: dict[int, str] = {}
        """Why segments are not captured, by their numbers."""
        self.given_up = self.remark = ""
        self._can_capture = can_capture
        self._make = recorder
        self._lock = threading.Lock()
        self._recording: _Recording | None = None
        self._captures = 0
        self._seen: dict[int, Any] | None = None
        self._moved: set[int] = set()
        places = {v: i for i, v in enumerate(self.device.inputs)}
        self._numbers = [places[number] for number, _ in self.pairs]
        self._arrays = [i for i, v in enumerate(device.inputs) if not v.on_host]
        self._flags = self._find_flags(places)

    def _find_flags(self, places: dict[Variable, int]) -> list[tuple[int, list[int]]]:
        """The numbers of the inputs that allow an update in place, each with those of the arrays it allows it for."""
        found = []
        for instruction in self.device.instructions:
            flag = instruction.settings.get("donate")
            if isinstance(flag, Variable):
                own = [places[v] for v in overwritten(instruction) if v in places]
                found.append((places[flag], [i for i in own if i in self._arrays]))
        return found

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = self.first(inputs)
        if self.given_up or not self._recorder().serves([values[i] for i in self._arrays]):
            return list(self.elsewhere(values))
        with self._lock:
            return self._run(values)

    def _warm(self, values: Sequence[Any]) -> list[Any]:
        """A run without graphs that compiles the very kernels which they will hold."""
        recorder = self._recorder()
        scalars = [recorder.scalar(v.dtype) for _, v in self.pairs]
        if scalars:
            recorder.write_numbers(scalars, [float(values[i]) for i in self._numbers])
        return list(self.plainly([*values, *scalars]))

    def _run(self, values: Sequence[Any]) -> list[Any]:
        recorder = self._recorder()
        now = {i: recorder.address(values[i]) for i in self._arrays}
        flags = tuple([bool(values[i]) for i, _ in self._flags])
        seen, self._seen = self._seen, now
        found = self._recording
        numbers = [float(values[i]) for i in self._numbers]
        if found is not None and found.key == (flags, {i: now[i] for i in found.resident}):
            recorder.before_replay()
            return found.run(values, numbers)
        if seen is None:  # kernels are compiled in a run that is no capture
            out = self._warm(values)
            self.segments = segments(self.device, self._can_capture)
            if not any(s.captured for s in self.segments):
                self.given_up = "nothing in it can be captured"
            return out
        if self._captures >= CAPTURES:
            self.given_up = f"its arrays lay elsewhere in each of {CAPTURES} captures"
            self._recording = None
            return list(self.elsewhere(values))
        self._captures += 1
        if found is not None:
            self._moved |= {i for i in found.resident if found.key[1][i] != now[i]}
        lent = {i for flag, (_, own) in zip(flags, self._flags, strict=True) if flag for i in own}
        resident = frozenset({i for i in self._arrays if seen[i] == now[i] and i not in self._moved} | lent)
        made = _Recording(self, resident, (flags, {i: now[i] for i in resident}))
        self._recording = None
        with recorder.building():
            made.build(values, numbers)
        self._recording = made
        return made.results(values)

    def _recorder(self) -> Any:
        if not hasattr(self, "recorder"):
            self.recorder = self._make()
        return self.recorder

    @property
    def text(self) -> str:
        """The segments and what they hold; why what is not captured is not."""
        names = names_of(self.device)
        lines = [f"# runs without graphs: {self.given_up}"] if self.given_up else []
        lines += [f"# {self.remark}"] if self.remark else []
        for k, segment in enumerate(self.segments):
            reason = self.reasons.get(k)
            head = "graph" if segment.captured and reason is None else "between graphs"
            lines.append(f"{head}:" if reason is None else f"{head}: could not be captured ({reason})")
            lines += ["    " + instruction_text(i, names) for i in segment.instructions]
        return "\n".join(lines) + "\n"
