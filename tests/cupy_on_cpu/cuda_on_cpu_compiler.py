"""Compile what emulates CUDA, and the kernels: with g++, once each, into a cache."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from tempfile import TemporaryDirectory

NATIVE = Path(__file__).resolve().parent / "native"
CACHE = Path(os.environ.get("CUPY_ON_CPU_CACHE") or Path.home() / ".cache" / "cupy_on_cpu")
OLDEST = 11

LIBRARIES: dict[str, tuple[str, ...]] = {
    "libcuda.so.1": ("blocks", "device", "device_math", "driver", "memory", "sorting", "streams"),
    "libcublas.so.13": ("any", "cublas", "cublas_solve"),
    "libcublasLt.so.13": ("cublaslt",),
    "libnvrtc.so.13": ("nvrtc",),
    "libcufft.so.12": (),
    "libcurand.so.10": (),
    "libnvJitLink.so.13": (),
    "libcusolver.so.12": ("cusolver",),
    "libcusparse.so.12": (),
}
"""The sources of each library, in the order in which they are loaded."""

LINKED: dict[str, tuple[str, str, int]] = {
    "libcublas.so.13": ("cupy_backends/cuda/libs/cublas", "cublas", 15),
    "libnvrtc.so.13": ("cupy/cuda/jitify", "nvrtc", 1),
    "libcufft.so.12": ("cupy/cuda/cufft", "cufft", 16),
    "libcurand.so.10": ("cupy_backends/cuda/libs/curand", "curand", 999),
    "libcusolver.so.12": ("cupy_backends/cuda/libs/cusolver", "cusolver", 7),
    "libcusparse.so.12": ("cupy_backends/cuda/libs/cusparse", "cusparse", 10),
}
"""Per library: CuPy's extension, how names begin, the status "unsupported"."""

