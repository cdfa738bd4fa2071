"""The parts of the acceptance run in the order of their importance, and their process.

python -m bench.gpu.parts NAME OUT --seconds S [--small]
"""

import argparse
import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.goals import Answers
from bench.gpu.runner import Part

PARTS = {
    part.name: part
    for part in (
        Part("probe", "versions, cuBLASLt, random numbers, gathers, solves, products", 60),
        Part("steps", "jitted and eager MLP steps: one graph, equal losses", 120),
        Part("streams", "steps on other streams", 60),
        Part("numbers", "random numbers, compared with NumPy", 60),
        Part("tests", "a sample of the tests on CuPy", 130),
        Part("mlp", "the MLP step, compared with PyTorch and JAX: time on device and host", 90, alone=True),
        Part("wide", "a wide MLP, compared with the matrix rate", 60, alone=True),
        Part("chain", "twenty operations, compared with a copy and their instructions", 50, alone=True),
        Part("train", "agrad train on NumPy and on CuPy", 45, alone=True),
        Part("compare", "NumPy against CuPy over sizes", 60, alone=True),
    )
}
"""The parts by name. Each is a module of that name here, whose ``run(work)`` answers its questions."""


@dataclass(frozen=True)
class Work:
    """The inputs of a part: folder, answers, small or large sizes, and time limit."""

    out: Path
    answers: Answers
    small: bool
    end: float

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    def left(self) -> float:
        """Return the seconds until the part is ended."""
        return self.end - time.monotonic()


def main(arguments: list[str]) -> int:
    made = argparse.ArgumentParser(prog="python -m bench.gpu.parts")
    made.add_argument("name", choices=PARTS)
    made.add_argument("out", type=Path)
    made.add_argument("--seconds", type=float, default=600.0)
    made.add_argument("--small", action="store_true")
    given = made.parse_args(arguments)
    (given.out / "logs").mkdir(parents=True, exist_ok=True)
    answers = Answers(given.name, given.out / "logs" / f"{given.name}.jsonl", given.small)
    work = Work(given.out, answers, given.small, time.monotonic() + given.seconds)
    importlib.import_module(f"bench.gpu.{given.name}").run(work)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
