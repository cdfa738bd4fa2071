#!/usr/bin/env bash
# Everything that needs a CUDA GPU, in one command of at most eight minutes; bench/gpu/README.md says more:
#
#     bench/gpu_acceptance.sh [--small] [--parts NAMES] OUT
#
# PYTHON names the interpreter (default: python3). Exit code: 0 all met, 1 not, 2 wrong call, 3 no usable GPU.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 2
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -P -m bench.gpu "$@"
