"""``agrad evaluate`` and ``agrad predict``: a saved model applied to examples."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys

import numpy as np

import agrad
from agrad.cli import models, sources
from agrad.cli.models import Saved
from agrad.cli.outputs import PREDICTIONS, check_output
from agrad.cli.scores import Scores, measure, predict
from agrad.cli.selection import chosen
from agrad.cli.sources import Examples
from agrad.cli.terminal import complain, say, write
from agrad.data.classification import ClassificationData
from agrad.data.files import write_whole
from agrad.errors import AgradError, ConfigurationError, DataError


def run_evaluate(args: argparse.Namespace) -> int:
    """Run ``agrad evaluate`` with parsed options; return the exit code."""
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        examples = _labelled(saved, args)
        assert examples.y is not None
        scores = measure(saved.model(place), examples.X, examples.y, place)
        where = f"{place.backend.name} ({place.device_name})"
    if not args.quiet:
        say(f"{args.model} on {examples.what}: {examples.y.shape[0]:,} examples, on {where}")
        for line in _by_class(scores, examples.y, saved.description.class_names):
            say(line)
    say(f"accuracy {scores.accuracy:.2%}, loss {scores.loss:.4f}")
    return 0


def run_predict(args: argparse.Namespace) -> int:
    """Run ``agrad predict`` with parsed options; return the exit code."""
    if args.output is not None:
        if args.data not in sources.NAMED and os.path.realpath(args.output) == os.path.realpath(args.data):
            raise ConfigurationError(f"--output and --data name the same file, {args.data!r}; give them two")
        check_output("--output", args.output)
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        examples = sources.to_predict(args.data, saved.description, _data_dir(saved, args))
        logits = predict(saved.model(place), examples.X, place).astype(np.float64)
    shares = agrad.softmax(logits, axis=1)
    told = np.argmax(logits, axis=1)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(PREDICTIONS)
    for number, (row, share) in enumerate(zip(told.tolist(), np.max(shares, axis=1).tolist(), strict=True)):
        rows.writerow((number, saved.description.class_names[row], f"{share:.6f}"))
    if args.output is None:
        write(text.getvalue(), sys.stdout)
    else:
        write_whole(args.output, text.getvalue().encode())
        say(f"{told.shape[0]:,} predictions written to {args.output}")
    return 0


def _labelled(saved: Saved, args: argparse.Namespace) -> Examples:
    """Return the examples to measure on: of the training data only the test part."""
    label = args.label if args.label is not None else saved.config.label
    data_dir = _data_dir(saved, args)
    if args.data is None:
        if args.label is not None:
            raise ConfigurationError("--label goes with --data FILE.csv, and there is no --data")
        source, data_dir = sources.located(saved.config.data, data_dir, saved.folder)
        dataset = sources.load(source, data_dir=data_dir, label=label, dtype=saved.config.dtype, report=complain)
        if changed := saved.changed(dataset):
            raise DataError(
                f"{source!r} is not the data any more that {saved.path!r} was trained on: {changed}; "
                "say with --data what to measure it on"
            )
        return _test_part(dataset)
    if not args.data.lower().endswith(".csv"):
        label = args.label
    try:
        dataset = sources.load(args.data, data_dir=data_dir, label=label, dtype=saved.config.dtype, report=complain)
        same = not saved.changed(dataset)
    except AgradError:
        # a file that cannot be trained on (with one class only, say) can still be measured on
        same = False
    if same:
        return _test_part(dataset)
    return sources.to_evaluate(args.data, saved.description, data_dir, label)


def _data_dir(saved: Saved, args: argparse.Namespace) -> str | None:
    """Return ``--data-dir``, or that of training for the same data."""
    if args.data_dir is not None or saved.data_dir is None or args.data not in (None, saved.config.data):
        return args.data_dir
    return sources.located(saved.config.data, saved.data_dir, saved.folder)[1]


def _test_part(dataset: ClassificationData) -> Examples:
    """Return the test part of a data set as examples."""
    return Examples(dataset.X_test, dataset.y_test, f"the test part of {dataset.name}")


def _by_class(scores: Scores, y: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Return lines of text: the accuracy of each class, and its most common error."""
    width = max(5, *(len(name) for name in names))
    lines = [f"{'class':<{width}}  examples  accuracy  most often taken for"]
    for number, name in enumerate(names):
        told = scores.told[y == number]
        if not told.size:
            lines.append(f"{name:<{width}}  {0:>8}")
            continue
        wrong = np.bincount(told[told != number], minlength=len(names))
        most = f"{names[int(np.argmax(wrong))]} ({int(np.max(wrong))})" if wrong.any() else ""
        lines.append(f"{name:<{width}}  {told.size:>8,}  {np.mean(told == number):>8.2%}  {most}".rstrip())
    return lines
