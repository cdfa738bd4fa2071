"""The command line as a user meets it: its output, its files, its exit codes, and what it says of bad input."""

import os
import re
import sys

import pytest
from cli_files import mnist, records
from processes import run_program
from refusals import fails

import agrad
from agrad.backends.base import device_name
from agrad.cli import main
from agrad.cli import train as trains
from agrad.cli.observers import on_terminal
from agrad.cli.selection import chosen
from agrad.nn import checkpoint
from agrad.train.display import Bar, Lines

pytest_plugins = ["cli_fixtures"]

FAST = ("--hidden", "6", "--batch-size", "8", "--epochs", "2")


# -- train --


def test_train_with_no_argument_learns_the_digits(ran, tmp_path):
    out, err = ran("train", "--log", tmp_path / "log.jsonl")
    first, *epochs, last = records(tmp_path / "log.jsonl")
    assert (first["event"], first["data"], first["backend"]) == ("start", "digits", agrad.get_backend())
    assert [record["epoch"] for record in epochs] == list(range(1, 61))
    assert last["event"] == "end" and last["test_accuracy"] >= 0.97
    assert f"test accuracy {last['test_accuracy']:.2%}" in out.splitlines()[-1] and err == ""


def test_the_log_holds_a_start_an_epoch_each_and_an_end(ran, folder, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "start"}\n{"event": "an earlier run"}\n')
    words = ("--data", folder / "blobs.npz", *FAST, "--validation", "0.2", "--log", log)
    ran("train", *words, "--backend", "array_api_strict", "--device", "device1")
    first, one, two, last = records(log)
    assert (first["event"], first["hidden"], first["seed"], first["train_examples"]) == ("start", [6], 0, 57)
    assert (first["validation_examples"], first["test_examples"]) == (15, 18)
    for number, record in enumerate((one, two), 1):
        assert (record["event"], record["epoch"], record["step"], record["lr"]) == ("epoch", number, 8 * number, 0.001)
        assert 0 < record["loss"] < 10 and max(record["accuracy"], record["validation_accuracy"]) <= 1
    assert (last["event"], last["backend"], last["device"]) == ("end", "array_api_strict", "device1")
    assert 0 <= last["test_accuracy"] <= 1
    assert min(record[name] for record in (one, two, last) for name in ("seconds", "samples_per_second")) > 0


def test_lines_are_plain_where_the_output_is_no_terminal(ran, folder):
    out, err = ran("train", "--data", folder / "blobs.npz", *FAST)
    lines = out.splitlines()
    starts = ("blobs.npz: 72 training and 18 test examples, 3 classes", "3-6-3 relu, 45 parameters, float32, on ")
    for line, start in zip(lines, (*starts, "epoch 1/2  loss "), strict=False):
        assert line.startswith(start)
    assert lines[0].endswith("(5, 6, 7)")
    assert lines[4].strip() == "predicted as" and lines[5].split()[-3:] == ["5", "6", "7"]
    assert [line.split()[:2] for line in lines[6:9]] == [[name, "6"] for name in "567"]
    assert lines[9].startswith("test accuracy ") and len(lines) == 10
    assert "\x1b" not in out and err == ""
    quiet, _ = ran("train", "--data", folder / "blobs.npz", *FAST, "--quiet")
    assert quiet.startswith("test accuracy ") and quiet.count("\n") == 1


@pytest.mark.needs("rich")
def test_a_terminal_gets_a_bar_where_rich_is_installed(ran, folder, monkeypatch):
    words = ("train", "--data", folder / "blobs.npz", *FAST)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert isinstance(on_terminal(False), Bar)
    out, _ = ran(*words)
    assert "epoch 2/2  loss " in out and "samples/s" in out
    monkeypatch.setenv("COLUMNS", "40")
    out, _ = ran(*words, "--validation", "0.2")
    lines = re.sub("\x1b.*?[a-zA-Z]", "", out).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 40
    # without the numbers of training, for which there is no room
    assert [line.split()[2:4] for line in lines if line.startswith("epoch 2/2  ")] == [["validation", "loss"]]
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"] + ["rich.console"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert isinstance(on_terminal(False), Lines)
    ran(*words)


def test_mnist_files_are_read(ran, refused, tmp_path):
    mnist(tmp_path)
    words = ("train", "--data", "mnist", "--data-dir", tmp_path, "--epochs", "1")
    assert "20-256-128-10 relu" in ran(*words)[0]
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    refused(1, "t10k-labels-idx1-ubyte", *words)


# -- what is refused before the training starts --


