"""The training step of the wide MLP, compared with a plain product: the suite ``wide``."""

from typing import Any

from bench import wide
from bench.gpu.goals import WIDE_PRECISIONS
from bench.gpu.parts import Work
from bench.gpu.probe import answering
from bench.gpu.records import Records, options

SIZE, SMALL_SIZE = 8192, 64


def answer(work: Work, name: str, goals: list[dict[str, Any]], left_out: dict[str, str]) -> None:
    found = [v for v in goals if v["who"] == "agrad.jit, cupy"]
    if not found:
        work.answers.absent(name, "; ".join(left_out.values()) or "nothing was measured")
        return
    (verdict,) = found
    low, high = verdict["quartiles"]
    measured = f"{verdict['share']:.1%} ({low:.1%} to {high:.1%}) of {verdict['rate'] / 1e12:.3g} TFLOP/s"
    work.answers.give(name, verdict["share"], measured, "below the goal")


def run(work: Work) -> None:
    records = Records(work, "wide")
    for precision in WIDE_PRECISIONS:
        name = f"4 x 8192, {precision}"
        with answering(work, name):
            given = options(
                wide.SUITE, work.small, backends=("cupy", "torch"), peers=("torch",), device="cuda", only=(precision,),
                sizes=(SMALL_SIZE if work.small else SIZE,), repeat=2 if work.small else 7,
            )  # fmt: skip
            report = records.add(wide.SUITE.run(given))
            answer(work, name, report.record["goals"], report.record["left_out"])
