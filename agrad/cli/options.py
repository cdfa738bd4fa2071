"""The commands of the command line, with their options and help."""

from __future__ import annotations

import argparse
from typing import Any

import agrad
from agrad.cli import config

EPILOG = """examples:
  agrad train                                       the digits inside the package, on NumPy, in seconds
  agrad train --save digits.safetensors             keep the model; Ctrl-C saves too, and then
  agrad train --resume digits.safetensors           goes on where it stopped, to the same result
  agrad train --data mnist --data-dir DIR           MNIST's four IDX files, gzipped or not
  agrad train --data flowers.csv --label species    a table of your own; numbers are learned as quantities
  agrad train --data homes.csv --label price --report homes.html
  AGRAD_BACKEND=cupy agrad train --data mnist       wholly on an NVIDIA GPU

settings that depend on the data, where no option is given:
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    ``command`` of its result is None if none was given.
    """
    top = argparse.ArgumentParser(
        prog="agrad",
        description="Automatic differentiation for the array API standard: train and use a network, on any backend.",
        epilog="'agrad COMMAND --help' describes a command.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"agrad {agrad.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _train(commands)
    _evaluate(commands)
    _predict(commands)
    info = commands.add_parser(
        "info",
        help="list the backends with their devices, or why they cannot run",
        description="List every backend with its version and devices, or the reason why it cannot run here, "
        "and say which one is selected and why.",
        allow_abbrev=False,
    )
    _where(info)
    return top


def _command(commands: Any, name: str, **texts: str) -> argparse.ArgumentParser:
    """Add a command whose texts keep their lines."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **texts
    )
    return command


def _train(commands: Any) -> None:
    """Add ``agrad train``."""
    train = _command(
        commands,
        "train",
        help="train a network",
        description="Train a network to tell classes apart or to predict quantities, from tables or images; by\n"
        "default, handwritten digits.",
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
        "whose separator is found), FILE.parquet (default: digits)",
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
        "--categorical",
        type=_columns,
        metavar="COLUMN,COLUMN",
        help="columns of numbers, such as codes, to take as words",
    )
    data.add_argument(
        "--keep", type=_columns, metavar="COLUMN,COLUMN", help="columns to keep that look like ids, which are left out"
    )
    data.add_argument(
        "--validation",
        type=float,
        metavar="PART",
        help="hold out this part of the training examples, report on it each epoch, stop when its loss falls no more, "
        f"and keep the best epoch's values (default: 0; of tables with {config.ENOUGH['regression']} "
        f"training rows or more, {config.HELD_OUT:g})",
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
    network.add_argument("--dropout", type=float, metavar="P", help="zero hidden values with this probability")
    network.add_argument("--dtype", metavar="NAME", help=_choice("dtype", "float32"))
    network.add_argument(
        "--precision",
        metavar="NAME",
        help="how products of float32 matrices are computed: float32; tf32 (refused where it does nothing); bfloat16 "
        "or float16, with sums in float32 (float16 with loss scaling). Parameters stay float32 (default: float32)",
    )


def _training(training: Any) -> None:
    """Add the options of the training."""
    training.add_argument("--epochs", type=int, metavar="N", help="how often each example is seen")
    training.add_argument("--batch-size", type=int, metavar="N", help="examples a step")
    training.add_argument(
        "--optimizer", metavar="NAME", help=_choice("optimizer", "adam, for tables adamw; sgd has momentum 0.9")
    )
    training.add_argument("--lr", type=float, metavar="RATE", help="learning rate (sgd: 0.05 by default)")
    training.add_argument(
        "--weight-decay", type=float, metavar="RATE", help="pull of parameters to 0 (default: 0; adamw: 0.01)"
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
        type=int,
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
        type=int,
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
        help="go on with a saved run, to the same result; saves to the same file unless --save names "
        "another. Of the settings, only --epochs may change",
    )
    output.add_argument("--log", metavar="FILE.jsonl", help="write one JSON record an epoch, and a last one")
    output.add_argument("--plot", metavar="FILE.png", help="draw the curves (.png, .svg or .pdf)")
    output.add_argument(
        "--report",
        metavar="FILE.html",
        help="write a page with settings, curves, confusions or residuals, and the importance of columns",
    )
    output.add_argument("--quiet", action="store_true", help="print the result only")


def _evaluate(commands: Any) -> None:
    """Add ``agrad evaluate``."""
    evaluate = _command(
        commands,
        "evaluate",
        help="measure a saved model",
        description="Print a saved model's scores, in all and for each class or target.",
        epilog="Without --data, or with the data it was trained on, the model is measured on their test "
        "part, which it has not seen.\n"
        "Any other file is used whole, or its X_test and y_test where it has them.",
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
    predict = _command(
        commands,
        "predict",
        help="let a saved model name classes or quantities",
        description="Write a saved model's answer for each example: its number, and class and probability, or the "
        "quantities.",
    )
    _model(predict)
    _examples(predict, required=True, needed="X")
    predict.add_argument("--proba", action="store_true", help="write the probability of each class")
    predict.add_argument("--output", metavar="FILE.csv", help="where to write (default: the standard output)")
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


def _widths(text: str) -> tuple[int, ...]:
    """Return the widths in a text such as 256,128."""
    if text.strip().lower() in ("", "none"):
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected widths such as 256,128, or none, found {text!r}") from None


def _columns(text: str) -> tuple[str, ...]:
    """Return the names in a text such as zip,code."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _threads(text: str) -> str | int:
    """Return ``auto`` or a number of threads."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected auto, or an integer of at least 1, found {text!r}")
    return int(text)


def _choice(setting: str, default: str) -> str:
    """Return the help of an option with a few permitted names."""
    return f"{', '.join(config.CHOICES[setting])} (default: {default})"


def _table() -> str:
    """Return the table of defaults for each data set."""
    names = ("hidden", "epochs", "batch_size", "lr", "dropout", "schedule")
    columns = {data: {**config.COMMON, **own} for data, own in (*config.DEFAULTS.items(), ("FILE.npz", {}))}
    lines = ["  " + " " * 14 + "".join(f"{data:>10}" for data in columns)]
    for name in names:
        row = "".join(f"{config.shown(settings[name]):>10}" for settings in columns.values())
        lines.append(f"  {config.option(name):<14}{row}")
    return "\n".join(lines)
