"""Training and collective operations on 2 and 4 ranks, started by ``mpiexec``, and their faults."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_program

import agrad
from agrad.cli import main

pytestmark = pytest.mark.needs("mpi4py")

ROOT = Path(agrad.__file__).parents[1]
OPTIONS = ("--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
TRAINED = ("loop", "jitted_loop", "trainer", "batches")
SHARED = ("adjoints", "values", "unused", "disagreement", "nan_on_one_rank", "stopped")
LIMIT = 10
"""Seconds after which all ranks must have ended."""


def launcher() -> str:
    """Return the ``mpiexec`` of this environment, or skip the test."""
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("mpiexec is not installed")
    return found


def launch(
    ranks: int, *args: Any, module: bool = False, program: Path = Path(rank_program.__file__)
) -> subprocess.CompletedProcess[str]:
    """Run a program, by default that of the tests, or ``agrad`` as a module, on some ranks."""
    what = ["-m", "agrad"] if module else [str(program)]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [launcher(), *OPTIONS, "-n", str(ranks), sys.executable, *what, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables)


def results(ranks: int, names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Run parts of the program, and return what each rank found, by the name of the part."""
    done = launch(ranks, folder, *names)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{'-'.join(names)[:40]}.{r}.{ranks}").read_text()) for r in range(ranks)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def on_4(folder: Path) -> list[dict[str, Any]]:
    return results(4, (*TRAINED, *SHARED), folder)


@pytest.fixture(scope="module")
def on_2(folder: Path, on_4: Any) -> list[dict[str, Any]]:
    return results(2, (*TRAINED, "resumed"), folder)


@pytest.fixture(scope="module")
def on_1(folder: Path) -> dict[str, Any]:
    rank_program.FOLDER = folder
    return {name: getattr(rank_program, name)() for name in TRAINED}


def assert_close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def assert_same_bits(ranks: list[dict[str, Any]], name: str) -> None:
    assert len({rank[name]["bits"] for rank in ranks}) == 1


# ------------------------------------------------------------------ training


@pytest.mark.parametrize("name", ["loop", "jitted_loop"])
def test_own_loops_have_one_curve(on_1: Any, on_2: Any, on_4: Any, name: str) -> None:
    expected = on_1[name]["curve"]
    assert len(expected) >= (50 if name == "loop" else 10) and expected[-1] != expected[0]
    for ranks in (on_2, on_4):
        assert_same_bits(ranks, name)
        for rank in ranks:
            assert_close(rank[name]["curve"], expected)


def test_shards_divide_the_rows(on_2: Any, on_4: Any) -> None:
    n = rank_program.data()[0].shape[0]
    assert sum(rank["loop"]["rows"] for rank in on_4) == n == sum(rank["loop"]["rows"] for rank in on_2)
    assert on_4[0]["loop"]["rows"] == on_4[3]["loop"]["rows"] + 1


def test_trainers_have_one_curve_and_one_history(on_1: Any, on_2: Any, on_4: Any, folder: Path) -> None:
    expected = on_1["trainer"]
    assert len(expected["curve"]) == 2 * 46
    for ranks in (on_2, on_4):
        assert_same_bits(ranks, "trainer")
        for rank in ranks:
            for entry in ("curve", "r2", "training"):
                assert_close(rank["trainer"][entry], expected[entry])
    for n in (1, 2, 4):
        records = [json.loads(line) for line in (folder / f"log.{n}").read_text().splitlines()]
        assert [record["event"] for record in records] == ["start", "epoch", "epoch", "end"]
        assert records[-1]["ranks"] == n


def test_buffers_weights_and_sums_are_those_of_whole_batches(on_1: Any, on_2: Any, on_4: Any) -> None:
    for ranks in (on_2, on_4):
        assert_same_bits(ranks, "batches")
        for entry in ("weights", "adds"):
            assert_close(ranks[1]["batches"][entry], on_1["batches"][entry])
        losses = ranks[1]["batches"]["losses"]
        assert losses[-1] < losses[0]  # a layer normalizes by the rows of its rank: other numbers


def test_a_run_on_4_ranks_goes_on_on_2_and_on_1(on_2: Any, on_4: Any, folder: Path) -> None:
    rank_program.FOLDER = folder
    alone = rank_program.resumed()
    second = on_4[0]["trainer"]["curve"][46:]
    assert_same_bits(on_2, "resumed")
    for curve in (on_2[0]["resumed"]["curve"], on_2[1]["resumed"]["curve"], alone["curve"]):
        assert_close(curve, second)