BAD_OPTIONS = [
    ("--backend nympy", 2, "'nympy'...'numpy', 'cupy'"),
    ("--device cuda:7", 2, "'cuda:7'...devices"),
    ("--backend array_api_strict --device cuda", 2, "array_api_strict...'cuda'...device1"),
    ("--hidden 12,x", 2, "--hidden...12,x"),
    ("--lr nan", 2, "--lr"),
    ("--activation swish", 2, "--activation...relu...swish"),
    ("--data imagenet", 2, "--data...FILE.csv...imagenet"),
    ("--data none.npz", 1, "none.npz...cannot be read"),
    ("--data none.csv", 2, "none.csv...--label"),
    ("--data none.csv --label x", 1, "none.csv...cannot be read"),
    ("--label x", 2, "--label...--data digits"),
    ("--data-dir .", 2, "--data-dir...mnist"),
    ("--data mnist --data-dir none", 1, "none...no such directory"),
    ("--resume none.st", 1, "none.st...cannot be read"),
    ("--save none/model.st", 1, "none/model.st...does not exist"),
    ("--save .", 1, "it is a directory"),
    ("--log none/log.jsonl", 1, "none/log.jsonl...does not exist"),
    ("--plot none/plot.png", 1, "none/plot.png...does not exist"),
    ("--plot plot.gif", 2, ".png...plot.gif"),
    ("--precision half", 2, "one of float32, tf32, bfloat16, float16"),
    ("--precision float16 --dtype float64", 2, "--dtype float64"),
    ("--precision float16 --no-jit", 2, "Omit --no-jit"),
    ("--precision bfloat16 --backend numpy", 2, "must be 'float16' for NumPy arrays, got 'bfloat16'"),
    *((f"--precision tf32 --backend {name}", 2, f"--precision tf32 is not supported by {name}")
      for name in ("numpy", "array_api_strict")),
    ("--save one.st --log one.st", 2, "--save...--log...must be different files"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "text"), BAD_OPTIONS)
def test_bad_options_are_refused_before_any_work(refused, tmp_path, monkeypatch, words, code, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trains.Run, "go", lambda self: pytest.fail("the training started"))
    if words.startswith(("--save", "--log", "--plot")):
        monkeypatch.setattr(trains.sources, "load", lambda *a, **k: pytest.fail("the data were loaded"))
    refused(code, text, "train", *words.split())
    assert list(tmp_path.iterdir()) == []


def test_a_backend_in_the_environment_that_cannot_run_is_an_error(run, ran, refused, monkeypatch):
    monkeypatch.setenv("AGRAD_BACKEND", "nympy")
    monkeypatch.setattr("agrad.backends._process", [])
    refused(2, "AGRAD_BACKEND=nympy", "train")
    assert "AGRAD_BACKEND=nympy" in ran("info")[0].splitlines()[-1]
    code, out, err = run("info", "--backend", "nympy")
    assert (code, "numpy" in out) == (2, True)
    assert "agrad info: error: Backend 'nympy' is unknown" in err


def test_the_environment_gives_the_device_of_its_backend(ran, monkeypatch):
    monkeypatch.setenv("AGRAD_BACKEND", "array_api_strict")
    monkeypatch.setenv("AGRAD_DEVICE", "device1")
    monkeypatch.setattr("agrad.backends._process", [])
    for words, text in (
        ((), "on device1 (by AGRAD_BACKEND)"),
        (("--backend", "array_api_strict"), "on device1 (by --backend)"),
        (("--backend", "numpy"), "selected: numpy on cpu (by --backend)"),
    ):
        assert text in ran("info", *words)[0].splitlines()[-1]


