"""CUDA C++ compiled by nvcc, where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest


def ptx(text: str, folder: Path) -> str:
    """Return the PTX of a text, which must compile without a warning. The test is skipped without nvcc."""
    program = shutil.which("nvcc")
    if program is None:
        pytest.skip("nvcc is not installed")
    source, made = folder / "kernels.cu", folder / "kernels.ptx"
    source.write_text(text)
    command = [program, "-ptx", "-Xcicc", "-O1", "-std=c++17", "-Werror", "all-warnings", "-o", made, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made.read_text()
