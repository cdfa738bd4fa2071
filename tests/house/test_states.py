"""Every class with a state: loaded it goes on to the same bits, and a state of another object is refused."""

import inspect
from functools import partial

import numpy as np
import pytest

import agrad
from agrad import data, nn, optim, train
from agrad.errors import AgradError, ConfigurationError
from agrad.optim import lr_scheduler, swa_utils

BASES = (optim.Optimizer, lr_scheduler.LRScheduler, nn.Module, train.Callback)
KINDS = sorted(
    {
        kind
        for package in (nn, optim, lr_scheduler, swa_utils, data, train)
        for kind in map(vars(package).get, package.__all__)
        if inspect.isclass(kind) and hasattr(kind, "load_state_dict") and kind not in BASES
    },
    key=lambda kind: kind.__name__,
)
OPTIMIZERS = [kind for kind in KINDS if issubclass(kind, optim.Optimizer)]
SCHEDULERS = [kind for kind in KINDS if issubclass(kind, lr_scheduler.LRScheduler)]
CALLBACKS = [k for k in KINDS if issubclass(k, train.Callback) and k.state_dict is not train.Callback.state_dict]
MODULES = [k for k in KINDS if issubclass(k, nn.Module) and k.host_state is not nn.Module.host_state]
REST = [k for k in KINDS if not issubclass(k, BASES)]


def tensors(*shapes, dtype="float64"):
    return [agrad.asarray(np.linspace(0.5, 1.5, 7, dtype=dtype)[: sum(s)], requires_grad=True) for s in shapes]


class Steps:
    """An optimizer that takes steps down a paraboloid."""

    def __init__(self, kind, *shapes, dtype="float64", **options):
        self.tensors = tensors(*(shapes or [(2,), (3,)]), dtype=dtype)
        few = {"max_iter": 2} if "max_iter" in inspect.signature(kind).parameters else {}
        self.thing = kind(self.tensors, **{**few, **options})

    def advance(self):
        def closure():
            self.thing.zero_grad()
            loss = sum(agrad.sum((k + 1) * x * x) for k, x in enumerate(self.tensors))
            loss.backward()
            return loss

        self.thing.step(closure)

    def follow(self, other):
        """Take over what the state does not have."""
        for mine, its in zip(self.tensors, other.tensors, strict=True):
            mine.assign(its.detach().raw.copy())

    def seen(self):
        return [x.detach().numpy().tolist() for x in self.tensors]


class Rates:
    """A scheduler, and its optimizer."""

    def __init__(self, kind, groups=1, **options):
        self.rates = optim.SGD([{"params": [x]} for x in tensors(*[(2,)] * groups)], lr=0.4, momentum=0.9)
        given = {name: value for name, value in SCHEDULING.items() if name in inspect.signature(kind).parameters}
        given = {name: value(self.rates) if name == "schedulers" else value for name, value in given.items()}
        self.thing = kind(**{"optimizer": self.rates, **given, **options})

    def advance(self):
        self.rates.step()
        self.thing.step(*[1.0] * len(inspect.signature(self.thing.step).parameters))

    def follow(self, other):
        self.rates.load_state_dict(other.rates.state_dict())

    def seen(self):
        return [
            self.thing.get_last_lr(),
            [[group[name] for name in self.rates.defaults] for group in self.rates.param_groups],
        ]


SCHEDULING = {
    "step_size": 2, "milestones": [2], "T_max": 5, "T_0": 3, "max_lr": 0.8, "base_lr": 0.1, "total_steps": 20,
    "gamma": 0.5, "swa_lr": 0.05, "lr_lambda": lambda n: 0.5**n, "patience": 1,
    "schedulers": lambda o: [lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.StepLR(o, 2, 0.5)],
}  # fmt: skip
"""A value for each argument of a scheduler that has no default; a new name stands here."""


class Batches:
    """A loader, and the batches that it gives."""

    def __init__(self, kind=data.DataLoader, dataset=None, **options):
        self.thing = kind(np.arange(10.0) if dataset is None else dataset, **{"batch_size": 3, **options})
        self.batches, self.last = iter(()), 0.0

    def advance(self):
        while (batch := next(self.batches, None)) is None:
            self.batches = iter(self.thing)
        self.last = batch

    def follow(self, other):
        self.batches, self.last = iter(()), other.last

    def seen(self):
        return np.asarray(self.last).tolist()


class Scaled(Steps):
    """A loss scale, and its optimizer."""

    def __init__(self, kind=optim.LossScale, **options):
        super().__init__(optim.SGD, lr=0.1)
        self.optimizer, self.thing = self.thing, kind(self.thing, **{"growth_interval": 2, **options})

    def advance(self):
        self.optimizer.zero_grad()
        self.thing(sum(agrad.sum(x * x) for x in self.tensors)).backward()
        self.thing.step()


class Called:
    """A module that is called in training."""

    def __init__(self, kind, n=4, **options):
        required = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
        nn.manual_seed(n)
        self.module = kind(*[n] * len(required), **options)
        self.thing = nn.Sequential(nn.Linear(n, n), self.module)
        digits = (int(x) for x in kind.__name__ if x.isdigit())
        self.shape = (2, n, *[2] * next(digits, 0))

    def advance(self):
        self.module(np.arange(float(np.prod(self.shape)), dtype="float32").reshape(self.shape))

    def follow(self, other):
        pass

    def seen(self):
        return []


