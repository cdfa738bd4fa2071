"""``python -m bench.gpu OUT``: run the parts, print the table.

``bench/gpu_acceptance.sh`` calls it.
"""

import argparse
import functools
import os
import sys
from pathlib import Path

from bench import common
from bench.gpu import device, goals, report
from bench.gpu.parts import PARTS
from bench.gpu.runner import DONE, Clock, Part, Runner, stoppable

SECONDS = 480.0
RESERVE = 12.0
"""Seconds reserved for ending the last part and printing the table."""
CORES_A_PART = 4
"""Cores for each part, if parts run concurrently."""
COMMAND = "bench/gpu_acceptance.sh"
EPILOG = """\
Exit code: 0 all met; 1 something was not met or not measured; 2 wrong call, or OUT cannot be written; 3 no usable GPU,
nothing was run; 128 + n stopped by signal n, with the table of what was done. With --small no times are judged, and
a peer may be absent. PYTHON is the interpreter (default: python3), AGRAD_MNIST_DIR a folder with MNIST.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=COMMAND,
        description="Check a CUDA GPU with one command: correctness, then times compared with goals, then a table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("out", type=Path, metavar="OUT", help="a folder for table.md, details.md, results.json and logs")
    made.add_argument("--small", action="store_true", help="small sizes: shows that all parts work, measures nothing")
    made.add_argument("--parts", metavar="NAMES", help=f"only these parts, separated by commas: {', '.join(PARTS)}")
    made.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"total time in seconds (default: {SECONDS:.0f}); parts are shortened to fit",
    )
    return made


def chosen(given: argparse.Namespace, command: argparse.ArgumentParser) -> list[Part]:
    """Return the selected parts, in order; exit for an unknown one."""
    names = [n.strip() for n in given.parts.split(",")] if given.parts is not None else list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        command.error(f"--parts: there is no {', '.join(map(repr, unknown))}; there are {', '.join(PARTS)}")
    if not given.seconds > 0:
        command.error(f"--seconds {given.seconds:g}: must be more than 0")
    return [part for part in PARTS.values() if part.name in names]


def set_environment() -> None:
    """Set the environment of the parts' processes.

    They import agrad from this checkout, BLAS is not pinned, and JAX does not preallocate memory.
    """
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{common.ROOT}{os.pathsep}{path}" if path else str(common.ROOT)
    os.environ |= {"PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    for name in common.PINS:
        os.environ.pop(name, None)


def command_of(part: Part, seconds: float, out: Path, small: bool) -> list[str]:
    """Return the command line of the process of a part."""
    some = ["--seconds", f"{seconds:.1f}", *(["--small"] if small else [])]
    return [sys.executable, "-P", "-m", "bench.gpu.parts", part.name, str(out), *some]


def run(parts: list[Part], out: Path, about: str, clock: Clock, small: bool) -> int:
    """Run the parts, print the table and write the files. Return the exit code."""
    tell = report.Teller(out / "logs", clock)
    line = functools.partial(command_of, out=out, small=small)
    clock.seconds -= RESERVE
    with stoppable() as stop:
        ended = Runner(line, out / "logs", clock, stop, max(1, common.cores() // CORES_A_PART), tell).run(parts)
    verdicts = [v for part in parts for v in tell.verdicts[part.name]]
    text = report.table(report.heading(about, small, parts), verdicts, ended, clock.spent())
    print(f"\n{text}", flush=True)
    code = int(not goals.passed(verdicts, small, {e.name for e in ended if e.how != DONE}))
    try:
        report.write(out, text, about, small, verdicts, ended)
    except OSError as error:
        print(f"{COMMAND}: the results could not be written: {error}", file=sys.stderr)
        code = 1
    return code if stop.number is None else 128 + stop.number


def main(arguments: list[str]) -> int:
    command = parser()
    given = command.parse_args(arguments)
    parts, clock = chosen(given, command), Clock(given.seconds)
    try:
        out = report.prepared(given.out)
    except OSError as error:
        print(f"{COMMAND}: OUT {given.out} cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    set_environment()
    try:
        about, real = device.described(out / "logs")
    except device.NoDevice as reason:
        print(f"No usable CUDA GPU, so nothing was run and nothing is claimed:\n{reason}")
        return 3
    except KeyboardInterrupt:
        return 130
    print(about, flush=True)
    if not real and not given.small:
        print("This CUDA is emulated on the CPU: only --small runs on it. Nothing was run.")
        return 3
    return run(parts, out, about, clock, given.small)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