def test_the_command_trains_on_ranks(tmp_path: Path) -> None:
    log, save = tmp_path / "log.jsonl", tmp_path / "run.safetensors"
    options = ("train", "--epochs", 1, "--hidden", 8, "--dropout", 0, "--seed", 1, "--dtype", "float64")
    done = launch(2, *options, "--log", log, "--save", save, module=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("saved to") == 1  # rank 0 prints
    end = json.loads(log.read_text().splitlines()[-1])
    assert (end["event"], end["ranks"]) == ("end", 2)
    alone = tmp_path / "alone.jsonl"
    assert main([*map(str, options), "--log", str(alone), "--quiet"]) == 0
    assert_close(json.loads(alone.read_text().splitlines()[-1])["test_loss"], end["test_loss"])


def test_the_page_runs_on_ranks(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
    program, printed = re.findall(r"```(?:python|text)\n(.*?)```", page, flags=re.S)[:2]
    (tmp_path / "program.py").write_text(program)
    done = launch(2, program=tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


@pytest.mark.needs("torch")
def test_the_module_of_the_page_for_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    page = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```py\n(.*?)```", page, flags=re.S)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        scope: dict[str, Any] = {}
        exec(program, scope)
        scope["model"](torch.ones(2, 3)).sum().backward()
        found = scope["model"].module.w.grad
    finally:
        torch.distributed.destroy_process_group()
    np.testing.assert_allclose(found.numpy(), np.full((3, 1), 2 / np.cosh(3.0) ** 2), rtol=1e-5)


# ------------------------------------------------------------------ collective operations


@pytest.mark.parametrize("what", ["adjoint", "vmap", "jit", "second"])
def test_operations_are_transposes_in_every_mode(on_4: Any, what: str) -> None:
    for rank in on_4:
        found = {name: numbers[what] for name, numbers in rank["adjoints"].items()}
        assert len(found) == 5
        assert max(found.values()) < 1e-12, found


def test_operations_return_what_they_say(on_4: Any) -> None:
    xs = [np.arange(8.0) + 100 * r for r in range(4)]
    for r, rank in enumerate(on_4):
        found = rank["values"]
        assert found["allreduce"] == sum(xs).tolist()
        assert found["allgather"] == [0.0, 100.0, 200.0, 300.0]
        assert found["reduce_scatter"] == sum(xs)[2 * r : 2 * r + 2].tolist()
        assert found["alltoall"] == np.concatenate([x[2 * r : 2 * r + 2] for x in xs]).tolist()
        assert found["broadcast"] == xs[1].tolist()
        assert (found["narrow"], found["number"], found["any"]) == ("float16", 8.0, [True, False])
        assert found["booleans"] == [False, True, True, True]
    assert len({str(rank["values"]["mask"]) for rank in on_4}) == 4
    assert on_4[0]["values"]["mask"] == rank_program.mask()


def test_programs_keep_operations_without_a_use(on_4: Any) -> None:
    for r, rank in enumerate(on_4):
        assert rank["unused"]["found"] == [(2 * (np.arange(3.0) + r)).tolist()] * 3
        assert rank["unused"]["calls"] == [3, 1]
        assert rank["unused"]["ones"] == [[4.0] * 3] * 2  # a cotangent that is a constant of the trace
        assert rank["unused"]["root"] == [[1.0] * 3] * 2


@pytest.mark.needs("torch", "jax", "array_api_strict")
def test_other_backends(tmp_path: Path) -> None:
    for rank in results(2, ["on_other_backends"], tmp_path):
        found = rank["on_other_backends"]
        loss, _ = found.pop("trainer")
        assert set(found) == {"array_api_strict", "torch", "jax"}
        for gradients in found.values():
            assert gradients == [[4.0, 12.0, 20.0]] * 3
        model = agrad.nn.Linear(5, 1, dtype=agrad.float64, rng=np.random.default_rng(0))
        trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters(), lr=0.1))
        X, y = rank_program.data()
        history = trainer.fit(X[:100], y[:100], epochs=1, batch_size=rank_program.BATCH, progress=False)
        assert_close(loss, history[-1]["loss"])


# ------------------------------------------------------------------ faults


def test_ranks_that_disagree_are_refused(on_4: Any) -> None:
    for rank in on_4:
        for name in ("seed", "examples", "batch_size", "optimizer", "parameters", "loader", "agrad"):
            assert f"{name} must be equal on all ranks" in rank["disagreement"][name]
        assert "count must be above 0" in rank["disagreement"]["count"]
    assert "got 0 on rank 0 and 1 on rank 1" in on_4[2]["disagreement"]["seed"]


def test_nan_on_one_rank_stops_all_at_the_same_step(on_4: Any) -> None:
    errors = {rank["nan_on_one_rank"]["error"] for rank in on_4}
    assert len(errors) == 1
    assert "the loss is nan at step 6 " in errors.pop()


def test_a_signal_to_one_rank_stops_all_after_the_same_step(on_4: Any) -> None:
    assert [rank["stopped"] for rank in on_4] == [{"interrupted": True, "steps": rank_program.STEPS + 8}] * 4


def failed(*args: Any, module: bool = False) -> Any:
    """Run a program on 2 ranks that must fail in time, and return what it printed."""
    begun = time.monotonic()
    done = launch(2, *args, module=module)
    assert time.monotonic() - begun < LIMIT + 10  # with the time to start and to train
    assert done.returncode != 0
    return done


def test_a_rank_that_raises_says_where_and_all_end(tmp_path: Path) -> None:
    done = failed(tmp_path, "raises")
    assert "ValueError: a fault of one rank" in done.stderr
    place = f"agrad: rank 1 of 2, epoch 2, step {rank_program.STEPS + 7}, last checkpoint {tmp_path / 'saved'}"
    assert place in done.stderr
    trainer = rank_program.trainer_of([])
    trainer.load(tmp_path / "saved")
    assert trainer.progress.epoch == 1


def test_a_killed_rank_is_named_by_the_launcher(tmp_path: Path) -> None:
    done = failed(tmp_path, "killed")
    assert "signal 9" in done.stderr + done.stdout


def test_an_error_of_the_command_ends_all_ranks(tmp_path: Path) -> None:
    done = failed("train", "--data", tmp_path / "absent.csv", "--label", "y", module=True)
    assert "agrad train: error: " in done.stderr and "absent.csv" in done.stderr
