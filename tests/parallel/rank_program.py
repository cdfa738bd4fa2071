"""Parts of a program on several ranks. ``python rank_program.py FOLDER NAME...`` runs some of them."""

import functools
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import agrad
from agrad import parallel
from agrad.errors import AnomalyError, ConfigurationError

FOLDER = Path(sys.argv[1]) if __name__ == "__main__" else Path()
STEPS, BATCH = 51, 16


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal(((STEPS - 1) * BATCH + 3, 5))  # the last batch leaves rank 3 of 4 without rows
    return X, X @ rng.standard_normal((5, 1)) + 0.1 * rng.standard_normal((X.shape[0], 1))


def network(seed: int = 0, norm: bool = False) -> Any:
    agrad.nn.manual_seed(seed)
    first, last = (agrad.nn.Linear(n, m, dtype=agrad.float64) for n, m in ((5, 8), (8, 1)))
    between = [agrad.nn.BatchNorm1d(8, dtype=agrad.float64)] if norm else []
    return agrad.nn.Sequential(first, *between, agrad.nn.Tanh(), last)


def bits(model: Any) -> str:
    state = model.state_dict()
    return hashlib.sha256(b"".join(np.asarray(state[name]).tobytes() for name in sorted(state))).hexdigest()


def loop() -> dict[str, Any]:
    """A user's own loop."""
    X, y = data()
    world = parallel.world()
    model = network(seed=world.rank)  # rank 0 gives all its own
    optimizer = world.optimizer(agrad.optim.Adam(model.parameters(), lr=0.01))
    loader = agrad.data.DataLoader(agrad.data.TensorDataset(X, y), batch_size=BATCH, shuffle=True, seed=1)
    curve, rows = [], 0
    for x, target in world.shard(loader):
        rows += len(x)
        if len(x):
            loss = agrad.mean((model(x) - target) ** 2)
            loss.backward()
        optimizer.step(count=len(x))
        optimizer.zero_grad()
        with agrad.no_grad():
            curve.append(agrad.mean((model(X) - y) ** 2).item())
    return {"curve": curve, "bits": bits(model), "rows": rows, "steps": optimizer.steps}


def jitted_loop() -> dict[str, Any]:
    """A loop whose step, with the message, is one compiled function."""
    X, y = data()
    world, model = parallel.world(), network()
    optimizer = world.optimizer(agrad.optim.SGD(model.parameters(), lr=0.1))

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = agrad.mean((model(x) - target) ** 2)
        loss.backward()
        optimizer.step(count=x.shape[0])
        return loss

    compiled, curve = agrad.jit(step), []
    for start in range(0, X.shape[0] - 3, BATCH * 5):
        batch = slice(start + world.rank, start + BATCH * 5, world.size)
        compiled(X[batch], y[batch])
        curve.append(sum(float(np.abs(p.detach().numpy()).sum()) for p in model.parameters()))
    return {"curve": curve, "bits": bits(model)}


class Curve(agrad.train.Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_losses(self, trainer: Any, losses: Any, record: Any) -> None:
        self.losses += losses.tolist()


def trainer_of(callbacks: list[Any], **options: Any) -> Any:
    model = network()
    optimizer = agrad.optim.Adam(model.parameters(), lr=0.01)
    return agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, ["r2", "mae"], callbacks, **options)


def trainer() -> dict[str, Any]:
    curve = Curve()
    name = FOLDER / f"log.{parallel.world().size}"
    log, save = agrad.train.JSONLogger(name), agrad.train.Checkpoint(FOLDER / f"run.{parallel.world().size}.{{epoch}}")
    made = trainer_of([curve, log, save])
    history = made.fit(*data(), epochs=2, batch_size=BATCH, validation=0.1, progress=False)
    return {"curve": curve.losses, "bits": bits(made.model), "r2": [r["validation_r2"] for r in history]} | {
        "training": [r["r2"] for r in history]
    }


def resumed() -> dict[str, Any]:
    """Go on after the first epoch of a run on 4 ranks."""
    curve = Curve()
    made = trainer_of([curve])
    made.fit(*data(), epochs=2, batch_size=BATCH, validation=0.1, progress=False, resume=FOLDER / "run.4.1")
    return {"curve": curve.losses, "bits": bits(made.model)}


