"""The mutants of the package: what each kind makes, names that stay, a toy module of which one lives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutation import mutants, runner, tests_of
from mutation.kinds import KINDS
from mutation.mutants import Mutant, chosen, mutants_in, mutants_of, named
from mutation.site import sitecustomize
from mutation.source import ROOT, Source
from mutation.worker import Run


def made(text: str, kind: str) -> list[str]:
    """What a kind makes of a source of one line."""
    source = Source(text)
    return [source.replaced(*m.edit) for m in mutants_in(source, "toy.py") if m.kind == kind]


ALTERNATIVES = ["a and b or c", "a or b and c", "(a or b)", "(a or c)", "(b or c)"]


@pytest.mark.parametrize(
    "kind, text, expected",
    [
        ("sign", "y = a + b", ["y = a - b"]),
        ("sign", "y -= b", ["y += b"]),
        ("sign", "y = -(a * b)", ["y = (a * b)"]),
        ("sign", "é = 'é'; y = é - b", ["é = 'é'; y = é + b"]),
        ("factor", "y = 2 * (a + b)", ["y = 2", "y = (a + b)", "y = 2 / (a + b)"]),
        ("factor", "y = a / b", ["y = a", "y = a * b"]),
        ("order", "y = f(xp, a, b)", ["y = f(xp, b, a)"]),
        ("order", "y = a - b", ["y = (b - a)"]),
        ("order", "y = isinstance(a, b)", []),
        ("axis", "y = f(a, axis=0)", ["y = f(a, axis=-1)"]),
        ("axis", "y = f(a, axis=-2)", ["y = f(a, axis=-1)"]),
        ("axis", "y = f(a, keepdims=True)", ["y = f(a, keepdims=False)"]),
        ("axis", "y = f(a, keepdims=keep)", ["y = f(a, keepdims=not keep)"]),
        ("conjugate", "y = g * xp.conj(a * b)", ["y = g * (a * b)"]),
        ("dtype", "y = xp.astype(g, x.dtype)", ["y = g"]),
        ("dtype", "y = f(a, (b), dtype=d, axis=1)", ["y = f(a, (b), axis=1)"]),
        ("dtype", "y = xp.float64", ["y = xp.float32"]),
        ("summed", "y = sum_to(xp, g, shape)", ["y = g"]),
        ("summed", "y = fit(g, meta)", ["y = g"]),
        ("condition", "y = a < b", ["y = a <= b", "y = a >= b"]),
        ("condition", "y = a if not b else c", ["y = a if b else c"]),
        ("condition", "y = a if f(b) else c", ["y = a if not f(b) else c"]),
        ("boolean", "y = a and b", ["y = a", "y = b", "y = a or b"]),
        ("boolean", "y = f(a or b or c)", [f"y = f({x})" for x in ALTERNATIVES]),
        ("constant", "y = x[1]", ["y = x[0]", "y = x[2]"]),
        ("constant", "y = 0, 0.5, True", ["y = 1, 0.5, True", "y = 0, 1.0, True", "y = 0, 0.5, False"]),
        ("statement", "x[0] = 1", ["pass"]),
        ("statement", "x = 1", []),
    ],
)  # fmt: skip
def test_kinds(kind: str, text: str, expected: list[str]) -> None:
    assert sorted(made(text, kind)) == sorted(expected)


def test_statements_of_functions() -> None:
    text = "def f(x):\n    x = x + 1\n    z = x\n    if z:\n        return z\n    raise ValueError(f'{z + 1}')\n"
    source = Source(text)
    gone = [source.text[m.edit[0] : m.edit[1]] for m in mutants_in(source, "toy.py") if m.kind == "statement"]
    assert gone == ["x = x + 1", "return z", "raise ValueError(f'{z + 1}')"]


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring of 1 + 1."""',
        "x: Array[3]",
        "def __repr__(self): return 1 + 1",
        "if TYPE_CHECKING:\n    y = 1 + 1",
        "assert 1 + 1",
        "warnings.warn('', stacklevel=2)",
        "__all__ = [1]",
        "for a in zip(b, b, strict=True): a",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert [m for m in mutants_in(Source(text), "toy.py") if m.kind != "statement"] == []


def test_the_package_has_mutants_of_every_kind_and_they_compile() -> None:
    found = mutants_of("agrad/engine/backward.py") + mutants_of("agrad/ops/elementwise.py")
    assert {m.kind for m in found} == set(KINDS)
    for mutant in found[::40]:
        assert mutant.text != mutants.source_of(mutant.file).text
        compile(mutant.text, mutant.file, "exec")


def test_names_are_stable_and_found_again() -> None:
    file = "agrad/ops/norms.py"
    once, again = (list(mutants_in(Source.of(file), file)) for _ in range(2))
    assert [(m.id, m.edit) for m in once] == [(m.id, m.edit) for m in again]
    assert len({m.id for m in once}) == len(once)
    mutant = next(m for m in once if m.is_change)
    assert named(mutant.id) == [mutant]
    assert mutant in named(f"{file}:{mutant.line}")


def test_a_seed_chooses_and_more_begin_with_the_same() -> None:
    few, more = (chosen(3, count, ("nn", "optim")) for count in (6, 30))
    assert len(few) == 6 and len(more) == 30
    for floor in ("nn", "optim"):
        mine = [m.id for m in few if m.floor == floor]
        assert mine == [m.id for m in more if m.floor == floor][: len(mine)]
    assert {m.id for m in few} != {m.id for m in chosen(4, 6, ("nn", "optim"))}
    assert all(m.is_change for m in more)


