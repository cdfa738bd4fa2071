#!/usr/bin/env bash
# Everything that needs a CUDA GPU, in one command of at most eight minutes:
#
#     bench/gpu_acceptance.sh OUT_DIR
#
# Trains on CuPy; compares traced steps with eager ones, in each precision, with the loss scaled, and PyTorch's compiled
# ones; times a training step of NumPy, CuPy, PyTorch (eager, compiled, a CUDA graph captured by hand) and JAX, one of a
# wide MLP in TF32, bfloat16 and float16, and twenty traced operations on 10^8 elements; judges the goals by these
# (goals.log); and runs a quarter of the tests on CuPy (all: pytest --backend cupy). Each step has its own time limit and
# its full log in OUT_DIR; a short table comes last, there too as table.md. PYTHON names the interpreter (default:
# python3).
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

rm -f "$out/train.jsonl"
step train 40 env AGRAD_BACKEND=cupy "$python" -m agrad train --log "$out/train.jsonl"
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
step mlp 100 "$python" -m bench mlp --device cuda --peers torch,jax --sizes 128 --repeat 10 --json "$out/mlp_gpu.json"
step jit-steps 60 "$python" - <<'PY'
import numpy as np

import agrad
from agrad import nn, optim


def build(scaled=False):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10))
    rng = np.random.default_rng(0)
    model.load_state_dict({k: rng.normal(size=v.shape).astype(np.float32) / 4 for k, v in model.state_dict().items()})
    optimizer, criterion = optim.SGD(model.parameters(), lr=0.1, momentum=0.9), nn.CrossEntropyLoss()
    scale = optim.LossScale(optimizer, init_scale=2.0**100) if scaled else None

    def train(x, labels):
        loss = criterion(model(x), labels)
        (loss if scale is None else scale(loss)).backward()
        (optimizer if scale is None else scale).step()
        optimizer.zero_grad()
        return loss

    return train


def batches(backend, device):
    rng = np.random.default_rng(1)
    given = [(rng.normal(size=(16, 64)).astype(np.float32), np.arange(16) % 10) for _ in range(8)]
    given[3][0][:4] = 0  # rows of zeros: their pre-activations are biases
    return [tuple(agrad.asarray(a, backend=backend, device=device) for a in pair) for pair in given]


def compare(what, backend, device, digits, **options):
    agrad.set_backend(backend, device)
    eager, jitted = build(), agrad.jit(build(), **options)
    given = batches(backend, device)
    for batch in given:
        a, b = eager(*batch).item(), jitted(*batch).item()
        assert abs(a - b) <= digits * max(1.0, abs(a)), (what, a, b)
    print(f"== {what}\n{jitted.lower(*given[0]).code}")  # which segments are graphs, and why others are not


compare("CuPy", "cupy", None, 1e-4)
for precision, digits in (("tf32", 5e-3), ("float16", 5e-3), ("bfloat16", 4e-2)):
    compare(f"CuPy, {precision}", "cupy", None, digits, precision=precision)
train = agrad.jit(build(scaled=True), precision="float16")
losses = [train(*batch).item() for batch in batches("cupy", None) * 16]
assert losses[0] == losses[8] and losses[-1] < losses[0], losses  # 2**100 overflows, and the scale comes down
try:
    import torch

    there = torch.cuda.is_available()
except ImportError:
    there = False
if there:
    compare("PyTorch, compiled", "torch", "cuda", 1e-3)
    compare("PyTorch, compiled, bfloat16", "torch", "cuda", 4e-2, precision="bfloat16")
else:
    print("PyTorch sees no CUDA GPU here: its compiled programs were not tried")
PY
rm -f "$out/wide_gpu.json"
step wide 80 "$python" -m bench wide --backends cupy,torch --device cuda --sizes 8192 --repeat 5 \
    --json "$out/wide_gpu.json"
rm -f "$out/jit_gpu.json"
step jit 45 "$python" -m bench jit --backends cupy --peers none --sizes 100000000 --repeat 8 --json "$out/jit_gpu.json"
step goals 10 "$python" -m bench.gpu_goals "$out/mlp_gpu.json" "$out/wide_gpu.json" "$out/jit_gpu.json"
cat "$out/goals.log"
workers=()
if "$python" -c "import xdist" 2>/dev/null; then
    workers=(-n 4)
fi
step suite 100 "$python" -m pytest -q --backend cupy --only-backends --one-in 4 "${workers[@]}" -p no:cacheprovider
{
    echo "$device"
    echo
    printf '| %-14s | %-24s | %7s |\n' step result seconds
    echo "|----------------|--------------------------|--------:|"
    printf '%s' "$rows"
} | tee "$out/table.md"
exit $failed
