#!/usr/bin/env bash
# Everything that needs a CUDA GPU, in one command of at most eight minutes:
#
#     bench/gpu_acceptance.sh OUT_DIR
#
# Runs the test suite on CuPy, trains on CuPy, times a training step of NumPy, CuPy, PyTorch and JAX, compares traced
# steps with eager ones, and times twenty traced operations on each element. Each step has its own time limit and its
# full log in OUT_DIR; a short table comes last, there too as table.md. PYTHON names the interpreter (default: python3).
# Exit code: 0 if every step passed, 1 if one did not, 2 for a wrong call, 3 with no usable GPU: then nothing was run.
set -u

if [ $# -ne 1 ]; then
    echo "usage: $0 OUT_DIR" >&2
    exit 2
fi
python=${PYTHON:-python3}
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

if ! timeout -k 5 30 "$python" - >"$out/device.log" 2>&1 <<'PY'
import sys

from agrad.backends import load
from agrad.errors import BackendUnavailableError

try:
    backend = load("cupy")
    xp = backend.xp
    assert float(xp.sum(xp.arange(4.0) ** 2)) == 14.0, "the GPU computes wrongly"
except BackendUnavailableError as error:
    sys.exit(str(error))
import cupy

name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
print(f"{name}, CUDA runtime {cupy.cuda.runtime.runtimeGetVersion()}, CuPy {cupy.__version__}")
PY
then
    echo "No usable CUDA GPU, so nothing was run and nothing is claimed:"
    cat "$out/device.log"
    exit 3
fi
device=$(tail -n 1 "$out/device.log")
echo "$device"

failed=0
rows=""

# step NAME SECONDS COMMAND...: run it under its limit, its output in NAME.log, and remember how it went
step() {
    local name=$1 limit=$2 start=$SECONDS code result
    shift 2
    echo "== $name (at most $limit s)"
    timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
    code=$?
    case $code in
        0) result=passed ;;
        124 | 137) result="FAILED: over $limit s" ;;
        *) result="FAILED: exit code $code" ;;
    esac
    if [ $code -ne 0 ]; then
        failed=1
        tail -n 15 "$out/$name.log"
    fi
    rows+=$(printf '| %-14s | %-24s | %7d |' "$name" "$result" $((SECONDS - start)))$'\n'
}

workers=()
if "$python" -c "import xdist" 2>/dev/null; then
    workers=(-n 4)
fi
step suite 200 "$python" -m pytest -q --backend cupy "${workers[@]}" -p no:cacheprovider
rm -f "$out/train.jsonl"
step train 50 env AGRAD_BACKEND=cupy "$python" -m agrad train --log "$out/train.jsonl"
step train-on-gpu 10 "$python" - "$out/train.jsonl" <<'PY'
import json
import sys
from pathlib import Path

end = json.loads(Path(sys.argv[1]).read_text().splitlines()[-1])
print(end)
if end.get("event") != "end" or end["backend"] != "cupy" or "cuda" not in str(end["device"]).lower():
    sys.exit("the log's last record is no end of a run on CuPy")
if not end["test_accuracy"] >= 0.97:
    sys.exit(f"test accuracy {end['test_accuracy']}, not 0.97 or more")
PY
rm -f "$out/mlp_gpu.json"
step mlp 100 "$python" -m bench mlp --device cuda --peers torch,jax --repeat 10 --json "$out/mlp_gpu.json"
step mlp-on-gpu 10 "$python" - "$out/mlp_gpu.json" <<'PY'
import json
import sys
from pathlib import Path

run = json.loads(Path(sys.argv[1]).read_text())
for batch, times in run["seconds"].items():
    print(batch, {name: f"{sorted(samples)[len(samples) // 2] * 1e6:.0f} us" for name, samples in times.items()})
    for name in ("agrad, cupy", "agrad.jit, cupy"):
        if name not in times:
            sys.exit(f"batch {batch}: {name} did not take part: {run['left_out'].get(name)}")
for name, reason in run["left_out"].items():
    print(f"left out, {name}: {reason}")
PY
step jit-steps 30 "$python" - <<'PY'
import numpy as np

import agrad
from agrad import nn, optim


def build():
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    rng = np.random.default_rng(0)
    model.load_state_dict({k: rng.normal(size=v.shape).astype(np.float32) for k, v in model.state_dict().items()})
    optimizer, criterion = optim.SGD(model.parameters(), lr=0.1, momentum=0.9), nn.CrossEntropyLoss()

    def train(x, labels):
        loss = criterion(model(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train


agrad.set_backend("cupy")
rng = np.random.default_rng(1)
batches = [(agrad.asarray(rng.normal(size=(16, 64)).astype(np.float32)), agrad.asarray(np.arange(16) % 10))] * 8
eager, jitted = build(), agrad.jit(build())
for batch in batches:
    a, b = eager(*batch).item(), jitted(*batch).item()
    assert abs(a - b) <= 1e-4 * max(1.0, abs(a)), (a, b)
print(jitted.lower(*batches[0]).code)  # which segments are graphs, and why others are not
PY
rm -f "$out/jit_gpu.json"
step jit 45 "$python" -m bench jit --backends numpy,cupy --peers none --sizes 100000,10000000 --repeat 8 \
    --json "$out/jit_gpu.json"

{
    echo "$device"
    echo
    printf '| %-14s | %-24s | %7s |\n' step result seconds
    echo "|----------------|--------------------------|--------:|"
    printf '%s' "$rows"
} | tee "$out/table.md"
exit $failed