def test_a_text_that_compiles_to_the_same_code_is_no_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "source_of", lambda file: Source("x = 2 * 3\ny = 4\n"))
    assert not Mutant("toy.py", 1, "factor", 0, (0, 9, "x = 6")).is_change
    assert not Mutant("toy.py", 1, "factor", 0, (0, 9, "x = (")).is_change
    assert Mutant("toy.py", 1, "factor", 0, (0, 9, "x = 7")).is_change


def toy(folder: Path) -> dict[str, str]:
    """A module, and a test that sees one of its two lines."""
    (folder / "toy.py").write_text("def f(x):\n    return x + 1\n\ndef g(x):\n    return x - 1\n")
    (folder / "test_of_toy.py").write_text("import toy\nassert toy.f(1) == 2\n")
    file = folder / "mutant"
    return {
        **os.environ,
        "MUTANT": str(file),
        "PYTHONPATH": f"{Path(sitecustomize.__file__).parent}{os.pathsep}{folder}",
    }


@pytest.mark.parametrize("before, after, code", [("x + 1", "x - 1", 1), ("x - 1", "x + 1", 0)])
def test_a_mutant_is_killed_and_one_survives(tmp_path: Path, before: str, after: str, code: int) -> None:
    environment = toy(tmp_path)
    text = (tmp_path / "toy.py").read_text().replace(before, after)
    (tmp_path / "mutant").write_text(json.dumps({"module": "toy", "text": text}))
    command = [sys.executable, str(tmp_path / "test_of_toy.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert ("AssertionError" in done.stderr) == bool(code)


class Done:
    """In the place of a fork: it has ended as it was told to."""

    told: dict[str, runner.Result]
    arguments: list[tuple[str, ...]]

    def __init__(self, work: Path, arguments: tuple[str, ...], limits: tuple[int, int], mutant: Mutant) -> None:
        self.arguments.append(arguments)
        self.result = self.told["whole" if not arguments else "module"]

    def poll(self) -> runner.Result:
        return self.result


@pytest.mark.parametrize(
    "module, whole, outcome, phase",
    [
        ("killed", "survived", "killed", "module"),
        ("timeout", "survived", "timeout", "module"),
        ("survived", "killed", "killed", "whole"),
        ("none", "survived", "survived", ""),
        ("survived", "unfinished", "unfinished", ""),
    ],
)
def test_phases_go_on_until_one_kills(
    module: str, whole: str, outcome: str, phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Done.told = {"module": runner.Result(module, "a test", 1.0), "whole": runner.Result(whole, "a test", 1.0)}
    Done.arguments = []
    monkeypatch.setattr(runner, "Run", Done)
    verdicts: list[runner.Verdict] = []
    mutant = mutants_of("agrad/nn/init.py")[0]
    runner.run_all([mutant], 1, runner.Limits(1, 1, True, ()), tmp_path, verdicts.append)
    assert [(v.outcome, v.phase) for v in verdicts] == [(outcome, phase)]
    assert Done.arguments[0] == tests_of.of_module(mutant.file)


def test_how_a_fork_ended(tmp_path: Path) -> None:
    """The outcome of a process that ended without a result comes from the test it noted."""
    run = Run.__new__(Run)
    run.files = {name: tmp_path / name for name in ("current", "result")}
    run.started = 0.0
    run.files["current"].write_text("tests/test_x.py::test_y")
    assert run._result(14, False).outcome == "timeout"  # ended by SIGALRM
    assert run._result(11, False).by == "a crash in tests/test_x.py::test_y"
    assert run._result(0, True).outcome == "unfinished"
    run.files["result"].write_text(json.dumps({"code": 1, "failed": ["tests/test_x.py::test_z"]}))
    assert (run._result(0, False).outcome, run._result(0, False).by) == ("killed", "tests/test_x.py::test_z")


def test_every_file_has_tests_that_exist() -> None:
    for file in (file for floor in mutants.FLOORS for file in mutants.files(floor)):
        named_files = [a for a in tests_of.of_module(file) if not a.startswith("-")]
        assert named_files
        assert all((ROOT / name).is_file() for name in named_files), file


@pytest.mark.parametrize(
    "file, text, names",
    [
        ("agrad/ops/manipulation.py", "return xp.reshape(g, x_meta.shape)", ["reshape"]),
        ("agrad/ops/elementwise.py", 'sqrt = elementwise("sqrt"', ["sqrt"]),
        ("agrad/ops/elementwise.py", "size = xp.abs(x)", ["complex_sign"]),
        ("agrad/engine/backward.py", "def sum_to", []),
    ],
)
def test_a_line_of_the_calculus_belongs_to_primitives(file: str, text: str, names: list[str]) -> None:
    lines = mutants.source_of(file).text.splitlines()
    line = next(number for number, content in enumerate(lines, 1) if text in content)
    assert tests_of.primitives_at(Mutant(file, line, "sign", 0, (0, 0, ""))) == names


def test_the_list_of_equivalents() -> None:
    """Entries have reasons; one whose line is gone is named."""
    assert all(reason.strip() for reason in runner.listed().values())
    mutant = next(m for m in mutants_of("agrad/nn/init.py") if m.is_change)
    entry = runner.key(mutant)
    assert runner.stale({entry: "a reason"}) == []
    assert runner.stale({(entry[0], entry[1], "nothing"): "a reason"}) == [(entry[0], entry[1], "nothing")]
