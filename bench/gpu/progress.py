"""A plugin for pytest that writes each result to a file at once.

    python -m pytest -p bench.gpu.progress --progress FILE ...

Lines of JSON: the number of tests selected, then an outcome and a name for each, with the text of a failure.
"""

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--progress", metavar="FILE", help="append each result to this file as it comes")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--progress")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(Path(file)), "progress to a file")


class Progress:
    """Writes reports in the user's process, also from xdist workers."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.selected = 0

    def _write(self, record: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._selected(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._selected(len(ids))

    def _selected(self, count: int) -> None:
        if count > self.selected:
            self.selected = count
            self._write({"selected": count})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write({"outcome": "failed", "test": report.nodeid, "text": str(report.longrepr)[-2000:]})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write({"outcome": "failed", "test": report.nodeid, "text": str(report.longrepr)[-2000:]})
        elif report.skipped or report.when == "call":
            self._write({"outcome": report.outcome, "test": report.nodeid})
