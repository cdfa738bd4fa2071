"""A script that runs the array API's conformance suite on agrad.

    AGRAD_ARRAY_API_TESTS=<folder> python tests/conformance.py --backend numpy --recording --below --report

The folder is a clone of data-apis/array-api-tests with its submodule; it is never committed here. Each backend is
run as it stands and, with ``--recording``, with every created floating array on the tape; with ``--below``, the array
library's own namespace is run too. The result is a table of counts, and by name whatever fails that is not in
``conformance_failures.toml``. The exit status is 1 where anything does, 2 where the suite is not there. ``--report``
writes the counts into ``docs/conformance.md``; the lines there of what was not run this time stay as they are.
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from pages import with_table

HERE = Path(__file__).resolve().parent
BELOW = {name: f"array_api_compat.{name}" for name in ("numpy", "cupy", "torch")}
BELOW |= {"jax": "jax.numpy", "dask": "array_api_compat.dask.array", "array_api_strict": "array_api_strict"}
"""The namespace that each backend of agrad stands on."""
LIBRARIES = {name: (name, "array-api-compat") for name in ("numpy", "cupy", "torch", "dask")}
LIBRARIES |= {"jax": ("jax",), "array_api_strict": ("array-api-strict",)}
"""The distributions whose versions each backend's counts are of."""
RECORDING = "conformance_recording"
SEED = 0
"""The special cases draw one value each, which ``--hypothesis-derandomize`` leaves to chance; a seed, to less of it."""
PAGE = HERE.parent / "docs" / "conformance.md"


@dataclass(frozen=True)
class Outcome:
    """The results of one run of the suite: the ids of its tests by result."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]


def known_failures(backend: str) -> dict[str, str]:
    """Return the beginnings of ids of known failures on a backend, with reasons."""
    entries = tomllib.loads((HERE / "conformance_failures.toml").read_text(encoding="utf-8"))["failure"]
    return {test: e["reason"] for e in entries if backend in e["backends"] for test in e["tests"]}


def unexpected(failed: frozenset[str], known: dict[str, str]) -> list[str]:
    """Return the failures that no entry of the list accounts for."""
    return sorted(test for test in failed if not any(test.startswith(begin) for begin in known))


def read_report(path: Path) -> Outcome:
    """Return the results in a JUnit report."""
    found: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        module = case.get("classname", "").removeprefix("array_api_tests.")
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[result].add(f"{module}::{case.get('name')}")
    return Outcome(*(frozenset(found[name]) for name in ("passed", "failed", "skipped")))


def run(suite: Path, module: str, backend: str, examples: int, version: str, more: list[str]) -> Outcome:
    """Run the suite on a module once, in a process of its own."""
    paths = os.pathsep.join([str(HERE.parent), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": module,
        "ARRAY_API_TESTS_VERSION": version,
        "AGRAD_BACKEND": backend,
        "JAX_ENABLE_X64": "1",
        "PYTHONPATH": paths,
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["--hypothesis-disable-deadline", "--hypothesis-derandomize"]
        command += [f"--hypothesis-seed={SEED}", f"--hypothesis-max-examples={examples}"]
        done = subprocess.run([*command, *(more or ["array_api_tests"])], cwd=suite, env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if not report.exists():
            raise SystemExit(f"the suite did not run on {module}:\n{done.stdout[-4000:]}")
        if log := os.environ.get("AGRAD_CONFORMANCE_LOG"):
            Path(log, f"{module}-{backend}.txt").write_text(done.stdout, encoding="utf-8")
        return read_report(report)


# ---------------------------------------------------------------- the page

HEADS = ["| backend | namespace | passed | failed | unlisted | worse | skipped | examples | of |", "|---" * 9 + "|"]


@dataclass(frozen=True)
class Line:
    """One line of the page: what one run of the suite said."""

    backend: str
    namespace: str
    cells: tuple[str, ...]

    def __str__(self) -> str:
        return f"| {' | '.join((self.backend, self.namespace, *self.cells))} |"


def read_lines(text: str) -> list[Line]:
    """Return the lines of the page's table."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| ")]
    return [Line(backend, namespace, tuple(cells)) for backend, namespace, *cells in rows if backend in BELOW]


