"""A sample of the tests on CuPy that fits into its time.

If the sample does not finish, the results until then count.
"""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench import common
from bench.gpu.parts import Work
from bench.gpu.runner import GRACE, how_ended

NAME = "a sample of the tests on CuPy"
FILES = (
    "random/test_random", "jit/test_jit_products", "jit/test_jit_state", "jit/test_jit_calls",
    "jit/test_jit_precision", "optim/test_groups", "optim/test_optim_scaling", "nn/test_modules", "cli/test_training",
    "engine/test_view_memory", "engine/test_inplace", "engine/test_engine", "engine/test_tensor", "ops/test_linalg",
    "ops/test_digits", "ops/test_cases",
)  # fmt: skip
"""The tests with the highest demands on a backend."""
FEW, SMALL_FEW = 8, 400
"""One of this many cases of the table runs; see tests/conftest.py."""
SMALL_FILES = ("random/test_random", "jit/test_jit_products", "optim/test_groups", "cli/test_training")
WORKERS = 8
MARGIN = 8.0
"""Seconds of the part that are not available to pytest."""


def command(file: Path, small: bool) -> list[str]:
    """Return the command line of pytest that writes its results to ``file``."""
    chosen = [f"tests/{name}.py" for name in (SMALL_FILES if small else FILES)]
    workers = min(WORKERS, common.cores())
    parallel = ["-n", str(workers)] if importlib.util.find_spec("xdist") and workers > 1 else []
    few = SMALL_FEW if small else FEW
    return [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "bench.gpu.progress",
        "--progress", str(file), "--backend", "cupy", "--only", "cupy", "--few", str(few), "--round", "1",
        *parallel, *chosen,
    ]  # fmt: skip


def run_for(line: list[str], seconds: float) -> str:
    """Run pytest in the checkout with a time limit; return how it ended."""
    process = subprocess.Popen(line, cwd=common.ROOT, stdin=subprocess.DEVNULL, env=os.environ | {"AGRAD_BACKEND": ""})
    try:
        return how_ended(process.wait(max(0.1, seconds)))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()
        return f"ended after {seconds:.0f} s"


def counted(file: Path) -> tuple[dict[str, int], int, list[str]]:
    """Return the tests by outcome, the number selected, and the names of failures."""
    counts, selected, failed = {"passed": 0, "failed": 0, "skipped": 0}, 0, []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            selected = found.get("selected", selected)
            if "outcome" in found:
                counts[found["outcome"]] += 1
            if found.get("outcome") == "failed":
                failed.append(found["test"])
                print(f"-- {found['test']}\n{found['text']}")
    return counts, selected, failed


def run(work: Work) -> None:
    if importlib.util.find_spec("pytest") is None:
        work.answers.absent(NAME, "pytest is not installed")
        return
    file = work.logs / "tests-progress.jsonl"
    line = command(file, work.small)
    print(" ".join(line[3:]), flush=True)
    how = run_for(line, work.left() - MARGIN)
    counts, selected, failed = counted(file)
    said = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n or kind != "skipped")
    measured = f"{said} of {selected}" + (f", {how}" if "after" in how else "")
    if not counts["passed"] and not failed:
        work.answers.absent(NAME, f"no test ran: {how}")
        return
    cut = "after" in how
    why = f"first: {failed[0]}" if failed else f"pytest: {how}"
    work.answers.give(NAME, not failed and (cut or how == "done"), measured, why)
