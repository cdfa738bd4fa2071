"""Scores and times of ``agrad train`` on tables, compared with perceptrons and trees of scikit-learn.

All use default options and the same rows: each seed shuffles a table, and four fifths are used for training. The time
is the processor time of the whole process, from its start to the score, with one thread for products of matrices.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import common
from bench.common import Missing, load
from bench.suites import Options, Report, Suite
from bench.tables_data import SOURCES, Source, target_of, write

OURS, PERCEPTRON, TREES = "agrad train", "MLP", "trees"
PEERS = {"mlp": PERCEPTRON, "trees": TREES}
BELOW_PERCEPTRON, BELOW_TREES = 0.01, 0.02
"""Maximum difference of a score below the perceptron, and of all on average below the trees."""
SECONDS, LARGE, SECONDS_OF_LARGE = 3.0, "places", 8.0
"""The time limit of the median table, and of a table of 20,000 rows."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def timed(command: Sequence[str]) -> tuple[str, float]:
    """Return what a process printed, and its processor time."""
    place = os.pathsep.join([str(common.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": place}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([sys.executable, *command], env=environment, stdout=out, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, errors)]
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}: {texts[1][-2000:]}")
    return texts[0], used.ru_utime + used.ru_stime


def rows_of(source: Source, file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that ``agrad train`` trains on and tests on."""
    y = np.asarray(target_of(source, file))
    if source.task == "classification":
        y = np.unique(y, return_inverse=True)[1]
    return load("agrad.data.regression").split(source.task, y, 0.2, 0, str(file))


def ours(source: Source, file: Path, seed: int) -> tuple[float, float]:
    """Return the score of ``agrad train`` and its time."""
    log = file.with_suffix(".jsonl")
    given = {"--data": file, "--label": source.target, "--task": source.task, "--seed": seed, "--log": log}
    words = [str(word) for pair in given.items() for word in pair]
    _, seconds = timed(["-m", "agrad", "train", *words, "--threads", "1", "--quiet"])
    end = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return end["test_accuracy" if source.task == "classification" else "test_r2"], seconds


def theirs(kind: str, source: Source, file: Path, seed: int) -> tuple[float, float]:
    """Return the score of a peer and its time."""
    train, test = rows_of(source, file)
    rows = file.with_suffix(".npz")
    np.savez(rows, train=train, test=test)
    script = str(common.ROOT / "bench" / "tables_peers.py")
    text, seconds = timed([script, kind, str(file), source.target, source.task, str(seed), str(rows)])
    return float(text), seconds


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return float(np.mean(values))


def text_of(scores: dict[str, dict[str, list[float]]], seconds: dict[str, dict[str, list[float]]]) -> str:
    """Return the tables of scores and times, and the evaluation of the goals."""
    rows, apart, missed = [], {PERCEPTRON: [], TREES: []}, []
    for name, found in scores.items():
        cells = [name, SOURCES[name].origin, "accuracy" if SOURCES[name].task == "classification" else "R2"]
        cells += [f"{mean(values):.4f}" for values in found.values()]
        for who, others in apart.items():
            if who in found:
                others.append(mean(found[OURS]) - mean(found[who]))
                cells.append(f"{others[-1]:+.4f}")
        if PERCEPTRON in found and apart[PERCEPTRON][-1] < -BELOW_PERCEPTRON:
            missed.append(f"{name} ({apart[PERCEPTRON][-1]:+.4f})")
        rows.append([*cells, *(f"{np.median(values):.1f}" for values in seconds[name].values())])
    who = list(next(iter(scores.values())))
    head = ["table", "origin", "score", *who, *(f"- {o}" for o in apart if o in who), *(f"{w}, s" for w in who)]
    times = [float(np.median(found[OURS])) for found in seconds.values()]
    lines = [common.table(head, rows), ""]
    if apart[PERCEPTRON]:
        lines += [
            f"- More than {BELOW_PERCEPTRON} below the MLP (goal: none): {', '.join(missed) or 'none'}. "
            f"Mean difference {mean(apart[PERCEPTRON]):+.4f}.",
        ]
    if apart[TREES]:
        lines += [f"- Mean difference to the trees {mean(apart[TREES]):+.4f} (goal: at least {-BELOW_TREES})."]
    lines += [f"- Median table {np.median(times):.1f} s (goal: {SECONDS:g} s)."]
    if LARGE in seconds:
        lines += [f"- 20,000 rows ({LARGE}) {np.median(seconds[LARGE][OURS]):.1f} s (goal: {SECONDS_OF_LARGE:g} s)."]
    return "\n".join(lines)


def run(options: Options) -> Report:
    """Train on every table by every seed."""
    about = common.machine()
    lacking = [name for name in ("sklearn", "pandas") if importlib.util.find_spec(name) is None]
    peers = () if lacking else options.peers
    left_out = {PEERS[kind]: f"no {' and no '.join(lacking)} here" for kind in options.peers if lacking}
    scores: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, dict[str, list[float]]] = {}
    for name in options.only or SOURCES:
        source = SOURCES[name]
        for seed in range(options.repeat):
            print(f"tables: {name}, seed {seed} ...", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / f"{name}.csv"
                try:
                    write(file, source, seed)
                except (Missing, ImportError) as reason:
                    left_out[name] = str(reason)
                    break
                found = {OURS: ours(source, file, seed)}
                found |= {PEERS[kind]: theirs(kind, source, file, seed) for kind in peers}
            for who, (score, took) in found.items():
                scores.setdefault(name, {}).setdefault(who, []).append(float(score))
                seconds.setdefault(name, {}).setdefault(who, []).append(float(took))
    about["load average after"] = common.load_average()
    if not scores:
        raise Missing("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    return report_of(scores, seconds, about, left_out)


def report_of(scores: Any, seconds: Any, about: dict[str, str], left_out: dict[str, str]) -> Report:
    """Return the report of samples."""
    seeds = max(len(samples) for found in scores.values() for samples in found.values())
    text = (
        "# Tables\n\n"
        f"`agrad train` compared with MLPClassifier or MLPRegressor of scikit-learn (missing numbers by the mean, "
        "StandardScaler, OneHotEncoder; targets standardized) and HistGradientBoosting (missing values and categories "
        f"as they are), all with default options. Means of the scores on the same test parts over {seeds} seeds, of "
        "the shuffled rows and of the fit. Times are medians of the processor time of whole processes, with imports, "
        "on one thread.\n\n"
        + text_of(scores, seconds)
        + "\n\n## Machine\n\n"
        + common.environment_text(about, {}, left_out)
    )
    record = {"suite": "tables", "machine": about, "limits": {}, "computed_with": {}, "left_out": left_out}
    return Report(text, {**record, "scores": scores, "seconds": seconds})


SUITE = Suite(
    about="scores and times of agrad train on tables",
    run=run,
    repeat=5,
    peers=tuple(PEERS),
    only=tuple(SOURCES),
    quick_only=("interactions",),
)
