"""The goals for a CUDA GPU, judged by the records of one run of ``bench/gpu_acceptance.sh``.

    python -m bench.gpu_goals mlp_gpu.json wide_gpu.json jit_gpu.json

Prints a table. A goal that is missed is a finding; the exit code is 1 where a measurement is missing.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench import common
from bench.common import Timing
from bench.jit import COPY_GPU
from bench.mlp import NAMES
from bench.mlp_peers import candidates

BATCH, ELEMENTS, SHARE = "128", "100000000", 0.85


def _timings(record: dict[str, Any], key: str) -> dict[str, Timing]:
    return {name: Timing(samples) for name, samples in record["seconds"].get(key, {}).items()}


def judged(mlp: dict[str, Any], wide: dict[str, Any], jit: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of the table: what is asked, beside what, what was measured, and whether the goal is met."""
    rows = []
    times, ours = _timings(mlp, BATCH), "agrad.jit, cupy"
    for name in (NAMES["jax"], *(c.name for c in candidates("cuda"))):
        if ours in times and name in times:
            middle, low, high = common.ratio(times[ours], times[name])
            verdict = "met" if middle <= 1 else "NOT met"
            rows.append(
                (f"MLP step, batch {BATCH}", f"at most 1 x {name}", f"{middle:.2f} ({low:.2f} to {high:.2f})", verdict)
            )
        else:
            rows.append((f"MLP step, batch {BATCH}", f"at most 1 x {name}", "", "not measured"))
    shares = {v["precision"]: v for v in wide["goals"] if "goal" in v}
    for precision in ("tf32", "bfloat16"):
        found = shares.get(precision)
        verdict = "not measured" if found is None else "met" if found["met"] else "NOT met"
        measured = "" if found is None else f"{found['share']:.1%} of {found['rate'] / 1e12:.0f} TFLOP/s"
        rows.append((f"wide MLP, {precision}", f"at least {SHARE:.0%} of the matrix rate", measured, verdict))
    times, measured, verdict = _timings(jit, ELEMENTS), "", "not measured"
    if ours in times and COPY_GPU in times:
        middle, low, high = common.ratio(times[COPY_GPU], times[ours])
        measured, verdict = f"{middle:.1%} ({low:.1%} to {high:.1%})", "met" if middle >= SHARE else "NOT met"
    rows.append(("20 operations on 10^8 elements, and back", f"at least {SHARE:.0%} of the copy", measured, verdict))
    return rows


def main(files: list[str]) -> int:
    records = []
    for file, suite in zip(files, ("mlp", "wide", "jit"), strict=True):
        path = Path(file)
        records.append(json.loads(path.read_text()) if path.exists() else {"seconds": {}, "goals": [], "left_out": {}})
        for name, reason in records[-1]["left_out"].items():
            print(f"{suite}: left out, {name}: {reason}")
    rows = judged(*records)
    print(common.table(["work", "goal", "measured", ""], rows))
    return int(any(verdict == "not measured" for *_, verdict in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
