"""A network in a file, with everything needed to use it and to resume training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim, random
from agrad.cli import config as configs
from agrad.cli import sources
from agrad.cli.config import Config
from agrad.cli.selection import Place
from agrad.cli.sources import Description, check_source
from agrad.data import ClassificationData
from agrad.data.classification import encodes
from agrad.errors import AgradError, ConfigurationError, DataError
from agrad.nn import checkpoint
from agrad.train import progress as progresses
from agrad.train.progress import Progress

FORMAT = 1
ACTIVATIONS: dict[str, Callable[[], Any]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}
MOMENTUM = 0.9
OPTIMIZER = "optimizer."
LOSS_SCALE = "loss_scale."
MEAN, SCALE = "data.mean", "data.scale"
BESIDE = (OPTIMIZER, LOSS_SCALE, "data.")
"""The beginnings of names of tensors that are not the network's."""


def build(config: Config, features: int, classes: int, place: Place) -> Any:
    """Return a new network of the settings, with values drawn from the seed alone."""
    rng = random.Generator(config.seed)
    made = {
        "rng": rng,
        "dtype": getattr(agrad, config.dtype),
        "backend": place.backend.name,
        "device": place.device,
    }
    layers: list[Any] = []
    width = features
    # arrays() has the names and shapes of their tensors
    for hidden in config.hidden:
        layers += [nn.Linear(width, hidden, **made), ACTIVATIONS[config.activation]()]
        if config.dropout:
            layers.append(nn.Dropout(config.dropout, rng=rng))
        width = hidden
    layers.append(nn.Linear(width, classes, **made))
    return nn.Sequential(*layers)


