"""The goals for a CUDA GPU: all questions of the acceptance run, and their evaluation."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MET, NOT_MET, NOT_MEASURED, NOT_JUDGED = "met", "NOT met", "not measured", "not judged"
SMALL = "small sizes"

PRECISIONS = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 6e-2, "float16": 2e-2}
"""Maximum difference of a traced step's losses from the eager ones, by the precision of its products."""
OPTIMIZERS = ("SGD", "Adam")
MLP_CLOCKS = ("device", "host", "together")
WIDE_PRECISIONS = ("tf32", "bfloat16")
SHARE = 0.85
"""Required fraction of the matrix rate, and of the bound of a chain of operations."""
CHAINS = {"20 operations on 10^8, and back": 283, "20 cheap operations on 10^8, and back": 0}
"""The instructions per element, counted in the kernel that ptxas compiles for sm_90; 0 if the copy is the bound."""
ACCURACY = {"mnist": 0.97, "digits": 0.95}
STREAM_CHECKS = ("a step on another stream", "replays on two streams in turn")
EXACT = ("uniform float32", "uniform float64", "bits", "integers", "permutation", "keys", "mask")


@dataclass(frozen=True)
class Goal:
    """A question of a part and the required answer.

    ``most`` and ``least`` bound the number that answers it; without them, the answer is yes or no. NaN is the answer of
    a failed part. If ``timed`` is True, the answer is a time, which is not evaluated at small sizes.
    """

    part: str
    name: str
    wanted: str
    most: float | None = None
    least: float | None = None
    timed: bool = False


def _goals() -> list[Goal]:
    found = [
        Goal("probe", "device", "CuPy computes on it"),
        Goal("probe", "cuBLASLt", "available"),
        Goal("probe", "uniform numbers", "in [0, 1), mean 0.5"),
        Goal("probe", "normal numbers", "mean 0, deviation 1"),
        Goal("probe", "gradient of a gather", "sums for repeated indices"),
        Goal("probe", "solve with broadcast", "as NumPy"),
        Goal("probe", "products at odd alignments", "off by at most 1e-3", most=1e-3),
        Goal("probe", "products with narrow results", "roundings of the float32 results"),
        Goal("probe", "a product without workspace", "off by at most 1e-3", most=1e-3),
    ]
    for optimizer in OPTIMIZERS:
        for precision, most in PRECISIONS.items():
            wanted = f"one graph; losses within {most:g} of eager"
            found.append(Goal("steps", f"{optimizer}, {precision}", wanted, most=most))
    found.append(Goal("steps", "loss scale from 2**40, float16", "the scale comes down, the loss falls"))
    found += [Goal("streams", name, "losses as eager within 1e-4", most=1e-4) for name in STREAM_CHECKS]
    found += [Goal("numbers", name, "NumPy's, bit for bit") for name in EXACT]
    found.append(Goal("numbers", "normal", "off by at most 1e-5", most=1e-5))
    found.append(Goal("tests", "a sample of the tests on CuPy", "none fails"))
    for clock in MLP_CLOCKS:
        found.append(Goal("mlp", f"MLP step, batch 128, {clock}", "at most 1 x the best peer", most=1.0, timed=True))
    for precision in WIDE_PRECISIONS:
        wanted = f"at least {SHARE:.0%} of the matrix rate"
        found.append(Goal("wide", f"4 x 8192, {precision}", wanted, least=SHARE, timed=True))
    for name, instructions in CHAINS.items():
        bound = f"the slower of a copy and of {instructions} instructions an element" if instructions else "a copy"
        found.append(Goal("chain", name, f"at least {SHARE:.0%} of the rate of {bound}", least=SHARE, timed=True))
    wanted = " or ".join(f"{least:g} ({name})" for name, least in ACCURACY.items())
    found.append(Goal("train", "accuracy on CuPy", f"at least {wanted}"))
    found.append(Goal("train", "accuracy compared with NumPy", "differs by at most 0.02", most=0.02))
    found.append(Goal("train", "time compared with NumPy", "at most 1 x", most=1.0, timed=True))
    found.append(Goal("compare", "NumPy and CuPy, same derivatives", "same to 1e-3"))
    found.append(Goal("compare", "plot", "drawn"))
    return found


GOALS = {(goal.part, goal.name): goal for goal in _goals()}


@dataclass(frozen=True)
class Verdict:
    """The answer to a question, with the reason of a missing or a bad one."""

    part: str
    name: str
    wanted: str
    measured: str
    verdict: str
    why: str = ""

    @property
    def text(self) -> str:
        return f"{self.verdict}: {self.why}" if self.why else self.verdict


def judged(goal: Goal, value: float | bool, measured: str, why: str = "", small: bool = False) -> Verdict:
    """Compare a number or a Boolean with a goal."""
    answered = value == value  # not NaN
    if goal.timed and small and answered:
        return Verdict(goal.part, goal.name, goal.wanted, measured, NOT_JUDGED, SMALL)
    bounded = goal.most is not None or goal.least is not None
    inside = (goal.most is None or value <= goal.most) and (goal.least is None or value >= goal.least)
    met = answered and (inside if bounded else bool(value))
    return Verdict(goal.part, goal.name, goal.wanted, measured, MET if met else NOT_MET, "" if met else why)


def unmeasured(goal: Goal, why: str, measured: str = "") -> Verdict:
    return Verdict(goal.part, goal.name, goal.wanted, measured, NOT_MEASURED, why)


class Answers:
    """The file of a part's verdicts. Each is written as soon as it is known, so that a later crash loses none."""

    def __init__(self, part: str, file: Path, small: bool = False) -> None:
        self.part, self.file, self.small = part, file, small
        self.given: set[str] = set()

    def give(self, name: str, value: float | bool, measured: str, why: str = "") -> None:
        """Answer a question of this part with a number or a Boolean, and the text that shows it."""
        self._write(judged(GOALS[self.part, name], value, measured, why, self.small))

    def absent(self, name: str, why: str, measured: str = "") -> None:
        """Record why a question cannot be answered here, and what is known nevertheless."""
        self._write(unmeasured(GOALS[self.part, name], why, measured))

    def _write(self, verdict: Verdict) -> None:
        self.given.add(verdict.name)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(verdict)) + "\n")
        print(f"== {verdict.name}: {verdict.measured} [{verdict.text}]", flush=True)


def read(file: Path) -> list[Verdict]:
    """Return the verdicts that a part wrote, without a line that was cut off."""
    found: list[Verdict] = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            found.append(Verdict(**json.loads(line)))
        except ValueError:
            continue
    return found


def completed(part: str, given: list[Verdict], why: str) -> list[Verdict]:
    """Return a verdict for each question of a part, in order.

    why: the reason if the part was ended early. A part that ran to its end must answer each question.
    """
    by_name: dict[str, Verdict] = {v.name: v for v in given}

    def missing(goal: Goal) -> Verdict:
        return unmeasured(goal, why) if why else judged(goal, float("nan"), "", "the part gave no answer")

    return [by_name.get(name) or missing(goal) for (of, name), goal in GOALS.items() if of == part]


def passed(verdicts: list[Verdict], small: bool, failed: set[str]) -> bool:
    """Return True if all requirements are met.

    At small sizes, times need no verdict, and a peer or a library for a plot may be absent. ``failed``: the parts that
    did not run to their end.
    """
    fine: set[str] = {MET, NOT_JUDGED, NOT_MEASURED} if small else {MET}
    return not failed and all(v.verdict in fine for v in verdicts)


def record(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    return [asdict(v) for v in verdicts]
