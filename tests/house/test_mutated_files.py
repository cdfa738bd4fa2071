"""Mutants of good files load with finite content, or are refused in a few printable lines, within memory and time."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agrad

pytestmark = [
    pytest.mark.needs("safetensors"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits are set as on Linux"),
]

SEEDS = int(os.environ.get("AGRAD_MUTANTS", "100"))
"""How many mutants: 1,000 take half a minute."""
BATCH = 500
TOOL = Path(__file__).parents[1] / "mutants.py"


def test_mutants_load_whole_or_are_refused(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(agrad.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    found = []
    for first in range(0, SEEDS, BATCH):
        last = min(first + BATCH, SEEDS)
        command = [sys.executable, str(TOOL), str(tmp_path), str(first), str(last)]
        # longer than the alarm inside, which interrupts all but compiled code
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"seed"')]
        assert (done.returncode, done.stderr) == (0, ""), found[-1:]
    assert [record["seed"] for record in found] == list(range(SEEDS))
    assert [record for record in found if record["result"] == "failed"] == []
    counts = collections.Counter((record["file"].partition(".")[2], record["result"]) for record in found)
    # mutants that no reader takes, or every reader, would show nothing
    assert {kind for kind, result in counts if result == "refused"} == {"st", "csv", "npz", "idx", "idx.gz"}
    assert sum(n for (_, result), n in counts.items() if result == "loaded") > SEEDS / 20