CXX = ("g++", "-std=c++17", "-fPIC", "-w", "-O1", "-ffp-contract=off")
# whole-program: what the headers define and the kernel does not use is not compiled
KERNEL = (*CXX, "-fwhole-program", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-ident")
KERNEL = (*KERNEL, "-fno-asynchronous-unwind-tables", "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP")

HEADERS: dict[str, tuple[str, ...]] = {"prefix.h": KERNEL, "plain.h": (*KERNEL, "-O0")}
"""The precompiled headers, and how kernels after them are compiled. After the larger one, -O0 is slower."""


class Refused(Exception):
    """g++ did not take a source."""


def refusal() -> str | None:
    """Return why nothing can be compiled here, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"it needs Linux on x86-64, and this is {sys.platform} on {platform.machine()}"
    if shutil.which("g++") is None:
        return f"it needs g++ {OLDEST} or newer, and there is none"
    return None


def too_old() -> str | None:
    """Return why g++ cannot compile this, or None."""
    found = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    return None if int(found.split(".")[0]) >= OLDEST else f"it needs g++ {OLDEST} or newer, and g++ is {found}"


# ---------------------------------------------------------------- where things are


@cache
def _site() -> Path:
    spec = PathFinder.find_spec("cupy_backends")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("CuPy is not installed")
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def _includes() -> list[str]:
    core = _site() / "cupy" / "_core" / "include"
    bundled = core / "cupy" / "_cccl"
    folders = (
        NATIVE,
        core,
        bundled / "thrust",
        bundled / "cub",
        bundled / "libcudacxx",
        _site() / "nvidia/cu13/include",
    )
    return [f"-I{folder}" for folder in folders]


def _extension(stem: str) -> Path:
    (found,) = (_site() / stem).parent.glob(f"{Path(stem).name}.cpython-*.so")
    return found


@cache
def _built() -> Path:
    """Return the folder for these sources, this g++ and this CuPy."""
    key = hashlib.sha256(repr((HEADERS, LIBRARIES, LINKED)).encode())
    for file in (Path(__file__), *sorted(NATIVE.iterdir())):
        key.update(file.read_bytes())
    for file in (Path(shutil.which("g++") or "g++").resolve(), _extension("cupy_backends/cuda/api/runtime")):
        status = file.stat()
        key.update(repr((str(file), status.st_size, status.st_mtime_ns)).encode())
    return CACHE / key.hexdigest()[:16]


# ---------------------------------------------------------------- the libraries


def build() -> Path:
    """Compile the libraries and the header unless that is done; return the folder."""
    folder = _built()
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not (folder / "done").exists():
                if reason := too_old():
                    raise RuntimeError(f"CUDA is not emulated: {reason}")
                _build_all(folder)
                (folder / "done").touch()
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_all(folder: Path) -> None:
    stems = sorted((stem for stems in LIBRARIES.values() for stem in stems), key=lambda s: -_source(s).stat().st_size)
    with TemporaryDirectory(dir=folder) as objects, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(_precompile, name, folder) for name in HEADERS]
        jobs += [pool.submit(_compile_source, stem, Path(objects)) for stem in stems]
        for job in jobs:
            job.result()
        for job in [pool.submit(_link, soname, Path(objects), folder) for soname in LIBRARIES]:
            job.result()
    (folder / "replaced.json").write_text(json.dumps(_replaced_functions()))


def _precompile(name: str, folder: Path) -> None:
    header = folder / name
    header.write_text((NATIVE / name).read_text())
    _run([*HEADERS[name], *_includes(), "-x", "c++-header", str(header), "-o", f"{header}.gch"])


def _source(stem: str) -> Path:
    return NATIVE / f"{stem}.cpp"


def _compile_source(stem: str, objects: Path) -> None:
    _run([*CXX, *_includes(), "-c", str(_source(stem)), "-o", str(objects / f"{stem}.o")])


def _link(soname: str, objects: Path, folder: Path) -> None:
    script = objects / f"{soname}.map"
    script.write_text(f"{soname} {{ global: *; }};\n")
    rest = objects / f"{soname}.s"
    rest.write_text(_absent_functions(soname))
    parts = [str(rest), *(str(objects / f"{stem}.o") for stem in LIBRARIES[soname])]
    options = ["-shared", f"-Wl,-soname,{soname}"]
    if soname != "libcuda.so.1":
        options.append(f"-Wl,--version-script={script}")
    _run(["g++", *options, *parts, "-o", str(folder / soname), "-ldl"])


def _absent_functions(soname: str) -> str:
    """Return assembly of all that CuPy links of a library: each says its name."""
    if soname not in LINKED:
        return ""
    stem, prefix, status = LINKED[soname]
    listed = _run(["nm", "-D", "--undefined-only", str(_extension(stem))])
    names = sorted(set(re.findall(rf"\b({prefix}[A-Z]\w*)@", listed)))
    lines = []
    for k, name in enumerate(names):
        lines += [f".weak {name}", f".type {name},@function", f"{name}:", f"lea .L{k}(%rip), %rdi"]
        lines += [f"mov ${status}, %esi", "jmp on_cpu_not_emulated@PLT"]
    lines.append(".section .rodata")
    lines += [f'.L{k}: .string "{name}"' for k, name in enumerate(names)]
    return "\n".join([".text", *lines, '.section .note.GNU-stack,"",@progbits', ""])


def _run(command: Sequence[str], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{command[0]}: {done.stderr[:6000]}")
    return done.stdout


# ---------------------------------------------------------------- the functions that are replaced in CuPy


def _replaced_functions() -> dict[str, list[tuple[int, str]]]:
    """Return per extension where the functions begin that are replaced, and by which."""
    runtime, thrust = _extension("cupy_backends/cuda/api/runtime"), _extension("cupy/cuda/thrust")
    return {
        str(runtime): [(at, f"on_cpu_{name}") for name, at in _symbols(runtime) if re.match(r"cuda[A-Z]", name)],
        str(thrust): [
            (at, f"on_cpu_{match[1]}")
            for name, at in _symbols(thrust)
            if (match := re.match(r"_Z\d+(thrust_(?:sort|lexsort|argsort))[a-zA-Z]", name))
        ],
    }


def _symbols(path: Path) -> list[tuple[str, int]]:
    lines = (line.split() for line in _run(["nm", str(path)]).splitlines())
    return [(fields[2], int(fields[0], 16)) for fields in lines if len(fields) == 3 and fields[1] in "tTwW"]


def replaced(path: str) -> list[tuple[int, str]]:
    """Return where the replaced functions of an extension begin, and by which."""
    return json.loads((build() / "replaced.json").read_text())[path]


# ---------------------------------------------------------------- kernels

_DYNAMIC = re.compile(r"extern\s+__shared__\s+((?:__align__\(\d+\)\s*)?)([\w:<> ]+?)\s+(\w+)\[\]\s*;")
_KERNEL = re.compile(
    r"(template\s*<[^;{]*>\s*)?__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?(?:inline\s+)?"
    r"void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\("
)
_PLAIN_SHARED = "#undef __shared__\n#define __shared__ static\n#line 1\n"


def compile_kernels(
    source: str, options: tuple[str, ...], expressions: Sequence[str] | None
) -> tuple[bytes, dict[str, str]]:
    """Compile a text; return what the driver loads, and the names of expressions."""
    mapping = {expression: f"expression_{k}" for k, expression in enumerate(expressions or ())}
    names = [found[2] for found in _KERNEL.finditer(re.sub(r"//[^\n]*", "", source)) if not found[1]]
    entries = mapping or {name: name for name in names}
    text = _DYNAMIC.sub(r"\2* \3 = (\2*)on_cpu_dynamic_shared;", source)
    text += "".join(f"\nON_CPU_KERNEL({name}, {expression})" for expression, name in entries.items()) + "\n"
    defines = [option for option in options if option.startswith(("-D", "-U"))]
    key = hashlib.sha256(repr((text, defines)).encode()).hexdigest()[:24]
    target = build() / "kernels" / key[:2] / f"{key}.so"
    if not target.exists():
        _compile_text(text, defines, target)
    if "CUPY_ON_CPU_KEEP" in os.environ:
        _keep(Path(os.environ["CUPY_ON_CPU_KEEP"]), names[0] if names else "kernel", key, source, options)
    return f"CUPY_ON_CPU:{target}\0".encode(), mapping


def _compile_text(text: str, defines: list[str], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    header = "prefix.h" if "#include" in text else "plain.h"
    command = [*HEADERS[header], "-shared", "-nostdlib", *_includes(), "-include", str(build() / header), *defines]
    command += ["-x", "c++", "-", "-o", str(made)]
    try:
        _run(command, text)
    except Refused as error:
        # variables of templates cannot share a section with others
        if "section type conflict" not in str(error):
            raise
        _run(command, _PLAIN_SHARED + text)
    os.replace(made, target)


def _keep(folder: Path, name: str, key: str, source: str, options: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{key}.cu").write_text(f"// {' '.join(options)}\n{source}")
