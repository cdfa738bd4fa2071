"""The suites: their list, their interface, and the options that all share.

A suite is a module with a ``SUITE``. To add one, write the module and add its name to ``MODULES``.
"""

import argparse
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES = {
    "overhead": "bench.overhead",
    "mlp": "bench.mlp",
    "jit": "bench.jit",
    "wide": "bench.wide",
    "ops": "bench.ops",
    "train": "bench.train",
    "tables": "bench.tables",
    "threads": "bench.threads",
    "compare": "bench.compare",
    "transforms": "bench.transforms",
    "adbench": "bench.adbench",
    "draws": "bench.draws",
    "loops": "bench.loops",
    "shapes": "bench.shapes",
    "conv": "bench.conv",
    "launches": "bench.launches",
    "kernels": "bench.kernels",
    "users": "bench.users",
}
"""The modules of the suites, by name."""


class UsageError(Exception):
    """The command line selects something unknown; the message lists the choices."""


@dataclass(frozen=True)
class Options:
    """The options of a suite: which rows it measures, and how."""

    backends: tuple[str, ...]
    peers: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: str
    device: str | None
    repeat: int
    sample: float
    """Seconds of a sample, approximately."""
    only: tuple[str, ...]
    """Names of rows; empty for all."""
    quick: bool


@dataclass(frozen=True)
class Report:
    """The results of a suite: Markdown, and a record with every sample.

    ``record["seconds"]`` is a nested dictionary: seconds by row and by candidate, with as many keys as the suite
    needs, the candidate's name last. The names of agrad candidates begin with ``agrad``.
    """

    text: str
    record: dict[str, Any]
    draw: Callable[[Path], None] | None = None
    """Draws the plot into a file."""
    code: int = 0


@dataclass(frozen=True)
class Suite:
    """The properties of a suite for the command line; an empty tuple offers no choice."""

    about: str
    run: Callable[[Options], Report]
    repeat: int
    backends: tuple[str, ...] = ()
    default_backends: tuple[str, ...] = ()
    """The backends that it uses by default (empty: all)."""
    peers: tuple[str, ...] = ()
    default_peers: tuple[str, ...] | None = None
    sizes: tuple[int, ...] = ()
    quick_sizes: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    """The first is the default."""
    devices: bool = False
    only: tuple[str, ...] = ()
    """Names that ``--only`` may choose from."""
    quick_only: tuple[str, ...] = ()
    sample: float = 0.05
    plots: bool = False


def load_suite(name: str) -> Suite:
    """Return the suite of that name, or raise ``UsageError``."""
    if name not in MODULES:
        raise UsageError(f"there is no suite {name!r}; there are {', '.join(MODULES)}, and diff OLD.json NEW.json")
    return importlib.import_module(MODULES[name]).SUITE


def parser() -> argparse.ArgumentParser:
    """Return the parser of ``python -m bench``."""
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run named suites and print tables. Rows of a table are measured in one run, taking turns.",
        epilog="python -m bench diff OLD.json NEW.json compares two runs and says what got slower.",
    )
    made.add_argument("suites", nargs="+", metavar="SUITE", help=", ".join(MODULES))
    made.add_argument("--backends", metavar="NAMES", help="agrad's, separated by commas")
    made.add_argument("--peers", metavar="NAMES", help="libraries to compare with, separated by commas, or none")
    made.add_argument("--sizes", metavar="NUMBERS", help="of the arrays or the batches, separated by commas")
    made.add_argument("--only", metavar="NAMES", help="rows, data or precisions to measure, separated by commas")
    made.add_argument("--dtype", help="float32 or float64, if the suite supports both")
    made.add_argument("--device", help="of CuPy, PyTorch and JAX, 'cuda' say (default: each library's own, or the CPU)")
    made.add_argument("--repeat", type=int, metavar="N", help="rounds in which all take turns")
    made.add_argument("--sample", type=float, metavar="SECONDS", help="how long a sample is")
    made.add_argument(
        "--json", type=Path, metavar="FILE", help="write every sample to FILE, and the tables to a .md file next to it"
    )
    made.add_argument("--plot", type=Path, metavar="FILE.png", help="draw there (compare)")
    made.add_argument("--quick", action="store_true", help="few small sizes and short samples: to see that it works")
    return made


