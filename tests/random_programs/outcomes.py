"""The outcomes of a program: ok, wrong, an error, refused, undecided, or unfit."""

import re
import warnings
from dataclasses import dataclass

import numpy as np

from agrad.errors import AgradError
from random_programs.comparing import Undecided, Wrong
from random_programs.program import OPERATIONS, Program, Unfit
from random_programs.ways import WAYS, Case

OK, WRONG, ERROR, REFUSED, UNDECIDED, UNFIT = "ok", "wrong", "error", "refused", "undecided", "unfit"

REFUSALS: dict[str, tuple[str, str]] = {
    "Python branches by a value": ("TracedValueError", r"^(bool|int|float|index)\(\) (of|must)"),
    "a shape depends on values": (
        "TracedValueError",
        r"Boolean index|by a (mapped )?mask|nonzero|^numpy\(\) (of|must)",
    ),
    "a loop of unknown length": ("NotDifferentiableError", r"^while_loop inside jit or vmap cannot be differentiated"),
    "a Tensor is written into a raw array": ("RefusedFunctionError", r"must be a Tensor, got ndarray"),
}
"""By kind: the error that refuses a program, and a part of its text; most apply if it picks by values or in scan."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one way: ``kind`` without the numbers, ``text`` with them."""

    verdict: str
    way: str
    kind: str = ""
    text: str = ""

    @property
    def fails(self) -> bool:
        return self.verdict in (WRONG, ERROR)


def run(program: Program, way: str, turn: int = 0) -> Outcome:
    """Run a program in one way; its reference values have to exist."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        case = Case(program, turn)
        before = [x.copy() for x in case.inputs]
        outcome = _outcome(case, way)
        for x, y in zip(case.inputs, before, strict=True):
            if not np.array_equal(x, y, equal_nan=True):
                return Outcome(WRONG, way, "an input changed", f"an input changed: {x.tolist()}, was {y.tolist()}")
    return outcome


def _outcome(case: Case, way: str) -> Outcome:
    try:
        WAYS[way](case)
    except Wrong as error:
        text = str(error)
        return Outcome(WRONG, way, re.split(r"[\d:(]", text)[0].strip(), text)
    except Undecided as error:
        return Outcome(UNDECIDED, way, "", str(error))
    except Unfit:
        return Outcome(UNFIT, way)
    except Exception as error:
        return _refused_or_error(error, way, case.program)
    return Outcome(OK, way)


def _by_values(op: str) -> bool:
    return OPERATIONS[op].values or OPERATIONS[op].masks


def _refused_or_error(error: Exception, way: str, program: Program) -> Outcome:
    name, text = type(error).__name__, f"{error}"
    if isinstance(error, AgradError):
        by_values = any(map(_by_values, program.operations))
        for kind, (refusal, pattern) in REFUSALS.items():
            explained = by_values or refusal == "RefusedFunctionError" or "inside scan" in text
            if explained and name == refusal and re.search(pattern, text):
                return Outcome(REFUSED, way, kind, text)
    first = text.splitlines()[0] if text else ""
    return Outcome(ERROR, way, f"{name}: {re.sub(r'[0-9]+', 'N', first)[:90]}", f"{name}: {text}")
