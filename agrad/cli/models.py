"""A network in a file, with everything needed to use it and to resume training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad import nn, optim, random
from agrad.backends.base import DeviceSpec
from agrad.cli import config as configs
from agrad.cli import sources
from agrad.cli.config import Config, is_table
from agrad.cli.sources import Dataset, Description, check_settings, check_source
from agrad.data import TableEncoder
from agrad.data.classification import encodes
from agrad.errors import AgradError, ConfigurationError, DataError, listed
from agrad.nn import checkpoint
from agrad.train import progress as progresses
from agrad.train import tabular
from agrad.train.progress import Progress

if TYPE_CHECKING:
    from agrad.cli.train import Run

FORMAT = 2
NAMES = ("feature_names", "class_names", "target_names", "labels")
"""The lists of names in a `Description`, in its order."""
ACTIVATIONS: dict[str, Callable[[], Any]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}
CHANNELS = (16, 32)
"""The channels of the convolutions of ``--model conv``."""
SMALLEST = 4
"""The height and width of an image, of which two poolings leave one pixel."""
MOMENTUM = 0.9
OPTIMIZER = "optimizer."
LOSS_SCALE = "loss_scale."
DATA = "data."
MOMENTS = {"classification": ("mean", "scale"), "regression": ("mean", "scale", "target_mean", "target_scale")}
"""The arrays in a `Description` by task."""
EARLY, BEST = "early.", "early.values."
"""The beginnings of names of the state of early stopping, and of the network's values after the best epoch in it."""
BESIDE = (OPTIMIZER, LOSS_SCALE, DATA, EARLY)
"""The beginnings of names of tensors that are not the network's."""


def settled(config: Config, task: str, rows: int) -> Config:
    """Return options with all values set, for `rows` training examples."""
    found = tabular.by_rows(rows, config.members, config.batch_size, config.epochs)
    return replace(config, task=task, **{name: found[name] for name in configs.OPEN if getattr(config, name) is None})


def build(config: Config, shape: tuple[int, ...], outputs: int, place: DeviceSpec, intervals: Any = None) -> Any:
    """Return a new network of the options, with values drawn only from the seed.

    `shape` is the shape of an example, which the network receives flattened. `intervals` are those of
    `tabular.intervals`, for ``--model table``.
    """
    rng = random.Generator(config.seed)
    made = {
        "rng": rng,
        "dtype": getattr(agrad, config.dtype),
        "backend": place.backend.name,
        "device": place.device,
    }
    width, kind = first_width(config, shape), ACTIVATIONS[config.activation]
    if config.model == "table":
        return tabular.network(
            width, config.hidden, outputs, intervals, config.members, kind, config.dropout, made.pop("rng"), **made
        )
    layers = _convolutions(kind, shape, made) if config.model == "conv" else []
    for hidden in config.hidden:
        layers += [nn.Linear(width, hidden, **made), kind()]
        if config.dropout:
            layers.append(nn.Dropout(config.dropout, rng=rng))
        width = hidden
    layers.append(nn.Linear(width, outputs, **made))
    return nn.Sequential(*layers)


class Image(nn.Module):
    """Examples (n, d) as images (n, channels, height, width)."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape

    def forward(self, x: Any) -> Any:
        """Return x with the axes of images."""
        return agrad.reshape(x, (x.shape[0], *self.shape))


def _convolutions(kind: Callable[[], Any], shape: tuple[int, ...], made: dict[str, Any]) -> list[Any]:
    """Return the layers in front of the linear ones."""
    image = image_shape(shape)
    layers: list[Any] = [Image(image)]
    for channels, width in pairwise((image[0], *CHANNELS)):
        layers += [nn.Conv2d(channels, width, 3, padding=1, **made), kind(), nn.MaxPool2d(2)]
    return [*layers, nn.Flatten()]


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return channels, height and width, or raise ``ConfigurationError``."""
    found = (1, *shape) if len(shape) == 2 else shape
    if len(found) != 3 or min(found[1:]) < SMALLEST:
        raise ConfigurationError(
            "--model conv: examples must be images of shape (height, width) or (channels, height, width), of "
            f"{SMALLEST} by {SMALLEST} or more, got shape {shape}. Use --model mlp."
        )
    return found[0], found[1], found[2]


