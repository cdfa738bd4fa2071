"""Compile kept kernels with NVIDIA's own compiler, which needs no GPU.

CUPY_ON_CPU_KEEP=kept VENV/bin/python -m pytest --backend cupy ...
VENV/bin/python -m pip install --no-deps nvidia-cuda-nvrtc==13.5.37
VENV/bin/python tests/cupy_on_cpu/nvrtc_check.py kept [sm_90]
"""

import ctypes
import sys
import sysconfig
from pathlib import Path

LIBRARY = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"


def compiled(nvrtc: ctypes.CDLL, file: Path, architecture: str) -> tuple[bool, str]:
    """Compile a kept text; return whether NVRTC took it, and its log."""
    first, _, source = file.read_text().partition("\n")
    options = [f"-arch={architecture}", "--device-as-default-execution-space", *first.removeprefix("//").split()]
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.name.encode(), 0, None, None)
    status = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status == 0, log.value.decode().strip()


def main(folder: str, architecture: str = "sm_90") -> int:
    """Compile all texts of a folder; return how many NVRTC refused."""
    nvrtc, refused = ctypes.CDLL(str(LIBRARY)), 0
    files = sorted(Path(folder).glob("*.cu"))
    for file in files:
        taken, log = compiled(nvrtc, file, architecture)
        refused += not taken
        if log:
            print(f"{file.name}\n{log}")
    print(f"{len(files)} texts, {refused} refused")
    return refused


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != 0)