def batches() -> dict[str, Any]:
    """Batches of a loader, buffers, classes with weights, and a loss that adds."""
    X, y = data()
    curve = Curve()
    model = network(norm=True)
    loader = agrad.data.DataLoader(agrad.data.TensorDataset(X[:-3], y[:-3]), batch_size=BATCH, shuffle=True, seed=1)
    made = agrad.train.Trainer(
        model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters(), lr=0.01), callbacks=[curve]
    )
    made.fit(loader, epochs=1, progress=False)
    labels = (y[:, 0] > 1).astype(np.int64)
    weights = Curve()
    model = agrad.nn.Linear(5, 2, dtype=agrad.float64, rng=np.random.default_rng(0))
    sgd = agrad.optim.SGD(model.parameters(), lr=0.1)
    again = agrad.train.Trainer(model, agrad.nn.CrossEntropyLoss(), sgd, "accuracy", [weights])
    again.fit(X, labels, epochs=1, batch_size=BATCH, class_weight="balanced", progress=False)
    adds = Curve()
    model = network()
    sgd = agrad.optim.SGD(model.parameters(), lr=0.001)
    last = agrad.train.Trainer(model, agrad.nn.MSELoss(reduction="sum"), sgd, callbacks=[adds])
    last.fit(X, y, epochs=1, batch_size=BATCH, progress=False)
    return {"bits": bits(made.model), "weights": weights.losses, "adds": adds.losses, "losses": curve.losses}


# ------------------------------------------------------------------ collectives


def adjoints() -> dict[str, Any]:
    """How far each operation is from its transpose, and modes from one another."""
    world = parallel.world()
    n = world.size
    rng = np.random.default_rng(world.rank)
    functions: dict[str, Callable[[Any], Any]] = {
        "allreduce": parallel.allreduce,
        "allgather": lambda x: parallel.allgather(x, axis=-1),
        "reduce_scatter": parallel.reduce_scatter,
        "alltoall": lambda x: parallel.alltoall(x, axis=1),
        "broadcast": lambda x: parallel.broadcast(x, root=n - 1),
    }

    def total(a: Any, b: Any) -> float:
        return float(world.sum([np.asarray(np.vdot(a, b))])[0])

    found: dict[str, Any] = {}
    for name, f in functions.items():
        x, t = rng.standard_normal((2, 2 * n, 4 * n))
        y, pullback = agrad.vjp(f, x)
        v = rng.standard_normal(y.shape)
        (back,) = pullback(v)
        _, forward = agrad.jvp(f, (x,), (t,))
        scale = abs(total(v, forward)) + 1
        mapped = agrad.vmap(f, in_axes=1, out_axes=1)(np.stack([x, 2 * x], 1))
        loss = agrad.grad(lambda x, f=f: agrad.sum(f(x) ** 3))
        compiled = agrad.jit(loss)
        product = agrad.hvp(lambda x, f=f: agrad.sum(f(x) ** 3), (x,), (t,))[0]
        (expected,) = pullback(6 * y * forward)
        found[name] = {
            "adjoint": abs(total(v, forward) - total(back, t)) / scale,
            "vmap": float(np.abs(mapped[:, 1] - 2 * y).max()),
            "jit": float(max(np.abs(compiled(x) - loss(x)).max() for _ in range(2))),
            "second": float(np.abs(product - expected).max() / (1 + np.abs(product).max())),
        }
    return found


def values() -> dict[str, Any]:
    world = parallel.world()
    x = np.arange(2.0 * world.size) + 100 * world.rank
    return {
        "allreduce": parallel.allreduce(x).tolist(),
        "allgather": parallel.allgather(x[:1]).tolist(),
        "reduce_scatter": parallel.reduce_scatter(x).tolist(),
        "alltoall": parallel.alltoall(x).tolist(),
        "broadcast": parallel.broadcast(x, root=1).tolist(),
        "narrow": parallel.allreduce(x.astype(np.float16)).dtype.name,
        "booleans": parallel.allgather(x[:1] > 50).tolist(),
        "number": float(parallel.allreduce(np.asarray(2.0))),
        "any": [world.any(world.rank == 1), world.any(False)],
        "mask": mask(),
    }


def mask() -> list[float]:
    return agrad.nn.Dropout(0.5, rng=np.random.default_rng(0))(np.ones(32)).tolist()