def page(lines: list[Line]) -> str:
    """Return the page with these lines, by backend.

    The columns are the namespace below, agrad, agrad recording.
    """
    order, shown = list(BELOW), {"agrad": 1, "agrad recording": 2}
    ranked = sorted(lines, key=lambda line: (order.index(line.backend), shown.get(line.namespace, 0)))
    return with_table(PAGE.read_text(encoding="utf-8"), [*HEADS, *map(str, ranked)])


def merged(old: list[Line], new: list[Line]) -> list[Line]:
    """Return the new lines, and the old ones that no new one replaces."""
    replaced = {(line.backend, line.namespace) for line in new}
    return [*(line for line in old if (line.backend, line.namespace) not in replaced), *new]


def commit_of(folder: Path) -> str:
    """Return the commit of a clone, short; 'unknown' if the folder is none."""
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def versions(backend: str, suite: Path, standard: str) -> str:
    """Return the versions of the libraries, of the standard and of the suite."""
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES[backend]]
    python = ".".join(map(str, sys.version_info[:2]))
    return ", ".join([*libraries, f"Python {python}", f"standard {standard}", f"suite {commit_of(suite)}"])


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return the exit status."""
    parser = argparse.ArgumentParser(description="Run the array API's conformance suite on agrad.")
    parser.add_argument("--backend", action="append", choices=list(BELOW), help="may be repeated (default: numpy)")
    parser.add_argument("--recording", action="store_true", help="run also with created arrays on the tape")
    parser.add_argument("--below", action="store_true", help="run also the array library's own namespace")
    parser.add_argument("--examples", type=int, default=100, help="Hypothesis examples a test (default: 100)")
    parser.add_argument("--api-version", default="2025.12", help="the version of the standard (default: 2025.12)")
    parser.add_argument("--report", action="store_true", help="write the counts into docs/conformance.md")
    parser.add_argument("more", nargs="*", help="files or tests of the suite, instead of all")
    options = parser.parse_args(arguments)

    folder = os.environ.get("AGRAD_ARRAY_API_TESTS")
    if not folder or not (Path(folder) / "array_api_tests").is_dir():
        print("AGRAD_ARRAY_API_TESTS names no clone of data-apis/array-api-tests; nothing was run", file=sys.stderr)
        return 2
    if options.report and (options.more or not options.below):
        parser.error("--report is of the whole suite, and needs --below to compare with")
    suite, wrong, lines = Path(folder), False, []
    print("| module | backend | passed | failed | not in the list | skipped |\n|---|---|---|---|---|---|")
    for backend in options.backend or ["numpy"]:
        known = known_failures(backend)
        below = BELOW[backend]
        modules = [*([below] if options.below else []), "agrad", *([RECORDING] if options.recording else [])]
        outcomes: dict[str, Outcome] = {}
        for module in modules:
            outcomes[module] = out = run(suite, module, backend, options.examples, options.api_version, options.more)
            own = module != below
            new = unexpected(out.failed, known) if own else []
            worse = sorted(out.failed & outcomes[below].passed) if own and options.below else []
            wrong = wrong or bool(new)
            counts = f"{len(out.passed)} | {len(out.failed)} | {len(new)} | {len(out.skipped)}"
            said = [f"  FAILED {test}" for test in new] + [f"  {below} passes {test}" for test in worse]
            print(f"| {module} | {backend} | {counts} |", *said, sep="\n", flush=True)
            cells = (len(out.passed), len(out.failed), len(new) if own else "", len(worse) if own else "",
                     len(out.skipped), options.examples)  # fmt: skip
            name = {RECORDING: "agrad recording"}.get(module, module)
            lines.append(Line(backend, name, (*map(str, cells), versions(backend, suite, options.api_version))))
        if options.report:
            old = read_lines(PAGE.read_text(encoding="utf-8"))
            PAGE.write_text(page(merged(old, lines)), encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
