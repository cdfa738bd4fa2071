"""One run of pytest in a fork, with one module changed, and what became of it."""

import contextlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mutation.mutants import Mutant
from mutation.site import sitecustomize
from mutation.source import ROOT

MEMORY = 12 << 30
"""Bytes of addresses that a fork may use: a change that asks for ever more memory ends itself."""

OPTIONS = [
    "-x", "-q", "--tb=no", "--no-header", "--no-summary", "-p", "no:cacheprovider", "--hypothesis-seed=0",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
]  # fmt: skip
"""The warning is about libraries that the parent has imported."""


WAITS = 5
"""Times its seconds of processor time that a test may last: it may wait for others on a machine at work."""


BROKEN = 97
"""How a fork exits that fails before it runs any test."""


@dataclass
class Result:
    """The result: ``killed``, ``timeout``, ``survived``, ``none`` or ``unfinished``.

    ``timeout``: a test did not end. ``none``: no test ran.
    """

    outcome: str
    by: str
    seconds: float
    failed: tuple[str, ...] = ()


class Watch:
    """A plugin that notes the running test and failures, and ends endless tests."""

    def __init__(self, current: Path, limit: int) -> None:
        self.limit, self.failed = limit, list[str]()
        self.stream = os.open(current, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def note(self, name: str) -> None:
        os.ftruncate(self.stream, 0)
        os.pwrite(self.stream, name.encode(), 0)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        signal.setitimer(signal.ITIMER_REAL, WAITS * self.limit)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.note(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(f"collecting {report.nodeid}")


class Run:
    """A fork that runs pytest. ``poll`` gives its result when there is one."""

    def __init__(self, work: Path, arguments: tuple[str, ...], limits: tuple[int, int], mutant: Mutant | None) -> None:
        self.files = {name: work / f"{name}.{time.monotonic_ns()}" for name in ("current", "result", "mutant", "log")}
        self.started, self.limit = time.monotonic(), limits[1]
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            try:
                self._child(arguments, limits[0], mutant)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(BROKEN)

    def _child(self, arguments: tuple[str, ...], limit: int, mutant: Mutant | None) -> None:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        out = os.open(self.files["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(ROOT)
        if mutant is not None:
            self.files["mutant"].write_text(json.dumps({"module": mutant.module, "text": mutant.text}))
            os.environ[sitecustomize.VARIABLE] = str(self.files["mutant"])
            sitecustomize.install(str(self.files["mutant"]))
        watch = Watch(self.files["current"], limit)
        watch.note("collecting")
        try:
            code = int(pytest.main([*OPTIONS, *arguments], plugins=[watch]))
        except BaseException as error:
            code, watch.failed = 1, [f"import: {type(error).__name__}"]
        self.files["result"].write_text(json.dumps({"code": code, "failed": watch.failed}))
        os._exit(0)

    def poll(self) -> Result | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        late = not pid and time.monotonic() - self.started > self.limit
        if late:
            self.end()
            os.waitpid(self.pid, 0)
        elif not pid:
            return None
        self.end()
        if not late and status == BROKEN << 8:
            raise RuntimeError(f"a fork could not start:\n{self.files['log'].read_text()}")
        result = self._result(status, late)
        for file in self.files.values():
            file.unlink(missing_ok=True)
        return result

    def end(self) -> None:
        """End the fork and the processes that its tests started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _result(self, status: int, late: bool) -> Result:
        seconds = time.monotonic() - self.started
        current = self.files["current"].read_text() if self.files["current"].exists() else "start"
        if late:
            return Result("unfinished", current, seconds)
        if self.files["result"].exists():
            told = json.loads(self.files["result"].read_text())
            outcome = {0: "survived", 5: "none"}.get(told["code"], "killed")
            failed = tuple(told["failed"])
            return Result(outcome, "" if outcome != "killed" else failed[0] if failed else "import", seconds, failed)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF):
            return Result("timeout", current, seconds)
        return Result("killed", f"a crash in {current}", seconds)
