"""The results of the suites of ``python -m bench``, kept for the acceptance run."""

import json
from dataclasses import replace
from typing import Any

from bench.gpu.parts import Work
from bench.suites import Options, Report, Suite


def options(suite: Suite, small: bool, **given: Any) -> Options:
    """Return the options of a suite, as its command line would create them."""
    made = Options(
        backends=suite.backends, peers=suite.peers, sizes=suite.sizes, dtype=suite.dtypes[0], device=None,
        repeat=suite.repeat, sample=0.001 if small else suite.sample, only=(), quick=small,
    )  # fmt: skip
    return replace(made, **given)


class Records:
    """The reports of a part, records and texts, each written as soon as it is ready."""

    def __init__(self, work: Work, name: str) -> None:
        self.file = work.logs / f"{name}.json"
        self.found: list[dict[str, Any]] = []

    def add(self, report: Report) -> Report:
        self.found.append(report.record)
        self.file.write_text(json.dumps(self.found), encoding="utf-8")
        with self.file.with_suffix(".md").open("a", encoding="utf-8") as out:
            out.write(report.text + "\n\n")
        print(report.text, flush=True)
        return report
