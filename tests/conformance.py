"""Run the array API's conformance suite on agrad: a script, and no part of the test suite.

    AGRAD_ARRAY_API_TESTS=<folder> python tests/conformance.py --backend numpy --recording --examples 20

The folder is a clone of data-apis/array-api-tests with its submodule; it is never committed here. Each backend is
run as it stands and, with ``--recording``, with every created floating array on the tape; with ``--below``, the array
library's own namespace is run too. The result is a table of counts, and by name whatever fails that is not in
``conformance_failures.toml``. The exit status is 1 where anything does, 2 where the suite is not there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BELOW = {
    "numpy": "array_api_compat.numpy",
    "cupy": "array_api_compat.cupy",
    "torch": "array_api_compat.torch",
    "jax": "jax.numpy",
    "dask": "array_api_compat.dask.array",
    "array_api_strict": "array_api_strict",
}
"""The namespace that each backend of agrad stands on."""


@dataclass(frozen=True)
class Outcome:
    """What one run of the suite said: the ids of its tests by result."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]


def known_failures(backend: str) -> dict[str, str]:
    """The beginnings of the ids of tests that are known to fail on a backend, with the reason of each."""
    entries = tomllib.loads((HERE / "conformance_failures.toml").read_text(encoding="utf-8"))["failure"]
    return {test: e["reason"] for e in entries if backend in e["backends"] for test in e["tests"]}


def unexpected(failed: frozenset[str], known: dict[str, str]) -> list[str]:
    """The failures that no entry of the list accounts for."""
    return sorted(test for test in failed if not any(test.startswith(begin) for begin in known))


def read_report(path: Path) -> Outcome:
    """The results in a JUnit report."""
    found: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        module = case.get("classname", "").removeprefix("array_api_tests.")
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[result].add(f"{module}::{case.get('name')}")
    return Outcome(*(frozenset(found[name]) for name in ("passed", "failed", "skipped")))


def run(suite: Path, module: str, backend: str, examples: int, version: str, more: list[str]) -> Outcome:
    """One run of the suite on a module, in a process of its own."""
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
        command += [
            "--hypothesis-disable-deadline",
            "--hypothesis-derandomize",
            f"--hypothesis-max-examples={examples}",
        ]
        done = subprocess.run([*command, *(more or ["array_api_tests"])], cwd=suite, env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if not report.exists():
            raise SystemExit(f"the suite did not run on {module}:\n{done.stdout[-4000:]}")
        if log := os.environ.get("AGRAD_CONFORMANCE_LOG"):
            Path(log, f"{module}-{backend}.txt").write_text(done.stdout, encoding="utf-8")
        return read_report(report)


def main(arguments: list[str] | None = None) -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(description="Run the array API's conformance suite on agrad.")
    parser.add_argument("--backend", action="append", choices=list(BELOW), help="may be repeated (default: numpy)")
    parser.add_argument("--recording", action="store_true", help="run also with created arrays on the tape")
    parser.add_argument("--below", action="store_true", help="run also the array library's own namespace")
    parser.add_argument("--examples", type=int, default=100, help="Hypothesis examples a test (default: 100)")
    parser.add_argument("--api-version", default="2025.12", help="the version of the standard (default: 2025.12)")
    parser.add_argument("more", nargs="*", help="files or tests of the suite, instead of all")
    options = parser.parse_args(arguments)

    folder = os.environ.get("AGRAD_ARRAY_API_TESTS")
    if not folder or not (Path(folder) / "array_api_tests").is_dir():
        print("AGRAD_ARRAY_API_TESTS names no clone of data-apis/array-api-tests; nothing was run", file=sys.stderr)
        return 2
    wrong = False
    print("| module | backend | passed | failed | not in the list | skipped |\n|---|---|---|---|---|---|")
    for backend in options.backend or ["numpy"]:
        known = known_failures(backend)
        modules = ["agrad", *(["conformance_recording"] if options.recording else [])]
        modules += [BELOW[backend]] if options.below else []
        outcomes = {}
        for module in modules:
            outcomes[module] = out = run(
                Path(folder), module, backend, options.examples, options.api_version, options.more
            )
            new = [] if module == BELOW[backend] else unexpected(out.failed, known)
            wrong = wrong or bool(new)
            counts = f"{len(out.passed)} | {len(out.failed)} | {len(new)} | {len(out.skipped)}"
            print(f"| {module} | {backend} | {counts} |", *[f"  FAILED {test}" for test in new], sep="\n", flush=True)
        if options.below:
            worse = outcomes["agrad"].failed & outcomes[BELOW[backend]].passed
            print(*[f"  {BELOW[backend]} passes {test}" for test in sorted(worse)], sep="\n")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
