"""The command line as a process of its own: stopped by signals, killed, read by half."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_files import records, tensors

import agrad
from agrad.cli import main
from agrad.nn import checkpoint

pytestmark = pytest.mark.needs("safetensors")

ROOT = str(Path(agrad.__file__).parents[1])


def started(*argv, python=(), **options):
    environment = {**os.environ, "PYTHONPATH": ROOT, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *python, "-m", "agrad", *map(str, argv)],
        env=environment,
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def test_ctrl_c_while_the_package_is_imported_is_one_line():
    with started("info", python=["-X", "importtime"]) as process:
        lines = iter(process.stderr.readline, "")
        assert any("agrad.arrival" in line for line in lines)
        process.send_signal(signal.SIGINT)
        assert [line for line in lines if not line.startswith("import time:")] == ["agrad: interrupted\n"]
        assert process.wait(timeout=60) == 130 and process.stdout.read() == ""


@pytest.mark.skipif(os.name != "posix", reason="the system has no sh")
def test_closed_outputs_end_in_no_traceback(tmp_path):
    for closed in ("2>&-", ">&- 2>&-"):
        command = f"'{sys.executable}' -m agrad info {closed}; echo $? > '{tmp_path}/code'"
        done = subprocess.run(["sh", "-c", command], env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True)
        assert (done.stderr, (tmp_path / "code").read_text()) == (b"", "0\n")
        assert bool(done.stdout) == (closed == "2>&-")


def test_a_signal_saves_and_resume_gives_the_same_bytes(tmp_path):
    whole, stopped, log = tmp_path / "whole.st", tmp_path / "stopped.st", tmp_path / "log.jsonl"
    words = ("train", "--hidden", "24", "--schedule", "constant", "--quiet")
    # so many epochs that it cannot end before the signal comes
    with begun(log, *words, "--save", stopped) as process:
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (129, ""), err
    assert "stopped after step " in err and f"agrad train --resume {stopped}" in err
    assert records(log)[-1]["event"] == "interrupted"
    epochs = checkpoint.load(stopped)[1]["progress"]["epoch"] + 2
    resume = ("train", "--resume", stopped, "--quiet", "--log", log)
    for rest in (resume, (*words, "--save", whole)):
        assert main([str(word) for word in (*rest, "--epochs", epochs)]) == 0
    assert tensors(stopped) == tensors(whole)
    events = [record["event"] for record in records(log) if record["event"] != "epoch"]
    assert events == ["start", "interrupted", "start", "end"]
    assert [record["epoch"] for record in records(log) if record["event"] == "epoch"] == [*range(1, epochs + 1)]


@contextlib.contextmanager
def begun(log, *words):
    """Start a run that does not end, and wait for two epochs."""
    process = started(*words, "--epochs", "100000", "--log", log)
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and '"epoch": 2,' in log.read_text()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_closed_pipe_ends_quietly(tmp_path):
    path = tmp_path / "model.st"
    assert main(["train", "--hidden", "none", "--epochs", "1", "--quiet", "--save", str(path)]) == 0
    process = started("predict", path, "--data", "digits")
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_an_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full, started("train", "--hidden", "none", "--epochs", "1", stdout=full) as process:
        (line,) = process.stderr.read().splitlines()
        assert process.wait(timeout=60) == 1
    assert line.startswith("agrad train: error: standard output cannot be written: No space left")


def test_a_place_that_vanishes_stops_the_run(tmp_path):
    place, log = tmp_path / "place", tmp_path / "log.jsonl"
    place.mkdir()
    with begun(log, "train", "--hidden", "24", "--quiet", "--save", place / "model.st") as process:
        place.rename(tmp_path / "elsewhere")
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "model.st" in err and "cannot be written" in err
    assert checkpoint.load(tmp_path / "elsewhere" / "model.st")[1]["progress"]["epoch"] >= 1
