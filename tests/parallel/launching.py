"""Programs on several ranks, for tests: they are started by ``mpiexec`` and write what they found into files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import agrad

ROOT = Path(agrad.__file__).parents[1]
PROGRAM = Path(__file__).with_name("rank_program.py")
OPTIONS = ("--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
LIMIT = 60
needs_mpi = pytest.mark.needs("mpi4py")


def launcher() -> str:
    """Return the ``mpiexec`` of this environment, or skip the test."""
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("mpiexec is not installed")
    return found


def launch(ranks: int, *args: Any, module: bool = False, program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Run a program, by default that of the tests, or ``agrad`` as a module, on some ranks."""
    what = ["-m", "agrad"] if module else [str(program)]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [launcher(), *OPTIONS, "-n", str(ranks), sys.executable, *what, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=variables)


def results(ranks: int, names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Run parts of the program, and return what each rank found, by the name of the part."""
    done = launch(ranks, folder, *names)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{'-'.join(names)[:40]}.{r}.{ranks}").read_text()) for r in range(ranks)]
