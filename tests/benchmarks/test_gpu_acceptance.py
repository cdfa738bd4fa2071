"""The acceptance run for a GPU: goals and verdicts, parts that fail or hang, the table, wrong calls."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import fails

from bench.gpu import __main__ as command
from bench.gpu import device, goals, runner
from bench.gpu.goals import GOALS, MET, NOT_JUDGED, NOT_MEASURED, NOT_MET, Answers, Verdict
from bench.gpu.runner import DONE, Clock, Ended, Part, Runner, Stop

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- goals


@pytest.mark.parametrize("goal", GOALS.values(), ids=lambda goal: f"{goal.part}-{goal.name}")
def test_an_answer_is_held_against_its_bound(goal: goals.Goal) -> None:
    bounded = goal.most is not None or goal.least is not None
    bound, missed = (goal.most or goal.least, 1.01 if goal.most else 0.99) if bounded else (True, 0)
    assert goals.judged(goal, bound, "").verdict == MET
    found = goals.judged(goal, bound * missed, "so much", "slow")
    assert (found.verdict, found.why, found.measured) == (NOT_MET, "slow", "so much")
    for small in (False, True):
        assert goals.judged(goal, float("nan"), "", small=small).verdict == NOT_MET
    poor = math.inf if goal.least is None else 0.0
    assert (goals.judged(goal, poor, "", small=True).verdict == NOT_JUDGED) is goal.timed


def test_answers_survive_the_end_of_their_part(tmp_path: Path) -> None:
    file = tmp_path / "mlp.jsonl"
    answers = Answers("mlp", file)
    answers.give("MLP step, batch 128, device", 0.9, "0.90")
    answers.absent("MLP step, batch 128, host", "no peer", "agrad 12 us")
    with file.open("a") as out:
        out.write('{"part": "mlp", "name": "MLP step, ba')
    found = goals.completed("mlp", goals.read(file), "killed by SIGSEGV")
    assert [(v.verdict, v.why) for v in found[:2]] == [(MET, ""), (NOT_MEASURED, "no peer")]
    assert [(v.verdict, v.why) for v in found[2:]] == [(NOT_MEASURED, "killed by SIGSEGV")]
    assert goals.completed("mlp", [], "")[0].text == "NOT met: the part gave no answer"


@pytest.mark.parametrize(
    ("verdict", "full", "small"),
    [(MET, True, True), (NOT_MET, False, False), (NOT_MEASURED, False, True), (NOT_JUDGED, False, True)],
)
def test_what_passes(verdict: str, full: bool, small: bool) -> None:
    found = [Verdict("mlp", "x", "", "", MET), Verdict("mlp", "y", "", "", verdict)]
    assert goals.passed(found, False, set()) is full
    assert goals.passed(found, True, set()) is small
    assert not goals.passed(found, True, {"mlp"})


# ---------------------------------------------------------------- parts that fail, hang and crash


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GRACE", 0.3)
    monkeypatch.setattr(runner, "LEAST", 0.05)
    monkeypatch.setattr(runner, "POLL", 0.01)


DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
HANGS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def runs(
    scripts: dict[str, tuple[str, float]], logs: Path, stop: Stop, seconds: float = 60.0, **more: Any
) -> list[Ended]:
    """Run parts that are Python programs, each with its limit."""
    parts = [Part(name, "", limit) for name, (_, limit) in scripts.items()]
    line = lambda part, seconds: [sys.executable, "-S", "-c", scripts[part.name][0]]  # noqa: E731
    return Runner(line, logs, Clock(seconds), stop, **more).run(parts)


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.usefixtures("quick")
def test_a_part_survives_the_failure_of_another(tmp_path: Path) -> None:
    scripts = {
        "raises": ("raise ValueError('broken')", 20.0),
        "dies": (DIES, 20.0),
        "hangs": (HANGS, 0.7),
        "leaves": ("import sys; sys.exit(3)", 20.0),
        "fine": ("print('here')", 20.0),
    }
    told: list[str] = []
    ended = runs(scripts, tmp_path, Stop(), width=4, told=lambda e: told.append(e.name))
    expected = ("exit code 1", "killed by SIGKILL", "over its 1 s", "exit code 3", DONE)
    assert [(e.name, e.how) for e in ended] == [*zip(scripts, expected, strict=True)]
    assert sorted(told) == sorted(scripts)
    assert "ValueError: broken" in (tmp_path / "raises.log").read_text()
    assert (tmp_path / "fine.log").read_text() == "here\n"
    assert not is_alive(int((tmp_path / "hangs.log").read_text()))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs(tmp_path: Path, number: signal.Signals) -> None:
    script = f"import os, signal, time; os.kill({os.getpid()}, {int(number)}); time.sleep(60)"
    scripts = {"fine": ("", 20.0), "signals": (script, 20.0), "waits": ("", 20.0)}
    with runner.stoppable() as stop:
        ended = runs(scripts, tmp_path, stop)
    assert stop.number == number and signal.getsignal(number) is not stop
    assert [e.how for e in ended] == [
        DONE, *(f"{how}, as the run was stopped by {number.name}" for how in ("ended", "not started")),
    ]  # fmt: skip


# ---------------------------------------------------------------- the whole command


ANSWERS = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from bench.gpu import goals
part, small = {part!r}, {small!r}
answers = goals.Answers(part, Path({file!r}), small)
for (of, name), goal in goals.GOALS.items():
    if of == part:
        answers.give(name, goal.most or goal.least or True, "{root}/as wanted")
{then}
"""


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The command in this process, on a device that is none, with parts that answer at once and then do as told."""
    monkeypatch.setattr(device, "described", lambda logs: ("a device", True))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(runner, "GRACE", 0.3)
    monkeypatch.setattr(runner, "POLL", 0.01)
    then: dict[str, str] = {}

    def command_of(part: Part, seconds: float, out: Path, small: bool) -> list[str]:
        text = ANSWERS.format(
            root=str(ROOT), part=part.name, small=small, file=str(out / "logs" / f"{part.name}.jsonl"),
            then=then.get(part.name, ""),
        )  # fmt: skip
        return [sys.executable, "-S", "-c", text]

    monkeypatch.setattr(command, "command_of", command_of)

    def of(*options: str, **broken: str) -> tuple[int, str, Path]:
        then.update(broken)
        out = tmp_path / "out"
        code = command.main([*options, str(out)])
        return code, capsys.readouterr().out, out

    return of


def test_all_met(main: Callable[..., Any]) -> None:
    code, text, out = main("--parts", "probe,steps,wide")
    assert code == 0
    table = (out / "table.md").read_text()
    assert text.endswith(table)
    assert "Only these parts: probe, steps, wide." in table
    count = sum(part in ("probe", "steps", "wide") for part, _ in GOALS)
    assert f"{count} met, 0 NOT met, 0 not measured, 0 not judged; " in table
    record = json.loads((out / "results.json").read_text())
    assert len(record["verdicts"]) == count
    assert str(ROOT) not in table + (out / "results.json").read_text()
    assert (out / "logs" / ".gitignore").read_text() == "*\n"


CTRL_C = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGINT); time.sleep(60)"


@pytest.mark.parametrize(
    ("parts", "broken", "code", "said"),
    [
        ("streams,wide,compare", {"wide": "raise ValueError('broken')"}, 1,
         ["| wide    | exit code 1 |", "        | ValueError: broken"]),
        ("streams,wide", {"streams": DIES}, 1, ["killed by SIGKILL"]),
        ("streams,wide,chain", {"wide": CTRL_C}, 130, ["stopped by SIGINT"]),
    ],
    ids=["raises", "dies", "Ctrl-C"],
)  # fmt: skip
def test_a_run_that_is_cut_off_keeps_its_answers(
    main: Callable[..., Any], parts: str, broken: dict[str, str], code: int, said: list[str]
) -> None:
    found, text, out = main("--parts", parts, **broken)
    assert found == code and all(part in text for part in said)
    assert text.endswith((out / "table.md").read_text())
    verdicts = json.loads((out / "results.json").read_text())["verdicts"]
    assert {v["verdict"] for v in verdicts} == ({MET} if code == 1 else {MET, NOT_MEASURED})


def test_folders_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text("mine")
    assert command.main([str(tmp_path)]) == 2
    assert "'logs' of something else" in capsys.readouterr().err
    assert (tmp_path / "logs" / "train.log").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: OUT"),
        (["--parts", "probe,nothing", "out"], "there is no 'nothing'; there are probe, steps"),
        (["--seconds", "0", "out"], "must be more than 0"),
    ],
)
def test_wrong_calls(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fails(SystemExit, "2", command.main, arguments).code == 2
    assert said in capsys.readouterr().err


def test_the_script_from_another_folder(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("raise ImportError('not the checkout')")
    (tmp_path / "file").touch()
    line, given = [str(ROOT / "bench" / "gpu_acceptance.sh"), "file"], os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(line, env=given, cwd=tmp_path, capture_output=True, text=True, check=False)
    text = "bench/gpu_acceptance.sh: OUT file cannot be written: File exists\n"
    assert (done.returncode, done.stderr) == (2, text)