def unused() -> dict[str, Any]:
    """A compiled function whose results need none of its messages, and a loop of them."""

    @agrad.jit
    def f(x: Any) -> Any:
        parallel.allreduce(x)
        parallel.allreduce(x)
        parallel.broadcast(np.ones(2))
        agrad.fori_loop(0, 3, lambda i, c: parallel.allreduce(c), x)
        return 2 * x

    x = np.arange(3.0) + parallel.world().rank
    # ranks that call it unequally often would wait for one another for ever
    found = [f(x).tolist() for _ in range(3)]
    text = str(f.lower(x))
    last = text[text.rindex("# code") :]
    calls = [last.count(name) for name in ("parallel_exchange", "scan")]
    ones = agrad.jit(agrad.grad(lambda x: agrad.sum(parallel.allreduce(x))))
    root = agrad.jit(lambda x: x + parallel.broadcast(np.full(3, float(parallel.world().rank)), root=1))
    return {"found": found, "calls": calls, "ones": [ones(x).tolist() for _ in range(2)]} | {
        "root": [(root(x) - x).tolist() for _ in range(2)]
    }


def on_other_backends() -> dict[str, Any]:
    found = {}
    for name in ("array_api_strict", "torch", "jax"):
        with agrad.use_backend(name):
            x = agrad.asarray(np.arange(3.0) + parallel.world().rank)
            loss = agrad.grad(lambda x: agrad.sum(parallel.allreduce(x) ** 2))
            compiled = agrad.jit(loss)
            found[name] = [g(x).numpy().tolist() for g in (loss, compiled, compiled)]
    with agrad.use_backend("torch"):
        model = agrad.nn.Linear(5, 1, dtype=agrad.float64)
        model.load_state_dict(agrad.nn.Linear(5, 1, dtype=agrad.float64, rng=np.random.default_rng(0)).state_dict())
        made = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters(), lr=0.1))
        X, y = data()
        history = made.fit(X[:100], y[:100], epochs=1, batch_size=BATCH, progress=False)
    return found | {"trainer": [history[-1]["loss"], bits(model)]}


# ------------------------------------------------------------------ faults


def disagreement() -> dict[str, Any]:
    """What is said of ranks that differ in one thing."""
    X, y = data()
    rank = parallel.world().rank
    found = {}

    def attempt(name: str, function: Callable[[], Any]) -> None:
        try:
            function()
            found[name] = "nothing"
        except ConfigurationError as error:
            found[name] = str(error)

    attempt("seed", lambda: trainer_of([], seed=rank).fit(X, y, progress=False))
    attempt("examples", lambda: trainer_of([]).fit(X[rank:], y[rank:], progress=False))
    attempt("batch_size", lambda: trainer_of([]).fit(X, y, batch_size=8 + rank, progress=False))
    sgd = agrad.optim.SGD
    attempt("optimizer", lambda: parallel.world().optimizer(sgd(network().parameters(), lr=0.1 + rank)))
    attempt("parameters", lambda: parallel.world().optimizer(sgd([agrad.nn.Parameter(np.ones(2 + rank))])))
    attempt("loader", lambda: list(parallel.world().shard([X] * (1 + rank))))
    attempt("count", lambda: parallel.world().optimizer(sgd([agrad.nn.Parameter(np.ones(2))])).step(count=0))
    version, agrad.__version__ = agrad.__version__, f"0.1.{rank}"
    attempt("agrad", lambda: trainer_of([]).fit(X, y, progress=False))
    agrad.__version__ = version
    return found


def nan_on_one_rank() -> dict[str, Any]:
    X, y = data()
    X[5 * BATCH + 1] = np.nan  # of rank 1
    made = trainer_of([])
    try:
        made.fit(X, y, epochs=1, batch_size=BATCH, shuffle=False, progress=False)
    except AnomalyError as error:
        return {"error": str(error)}
    return {"error": ""}


class Fault(agrad.train.Callback):
    """Ends one rank after some steps, or asks for the end."""

    def __init__(self, what: str) -> None:
        self.what, self.steps = what, 0

    def on_step_end(self, trainer: Any) -> None:
        self.steps += 1
        if self.steps != STEPS + 7 or parallel.world().rank != 1:
            return
        if self.what == "raise":
            raise ValueError("a fault of one rank")
        os.kill(os.getpid(), signal.SIGKILL if self.what == "kill" else signal.SIGINT)


def fault(what: str) -> dict[str, Any]:
    save = agrad.train.Checkpoint(FOLDER / "saved")
    made = trainer_of([save, Fault(what)])
    history = made.fit(*data(), epochs=4, batch_size=BATCH, progress=False)
    return {"interrupted": history.interrupted, "steps": made.progress.step}


raises, killed, stopped = (functools.partial(fault, what) for what in ("raise", "kill", "stop"))


if __name__ == "__main__":
    found = {name: globals()[name]() for name in sys.argv[2:]}
    ranks = parallel.world()
    (FOLDER / f"{'-'.join(sys.argv[2:])[:40]}.{ranks.rank}.{ranks.size}").write_text(json.dumps(found))
