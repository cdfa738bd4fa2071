"""The commands of the command line, with their options and help."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import fields
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


def _choice(setting: str, default: str) -> str:
    """Return the help of an option with a few permitted names."""
    return f"{', '.join(config.CHOICES[setting])} (default: {default})"


WHERE = {
    "--backend NAME": "numpy, cupy, torch, jax, ... (default: $AGRAD_BACKEND, else numpy)",
    "--device NAME": "cpu, cuda, cuda:1, ... (default: $AGRAD_DEVICE)",
}
TRAIN: dict[str, dict[str, str]] = {
    "data": {
        "--data NAME|FILE": "digits, mnist, FILE.npz (arrays X and y), or a table with --label: FILE.csv, FILE.tsv "
        "(text in columns, whose separator and encoding are found; .gz, .bz2, .xz and .zip are unpacked), FILE.parquet "
        "(default: digits)",
        "--data-dir DIR": "where MNIST's files are (default: downloaded to a cache)",
        "--label COLUMN,COLUMN": "the column of a table to learn, or several of numbers. Missing values, words and "
        "dates in the others are taken care of",
        "--task NAME": f"{_choice('task', 'auto')}. auto: regression for several columns, for fractions, and for more "
        "than 20 different numbers of which one has fewer than 5 rows",
        "--header": "the first line of a text table has the names of columns; --no-header names them c0, c1, ... "
        "(default: an error if the first line looks like data)",
        "--categorical COLUMN,COLUMN": "columns of numbers, such as codes, to take as words",
        "--keep COLUMN,COLUMN": "columns to keep that look like ids, which are left out",
        "--drop COLUMN,COLUMN": "columns to leave out, such as one that gives the label",
        "--id COLUMN": "the column that names the rows: it is not learned from, and 'agrad predict' writes it",
        "--validation PART": "hold out this part of the training examples, report on it each epoch, stop when its loss "
        "falls no more, and keep the best epoch's values (default: 0; of tables with 40 training rows or more, 0.15)",
    },
    "network": {
        "--model NAME": "table: an ensemble of residual perceptrons of numbers by quantiles; mlp: a multilayer "
        "perceptron; conv, for images: one behind two convolutions with pooling (default: table for tables, else mlp)",
        "--members N": "the networks of --model table, whose mean counts (default: 8 below 1,000 training rows, then "
        "4, 2 from 10,000 on, 1 from 50,000 on)",
        "--hidden N,N": "widths of the hidden layers, or none",
        "--activation NAME": _choice("activation", "relu"),
        "--dropout P": "zero hidden values with this probability",
        "--dtype NAME": _choice("dtype", "float32"),
        "--precision NAME": "how products of float32 matrices are computed: float32; tf32 (refused where it does "
        "nothing); bfloat16 or float16, with sums in float32 (float16 with loss scaling). Parameters stay float32 "
        "(default: float32)",
    },
    "training": {
        "--epochs N": "how often each example is seen",
        "--batch-size N": "examples a step",
        "--optimizer NAME": _choice("optimizer", "adam, for tables adamw; sgd has momentum 0.9"),
        "--lr RATE": "learning rate (sgd: 0.05 by default)",
        "--weight-decay RATE": "pull of parameters to 0 (default: 0; adamw: 0.01)",
        "--schedule NAME": "what becomes of the learning rate: constant; cosine (falls to 0 over all epochs); step "
        "(divided by 10 after each third); exponential (falls to a hundredth); warmup (rises over the first twentieth, "
        "then as cosine)",
        "--patience N": "stop after N epochs without a lower validation loss; 0 for never (default: 20; of tables a "
        "quarter of the epochs)",
        "--class-weight NAME": "none; balanced: examples of rare classes count more, so that all classes count the "
        "same (default: none)",
        "--seed N": "decides initial values, order and dropout, on every backend (default: 0)",
    },
    "where to compute": {
        **WHERE,
        "--jit": "trace the training step once and replay it as a program (default: where that is faster)",
        "--threads N": "threads of NumPy's products: auto tries numbers for a few steps and holds the fastest. "
        "Rounding may depend on it: for the same bits twice, name a number (default: auto)",
    },
    "output": {
        "--save FILE": "keep the model here, after each epoch and on Ctrl-C (no output overwrites a file of another "
        "kind)",
        "--resume FILE": "go on with a saved run, to the same result; saves to the same file unless --save names "
        "another. Of the options of data, network and training, only --epochs, --data and --patience may change",
        "--log FILE.jsonl": "write one JSON record an epoch, and a last one",
        "--plot FILE.png": "draw the curves (.png, .svg or .pdf)",
        "--report FILE.html": "write a page with settings, curves, confusions or residuals, calibration, errors by "
        "category, and the importance of columns",
        "--quiet": "print the result only",
    },
}
"""The options of ``agrad train`` by group: the name with the word for its value, and the help."""


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
    _add(info, {"--check": "import every installed backend, and list its devices or the reason why it cannot run here"})
    _add(info.add_argument_group("where to compute"), WHERE)
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
    for title, rows in TRAIN.items():
        _add(train.add_argument_group(title), rows)


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
    _examples(evaluate, required=False, needed="X and y").add_argument(
        "--label",
        metavar="COLUMN,COLUMN",
        help="the columns of a table to compare with (default: as in training)",
    )
    _add(evaluate.add_argument_group("where to compute"), WHERE)
    _add(evaluate, {"--quiet": "print the last line only"})


def _predict(commands: Any) -> None:
    """Add ``agrad predict``."""
    predict = commands.add_parser(
        "predict",
        help="predict classes or numbers with a saved model",
        description="Write the prediction of a saved model for each example: its number, and its\n"
        "class and probability, or the predicted numbers.",
    )
    _examples(predict, required=True, needed="X")
    _add(
        predict,
        {
            "--proba": "write the probability of each class",
            "--id COLUMN": "a column of the table to write with the predictions (default: as in training)",
            "--output FILE.csv": "where to write: text, or FILE.parquet (default: the standard output)",
        },
    )
    _add(predict.add_argument_group("where to compute"), WHERE)


def _examples(command: argparse.ArgumentParser, required: bool, needed: str) -> Any:
    """Add a saved model and the options of the examples for it, and return their group."""
    command.add_argument("model", metavar="MODEL", help="a file that 'agrad train --save' wrote")
    group = command.add_argument_group("data")
    group.add_argument(
        "--data",
        metavar="NAME|FILE",
        required=required,
        help=f"FILE.npz (arrays {needed}), a table (FILE.csv, FILE.tsv, FILE.parquet, with the columns of the training "
        "data), or the test part of digits or mnist",
    )
    _add(group, {"--data-dir DIR": "where MNIST's files are (default: as in training)"})
    return group


def _add(group: Any, rows: Mapping[str, str]) -> None:
    """Add options with their help. One without a word for its value is a switch."""
    for option, about in rows.items():
        name, _, value = option.partition(" ")
        how = KINDS.get(name, {} if value else {"action": "store_true"})
        group.add_argument(name, help=about, **({"metavar": value} if value else {}), **how)


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


READERS: dict[str, dict[str, Any]] = {
    "int": {"type": _integer},
    "float": {"type": _number},
    "tuple[int, ...]": {"type": _widths},
    "tuple[str, ...]": {"type": _columns},
    "bool": {"action": argparse.BooleanOptionalAction},
}
KINDS: dict[str, dict[str, Any]] = {
    **{
        config.option(field.name): READERS[kind]
        for field in fields(config.Config)
        if (kind := str(field.type).removesuffix(" | None")) != "str"
    },
    "--jit": READERS["bool"],
    "--threads": {"type": _threads, "default": "auto"},
}
"""How the values of options are read that are not text: those of `Config` by the type of the field."""


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
