"""The commands of the command line, with their options and help."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

import agrad
from agrad.cli import config
from agrad.errors import brief

EPILOG = """examples:
  agrad train                        the digits inside the package, in seconds
  agrad train --save digits.st       save the model; so does Ctrl-C, and then
  agrad train --resume digits.st     resumes, to the same result
  agrad train --data mnist           MNIST, downloaded to a cache
  agrad train --data flowers.csv --label species
  agrad train --data homes.csv --label price --id number --report homes.html
  AGRAD_BACKEND=cupy agrad train --data mnist        on an NVIDIA GPU

settings that depend on the data, where no option is given:
"""


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line that suggest the nearest option."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def error(self, message: str, fix: str = "") -> NoReturn:
        """Print an error and how to fix it, and exit."""
        fix = fix or f"Run '{self.prog} --help' for the options."
        text = f"{self.prog}: error: {brief(message)}. {fix}"
        if sys.stderr.isatty():
            wide = shutil.get_terminal_size().columns
            text = textwrap.fill(text, wide, subsequent_indent="  ", break_on_hyphens=False)
        self.exit(2, text + "\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Return the values of all arguments; unknown ones are an error."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            near = difflib.get_close_matches(rest[0].partition("=")[0], self._option_string_actions, 1)
            near = (
                [f"--data {rest[0]}"] if "--data" in self._option_string_actions and os.path.isfile(rest[0]) else near
            )
            self.error(f"unknown argument {rest[0]!r}", *(f"Did you mean {name}?" for name in near))
        return found, rest


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    ``command`` of its result is None if none was given.
    """
    top = Parser(
        prog="agrad",
        description="Automatic differentiation for the array API standard:\ntrain and use a network on any backend.",
        epilog="'agrad COMMAND --help' describes a command.",
    )
    top.add_argument("--version", action="version", version=f"agrad {agrad.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _train(commands)
    _evaluate(commands)
    _predict(commands)
    info = commands.add_parser(
        "info",
        help="list the installed backends, and the selected one",
        description="List every backend with its version, and say which one is selected and why.",
    )
    info.add_argument(
        "--check",
        action="store_true",
        help="import every installed backend, and list its devices or the reason why it cannot run here",
    )
    _where(info)
    return top


def _train(commands: Any) -> None:
    """Add ``agrad train``."""
    train = commands.add_parser(
        "train",
        help="train a network",
        description="Train a network to predict classes or numbers from tables or images;\n"
        "by default, handwritten digits.",
        epilog=EPILOG + _table(),
    )
    _training_data(train.add_argument_group("data"))
    _network(train.add_argument_group("network"))
    _training(train.add_argument_group("training"))
    where = _where(train)
    where.add_argument(
        "--jit",
        action=argparse.BooleanOptionalAction,
        help="trace the training step once and replay it as a program (default: where that is faster)",
    )
    where.add_argument(
        "--threads",
        type=_threads,
        default="auto",
        metavar="N",
        help="threads of NumPy's products: auto tries numbers for a few steps and holds the fastest. Rounding may "
        "depend on it: for the same bits twice, name a number (default: auto)",
    )
    _output(train.add_argument_group("output"))


def _training_data(data: Any) -> None:
    """Add the options of the data."""
    data.add_argument(
        "--data",
        metavar="NAME|FILE",
        help="digits, mnist, FILE.npz (arrays X and y), or a table with --label: FILE.csv, FILE.tsv (text in columns, "
        "whose separator and encoding are found; .gz, .bz2, .xz and .zip are unpacked), FILE.parquet (default: digits)",
    )
    data.add_argument("--data-dir", metavar="DIR", help="where MNIST's files are (default: downloaded to a cache)")
    data.add_argument(
        "--label",
        metavar="COLUMN,COLUMN",
        help="the column of a table to learn, or several of numbers. Missing values, words and dates in the others are "
        "taken care of",
    )
    data.add_argument(
        "--task",
        metavar="NAME",
        help=_choice("task", "auto")
        + ". auto: regression for several columns, for fractions, and for more than 20 different numbers of which one "
        "has fewer than 5 rows",
    )
    data.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="the first line of a text table has the names of columns; --no-header names them c0, c1, ... (default: an "
        "error if the first line looks like data)",
    )
    data.add_argument(
        "--categorical",
        type=_columns,
        metavar="COLUMN,COLUMN",
        help="columns of numbers, such as codes, to take as words",
    )
    data.add_argument(
        "--keep", type=_columns, metavar="COLUMN,COLUMN", help="columns to keep that look like ids, which are left out"
    )
    data.add_argument(
        "--drop", type=_columns, metavar="COLUMN,COLUMN", help="columns to leave out, such as one that gives the label"
    )
    data.add_argument(
        "--id",
        metavar="COLUMN",
        help="the column that names the rows: it is not learned from, and 'agrad predict' writes it",
    )
    data.add_argument(
        "--validation",
        type=_number,
        metavar="PART",
        help="hold out this part of the training examples, report on it each epoch, stop when its loss falls no more, "
        "and keep the best epoch's values (default: 0; of tables with 40 training rows or more, 0.15)",
    )


