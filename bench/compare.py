"""The same work on several backends and sizes, and the size from which each is faster.

    python -m bench compare --plot compare.png
    python -m bench compare --backends numpy,torch,jax

By default, NumPy is compared with CuPy. Each backend has a separate process. They alternate, and a sample ends when the
device has finished.
device is done.
"""

import contextlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import common, limits
from bench.common import Candidate, Job, Missing, Remote, Timing, load
from bench.limits import Limits
from bench.ops_jobs import FORWARD, GRADIENT
from bench.suites import Options, Report, Suite

BACKENDS = ("numpy", "cupy", "torch", "jax")
DEVICES = {"cupy": "cuda"}
WIDTH = {"float32": 4, "float64": 8}
ELEMENTWISE = 20


@dataclass(frozen=True)
class Work:
    """A function of arrays of about n elements, with its minimum traffic and operations."""

    name: str
    about: str
    shapes: Callable[[int], list[tuple[int, ...]]]
    call: Callable[..., Any]
    bytes: Callable[[int], float]
    """Numbers that the forward pass reads and writes, for n elements; the backward pass needs as many again."""
    flops: Callable[[int], float] = lambda n: 0.0
    backward_flops: float = 1.0
    """The operations of the backward pass, as a multiple of those of the forward pass."""
    largest: int = 1 << 62


def _side(n: int) -> int:
    return max(1, math.isqrt(n))


def _square(n: int) -> tuple[int, int]:
    return _side(n), _side(n)


