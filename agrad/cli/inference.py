"""``agrad evaluate`` and ``agrad predict``: a saved model applied to examples."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence

import numpy as np

import agrad
from agrad.cli import models, sources
from agrad.cli.config import is_table
from agrad.cli.models import Saved
from agrad.cli.outputs import check_output
from agrad.cli.scores import details, summary
from agrad.cli.selection import chosen
from agrad.cli.sources import Dataset, Description, Examples
from agrad.cli.tasks import measure, predict, units
from agrad.cli.terminal import complain, say, write
from agrad.data.files import write_whole
from agrad.errors import AgradError, ConfigurationError, DataError


def run_evaluate(args: argparse.Namespace) -> int:
    """Run ``agrad evaluate`` with parsed options; return the exit code."""
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        examples = _labelled(saved, args)
        assert examples.y is not None
        scores = measure(saved.model(place), examples.X, examples.y, place, saved.description)
        where = f"{place.backend.name} ({place.device_name})"
    if not args.quiet:
        say(f"{args.model} on {examples.what}: {examples.y.shape[0]:,} examples, on {where}")
        for line in details(scores, examples.y, saved.description):
            say(line)
    say(summary(scores))
    return 0


def run_predict(args: argparse.Namespace) -> int:
    """Run ``agrad predict`` with parsed options; return the exit code."""
    if args.output is not None:
        if args.data not in sources.NAMED and os.path.realpath(args.output) == os.path.realpath(args.data):
            raise ConfigurationError(f"--output and --data must be different files, got {args.data!r} for both")
        check_output("--output", args.output)
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        if args.proba and saved.description.task == "regression":
            raise ConfigurationError(
                f"--proba requires a classifier, but {args.model!r} is a regression model. Omit the option."
            )
        examples = sources.to_predict(args.data, saved.description, _data_dir(saved, args), complain)
        output = predict(saved.model(place), examples.X, place).astype(np.float64)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_answers(output, saved.description, args.proba))
    if args.output is None:
        write(text.getvalue(), sys.stdout)
    else:
        write_whole(args.output, text.getvalue().encode())
        say(f"{output.shape[0]:,} predictions written to {args.output}")
    return 0


def _answers(output: np.ndarray, description: Description, proba: bool) -> Iterator[Sequence[object]]:
    """Return the rows of the predictions, of which the first has the names."""
    if description.task == "regression":
        yield ("example", *description.target_names)
        for number, row in enumerate(units(output, description).tolist()):
            yield (number, *(f"{value:.9g}" for value in row))
        return
    names = description.class_names
    shares = np.asarray(agrad.softmax(output, axis=1))
    yield ("example", "class", *(names if proba else ("probability",)))
    for number, (told, row) in enumerate(zip(np.argmax(output, axis=1).tolist(), shares.tolist(), strict=True)):
        yield (number, names[told], *(f"{share:.6f}" for share in (row if proba else [row[told]])))


def _labelled(saved: Saved, args: argparse.Namespace) -> Examples:
    """Return the examples to measure on: of the training data only the test part."""
    label = args.label if args.label is not None else saved.config.label
    data_dir = _data_dir(saved, args)
    if args.data is None:
        if args.label is not None:
            raise ConfigurationError("--label requires --data FILE.csv, got no --data")
        source, data_dir = sources.located(saved.config.data, data_dir, saved.folder)
        encoder = saved.description.encoder
        dataset = sources.load(source, saved.config, data_dir=data_dir, label=label, report=complain, encoder=encoder)
        if changed := saved.changed(dataset):
            raise DataError(
                f"{source!r} is no longer the data that {saved.path!r} was trained on: {changed}. Pass the data to "
                "evaluate with --data."
            )
        return _test_part(dataset)
    if not is_table(args.data):
        label = args.label
    try:
        dataset = sources.load(
            args.data,
            saved.config,
            data_dir=data_dir,
            label=label,
            report=lambda line: None,
            encoder=saved.description.encoder,
        )
        same = not saved.changed(dataset)
    except AgradError:
        # a file that cannot be trained on (with one class only, say) can still be measured on
        same = False
    if same:
        return _test_part(dataset)
    return sources.to_evaluate(args.data, saved.description, data_dir, label, complain)


def _data_dir(saved: Saved, args: argparse.Namespace) -> str | None:
    """Return ``--data-dir``, or the directory of training for the same data."""
    if args.data_dir is not None or saved.data_dir is None or args.data not in (None, saved.config.data):
        return args.data_dir
    return sources.located(saved.config.data, saved.data_dir, saved.folder)[1]


def _test_part(dataset: Dataset) -> Examples:
    """Return the test part of a data set as examples."""
    return Examples(dataset.X_test, dataset.y_test, f"the test part of {dataset.name}")