class Watching:
    """A callback that monitors the loss, or steps a scheduler."""

    def __init__(self, kind):
        self.model, self.epoch, self.rates = nn.Linear(2, 1), 0, Rates(lr_scheduler.StepLR)
        given = {"scheduler": self.rates.thing, "path": "x", "save_best_only": True}
        self.thing = kind(**{name: x for name, x in given.items() if name in inspect.signature(kind).parameters})

    def advance(self):
        self.epoch += 1
        self.thing.on_epoch_end(self, {"epoch": self.epoch, "loss": 1.0 / self.epoch})

    def follow(self, other):
        self.epoch = other.epoch
        self.model.load_state_dict(other.model.state_dict())
        self.rates.follow(other.rates)

    def seen(self):
        return self.rates.seen()

    def save(self, path):
        """Do nothing, where a trainer would write."""


def changed(kind, make, skip=()):
    """Objects made with another value of each option, if that makes sense."""
    found = []
    for name, parameter in inspect.signature(kind).parameters.items():
        value = SCHEDULING.get(name, parameter.default)
        if name in skip or value is parameter.empty:
            continue
        if isinstance(value, bool):
            value = not value
        elif isinstance(value, (int, float)):
            value = value + 1 if isinstance(value, int) else value * 0.5 or 0.1
        elif isinstance(value, tuple):
            value = tuple(x * 0.5 for x in value)
        elif value == [2]:
            value = [3]
        else:
            continue
        try:
            make(**{name: value})
        except (ConfigurationError, TypeError):
            continue
        found.append(partial(make, **{name: value}))
    return found


def family(kind):
    """What makes an object of a class, and what makes others whose states it may not take for its own."""
    if kind in OPTIMIZERS:
        make = partial(Steps, kind, lr=0.1)
        shapes = [[(2,)], [(2,), (3,), (1,)], [(2,), (4,)], [(3,), (2,)]]
        others = [partial(Steps, kind, *s, lr=0.1) for s in shapes]
        others += [partial(Steps, other, lr=0.1) for other in OPTIMIZERS if other is not kind]
        others.append(partial(Steps, kind, lr=0.1, dtype="float32"))
        return make, others + changed(kind, partial(Steps, kind))
    if kind in SCHEDULERS:
        others = [partial(Rates, other) for other in SCHEDULERS if other is not kind]
        more = [] if "schedulers" in inspect.signature(kind).parameters else [partial(Rates, kind, groups=2)]
        return partial(Rates, kind), others + more + changed(kind, partial(Rates, kind), skip=("last_epoch",))
    if kind in MODULES:
        return partial(Called, kind), [partial(Called, kind, 3), partial(Called, nn.Linear)]
    if kind in CALLBACKS:
        return partial(Watching, kind), [partial(Watching, k) for k in CALLBACKS if k is not kind]
    if kind is optim.LossScale:
        return Scaled, changed(kind, Scaled)
    assert kind is data.DataLoader, f"{kind.__name__} has a state: say here how it is made"
    options = [{"batch_size": 4}, {"shuffle": True}, {"seed": 1}, {"drop_last": True}, {"dataset": np.arange(11.0)}]
    options += [{"batch_size": None}, {"dataset": np.arange(4.0)}, {"sampler": data.SubsetRandomSampler(range(10))}]
    return Batches, [partial(Batches, **given) for given in options]


def bits(thing):
    return {name: (x.dtype.name, x.shape, x.tobytes()) for name, x in thing.state_dict().items()}


def goes_on(first, second):
    """True if two objects have the same bits now and after two steps."""
    for _ in range(3):
        if bits(first.thing) != bits(second.thing) or first.seen() != second.seen():
            return False
        first.advance()
        second.advance()
    return True


@pytest.mark.parametrize("kind", [*OPTIMIZERS, *SCHEDULERS, *CALLBACKS, *MODULES, *REST])
def test_a_state_goes_on_to_the_same_bits_or_is_refused(kind):
    make, others = family(kind)
    for point in (0, 1, 4):
        first = make()
        for _ in range(point):
            first.advance()
        state = first.thing.state_dict()
        loaded = make()
        loaded.advance()
        loaded.follow(first)
        loaded.thing.load_state_dict(state)
        assert goes_on(first, loaded), point
        if point == 4:
            continue
        for made in others:
            first, other = make(), made()
            for _ in range(point):
                first.advance()
            before = bits(other.thing)
            try:
                other.thing.load_state_dict(first.thing.state_dict())
            except AgradError:
                assert bits(other.thing) == before
                continue
            other.follow(first)
            assert goes_on(first, other), (point, made)


@pytest.mark.parametrize("kind", [*OPTIMIZERS, *SCHEDULERS, *REST])
def test_a_state_of_an_older_version_is_loaded(kind):
    make, _ = family(kind)
    first, second = make(), make()
    for _ in range(3):
        first.advance()
    older = {"steps", "lr", "iterations", "evaluations", "t", "loss", "scale", "direction", "gradient", "changes"}
    older |= {"moves", "reciprocals", "good_steps", "epoch", "batch", "batches", "seed", "last_epoch", "base_lrs"}
    older |= {"last_lr", "best", "num_bad_epochs", "cooldown_counter", "up"}
    state = {n: x for n, x in first.thing.state_dict().items() if n in older or (n[0].isdigit() and "shape" not in n)}
    second.follow(first)
    second.thing.load_state_dict({n: x for n, x in state.items() if n.split(".")[-1] not in ("class", "name")})
    assert goes_on(first, second)