def arrays(config: Config, features: int, classes: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the names, shapes and dtypes of a network of the settings, without it."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    layers = 3 if config.dropout else 2
    for number, shape in enumerate(pairwise((features, *config.hidden, classes))):
        found[f"{number * layers}.weight"] = shape, config.dtype
        found[f"{number * layers}.bias"] = shape[1:], config.dtype
        if config.dropout and number < len(config.hidden):
            found |= {f"{number * layers + 2}.{name}": ((), "int64") for name in ("seed", "calls")}
    return found


def schedule_for(config: Config, batches: int) -> Callable[[int], float]:
    """Return the learning rate as a function of the step, from 0."""
    steps = config.epochs * batches
    if config.schedule == "cosine":
        return optim.Cosine(config.lr, steps)
    if config.schedule == "step":
        return optim.Step(config.lr, -(-steps // 3))
    if config.schedule == "exponential":
        return optim.Exponential(config.lr, 0.01 ** (1 / steps))
    if config.schedule == "warmup":
        return optim.Warmup(optim.Cosine(config.lr, steps), max(steps // 20, 1))
    return optim.Constant(config.lr)


def optimizer_for(config: Config, model: Any, batches: int) -> Any:
    """Return the optimizer of the settings for the parameters of ``model``."""
    parameters, decay = model.parameters(), config.weight_decay
    rate = schedule_for(config, batches)
    if config.optimizer == "sgd":
        return optim.SGD(parameters, lr=rate, momentum=MOMENTUM, weight_decay=decay)
    kind = optim.Adam if config.optimizer == "adam" else optim.AdamW
    return kind(parameters, lr=rate, weight_decay=decay)


@dataclass(frozen=True)
class Saved:
    """The content of a model file."""

    path: str
    config: Config
    description: Description
    progress: Progress
    data_dir: str | None
    fingerprint: str
    folder: str | None
    """The folder to which a relative path of the data belongs, else None."""
    tensors: dict[str, np.ndarray]

    def changed(self, dataset: ClassificationData) -> str:
        """Return the difference of ``dataset`` to the data trained on; "" for none."""
        return sources.changed(dataset, self.description, self.fingerprint)

    def model(self, place: Place) -> Any:
        """Return the network on a backend with its saved values. Raises ``DataError``."""
        description = self.description
        model = build(self.config, description.n_features, len(description.class_names), place)
        values = {name: value for name, value in self.tensors.items() if not name.startswith(BESIDE)}
        self._fill(model, values, "model")
        return model

    def fill(self, optimizer: Any, scale: Any) -> None:
        """Load the saved state into an optimizer and a loss scale. Raises ``DataError``."""
        for target, prefix, what in ((optimizer, OPTIMIZER, "optimizer's state"), (scale, LOSS_SCALE, "loss scale")):
            if target is not None:
                state = {name.removeprefix(prefix): v for name, v in self.tensors.items() if name.startswith(prefix)}
                self._fill(target, state, what)

    def _fill(self, target: Any, values: dict[str, np.ndarray], what: str) -> None:
        try:
            target.load_state_dict(values)
        except AgradError as error:
            raise DataError(f"{self.path!r} does not hold the {what} that its header describes: {error}") from error


def save(
    path: str,
    model: Any,
    optimizer: Any,
    scale: Any,
    config: Config,
    description: Description,
    progress: Progress,
    data_dir: str | None,
    fingerprint: str,
    folder: str | None,
) -> None:
    """Write everything to the file ``path``, or nothing. Raises ``SaveError``."""
    tensors = dict(model.state_dict())
    tensors |= {OPTIMIZER + name: value for name, value in optimizer.state_dict().items()}
    if scale is not None:
        tensors |= {LOSS_SCALE + name: value for name, value in scale.state_dict().items()}
    tensors |= {MEAN: description.mean, SCALE: description.scale}
    metadata = {
        "format": FORMAT,
        "agrad": agrad.__version__,
        "config": config.as_metadata(),
        "data": {
            "feature_shape": list(description.feature_shape),
            "feature_names": list(description.feature_names),
            "class_names": list(description.class_names),
            "data_dir": data_dir,
            "fingerprint": fingerprint,
            **({} if folder is None else {"folder": folder}),
        },
        "progress": progress.as_metadata(),
    }
    checkpoint.save(path, tensors, metadata)


def load(path: str) -> Saved:
    """Load a file of ``save``. Raises ``DataError`` for any other content."""
    tensors, metadata = checkpoint.load(path)
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{path!r}: expected a model that 'agrad train --save' wrote, of format {FORMAT}; "
            f"found format {str(metadata.get('format'))[:80]!r}"
        )
    config = configs.from_metadata(metadata.get("config"), path)
    known = metadata.get("data")
    if not isinstance(known, dict):
        raise DataError(f"{path!r}: expected a description of the data in the header, found none")
    names = {key: _texts(known.get(key), key, path) for key in ("class_names", "feature_names")}
    shape = known.get("feature_shape")
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
        raise DataError(f"{path!r}: expected the shape of an example in the header, found {str(shape)[:80]}")
    data_dir, fingerprint, folder = known.get("data_dir", 0), known.get("fingerprint"), known.get("folder")
    if not isinstance(fingerprint, str) or not all(isinstance(place, str | None) for place in (data_dir, folder)):
        raise DataError(f"{path!r}: expected the fingerprint and the place of the data in the header, found others")
    try:
        check_source(config.data, data_dir, config.label)
    except ConfigurationError as error:
        raise DataError(f"{path!r}: the settings in the header make no sense: {error}") from error
    for name in (MEAN, SCALE):
        found = tensors.get(name)
        if found is None or found.shape != (math.prod(shape),) or found.dtype != np.float64:
            raise DataError(f"{path!r}: expected {name}, float64 of shape {(math.prod(shape),)}, found no such array")
    if len(names["class_names"]) < 2 or len(names["feature_names"]) not in (0, math.prod(shape)):
        raise DataError(f"{path!r}: the names of classes or features in the header do not fit the model")
    _check_tensors(tensors, config, len(names["class_names"]), path)
    description = Description(
        tuple(shape),
        names["feature_names"],
        names["class_names"],
        config.label,
        tensors[MEAN],
        tensors[SCALE],
        config.dtype,
    )
    progress = progresses.from_metadata(metadata.get("progress"), path)
    return Saved(path, config, description, progress, data_dir, fingerprint, folder, tensors)


def _check_tensors(tensors: dict[str, np.ndarray], config: Config, classes: int, path: str) -> None:
    """Raise ``DataError`` unless the tensors fit the network and are finite."""
    held = {name: value for name, value in tensors.items() if not name.startswith(BESIDE)}
    # counted first, because a header may name more layers than fit in memory
    found = sum(name.endswith(".weight") for name in held)
    if found != len(config.hidden) + 1:
        raise DataError(f"{path!r}: expected the weights of {len(config.hidden) + 1} layers, found {found}")
    checkpoint.check_tensors(path, held, arrays(config, tensors[MEAN].shape[0], classes))
    for name, value in tensors.items():
        if not np.isfinite(value).all():
            raise DataError(f"{path!r}: expected finite numbers, found others in {name}")
    if not (tensors[SCALE] > 0).all():
        raise DataError(f"{path!r}: expected numbers above 0 in {SCALE}, found others")


def _texts(value: Any, key: str, path: str) -> tuple[str, ...]:
    """Return distinct texts of the header as a tuple, or raise ``DataError``."""
    good = isinstance(value, list) and all(isinstance(text, str) for text in value) and len({*value}) == len(value)
    if not good or not encodes("".join(value)):
        raise DataError(f"{path!r}: expected a list of names under {key!r} in the header, found {str(value)[:80]}")
    return tuple(value)