def _network(network: Any) -> None:
    """Add the options of the network."""
    network.add_argument(
        "--model",
        metavar="NAME",
        help="table: an ensemble of residual perceptrons of numbers by quantiles; mlp: a multilayer perceptron; conv, "
        "for images: one behind two convolutions with pooling (default: table for tables, else mlp)",
    )
    network.add_argument(
        "--members",
        type=int,
        metavar="N",
        help="the networks of --model table, whose mean counts (default: 8 below 1,000 training rows, then 4, 2 from "
        "10,000 on, 1 from 50,000 on)",
    )
    network.add_argument(
        "--hidden",
        type=_widths,
        metavar="N,N",
        help="widths of the hidden layers, or none",
    )
    network.add_argument("--activation", metavar="NAME", help=_choice("activation", "relu"))
    network.add_argument("--dropout", type=_number, metavar="P", help="zero hidden values with this probability")
    network.add_argument("--dtype", metavar="NAME", help=_choice("dtype", "float32"))
    network.add_argument(
        "--precision",
        metavar="NAME",
        help="how products of float32 matrices are computed: float32; tf32 (refused where it does nothing); bfloat16 "
        "or float16, with sums in float32 (float16 with loss scaling). Parameters stay float32 (default: float32)",
    )


def _training(training: Any) -> None:
    """Add the options of the training."""
    training.add_argument("--epochs", type=_integer, metavar="N", help="how often each example is seen")
    training.add_argument("--batch-size", type=_integer, metavar="N", help="examples a step")
    training.add_argument(
        "--optimizer", metavar="NAME", help=_choice("optimizer", "adam, for tables adamw; sgd has momentum 0.9")
    )
    training.add_argument("--lr", type=_number, metavar="RATE", help="learning rate (sgd: 0.05 by default)")
    training.add_argument(
        "--weight-decay", type=_number, metavar="RATE", help="pull of parameters to 0 (default: 0; adamw: 0.01)"
    )
    training.add_argument(
        "--schedule",
        metavar="NAME",
        help="what becomes of the learning rate: constant; cosine (falls to 0 over all epochs); step "
        "(divided by 10 after each third); exponential (falls to a hundredth); warmup (rises over the "
        "first twentieth, then as cosine)",
    )
    training.add_argument(
        "--patience",
        type=_integer,
        metavar="N",
        help="stop after N epochs without a lower validation loss; 0 for never (default: 20; of tables a quarter of "
        "the epochs)",
    )
    training.add_argument(
        "--class-weight",
        metavar="NAME",
        help="none; balanced: examples of rare classes count more, so that all classes count the same (default: none)",
    )
    training.add_argument(
        "--seed",
        type=_integer,
        metavar="N",
        help="decides initial values, order and dropout, on every backend (default: 0)",
    )


def _output(output: Any) -> None:
    """Add the options of the output."""
    output.add_argument(
        "--save",
        metavar="FILE",
        help="keep the model here, after each epoch and on Ctrl-C (no output overwrites a file of another kind)",
    )
    output.add_argument(
        "--resume",
        metavar="FILE",
        help="go on with a saved run, to the same result; saves to the same file unless --save names another. Of the "
        f"options of data, network and training, only {_and(config.MOVABLE)} may change",
    )
    output.add_argument("--log", metavar="FILE.jsonl", help="write one JSON record an epoch, and a last one")
    output.add_argument("--plot", metavar="FILE.png", help="draw the curves (.png, .svg or .pdf)")
    output.add_argument(
        "--report",
        metavar="FILE.html",
        help="write a page with settings, curves, confusions or residuals, calibration, errors by category, and the "
        "importance of columns",
    )
    output.add_argument("--quiet", action="store_true", help="print the result only")