def _rows(n: int) -> tuple[int, int]:
    return max(1, n // 100), 100


def _chain(agrad: Any, x: Any) -> Any:
    for _ in range(ELEMENTWISE // 2):
        x = agrad.tanh(x * 1.01)
    return x


def _solve(agrad: Any, a: Any, b: Any) -> Any:
    return agrad.linalg.solve(a + 4 * math.sqrt(a.shape[0]) * agrad.eye(a.shape[0], dtype=a.dtype), b)


WORKS = {
    work.name: work
    for work in (
        Work(
            "elementwise",
            f"{ELEMENTWISE} operations, y = tanh(1.01 y)",
            lambda n: [(n,)],
            _chain,
            lambda n: 2.0 * n * ELEMENTWISE,
        ),
        Work("reduction", "the sum of each row of 100", lambda n: [_rows(n)], lambda a, x: a.sum(x, axis=1), float),
        Work("softmax", "of each row of 100", lambda n: [_rows(n)], lambda a, x: a.softmax(x), lambda n: 2.0 * n),
        Work(
            "matmul",
            "square matrices",
            lambda n: [_square(n), _square(n)],
            lambda a, x, y: x @ y,
            lambda n: 3.0 * n,
            lambda n: 2.0 * _side(n) ** 3,
            2.0,
        ),
        Work(
            "solve",
            "a square matrix and as many right sides",
            lambda n: [_square(n), _square(n)],
            _solve,
            lambda n: 3.0 * n,
            lambda n: 8.0 * _side(n) ** 3 / 3,
            1.75,
            largest=4_000_000,
        ),
        Work(
            "fft",
            "real transforms of rows of 100",
            lambda n: [_rows(n)],
            lambda a, x: a.abs(a.fft.rfft(x)),
            lambda n: 2.5 * n,
        ),
    )
}
"""The work, by name; 1.75: the backward pass solves again, n**3 (2/3 + 2), and multiplies, 2 n**3."""


def build(name: str, n: int, dtype: str, backend: str, device: str | None) -> Job:
    """Return the job of a work on a backend: forward, and forward and backward.

    Raises ``Missing`` if it cannot run.
    """
    agrad, np, backends = load("agrad"), load("numpy"), load("agrad.backends")
    try:
        agrad.set_backend(backend, device)
        record = backends.load(backend)
    except (agrad.errors.BackendUnavailableError, agrad.errors.DeviceUnavailableError) as reason:
        raise Missing(str(reason)) from None
    if backend == "jax" and dtype == "float64":
        load("jax").config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    work = WORKS[name]
    where = record.device(device)
    xs = [
        agrad.asarray(record.from_host(rng.standard_normal(shape).astype(dtype), where), requires_grad=True)
        for shape in work.shapes(n)
    ]
    y = work.call(agrad, *xs)
    g = agrad.asarray(record.from_host(rng.uniform(0.5, 1.5, tuple(y.shape)).astype(dtype), where))
    last: list[Any] = [y]

    def forward() -> Any:
        last[0] = work.call(agrad, *xs)

    def gradient() -> Any:
        work.call(agrad, *xs).backward(g)
        last[0] = xs[0].grad
        out = [x.grad for x in xs]
        for x in xs:
            x.zero_grad()
        return out

    def wait() -> None:
        record.synchronize()
        ready = getattr(last[0].data, "block_until_ready", None)
        if ready is not None:
            ready()

    def read(gradients: Any) -> list[float]:
        return [float(np.sum(np.abs(x.to("numpy").numpy()))) for x in gradients]

    return Job(gradient, read=read, wait=wait, device=str(xs[0].device), parts={FORWARD: forward, GRADIENT: gradient})


def wins_from(sizes: list[int], ratios: list[float | None]) -> int | None:
    """Return the smallest size from which all ratios of the times are above 1."""
    found = None
    for size, ratio in zip(reversed(sizes), reversed(ratios), strict=True):
        if ratio is None or ratio <= 1:
            break
        found = size
    return found


Timings = dict[tuple[str, str], dict[int, dict[str, Timing]]]
"""By work and part, then size, then candidate."""


def _least(work: Work, part: str, n: int, width: int, best: Limits) -> tuple[float, str]:
    twice = part == GRADIENT
    return best.seconds(
        work.bytes(n) * width * (2 if twice else 1), work.flops(n) * (1 + work.backward_flops if twice else 1)
    )


def part_text(
    key: tuple[str, str], by_size: dict[int, dict[str, Timing]], first: str, best: dict[str, Limits], dtype: str
) -> str:
    """Return the table of one work and part, and the sizes from which others are faster."""
    work, part = WORKS[key[0]], key[1]
    names = list(dict.fromkeys(name for timings in by_size.values() for name in timings))
    others = [name for name in names if name != first]
    rows = []
    ratios: dict[str, list[float | None]] = {name: [] for name in others}
    for n, timings in by_size.items():
        line = [f"{n:,}"]
        for name in names:
            timing = timings.get(name)
            if timing is None:
                line += ["", ""]
                continue
            limit = best.get(name)
            reached = ""
            if limit is not None:
                least, by = _least(work, part, n, WIDTH[dtype], limit)
                reached = f"{least / timing.median:.0%} of {by}"
            line += [f"{common.microseconds(timing.median)} ({common.spread(timing)})", reached]
        for name in others:
            have = name in timings and first in timings
            ratio = common.ratio(timings[first], timings[name])[0] if have else None
            ratios[name].append(ratio)
            line.append("" if ratio is None else f"{ratio:.2f} x")
        rows.append(line)
    head = ["elements"]
    for name in names:
        head += [f"{name}, us (quartiles)", "limit reached"]
    head += [f"{name} faster" for name in others]
    notes = []
    for name in others:
        start = wins_from(list(by_size), ratios[name])
        notes.append(
            f"- {name} is faster than {first} from {start:,} elements on."
            if start
            else f"- {name} is not faster than {first} at the largest size that was measured."
        )
    return f"### {key[0]}, {part}: {work.about}\n\n{common.table(head, rows)}\n\n" + "\n".join(notes)


def draw(timings: Timings, file: Path) -> None:
    """Draw a plot for each work: seconds over elements, a line for each backend and part."""
    try:
        figure = load("matplotlib.figure").Figure
    except ImportError:
        raise Missing("a plot needs matplotlib: pip install 'agrad[plot]'") from None
    names = list(dict.fromkeys(name for name, _ in timings))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    page = figure(figsize=(5 * columns, 4 * lines), layout="constrained")
    for place, name in enumerate(names, 1):
        axes = page.add_subplot(lines, columns, place)
        colours: dict[str, str] = {}
        for part, style in ((FORWARD, "--"), (GRADIENT, "-")):
            by_size = timings.get((name, part), {})
            for who in dict.fromkeys(who for found in by_size.values() for who in found):
                sizes = [n for n, found in by_size.items() if who in found]
                colour = colours.setdefault(who, f"C{len(colours)}")
                seconds = [by_size[n][who].median for n in sizes]
                axes.loglog(sizes, seconds, style, color=colour, marker=".", label=f"{who}, {part}")
        axes.set_title(name)
        axes.set_xlabel("elements")
        axes.set_ylabel("seconds")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(fontsize="x-small")
    page.savefig(file)


def _all_limits(options: Options) -> dict[str, Limits]:
    """Return the limits of each backend's device: the processor's, or the GPU's."""
    out = {}
    cpu = limits.measure(options.dtype, quick=options.quick)
    gpu = None
    if "cupy" in options.backends:
        with contextlib.suppress(Missing, ImportError, RuntimeError):
            gpu = limits.measure(options.dtype, library="cupy", quick=options.quick)
    for backend in options.backends:
        on_gpu = backend == "cupy" or (options.device is not None and backend in ("torch", "jax"))
        found = gpu if on_gpu else cpu
        if found is not None:
            out[f"agrad, {backend}"] = found
    return out


def run(options: Options) -> Report:
    """Measure every work at every size on every backend that can run."""
    about = common.machine()
    best = _all_limits(options)
    timings: Timings = {}
    reports: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        started = {}
        for backend in options.backends:
            on = options.device if backend in ("torch", "jax") else DEVICES.get(backend)
            name = f"agrad, {backend}"
            started[name] = Remote(Candidate(name, build, (backend, on), ("agrad", backend)))
            stack.callback(started[name].close)
        for name in options.only or WORKS:
            print(f"compare: {name} ...", file=sys.stderr, flush=True)
            for n in sorted(options.sizes):
                if n <= WORKS[name].largest:
                    _time(started, name, n, options, timings, reports, left_out)
    about["load average after"] = common.load_average()
    names = list(dict.fromkeys(who for by in timings.values() for found in by.values() for who in found))
    if not names:
        raise Missing("no backend could run: " + "; ".join(f"{who}: {reason}" for who, reason in left_out.items()))
    first = names[0]
    texts = [part_text(key, by_size, first, best, options.dtype) for key, by_size in timings.items()]
    alone = "" if len(names) > 1 else f"\n\n**Only {first} could run: there is nothing to compare it with.**"
    text = (
        f"# One program on several backends\n\n{options.dtype}; medians of {options.repeat} rounds in which all "
        f"alternated, each in a separate process; a sample ends when the device has finished.{alone}\n\n"
        + "\n\n".join(texts)
        + "\n\n## Machine\n\n"
        + "".join(f"- {line}\n" for line in dict.fromkeys(limit.text() for limit in best.values()))
        + common.environment_text(about, reports, left_out)
    )
    record = {
        "suite": "compare",
        "machine": about,
        "limits": {name: limit.record() for name, limit in best.items()},
        "computed_with": reports,
        "left_out": left_out,
        "seconds": {
            ", ".join(key): {str(n): {who: t.samples for who, t in found.items()} for n, found in by_size.items()}
            for key, by_size in timings.items()
        },
    }
    return Report(text, record, draw=lambda file: draw(timings, file))


def _time(
    started: dict[str, Remote],
    name: str,
    n: int,
    options: Options,
    timings: Timings,
    reports: dict[str, Any],
    left_out: dict[str, str],
) -> None:
    """Time one work at one size, and store the results."""
    ready, absent, computed = common.build(dict(started), name, n, options.dtype)
    left_out.update(absent)
    reports.update(computed)
    prints = {who: runner.results(1)[0] for who, runner in ready.items()}
    right = next(iter(prints.values()), [])
    loose = 1e-3 if options.dtype == "float32" else 1e-8
    for who, found in prints.items():
        if any(abs(a - b) > loose * max(1.0, abs(b)) for a, b in zip(found, right, strict=True)):
            raise Missing(f"{name} at {n}: {who} has another derivative than {next(iter(prints))}: {found}, {right}")
    numbers = {who: runner.calibrate(options.sample) for who, runner in ready.items()}
    for _ in range(options.repeat):
        for who, runner in ready.items():
            for part, seconds in runner.samples(numbers[who], Remote.pause).items():
                by_size = timings.setdefault((name, part), {})
                by_size.setdefault(n, {}).setdefault(who, Timing()).samples.append(seconds)


SUITE = Suite(
    about="NumPy against CuPy, or other backends, over sizes",
    run=run,
    repeat=7,
    backends=BACKENDS,
    default_backends=("numpy", "cupy"),
    sizes=(1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    quick_sizes=(1_000, 10_000),
    dtypes=("float32", "float64"),
    devices=True,
    only=tuple(WORKS),
    quick_only=("elementwise", "matmul"),
    sample=0.05,
    plots=True,
)
