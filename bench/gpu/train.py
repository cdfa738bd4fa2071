"""``agrad train`` on NumPy and on CuPy: equal accuracy, and the seconds of a run.

The data are MNIST if its files are here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import common
from bench.gpu.goals import ACCURACY
from bench.gpu.parts import Work
from bench.gpu.probe import answering

EPOCHS, SMALL_EPOCHS = {"mnist": 3, "digits": 30}, 10
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def mnist_folder() -> str | None:
    """Return a folder with the four files of MNIST, or None; nothing is downloaded.

    It is ``AGRAD_MNIST_DIR``, or the cache.
    """
    from agrad.data import cache_directory

    for folder in (os.environ.get("AGRAD_MNIST_DIR"), os.path.join(cache_directory(), "mnist")):
        if folder and all(any(Path(folder, name + end).exists() for end in ("", ".gz")) for name in FILES):
            return folder
    return None


def data_of(small: bool) -> tuple[str, list[str]]:
    """Return the name of the data and its options; digits if MNIST is not available."""
    folder = None if small else mnist_folder()
    if folder is None:
        print("digits:", "small sizes" if small else "MNIST not found; set AGRAD_MNIST_DIR to a folder with its files")
        return "digits", ["--data", "digits"]
    return "mnist", ["--data", "mnist", "--data-dir", folder]


def trained(backend: str, work: Work, options: list[str], epochs: int) -> dict[str, Any]:
    """Run the command line once, and return its log with the last record first."""
    log = work.logs / f"train-{backend}.jsonl"
    line = [sys.executable, "-m", "agrad", "train", *options, "--epochs", str(epochs), "--backend", backend]
    done = subprocess.run([*line, "--log", str(log)], cwd=common.ROOT, timeout=max(1.0, work.left() - 2), check=False)
    if done.returncode:
        raise RuntimeError(f"agrad train --backend {backend} ended with exit code {done.returncode}")
    records = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()]
    rates = [r["samples_per_second"] for r in records if r["event"] == "epoch"]
    found = records[-1] | {"rate": max(rates), "first rate": rates[0]}
    print(found)
    return found


def run(work: Work) -> None:
    name, options = data_of(work.small)
    epochs = SMALL_EPOCHS if work.small else EPOCHS[name]
    with answering(work, "accuracy on CuPy"):
        there = trained("cupy", work, options, epochs)
        accuracy, on_gpu = there["test_accuracy"], "cuda" in str(there["device"]).lower()
        measured = f"{accuracy:.4f}, {name}, {epochs} epochs, on {there['backend']} ({there['device']})"
        fine = accuracy >= ACCURACY[name] and there["backend"] == "cupy" and on_gpu
        work.answers.give("accuracy on CuPy", fine, measured, "too low" if on_gpu else "not on the GPU")
    with answering(work, "accuracy compared with NumPy"):
        here = trained("numpy", work, options, epochs)
        off = abs(accuracy - here["test_accuracy"])
        work.answers.give(
            "accuracy compared with NumPy", off, f"NumPy {here['test_accuracy']:.4f}", "it learns otherwise"
        )
    with answering(work, "time compared with NumPy"):
        ratio = here["rate"] / there["rate"]
        measured = f"{ratio:.2f} ({there['rate']:,.0f} samples/s, NumPy {here['rate']:,.0f}; best epochs)"
        work.answers.give("time compared with NumPy", ratio, measured, f"CuPy is slower on {name}")
