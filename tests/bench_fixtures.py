"""Fixtures of the benchmarks' tests, with threads in place of processes."""

import dataclasses
import functools
import multiprocessing
import os
import pickle
import threading
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from bench import __main__ as command
from bench import common, conv, draws, limits, loops, ops, tables, train, transforms, users

MEASURED = functools.cache(limits.measure)
INTERACTIONS = tables.SOURCES["interactions"]


class Worker(threading.Thread):
    """A thread in place of a candidate's process, with the same pipe."""

    exitcode = 0

    def __init__(self, *, args: tuple[Any, ...], **more: Any) -> None:
        pipe, candidate = args
        own = Connection(os.dup(pipe.fileno()))  # the one who starts a process closes what it hands over
        super().__init__(args=(own, pickle.loads(pickle.dumps(candidate))), **more)

    def run(self) -> None:
        with self._args[0]:
            super().run()

    def terminate(self) -> None:
        raise AssertionError("a worker was told to end and did not")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return the exit code and the texts of a run in this process.

    There are no rests between samples, one new process is timed, the limits are measured once, and a table is short.
    """
    context = types.SimpleNamespace(Pipe=multiprocessing.Pipe, Process=Worker)
    monkeypatch.setattr(common.multiprocessing, "get_context", lambda method: context)
    monkeypatch.setattr(common, "SETTLE", 0.0)
    monkeypatch.setattr(common.Remote, "pause", 0.0)
    for suite in (conv, loops, ops, transforms, users):
        monkeypatch.setattr(suite, "REST", 0.0)
    monkeypatch.setattr(users, "STARTS", {"numpy": users.STARTS["numpy"]})
    monkeypatch.setattr(draws, "COUNT", 10_000)
    monkeypatch.setattr(train, "PASSED", 2_000)
    monkeypatch.setattr(limits, "measure", MEASURED)
    few = dataclasses.replace(INTERACTIONS, columns=lambda: {n: c[:200] for n, c in INTERACTIONS.columns().items()})
    monkeypatch.setitem(tables.SOURCES, "interactions", few)
    monkeypatch.setattr("agrad.backends._process", [])
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    def of(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = command.main(list(arguments))
        return (code, *capsys.readouterr())

    return of