def first_width(config: Config, shape: tuple[int, ...], intervals: int = 0) -> int:
    """Return the number of inputs of the first linear layer, for examples of a shape."""
    if config.model == "conv":
        return CHANNELS[-1] * math.prod(n // 2 ** len(CHANNELS) for n in image_shape(shape)[1:])
    return math.prod(shape) + intervals


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
    """Return the optimizer of the options for the parameters of ``model``."""
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
    """The folder to which a relative path of the data belongs, or None."""
    tensors: dict[str, np.ndarray]

    def changed(self, dataset: Dataset) -> str:
        """Return the difference of ``dataset`` to the data trained on; "" for none."""
        return sources.changed(dataset, self.description, self.fingerprint)

    @property
    def best(self) -> dict[str, np.ndarray]:
        """The network's values after the best epoch; empty without validation."""
        return {name.removeprefix(BEST): value for name, value in self.tensors.items() if name.startswith(BEST)}

    def model(self, place: DeviceSpec, best: bool = True) -> Any:
        """Return the network with its best values, or its last. Raises ``DataError``."""
        values = {name: value for name, value in self.tensors.items() if not name.startswith(BESIDE)}
        intervals = [values.get(name) for name in tabular.INTERVALS]
        model = build(self.config, self.description.feature_shape, self.description.n_outputs, place, intervals)
        states = [state for state in (values, self.best) if state]
        for state in states if best else states[::-1]:  # all are checked, and the last one counts
            self._fill(model, state, "model")
        return model

    def fill(self, optimizer: Any, scale: Any, early: Any) -> None:
        """Load the saved state of the run into its parts. Raises ``DataError``."""
        for target, prefix, what in (
            (optimizer, OPTIMIZER, "optimizer's state"),
            (scale, LOSS_SCALE, "loss scale"),
            (early, EARLY, "state of early stopping"),
        ):
            if target is not None:
                state = {name.removeprefix(prefix): v for name, v in self.tensors.items() if name.startswith(prefix)}
                self._fill(target, state, what)

    def _fill(self, target: Any, values: dict[str, np.ndarray], what: str) -> None:
        try:
            target.load_state_dict(values)
        except (AgradError, KeyError) as error:
            raise DataError(f"{self.path!r} does not contain the {what} that its header describes: {error}") from error


def save(path: str, run: Run) -> None:
    """Write a run to a file, or nothing. Raises ``SaveError``."""
    description = run.description
    tensors = dict(run.model.state_dict())
    early = run.early if run.held.size else None
    for part, prefix in ((early, EARLY), (run.trainer.optimizer, OPTIMIZER), (run.trainer.scale, LOSS_SCALE)):
        if part is not None:
            tensors |= {prefix + name: value for name, value in part.state_dict().items()}
    tensors |= {DATA + name: getattr(description, name) for name in MOMENTS[description.task]}
    metadata = {
        "format": FORMAT,
        "agrad": agrad.__version__,
        "config": run.config.as_metadata(),
        "data": {
            **{name: list(getattr(description, name)) for name in ("feature_shape", *NAMES)},
            **({} if description.encoder is None else {"encoder": description.encoder.as_metadata()}),
            "data_dir": run.data_dir,
            "fingerprint": run.fingerprint,
            **({} if run.folder is None else {"folder": run.folder}),
        },
        "progress": run.progress.as_metadata(),
    }
    checkpoint.save(path, tensors, metadata)


def load(path: str) -> Saved:
    """Load a file of ``save``. Raises ``DataError`` for any other content."""
    tensors, metadata = checkpoint.load(path)
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{path!r}: expected a model that 'agrad train --save' wrote, of format {FORMAT}, found format "
            f"{str(metadata.get('format'))[:80]!r}"
        )
    config = configs.from_metadata(metadata.get("config"), path)
    if config.task == "auto" or any(getattr(config, name) is None for name in configs.OPEN):
        raise DataError(f"{path!r}: the options in the header do not contain the task or the validation")
    known = metadata.get("data")
    if not isinstance(known, dict):
        raise DataError(f"{path!r}: expected a description of the data in the header, found none")
    shape = known.get("feature_shape")
    if not isinstance(shape, list) or not shape or not all(type(n) is int and n > 0 for n in shape):
        raise DataError(f"{path!r}: expected the shape of an example in the header, found {str(shape)[:80]}")
    data_dir, fingerprint, folder = known.get("data_dir", 0), known.get("fingerprint"), known.get("folder")
    if not isinstance(fingerprint, str) or not all(isinstance(place, str | None) for place in (data_dir, folder)):
        raise DataError(f"{path!r}: expected the fingerprint and the path of the data in the header, found others")
    try:
        check_source(config.data, data_dir, config.label)
        check_settings(config)
    except ConfigurationError as error:
        raise DataError(f"{path!r}: the options in the header are not valid: {error}") from error
    description = _description(known, config, tuple(shape), tensors, path)
    _check_tensors(tensors, config, description, path)
    progress = progresses.from_metadata(metadata.get("progress"), path)
    return Saved(path, config, description, progress, data_dir, fingerprint, folder, tensors)


