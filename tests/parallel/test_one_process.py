"""``agrad.parallel`` in one process, without MPI."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import parallel
from agrad.errors import ConfigurationError, DtypeError, MissingExtraError, OperandError, ShapeError
from agrad.jit.passes import cleanup
from agrad.jit.program import Instruction, Program, Variable
from agrad.parallel import collectives, ranks

OPERATIONS = [parallel.allreduce, parallel.allgather, parallel.reduce_scatter, parallel.alltoall, parallel.broadcast]


def test_one_rank() -> None:
    world = parallel.world()
    assert world is parallel.world()
    assert (world.rank, world.size, world.any(True), repr(world)) == (0, 1, True, "<rank 0 of 1>")
    assert "mpi4py" not in sys.modules
    world.check(seed=1)
    world.share(agrad.nn.Linear(2, 1))
    world.abort("nothing")
    sums = world.sum([np.ones(2), np.arange(3), np.zeros((1, 2))])
    assert [a.tolist() for a in sums] == [[1, 1], [0, 1, 2], [[0, 0]]]


def test_shards_are_whole() -> None:
    batches = [{"x": np.ones((3, 2)), "y": (np.zeros(3),)}] * 2
    shard = parallel.world().shard(batches)
    assert len(shard) == 2
    for _ in range(2):
        assert [batch["x"].shape for batch in shard] == [(3, 2)] * 2


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_operations_are_the_identity(backend: str, operation: Any) -> None:
    x = agrad.asarray([1.0, 2.0, 3.0])
    assert agrad.all(operation(x) == x)
    loss = agrad.grad(lambda x: agrad.sum(operation(x) ** 2))
    for found in (loss(x), agrad.jit(loss)(x), agrad.jit(loss)(x)):
        assert found.numpy().tolist() == [2.0, 4.0, 6.0]
    many = agrad.vmap(operation)(agrad.stack([x, 2 * x]))
    assert many.numpy().tolist() == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    assert agrad.jvp(operation, (x,), (x,))[1].numpy().tolist() == [1.0, 2.0, 3.0]


def test_wrong_axes_and_roots() -> None:
    fails(ShapeError, "axis must be an axis of x, got 2", lambda: parallel.allgather(np.ones((2, 2)), axis=2))
    fails(ShapeError, "root must be a rank from 0 to 0, got 1", lambda: parallel.broadcast(np.ones(2), root=1))
    fails(ShapeError, "multiple of the 3 ranks, got 4", lambda: collectives._axis("alltoall", np.ones(4), 0, 3))
    fails(DtypeError, "Booleans", lambda: collectives._sum(parallel.world(), np.ones(2, bool)))


def test_passes_leave_calls_with_an_effect() -> None:
    x, a, b, y = (Variable((3,), np.dtype(float), np.ndarray) for _ in range(4))
    send, double = collectives.exchange_p.primitive, agrad.multiply.primitive
    calls = [*(Instruction(send, (x,), {}, (out,)) for out in (a, b)), Instruction(double, (x, 2), {}, (y,))]
    constant = Program([], {x: np.ones(3)}, calls, [y])
    for program in (Program([x], {}, calls, [y]), constant):
        for run in (cleanup.without_dead_code, cleanup.without_repetition, cleanup.with_constants_folded):
            names = [instruction.name for instruction in run(program).instructions]
            assert names[:2] == ["parallel.exchange"] * 2
    assert Program([x], {}, calls, [y]).has_effect
    assert not Program([x], {}, calls[2:], [y]).has_effect


# ------------------------------------------------------------------ the optimizer


def test_a_parallel_optimizer_steps_as_its_own() -> None:
    w, v = (agrad.nn.Parameter(np.array([1.0, 2.0])) for _ in range(2))
    plain, shared = agrad.optim.Adam([w], lr=0.1), parallel.world().optimizer(agrad.optim.Adam([v], lr=0.1))
    for _ in range(3):
        for p, optimizer in ((w, plain), (v, shared)):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
    assert agrad.all(w.detach() == v.detach())
    assert (shared.steps, shared.lr) == (3, 0.1)
    shared.lr = 0.2
    assert shared.inner.lr == 0.2 and repr(shared).endswith(" on <rank 0 of 1>")
    fails(ConfigurationError, "count must be 0 or more, got -1", lambda: shared.step(count=-1))
    match = r"must be one of agrad\.optim, got a Linear"
    fails(OperandError, match, parallel.world().optimizer, agrad.nn.Linear(1, 1))
    fails(AttributeError, "absent", getattr, shared, "absent")


def echo(size: int) -> SimpleNamespace:
    """Return a communicator whose ranks all have what this one has."""
    return SimpleNamespace(
        Get_rank=lambda: 0,
        Get_size=lambda: size,
        Reduce=lambda x, out, root: np.multiply(x, size, out=out),
        Bcast=lambda x, root: None,
        bcast=lambda value: value,
        allgather=lambda value: [value] * size,
    )


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> ranks.World:
    made = ranks.World(echo(3))
    monkeypatch.setattr(ranks, "_WORLDS", [made])
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_mean_of_equal_gradients(alike: ranks.World, dtype: str) -> None:
    params = [agrad.nn.Parameter(np.array([1.0, 2.0], dtype)) for _ in range(3)]
    optimizer = alike.optimizer(agrad.optim.SGD(params, lr=0.5))
    params[0].grad = agrad.asarray(np.array([1.0, 3.0], dtype) * (1 + 1j if dtype == "complex128" else 1))
    expected = params[0].grad.numpy().copy()
    optimizer.step(count=4)
    np.testing.assert_allclose(params[0].grad.numpy(), expected, rtol=1e-6)
    assert params[1].grad is None and params[0].dtype.name == dtype
    fails(ConfigurationError, "got 0 on all", lambda: optimizer.step(count=0))


def test_trainers_of_equal_ranks(alike: ranks.World, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.linspace(-1, 1, 12).reshape(6, 2), np.arange(6.0)[:, None]

    def fitted() -> Any:
        model = agrad.nn.Linear(2, 1, dtype=agrad.float64, rng=np.random.default_rng(0))
        trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters(), lr=0.1), "r2")
        return trainer, trainer.fit(X[::3].repeat(3, 0), y[::3].repeat(3, 0), epochs=3, shuffle=False, progress=False)

    trainer, history = fitted()  # three ranks with the rows 0 and 3 each
    monkeypatch.setattr(ranks, "_WORLDS", [ranks.World()])
    _, alone = fitted()
    for entry in ("loss", "r2"):
        np.testing.assert_allclose([r[entry] for r in history], [r[entry] for r in alone], rtol=1e-12)
    assert alike.describe() == "rank 0 of 3, epoch 3, step 3, no checkpoint"
    assert trainer.progress.step == 3


# ------------------------------------------------------------------ launchers


def fake_mpi(size: int) -> ModuleType:
    made = ModuleType("mpi4py")
    made.MPI = SimpleNamespace(COMM_WORLD=echo(size), Get_library_version=lambda: "Some MPI v1, more")
    return made


@pytest.mark.parametrize(
    "variables",
    [
        {"OMPI_COMM_WORLD_SIZE": "3"},
        {"PMI_SIZE": "3", "OMPI_COMM_WORLD_SIZE": ""},
        {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "3"},
    ],
)
def test_launchers_are_known_by_their_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi(3))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert ranks._started(variables).size == 3
    monkeypatch.setitem(sys.modules, "mpi4py", fake_mpi(1))
    fails(ConfigurationError, r"got 1 ranks for 3 processes\. Start .* of Some MPI v1", ranks._started, variables)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    fails(MissingExtraError, r"started 3 processes.*agrad\[parallel\]", lambda: ranks._started(variables))


@pytest.mark.parametrize("variables", [{}, {"OMPI_COMM_WORLD_SIZE": "1"}, {"SLURM_STEP_NUM_TASKS": "3"}])
def test_one_process_needs_no_mpi(variables: dict[str, str]) -> None:
    assert ranks._started(variables).comm is None


def test_ranks_that_differ(alike: ranks.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike.comm, "allgather", lambda mine: [mine, mine, {**mine, "seed": "7"}])
    fails(ConfigurationError, "seed must be equal on all ranks, got 1 on rank 0 and 7 on rank 2", alike.check, seed=1)
