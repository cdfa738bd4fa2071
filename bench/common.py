"""Functions that the suites share: a clean start, descriptions, alternating timing, tables.

Libraries are loaded by name, because each worker process loads only its own.
"""

import contextlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PINS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that set the number of threads of the libraries in a new process."""
ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = (
    "agrad",
    "numpy",
    "torch",
    "jax",
    "jaxlib",
    "cupy",
    "autograd",
    "mygrad",
    "scipy",
    "threadpoolctl",
)
CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")

load: Callable[[str], Any] = importlib.import_module


def start_clean() -> None:
    """Start the program again without environment variables that pin BLAS kernels.

    Those variables select OpenBLAS kernels for another processor and halve the speed of NumPy matrix products. Call
    this function before any import that loads a BLAS.
    """
    if any(name in os.environ for name in PINS):
        kept = {name: value for name, value in os.environ.items() if name not in PINS}
        kept["AGRAD_BENCH_CLEARED"] = ", ".join(name for name in PINS if name in os.environ)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], kept)


class Missing(Exception):
    """A candidate that cannot take part here, with the reason."""


@dataclass(frozen=True)
class Job:
    """A function to time.

    ``step`` is called many times; ``wait`` returns when all of it is done.
    """

    step: Callable[[], Any]
    read: Callable[[Any], Any] = float
    """A step's result as a number on the host."""
    wait: Callable[[], None] = lambda: None
    device: str = "cpu"
    parts: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Steps of other names, which are timed one after another."""


@dataclass(frozen=True)
class Candidate:
    """A name in the table, and a function that builds the job or raises ``Missing``.

    The function is named with its module.
    """

    name: str
    build: Callable[..., Job]
    arguments: tuple[Any, ...] = ()
    libraries: tuple[str, ...] = ("numpy",)
    """The libraries that it uses, for the report."""
    required: bool = False
    """True if the run fails when the candidate cannot take part."""


@dataclass
class Timing:
    """The samples of one candidate, in seconds per step, one for each round."""

    samples: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Return the fastest time, because other load on a machine only increases times."""
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.samples)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio(a: Timing, b: Timing) -> tuple[float, float, float]:
    """Return the median of the ratios a / b of the rounds, and their quartiles."""
    ratios = [x / y for x, y in zip(a.samples, b.samples, strict=True)]
    return statistics.median(ratios), *quartiles(ratios)


# ------------------------------------------------------------------ candidates at work