def test_without_optional_packages_only_what_needs_them_is_refused(ran, refused, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "safetensors", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"] + ["matplotlib.figure"]:
        monkeypatch.setitem(sys.modules, name, None)
    words = ("train", "--data", folder / "blobs.npz", *FAST)
    ran(*words, "--log", tmp_path / "log.jsonl")
    for extra, command in (
        ("train", (*words, "--save", tmp_path / "x.png")),
        ("plot", (*words, "--plot", tmp_path / "x.png")),
        ("train", ("evaluate", tmp_path / "x.st")),
    ):
        refused(2, f"pip install 'agrad[{extra}]'", *command)
    assert not (tmp_path / "x.png").exists()


def test_a_diverging_run_says_so_with_code_1(refused, folder, tmp_path):
    log = tmp_path / "log.jsonl"
    words = ("--data", folder / "blobs.npz", *FAST, "--lr", "1e30", "--optimizer", "sgd", "--log", log)
    assert "Warning" not in refused(1, "the loss is nan at step ", "train", *words, "--quiet")
    assert records(log)[-1]["event"] == "diverged"


def test_errors_before_training(run, refused, monkeypatch):
    def failing(*args, **options):
        raise error

    monkeypatch.setattr(trains.sources, "load", failing)
    error = KeyboardInterrupt()
    assert run("train") == (130, "", "agrad train: error: interrupted\n")
    error = MemoryError("Unable to allocate 3 GiB")
    refused(1, "out of memory: Unable to allocate 3 GiB. Use fewer rows", "train")
    error = ZeroDivisionError("a bug")
    fails(ZeroDivisionError, "a bug", main, ["train"])


# -- the rest --


def test_info_lists_every_backend_and_the_selected_one(ran):
    out, err = ran("info", "--check")
    reports = agrad.available_backends()
    lines = out.splitlines()
    assert lines[0].startswith(f"agrad {agrad.__version__}, Python ") and err == ""
    for line, report in zip(lines[1 : 1 + len(reports)], reports.values(), strict=True):
        assert line.startswith(report.name)
        assert (report.version in line) if report.available else (report.reason in line)
    assert lines[-1].startswith(f"selected: {agrad.get_backend()} on ")


def test_info_imports_no_library_that_it_lists(monkeypatch):
    code = (
        "import sys; from agrad.cli import main; main(['info']);"
        "print(sorted({'torch', 'jax', 'dask', 'cupy', 'array_api_strict', 'agrad.train'} & sys.modules.keys()))"
    )
    for name in [name for name in os.environ if name.startswith("AGRAD_")]:
        monkeypatch.delenv(name)
    *lines, selected, imported = run_program(code).splitlines()
    assert (selected, imported) == ("selected: numpy on cpu (by the default)", "[]")
    rows = {line.split()[0]: line for line in lines[1:]}
    # tests of this process may have used libraries that the new process does not know
    for name, report in agrad.available_backends().items():
        if name in rows and report.available and name != "numpy":
            assert report.version in rows[name] and "agrad info --check" in rows[name]
    assert list(rows)[:6] == ["numpy", "cupy", "torch", "jax", "dask", "array_api_strict"]


def test_devices_are_listed_as_the_option_takes_them():
    for name, report in agrad.available_backends().items():
        for device in report.devices:
            with chosen(name, device_name(device)) as place:
                assert str(place.backend.device(place.device)) == device
    assert device_name("<CUDA Device 3>") == "cuda:3"


@pytest.mark.needs("rich")
def test_info_is_a_table_on_a_terminal(ran, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    out, _ = ran("info")
    assert "│ numpy" in out
    assert ("pip install" in out) == any(not report.available for report in agrad.available_backends().values())


def test_version_help_and_no_command(run):
    assert run("--version") == (0, f"agrad {agrad.__version__}\n", "")
    for words in ((), *((name,) for name in ("train", "evaluate", "predict", "info"))):
        code, out, err = run(*words, "--help")
        assert (code, err, out[:12]) == (0, "", "usage: agrad")
    code, out, err = run()
    assert (code, out, "train a network" in err) == (2, "", True)


def test_help_gives_the_defaults_of_each_data_set(ran):
    out, _ = ran("train", "--help")
    assert "--epochs, --data and --patience may change" in " ".join(out.split())
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "digits mnist tables FILE.npz" in lines
    defaults = ("--epochs 60 8 by rows 20", "--hidden 128,64 256,128 by rows 256,128", "--batch-size 32 128 by rows 64")
    assert {*defaults} <= {*lines}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --epohs 3", "agrad train: error: unknown argument '--epohs'. Did you mean --epochs?"),
        ("train --epohs=3", "agrad train: error: unknown argument '--epohs=3'. Did you mean --epochs?"),
        ("info --divice cpu", "agrad info: error: unknown argument '--divice'. Did you mean --device?"),
        ("train --epochs 1.5", "agrad train: error: argument --epochs: must be an integer, got '1.5'. Run "),
        ("train --members x", "agrad train: error: argument --members: must be an integer, got 'x'. Run "),
        ("train --lr fast", "agrad train: error: argument --lr: must be a number, got 'fast'. Run "),
        (f"train {__file__}", f"agrad train: error: unknown argument {__file__!r}. Did you mean --data {__file__}?"),
        ("train more", "agrad train: error: unknown argument 'more'. Run 'agrad train --help' for the options."),
        ("trian", "agrad: error: argument COMMAND: invalid choice: 'trian'"),
    ],
)
def test_wrong_options_are_one_line(run, words, message):
    code, out, err = run(*words.split())
    assert (code, out, err.count("\n"), err[: len(message)]) == (2, "", 1, message)
