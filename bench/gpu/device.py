"""Describe the device in a line, and report if it is a GPU: ``python -m bench.gpu.device``.

The program fails if CuPy cannot compute.
"""

import subprocess
import sys
from pathlib import Path

SECONDS = 60.0
EMULATED = "CUDA on the CPU"
"""The device of an emulated CUDA; see tests/cupy_on_cpu."""
GPU, STAND_IN = "a GPU", "a stand-in on the CPU"


class NoDevice(Exception):
    """No device can be used; the message says why."""


def described(logs: Path, seconds: float = SECONDS) -> tuple[str, bool]:
    """Return a line on device and versions, and True for a GPU, from a new process."""
    log = logs / "device.log"
    try:
        with log.open("wb") as out:
            command = [sys.executable, "-P", "-m", "bench.gpu.device"]
            code = subprocess.run(command, stdout=out, stderr=out, timeout=seconds, check=False).returncode
        why = f"exit code {code}"
    except subprocess.TimeoutExpired:
        code, why = 1, f"no answer in {seconds:.0f} s"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if code or len(lines) < 2:
        raise NoDevice("\n".join(lines[-15:]) or why)
    return lines[-2], lines[-1] == GPU


def main() -> None:
    from agrad.backends import load
    from agrad.errors import BackendUnavailableError

    try:
        xp = load("cupy").xp
    except BackendUnavailableError as error:
        sys.exit(str(error))
    found = float(xp.sum(xp.arange(4.0) ** 2))
    if found != 14.0:
        sys.exit(f"the GPU computes wrongly: {found}, not 14")
    import cupy

    runtime = cupy.cuda.runtime
    p = runtime.getDeviceProperties(0)
    print(
        f"{p['name'].decode()}, compute capability {p['major']}.{p['minor']}, CUDA runtime "
        f"{runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}, CuPy {cupy.__version__}"
    )
    print(STAND_IN if p["name"].decode() == EMULATED else GPU)


if __name__ == "__main__":
    main()
