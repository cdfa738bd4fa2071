"""``agrad evaluate`` and ``agrad predict``: a saved model applied to examples."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

import numpy as np

import agrad
from agrad.cli import models, sources
from agrad.cli.config import is_table
from agrad.cli.models import Saved
from agrad.cli.outputs import as_csv, as_parquet, check_output
from agrad.cli.scores import details, summary
from agrad.cli.selection import chosen
from agrad.cli.sources import Dataset, Description, Examples
from agrad.cli.tasks import measure, predict, units
from agrad.cli.terminal import complain, say, write
from agrad.data.files import write_whole
from agrad.errors import AgradError, ConfigurationError, DataError, listed


def run_evaluate(args: argparse.Namespace) -> int:
    """Run ``agrad evaluate`` with parsed options; return the exit code."""
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        model = saved.model(place)
        examples = _labelled(saved, args)
        assert examples.y is not None
        scores = measure(model, examples.X, examples.y, place, saved.description)
        where = f"{place.backend.name} ({place.device_name})"
    if not args.quiet:
        say(f"{args.model} on {examples.what}: {examples.y.shape[0]:,} examples, on {where}")
        for line in details(scores, examples.y, saved.description):
            say(line)
    say(summary(scores))
    return 0


def run_predict(args: argparse.Namespace) -> int:
    """Run ``agrad predict`` with parsed options; return the exit code."""
    form = as_csv
    if args.output is not None:
        if args.data not in sources.NAMED and os.path.realpath(args.output) == os.path.realpath(args.data):
            raise ConfigurationError(f"--output and --data must be different files, got {args.data!r} for both")
        if args.output.lower().endswith(".parquet"):
            form = as_parquet
            form((), "")  # before the work
        check_output("--output", args.output)
    with chosen(args.backend, args.device) as place:
        saved = models.load(args.model)
        if args.proba and saved.description.task == "regression":
            raise ConfigurationError(
                f"--proba requires a classifier, but {args.model!r} is a regression model. Omit the option."
            )
        model, data_dir = saved.model(place), _data_dir(saved, args)
        examples = sources.to_predict(args.data, saved.description, data_dir, complain, saved.config, args.id)
        output = predict(model, examples.X, place).astype(np.float64)
    columns, numbers = _answers(output, saved.description, args.proba)
    columns = [("example", np.arange(output.shape[0])), *([examples.ids] if examples.ids else []), *columns]
    names = [name for name, _ in columns]
    if len({*names}) < len(names) and (examples.ids or form is as_parquet):
        raise ConfigurationError(
            f"--output: the columns must have different names, got {listed(names)}. Rename the column of ids, or write "
            "text without --id."
        )
    content = form(columns, numbers)
    if args.output is None:
        write(content.decode(), sys.stdout)
    else:
        write_whole(args.output, content)
        say(f"{output.shape[0]:,} predictions written to {args.output}")
    return 0


def _answers(output: np.ndarray, description: Description, proba: bool) -> tuple[list[tuple[str, np.ndarray]], str]:
    """Return the columns of the predictions, and the format of their numbers."""
    if description.task == "regression":
        return [*zip(description.target_names, units(output, description).T, strict=True)], ".9g"
    names = description.class_names
    shares = np.asarray(agrad.softmax(output, axis=1))
    classes = np.array(names, dtype=object)[np.argmax(output, axis=1)]
    numbers = [*zip(names, shares.T, strict=True)] if proba else [("probability", np.max(shares, axis=1))]
    return [("class", classes), *numbers], ".6f"


def _labelled(saved: Saved, args: argparse.Namespace) -> Examples:
    """Return the examples to measure on: of the training data only the test part."""
    label = args.label if args.label is not None else saved.config.label
    data_dir = _data_dir(saved, args)
    if args.data is None:
        if args.label is not None:
            raise ConfigurationError("--label requires --data FILE.csv, got no --data")
        source, data_dir = sources.located(saved.config.data, data_dir, saved.folder)
        encoder = saved.description.encoder
        dataset = sources.load(source, saved.config, data_dir=data_dir, report=complain, encoder=encoder)
        if changed := saved.changed(dataset):
            raise DataError(
                f"{source!r} is no longer the data that {saved.path!r} was trained on: {changed}. Pass the data to "
                "evaluate with --data."
            )
        return _test_part(dataset)
    if not is_table(args.data):
        label = args.label
    description = saved.description
    sources.check_source(args.data, data_dir, label, needs_label=not description.labels)
    asked = sources.targets_of(args.data, description, label)
    content = sources.read(args.data, description, data_dir, asked, saved.config.header, complain)
    try:
        config, encoder = replace(saved.config, label=label), description.encoder
        dataset = sources.load(args.data, config, data_dir=data_dir, report=str, encoder=encoder, content=content)
        same = not saved.changed(dataset)
    except AgradError:
        # a file that cannot be trained on (with one class only, say) can still be measured on
        same = False
    return _test_part(dataset) if same else sources.to_evaluate(args.data, content, description, label, complain)


def _data_dir(saved: Saved, args: argparse.Namespace) -> str | None:
    """Return ``--data-dir``, or the directory of training for the same data."""
    if args.data_dir is not None or saved.data_dir is None or args.data not in (None, saved.config.data):
        return args.data_dir
    return sources.located(saved.config.data, saved.data_dir, saved.folder)[1]


def _test_part(dataset: Dataset) -> Examples:
    """Return the test part of a data set as examples."""
    return Examples(dataset.X_test, dataset.y_test, f"the test part of {dataset.name}")