class Local:
    """A candidate in this process."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.job: Job | None = None

    def build(self, first: tuple[Any, ...]) -> dict[str, Any]:
        """Build the job for these arguments, and return its libraries."""
        self.job = None
        self.job = self.candidate.build(*first, *self.candidate.arguments)
        return describe_libraries(self.candidate.libraries)

    def begin(self, first: tuple[Any, ...]) -> None:
        self._first = first

    def built(self) -> dict[str, Any]:
        return self.build(self._first)

    def device(self) -> str:
        assert self.job is not None
        return self.job.device

    def results(self, count: int) -> list[Any]:
        """Return the results of ``count`` steps, read on the host."""
        assert self.job is not None
        return [self.job.read(self.job.step()) for _ in range(count)]

    def sample(self, number: int) -> float:
        """Return the seconds per step over ``number`` steps, after an untimed step.

        The untimed step warms up caches and threads.
        """
        assert self.job is not None
        step, wait = self.job.step, self.job.wait
        step()
        wait()
        start = time.perf_counter()
        for _ in range(number):
            step()
        wait()
        return (time.perf_counter() - start) / number

    def calibrate(self, seconds: float) -> dict[str, int]:
        """Return the number of calls of each part for a sample of about ``seconds``.

        This also warms up the parts.
        """
        assert self.job is not None
        found = {}
        for name, step in self.job.parts.items():
            best = float("inf")
            for _ in range(3):
                start = time.perf_counter()
                step()
                self.job.wait()
                best = min(best, time.perf_counter() - start)
                if best > 4 * seconds:
                    break
            found[name] = max(1, round(seconds / best))
        return found

    def samples(self, numbers: dict[str, int], batches: int = 1) -> dict[str, float]:
        """Return the seconds per step of each part over ``numbers`` of steps.

        A short part runs one untimed step first. With more ``batches``, the steps are divided into batches of at least
        one step, each after an untimed step. The parts alternate between batches, and the fastest batch counts. Long
        steps have three batches.
        """
        assert self.job is not None
        wait = self.job.wait
        found = dict.fromkeys(numbers, float("inf"))
        for batch in range(batches):
            for name, number in numbers.items():
                step, count = self.job.parts[name], min(batches, max(number, 3))
                if batch >= count:
                    continue
                if number > 1 or batches > 1:
                    step()
                    wait()
                each = max(1, number // count)
                start = time.perf_counter()
                for _ in range(each):
                    step()
                wait()
                found[name] = min(found[name], (time.perf_counter() - start) / each)
        return found

    def close(self) -> None:
        self.job = None


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set other environment variables for processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Remote:
    """A candidate in a separate process.

    Linear algebra libraries keep their threads spinning for some milliseconds after a call. Two of them in one
    process compete for the processors (the PyTorch step was up to seven times slower), and share one heap.
    """

    pause = 0.06
    """Seconds of rest before a sample, until the threads of the previous candidate sleep."""

    def __init__(self, candidate: Candidate, *, one_thread: bool = False) -> None:
        """Start the process.

        ``one_thread``: its BLAS and OpenMP libraries compute on the calling thread.
        """
        context = multiprocessing.get_context("spawn")
        self.candidate = candidate
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, candidate), daemon=True)
        with _environment(dict.fromkeys(THREADS, "1") if one_thread else {}):
            self.process.start()
        theirs.close()

    def _answer(self) -> Any:
        name = self.candidate.name
        try:
            kind, value = self.pipe.recv()
        except EOFError:
            self.process.join(5)
            raise RuntimeError(f"{name}: its process ended with code {self.process.exitcode}") from None
        if kind == "missing":
            raise Missing(value)
        if kind == "error":
            raise RuntimeError(f"{name} failed:\n{value}")
        return value

    def _ask(self, what: str, *arguments: Any) -> Any:
        self.pipe.send((what, arguments))
        return self._answer()

    def begin(self, first: tuple[Any, ...]) -> None:
        self.pipe.send(("build", (first,)))

    def built(self) -> dict[str, Any]:
        return self._answer()

    def device(self) -> str:
        return self._ask("device")

    def results(self, count: int) -> list[Any]:
        return self._ask("results", count)

    def sample(self, number: int) -> float:
        time.sleep(self.pause)
        return self._ask("sample", number)

    def calibrate(self, seconds: float) -> dict[str, int]:
        return self._ask("calibrate", seconds)

    def samples(self, numbers: dict[str, int], rest: float = 0.0, batches: int = 1) -> dict[str, float]:
        time.sleep(rest)
        return self._ask("samples", numbers, batches)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()


def _serve(pipe: Connection, candidate: Candidate) -> None:
    """Run a worker: answer requests until told to end, or until the caller has ended."""
    worker = Local(candidate)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while (asked := pipe.recv()) is not None:
            what, arguments = asked
            try:
                answer = "done", getattr(worker, what)(*arguments)
            except (Missing, ImportError) as reason:
                answer = "missing", str(reason)
            except Exception:
                answer = "error", traceback.format_exc()
            pipe.send(answer)


Runner = Local | Remote


def build(
    runners: dict[str, Runner], *first: Any
) -> tuple[dict[str, Runner], dict[str, str], dict[str, dict[str, Any]]]:
    """Have all candidates build their jobs; return the built ones, and the reasons of the others.

    Also returned: the libraries that each computes with.

    Raises ``Missing`` if a required candidate cannot take part.
    """
    ready: dict[str, Runner] = {}
    left_out: dict[str, str] = {}
    reports: dict[str, dict[str, Any]] = {}
    for runner in runners.values():
        runner.begin(first)
    for name, runner in runners.items():
        try:
            reports[name] = runner.built()
        except (Missing, ImportError) as reason:
            if runner.candidate.required:
                raise Missing(f"{name}: {reason}") from None
            left_out[name] = str(reason)
        else:
            ready[name] = runner
    return ready, left_out, reports


SETTLE = 0.15
"""Seconds of rest before a sample. The threads of OpenBLAS spin for some 30 ms after a call, waiting for the next one,
and occupy a core that the next candidate needs, also in another process."""


def alternate(runners: dict[str, Runner], *, repeat: int, sample_seconds: float) -> dict[str, Timing]:
    """Time all alternately, A B C A B C, for ``repeat`` rounds.

    A sample lasts about ``sample_seconds``.
    """
    numbers = {}
    for name, runner in runners.items():
        one = min(runner.sample(1) for _ in range(5))
        numbers[name] = max(1, round(sample_seconds / one))
    timings = {name: Timing() for name in runners}
    for _ in range(repeat):
        for name, runner in runners.items():
            time.sleep(SETTLE)
            timings[name].samples.append(runner.sample(numbers[name]))
    return timings


# ------------------------------------------------------------------ the report of machine and libraries


def _version(name: str) -> str | None:
    if name == "agrad":
        return str(load("agrad").__version__)
    for package in CUPY_PACKAGES if name == "cupy" else (name,):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> str:
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def machine() -> dict[str, str]:
    """Return a description of the machine."""
    found = {
        "processor": f"{_processor()}, {cores()} cores",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "libraries": ", ".join(f"{name} {v}" for name in LIBRARIES if (v := _version(name)) is not None),
        "load average before": load_average(),
    }
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > cores() / 4:
        found["warning"] = "other work kept the processors busy when this began: the numbers are only indicative"
    if cleared := os.environ.get("AGRAD_BENCH_CLEARED"):
        found["cleared from the environment"] = cleared
    return found


def _pools() -> list[str]:
    """Return the BLAS and OpenMP libraries in this process, with kernels and threads."""
    try:
        pools = load("threadpoolctl").threadpool_info()
    except ImportError:
        return ["unknown: pip install threadpoolctl"]
    return sorted(
        " ".join(
            str(part)
            for part in (
                pool["internal_api"],
                pool.get("version") or "",
                f"kernels {pool['architecture']}" if pool.get("architecture") else "",
                f"{pool['num_threads']} threads",
            )
            if part
        )
        for pool in pools
    )


def describe_libraries(names: tuple[str, ...]) -> dict[str, Any]:
    """Return a description of the libraries in this process."""
    report: dict[str, Any] = {"pools": _pools()}
    if "torch" in names:
        torch = load("torch")
        lines = torch.__config__.show().splitlines()
        report["torch"] = (
            f"{torch.get_num_threads()} threads, "
            + ", ".join(line.strip(" -") for line in lines if "Math Kernel" in line or "CPU capability" in line)
            + (f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "")
        )
    if "jax" in names:
        jax = load("jax")
        report["jax"] = f"{jax.default_backend()}, devices {', '.join(map(str, jax.devices()))}"
    if "cupy" in names:
        runtime = load("cupy").cuda.runtime
        report["cupy"] = (
            f"{runtime.getDeviceProperties(0)['name'].decode()}, CUDA runtime {runtime.runtimeGetVersion()}, "
            f"driver {runtime.driverGetVersion()}"
        )
    return report


# ------------------------------------------------------------------ tables


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, left: bool = False) -> str:
    """Return a Markdown table with aligned columns.

    All columns except the first are aligned to the right, or none with ``left``.
    """
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    pad, mark = (str.ljust, "--") if left else (str.rjust, "-:")

    def line(row: Sequence[str]) -> str:
        first, *rest = row
        return (
            "| "
            + " | ".join([first.ljust(widths[0]), *(pad(c, w) for c, w in zip(rest, widths[1:], strict=True))])
            + " |"
        )

    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * w + mark for w in widths[1:])]) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def spread(timing: Timing, divide: float = 1.0) -> str:
    """Return the quartiles, in microseconds."""
    low, high = timing.quartiles
    return f"{microseconds(low / divide)} to {microseconds(high / divide)}"


def environment_text(about: dict[str, str], reports: dict[str, dict[str, Any]], left_out: dict[str, str]) -> str:
    """Return machine, libraries and omitted candidates as a Markdown list."""
    lines = [f"- {name}: {value}" for name, value in about.items()]
    shared: dict[str, list[str]] = {}
    for name, report in reports.items():
        shared.setdefault(json.dumps(report), []).append(name)
    for text, names in shared.items():
        report = json.loads(text)
        pools = "; ".join(report.pop("pools")) or "no threads but Python's"
        rest = "".join(f"; {name}: {value}" for name, value in report.items())
        lines.append(f"- {' / '.join(names)} computed with: {pools}{rest}")
    lines += [f"- left out, {name}: {reason}" for name, reason in left_out.items()]
    return "\n".join(lines)
