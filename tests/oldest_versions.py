"""Print the oldest versions that pyproject.toml allows, as constraints for pip: ``python tests/oldest_versions.py``.

``numpy>=2.2`` becomes ``numpy==2.2.*``; of several lower bounds of a package the lowest counts.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w-]+)(\[\w+\])?>=(?P<version>[\d.]+)")


def lower_bounds() -> dict[str, tuple[int, ...]]:
    """Return the lowest version of each package that agrad requires, alone or with any of its extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found: dict[str, tuple[int, ...]] = {}
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in requirements:
            match = BOUND.fullmatch(requirement)
            if match is not None:
                version = tuple(int(number) for number in match["version"].split("."))
                found[match["name"]] = min(version, found.get(match["name"], version))
            elif not requirement.startswith("agrad["):
                raise SystemExit(f"pyproject.toml: a requirement must be NAME>=VERSION, got {requirement!r}")
    return found


if __name__ == "__main__":
    for name, version in lower_bounds().items():
        print(f"{name}=={'.'.join(map(str, version))}.*")