def _names(text: str) -> list[str]:
    return [] if text == "none" else [name.strip() for name in text.split(",") if name.strip()]


def _chosen(text: str | None, option: str, named: dict[str, Sequence[str]]) -> list[str] | None:
    """Return the names in an option, each known to one of the suites.

    ``named`` contains the names that each suite supports.
    """
    if text is None:
        return None
    names = _names(text)
    offers = list(dict.fromkeys(name for offer in named.values() for name in offer))
    if not offers:
        raise UsageError(f"{' and '.join(named)}: there is no choice of {option}")
    unknown = [name for name in names if name not in offers]
    if unknown:
        raise UsageError(f"{option} {', '.join(unknown)}: unknown; there are {', '.join(offers)}")
    return names


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(float(part)) for part in _names(text))
    except ValueError:
        raise UsageError(f"--sizes {text}: sizes must be numbers. Write, for example, 1000,1e6") from None
    if not found or min(found) < 1:
        raise UsageError(f"--sizes {text}: sizes are numbers of 1 or more")
    return found


def options_for(given: argparse.Namespace, suites: dict[str, Suite]) -> dict[str, Options]:
    """Return the options of each suite.

    Raises ``UsageError`` for an unknown name, and for a choice that no suite offers.
    """
    backends = _chosen(given.backends, "--backends", {n: s.backends for n, s in suites.items()})
    peers = _chosen(given.peers, "--peers", {n: s.peers for n, s in suites.items()})
    only = _chosen(given.only, "--only", {n: s.only for n, s in suites.items()})
    _chosen(given.dtype, "--dtype", {n: s.dtypes for n, s in suites.items()})
    sizes = None if given.sizes is None else _numbers(given.sizes)
    for option, value, offered in (
        ("--sizes", sizes, any(s.sizes for s in suites.values())),
        ("--device", given.device, any(s.devices for s in suites.values())),
        ("--plot", given.plot, any(s.plots for s in suites.values())),
    ):
        if value is not None and not offered:
            raise UsageError(f"{' and '.join(suites)}: there is no choice of {option}")
    if given.repeat is not None and given.repeat < 1:
        raise UsageError(f"--repeat {given.repeat}: at least one round is needed")
    if given.sample is not None and not given.sample > 0:
        raise UsageError(f"--sample {given.sample}: a sample must last more than 0 seconds")
    for option, file in (("--json", given.json), ("--plot", given.plot)):
        if len(suites) > 1 and file is not None and file.suffix:
            raise UsageError(f"{option} {file}: for several suites, pass a folder, which gets a file for each")
    out = {}
    for name, suite in suites.items():
        chosen = suite.default_backends or suite.backends
        default_peers = suite.peers if suite.default_peers is None else suite.default_peers
        out[name] = Options(
            backends=chosen if backends is None else tuple(b for b in backends if b in suite.backends),
            peers=default_peers if peers is None else tuple(p for p in peers if p in suite.peers),
            sizes=(sizes if sizes and suite.sizes else suite.quick_sizes if given.quick else suite.sizes),
            dtype=given.dtype if given.dtype in suite.dtypes else suite.dtypes[0],
            device=None if given.device in (None, "cpu") else given.device,
            repeat=given.repeat or (2 if given.quick else suite.repeat),
            sample=given.sample or (0.001 if given.quick else suite.sample),
            only=tuple(n for n in only if n in suite.only) if only else suite.quick_only if given.quick else (),
            quick=given.quick,
        )
    return out


def write(file: Path, report: Report) -> list[Path]:
    """Write the record into ``file``, and the tables into a ``.md`` file next to it.

    Returns the written files.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_json(report.record) + "\n", encoding="utf-8")
    beside = file.with_suffix(".md")
    beside.write_text(report.text + "\n", encoding="utf-8")
    return [file, beside]


def as_json(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each list of numbers, rounded to five digits."""
    pad = " " * (indent + 1)
    if isinstance(value, dict) and value:
        inner = [f"{pad}{json.dumps(str(k))}: {as_json(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner) + "\n" + " " * indent + "}"
    if isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(pad + as_json(v, indent + 1) for v in value) + "\n" + " " * indent + "]"
    if isinstance(value, list) and value and all(type(v) is float for v in value):
        return "[" + ", ".join(f"{v:.5g}" for v in value) + "]"
    return json.dumps(value)
