"""Options of the examples, the number that each must reach, and the picture.

An example is a function that returns its number and a function that draws with
``matplotlib.pyplot``.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import agrad

Draw = Callable[[ModuleType], None]


def here(array: Any) -> agrad.Tensor:
    """Return an array as a Tensor of the backend that runs the example."""
    return agrad.asarray(np.asarray(array), backend=agrad.get_backend())


def run(
    example: Callable[[], tuple[float, Draw]],
    about: str | None,
    *,
    least: float = -np.inf,
    most: float = np.inf,
) -> None:
    """Run an example, and exit with code 1 if its number is out of bounds."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--backend", default="numpy", choices=("numpy", "torch", "jax", "cupy")
    )
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        help="draw a picture to this file (needs matplotlib)",
    )
    given = parser.parse_args()
    if given.plot and not Path(given.plot).parent.is_dir():
        parser.error(f"--plot {given.plot}: there is no such folder")
    begun = time.perf_counter()
    with agrad.use_backend(given.backend):
        number, draw = example()
    seconds = time.perf_counter() - begun
    reached = least <= number <= most  # False for NaN
    bound = f"at least {least:g}" if np.isfinite(least) else f"at most {most:g}"
    print(
        f"{given.backend}: {number:.4g}, {'as' if reached else 'NOT as'} asked "
        f"({bound}), in {seconds:.1f} s"
    )
    if given.plot:
        plot(draw, given.plot)
    if not reached:
        sys.exit(1)


def plot(draw: Draw, path: str) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")  # one that is open would be drawn on
    draw(pyplot)
    pyplot.tight_layout()
    pyplot.savefig(path, dpi=110)
    print("drawn to", path)
