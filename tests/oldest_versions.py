"""Print the oldest versions that pyproject.toml allows: ``python tests/oldest_versions.py EXTRA...``.

A requirement ``numpy>=2.1`` becomes ``numpy~=2.1.0``, the newest correction of the oldest version.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
LEAST = re.compile(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\d.]+)$")


def oldest(requirements: list[str], extras: dict[str, list[str]]) -> Iterator[str]:
    """Return an iterator over the oldest versions of requirements; agrad's own extras are followed."""
    for requirement in requirements:
        own = re.fullmatch(r"agrad\[([\w,-]+)\]", requirement)
        if own is not None:
            for extra in own[1].split(","):
                yield from oldest(extras[extra], extras)
            continue
        found = LEAST.fullmatch(requirement)
        if found is None:
            raise SystemExit(f"{PROJECT.name}: expected a requirement NAME>=VERSION, found {requirement!r}")
        numbers = found[2].split(".")
        yield f"{found[1]}~={'.'.join([*numbers, '0', '0'][:3])}"


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(name for extra in sys.argv[1:] for name in extras[extra])]
    print(*dict.fromkeys(oldest(asked, extras)), sep="\n")