def _description(
    known: dict[str, Any], config: Config, shape: tuple[int, ...], tensors: dict[str, np.ndarray], path: str
) -> Description:
    """Return the description of the data in a header, or raise ``DataError``."""
    names = {name: _texts(known.get(name), name, path) for name in NAMES}
    features = math.prod(shape)
    classes, targets = len(names["class_names"]), len(names["target_names"])
    counts = (classes >= 2, targets == 0) if config.task == "classification" else (classes == 0, targets >= 1)
    if not all(counts) or len(names["feature_names"]) not in (0, features):
        raise DataError(f"{path!r}: the names of classes, targets or features in the header do not fit the model")
    sizes = zip(MOMENTS[config.task], (features, features, targets, targets), strict=False)
    moments = {name: _vector(tensors, DATA + name, size, path) for name, size in sizes}
    encoder = None
    if is_table(config.data):
        try:
            encoder = TableEncoder.from_metadata(known.get("encoder"), moments["mean"], moments["scale"])
        except DataError as error:
            raise DataError(f"{path!r}: {error}") from error
        if encoder.names != names["feature_names"] or not names["labels"]:
            raise DataError(f"{path!r}: the feature names in the header differ from the column names")
    return Description(config.task, shape, **names, **moments, dtype=config.dtype, encoder=encoder)


def _vector(tensors: dict[str, np.ndarray], name: str, size: int, path: str) -> np.ndarray:
    """Return finite numbers of a shape; scales must be above 0. Raises ``DataError``."""
    found = tensors.get(name)
    if found is None or found.shape != (size,) or found.dtype != np.float64:
        raise DataError(f"{path!r}: expected {name}, float64 of shape {(size,)}, found no such array")
    if name.endswith("scale") and not (found > 0).all():
        raise DataError(f"{path!r}: expected numbers above 0 in {name}, found others")
    return found


def _check_tensors(tensors: dict[str, np.ndarray], config: Config, description: Description, path: str) -> None:
    """Raise ``DataError`` unless linear layers fit the options, and numbers are finite.

    The network is created from the options before it is filled. So it cannot be larger than the file.
    """
    held = {name: value for name, value in tensors.items() if not name.startswith(BESIDE)}
    table = config.model == "table"
    try:
        intervals = tabular.check_intervals(held, description.n_features, path) if table else 0
        first = first_width(config, description.feature_shape, intervals)
    except ConfigurationError as error:
        raise DataError(f"{path!r}: the options in the header are not valid: {error}") from error
    widths = pairwise((first, *config.hidden, description.n_outputs))
    expected = sorted((config.members, *pair) if table else pair for pair in widths)
    found = sorted(
        value.shape
        for name, value in held.items()
        if (name.startswith(tabular.WEIGHTS) if table else name.endswith(".weight") and value.ndim == 2)
    )
    if found != expected:
        shapes = (listed([*map(str, shapes)]) for shapes in (expected, found))
        raise DataError("{!r}: expected linear layers with weights of shapes {}, found {}".format(path, *shapes))
    for name, value in tensors.items():
        if not np.isfinite(value).all():
            raise DataError(f"{path!r}: expected finite numbers, found others in {name}")


def _texts(value: Any, key: str, path: str) -> tuple[str, ...]:
    """Return distinct texts of the header as a tuple, or raise ``DataError``."""
    good = isinstance(value, list) and all(isinstance(text, str) for text in value) and len({*value}) == len(value)
    if not good or not encodes("".join(value)):
        raise DataError(f"{path!r}: expected a list of names under {key!r} in the header, found {str(value)[:80]}")
    return tuple(value)