def _evaluate(commands: Any) -> None:
    """Add ``agrad evaluate``."""
    evaluate = commands.add_parser(
        "evaluate",
        help="measure a saved model",
        description="Print a saved model's scores, in all and for each class or target.",
        epilog="Without --data, or with the data it was trained on, the model is measured on\n"
        "their test part, which it has not seen. Any other file is used whole, or its\n"
        "X_test and y_test if it has them.",
    )
    _model(evaluate)
    _examples(evaluate, required=False, needed="X and y")
    evaluate.add_argument_group("data").add_argument(
        "--label",
        metavar="COLUMN,COLUMN",
        help="the columns of a table to compare with (default: as in training)",
    )
    _where(evaluate)
    evaluate.add_argument("--quiet", action="store_true", help="print the last line only")


def _predict(commands: Any) -> None:
    """Add ``agrad predict``."""
    predict = commands.add_parser(
        "predict",
        help="predict classes or numbers with a saved model",
        description="Write the prediction of a saved model for each example: its number, and its\n"
        "class and probability, or the predicted numbers.",
    )
    _model(predict)
    _examples(predict, required=True, needed="X")
    predict.add_argument("--proba", action="store_true", help="write the probability of each class")
    predict.add_argument(
        "--id", metavar="COLUMN", help="a column of the table to write with the predictions (default: as in training)"
    )
    predict.add_argument(
        "--output", metavar="FILE.csv", help="where to write: text, or FILE.parquet (default: the standard output)"
    )
    _where(predict)


def _model(command: argparse.ArgumentParser) -> None:
    """Add the argument of a saved model."""
    command.add_argument("model", metavar="MODEL", help="a file that 'agrad train --save' wrote")


def _examples(command: argparse.ArgumentParser, required: bool, needed: str) -> None:
    """Add the options of the examples for a saved model."""
    group = command.add_argument_group("data")
    group.add_argument(
        "--data",
        metavar="NAME|FILE",
        required=required,
        help=f"FILE.npz (arrays {needed}), a table (FILE.csv, FILE.tsv, FILE.parquet, with the columns of the training "
        "data), or the test part of digits or mnist",
    )
    group.add_argument("--data-dir", metavar="DIR", help="where MNIST's files are (default: as in training)")


def _where(command: argparse.ArgumentParser) -> Any:
    """Add the options of backend and device, and return their group."""
    group = command.add_argument_group("where to compute")
    group.add_argument(
        "--backend", metavar="NAME", help="numpy, cupy, torch, jax, ... (default: $AGRAD_BACKEND, else numpy)"
    )
    group.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: $AGRAD_DEVICE)")
    return group


def _integer(text: str) -> int:
    """Return an integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {text!r}") from None


def _number(text: str) -> float:
    """Return a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _widths(text: str) -> tuple[int, ...]:
    """Return the widths in a text such as 256,128."""
    if text.strip().lower() in ("", "none"):
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be widths such as 256,128, or none, got {text!r}") from None


def _columns(text: str) -> tuple[str, ...]:
    """Return the names in a text such as zip,code."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _threads(text: str) -> str | int:
    """Return ``auto`` or a number of threads."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be auto, or an integer of at least 1, got {text!r}")
    return int(text)


def _choice(setting: str, default: str) -> str:
    """Return the help of an option with a few permitted names."""
    return f"{', '.join(config.CHOICES[setting])} (default: {default})"


def _and(names: Sequence[str]) -> str:
    """Return options as a list in words."""
    *first, last = map(config.option, names)
    return f"{', '.join(first)} and {last}"


def _table() -> str:
    """Return the table of defaults for each data set."""
    names = ("hidden", "epochs", "batch_size", "lr", "dropout", "schedule")
    common = {name: getattr(config.Config, name) for name in names}
    columns = {data: {**common, **own} for data, own in (*config.DEFAULTS.items(), ("FILE.npz", {}))}
    lines = ["  " + " " * 14 + "".join(f"{data:>10}" for data in columns)]
    for name in names:
        row = "".join(f"{config.shown(settings[name]):>10}" for settings in columns.values())
        lines.append(f"  {config.option(name):<14}{row}")
    return "\n".join(lines)
