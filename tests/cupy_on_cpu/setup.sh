#!/usr/bin/env bash
# Make a virtual environment in which the real CuPy computes on the CPU, with agrad and what its tests need:
#
#     tests/cupy_on_cpu/setup.sh VENV
#
# It may be run again on the same environment. PYTHON names the interpreter that the environment gets.
# CUPY_ON_CPU=force: also on a machine with a GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}

refuse() {
    printf 'setup.sh: %s\n' "$1" >&2
    exit 1
}

[ $# -eq 1 ] || refuse "usage: $0 VENV"
[ "$(uname -sm)" = "Linux x86_64" ] || refuse "CUDA is emulated on Linux on x86-64 only, and this is $(uname -sm)"
command -v g++ >/dev/null || refuse "g++ 11 or newer is needed, and there is none"
command -v nm >/dev/null || refuse "nm (of the binutils) is needed, and there is none"
version=$(g++ -dumpversion)
[ "${version%%.*}" -ge 11 ] || refuse "g++ 11 or newer is needed, and g++ is $version"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || refuse "Python 3.11 or newer is needed"

devices='
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0)
'
if [ "${CUPY_ON_CPU:-}" != force ] && "$python" -S -c "$devices" 2>/dev/null; then
    refuse "this machine has an NVIDIA GPU: test on it (CUPY_ON_CPU=force emulates one nevertheless)"
fi

[ -x "$1/bin/python" ] || "$python" -m venv "$1"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$1/bin/python" -m pip install -q -e "$root[test]"
"$1/bin/python" -m pip install -q --no-deps -r "$here/requirements.txt"

# one line, run by every Python of this environment when it starts
packages=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >"$packages/cuda_on_cpu.pth" <<END
import os, sys; os.environ.get("CUPY_ON_CPU") != "0" and (sys.path.append("$here"), __import__("cuda_on_cpu_hook"))
END

# the libraries are compiled now, and not in the first test
"$1/bin/python" -c 'import cupy; assert float(cupy.arange(4.0).sum()) == 6'
printf '%s: CuPy %s on an emulated CUDA\n' "$1" "$("$1/bin/python" -c 'import cupy; print(cupy.__version__)')"
