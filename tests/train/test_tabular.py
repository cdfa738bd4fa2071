"""The network for tables: numbers by quantiles, members of an ensemble, averages of weights."""

import numpy as np
import pytest

import agrad
from agrad import nn, optim, random
from agrad.train import Trainer, tabular

PLACE = {"dtype": agrad.float64, "backend": "numpy", "device": "cpu"}


def test_a_number_has_its_place_between_quantiles() -> None:
    X = np.stack([np.repeat(np.arange(101.0), 2), np.arange(202) % 2], axis=1)
    column, low, scale = tabular.intervals(X)
    most = X.shape[0] // tabular.FEWEST
    assert column.tolist() == [0] * most  # indicators have none
    assert low.tolist() == np.linspace(0, 100, most + 1)[:-1].tolist()
    layer = tabular.Quantiles(column, low, scale, **PLACE)
    y = layer(np.array([[-3.0, 1.0], [30.0, 0.0], [1000.0, 1.0]]))
    first, between, last = np.asarray(y).tolist()
    assert first == [-3.0, 1.0, *[0.0] * most] and last == [tabular.FAR, 1.0, *[1.0] * most]
    assert between == pytest.approx([tabular.FAR, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0])


def test_a_column_with_values_as_close_as_can_be_stays_finite() -> None:
    X = np.array([[0.0], [np.nextafter(np.float32(0), np.float32(1))], [1.0]] * 40, dtype=np.float32)
    layer = tabular.Quantiles(*tabular.intervals(X), **{**PLACE, "dtype": agrad.float32})
    assert np.isfinite(np.asarray(layer(X))).all()


def stack(members: int = 3, dropout: float = 0.0) -> tabular.Stack:
    return tabular.Stack(members, (4, 6, 6, 2), nn.Tanh, dropout, random.Generator(1), **PLACE)


def alone(whole: tabular.Stack, member: int) -> tabular.Stack:
    """Return one member as a network."""
    state = whole.state_dict()
    one = stack(1)
    one.load_state_dict({name: x if name.startswith("norms") else x[member : member + 1] for name, x in state.items()})
    return one


@pytest.mark.parametrize("rows", [1, 2, 6, 7])
def test_a_member_computes_a_part_of_a_batch_and_all_their_mean(rows: int) -> None:
    whole, x = stack(), np.random.default_rng(0).normal(size=(rows, 4))
    each = np.stack([alone(whole, member)(x).detach().numpy() for member in range(3)])
    part = -(-rows // 3)
    own = np.arange(rows) // part
    assert whole(x).detach().numpy() == pytest.approx(each[own, np.arange(rows)])
    whole.eval()
    assert whole(x).detach().numpy() == pytest.approx(each.mean(axis=0))


def test_evaluation_uses_the_mean_of_the_weights_of_all_steps() -> None:
    model = tabular.Averaged(stack())
    assert len(model.parameters()) == len(stack().parameters())
    optimizer, seen = optim.SGD(model.parameters(), lr=0.1), []
    x = np.random.default_rng(0).normal(size=(9, 4))
    for _ in range(4):
        seen.append({name: value.copy() for name, value in model.module.state_dict().items()})
        agrad.sum(model(x) ** 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    for name, value in model.average.state_dict().items():
        assert value == pytest.approx(np.mean([values[name] for values in seen], axis=0))
    assert np.abs(seen[0]["weights.0"] - seen[-1]["weights.0"]).max() > 1e-3
    model.eval()
    mean = stack()
    mean.load_state_dict(model.average.state_dict())
    assert model(x).detach().numpy() == pytest.approx(mean.eval()(x).detach().numpy())


def test_the_average_forgets_the_first_steps() -> None:
    model = tabular.Averaged(nn.Linear(1, 1, bias=False, **PLACE), keep=0.5)
    for value in (0.0, 8.0, 4.0):  # means 0, then half each
        nn.init.constant_(model.module.weight, value)
        model(np.ones((1, 1)))
    assert model.average.weight.tolist() == [[4.0]]


def test_it_learns_a_step_traced_as_not(backend: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = ((np.abs(X[:, 0]) > 0.7) ^ (X[:, 1] > 0)).astype(np.int64)
    losses = []
    for jit in (False, None):
        place = {"dtype": agrad.float32, "backend": backend, "device": None}
        model = tabular.network(3, (16, 16), 2, tabular.intervals(X), 3, nn.ReLU, 0.1, random.Generator(3), **place)
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        trainer = Trainer(model, agrad.cross_entropy, optimizer, metrics=["accuracy"], jit=jit, seed=0)
        history = trainer.fit(X, y, epochs=3, batch_size=50, validation=(X, y), progress=False)
        losses.append([record["validation_loss"] for record in history])
    assert losses[0] == pytest.approx(losses[1], rel=2e-2, abs=2e-3)
    assert losses[0][-1] < losses[0][0]
