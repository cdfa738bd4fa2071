"""The report of a training run: one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agrad.cli import charts
from agrad.cli.charts import text
from agrad.cli.config import option, shown
from agrad.cli.importance import FEWEST, by_category, importances
from agrad.cli.outputs import REPORT
from agrad.cli.scores import RESIDUALS, SHOWN, residuals, summary
from agrad.cli.tasks import Scores, confusion, units
from agrad.data.encoder import REASONS
from agrad.data.files import write_whole
from agrad.train.streaming import by_class

if TYPE_CHECKING:
    from agrad.cli.train import Run

COLUMNS = 30
"""The number of columns and categories that are listed."""
NAMES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2", "mae": "mean absolute error", "mse": "mean squared error"}
POINTS = 2000
"""The number of points of a scatter plot, at most."""

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --soft: #5b6570; --rule: #d9dee3; --panel: #f6f8fa;
  --one: #1f6feb; --two: #c2570c; --cell: 31, 111, 235; }
@media (prefers-color-scheme: dark) { :root { --back: #12161b; --text: #e4e8ec; --soft: #9aa5b1; --rule: #333c46;
  --panel: #1a2027; --one: #6aa7ff; --two: #f0a05a; --cell: 106, 167, 255; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1020px; padding: 24px 20px 60px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 34px 0 10px; }
.sub, .legend, .hint { color: var(--soft); margin: 0 0 10px; }
.grid2 { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(420px, 100%), 1fr)); gap: 14px 24px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 0; }
.figures div { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 16px; }
.figures b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); }
.wide { overflow-x: auto; } .warn { border-left: 4px solid var(--two); margin: 12px 0 0; padding: 2px 12px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; } tbody th { font-weight: 500; }
td.number, th.number { text-align: right; white-space: nowrap; } td.cell { text-align: right; min-width: 44px; }
.bars { width: 100%; } .bars th { width: 1%; white-space: nowrap; }
.bars .track { width: 100%; vertical-align: middle; }
.fill { height: 12px; border-radius: 3px; background: var(--one); min-width: 1px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
svg .name { fill: var(--text); } svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); }
svg .mark { stroke: var(--soft); stroke-dasharray: 4 3; } svg polyline { fill: none; stroke-width: 2; }
.line0 { stroke: var(--one); } .line1 { stroke: var(--two); } .dot0 { fill: var(--one); } .dot1 { fill: var(--two); }
.point { fill: var(--one); fill-opacity: 0.55; } .bar { fill: var(--one); }
.legend span { margin-right: 18px; } .legend i { display: inline-block; width: 22px; height: 3px; margin-right: 6px;
  vertical-align: middle; } .key0 { background: var(--one); } .key1 { background: var(--two); }
"""


def write(path: str, run: Run) -> None:
    """Write the report of a finished run. Raises ``SaveError``."""
    dataset, scores, end = run.dataset, run.scores, run.end
    where = f"{run.place.backend.name} ({run.place.device_name})"
    sections = [
        f"<h1>{text(dataset.name)}: {dataset.task}</h1>",
        f'<p class="sub">test part of {dataset.y_test.shape[0]:,} examples: {text(summary(scores))}; trained on '
        f"{text(where)} in {end['seconds']:.1f} s</p>",
        "".join(f'<p class="warn">{text(line, 400)}</p>' for line in run.leaks),
        _figures(run, scores),
        _curves(run),
        _classes(run, scores) if dataset.task == "classification" else _residuals(run, scores),
        _calibration(run, scores),
        _categories(run, scores),
        _importance(run),
        _data(run),
        _settings(run),
    ]
    page = (
        REPORT.decode()
        + f'\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(dataset.name)}: {dataset.task}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body>\n</html>\n"
    )
    write_whole(path, page.encode())


def _figures(run: Run, scores: Scores) -> str:
    """Return the main numbers."""
    found = [
        (NAMES[name], f"{value:.2%}" if name == "accuracy" else f"{value:.4g}")
        for name, value in scores.numbers.items()
    ]
    found += [("loss", f"{scores.loss:.4g}"), ("epochs", str(run.progress.epoch))]
    return '<div class="figures">' + "".join(f"<div><b>{v}</b><span>{n}</span></div>" for n, v in found) + "</div>"


def _curves(run: Run) -> str:
    """Return the learning curves."""
    history, drawn = run.progress.history, []
    epochs = [record["epoch"] for record in history]
    best, main = run.end.get("best_epoch"), run.scores.main
    mark = (float(best), f"best: {best}") if best else None
    for name in ("loss", main):
        series = []
        for part, label in (("", "training"), ("validation_", "validation")):
            values = [record.get(part + name) for record in history]
            if values and all(isinstance(value, int | float) for value in values):
                series.append((label, epochs, values))
        if series:
            drawn.append(charts.lines(series, "epoch", NAMES.get(name, name), mark))
    return _section("Learning curves", _grid(drawn))


def _classes(run: Run, scores: Scores) -> str:
    """Return the confusion matrix with the scores of each class."""
    names = run.description.class_names
    matrix = confusion(scores.y_pred, run.dataset.y_test, len(names))
    few = len(names) <= SHOWN
    rows = []
    for name, row, of_class in zip(names, matrix.tolist(), np.stack(by_class(matrix), axis=1), strict=True):
        cells = ""
        for count in row if few else []:
            shade = 0.65 * count / max(sum(row), 1)
            cells += f'<td class="cell" style="background:rgba(var(--cell), {shade:.2f})">{count:,}</td>'
        rows.append((name, cells + _cells([sum(row)], ",") + _cells(of_class.tolist(), ".1%")))
    heads = ["class", *(names if few else ()), "examples", "precision", "recall", "F1"]
    return _section("Classes", _table(heads, rows), "Rows are true classes, columns are predicted ones." * few)


def _residuals(run: Run, scores: Scores) -> str:
    """Return charts of predictions and residuals of each target."""
    y_pred, y_true = scores.y_pred, units(run.dataset.y_test, run.description)
    few = slice(None, None, -(-y_true.shape[0] // POINTS))
    drawn, rows = [], []
    for name, x, y in zip(run.description.target_names, y_true.T, y_pred.T, strict=True):
        drawn.append(charts.points(x[few].tolist(), y[few].tolist(), f"{name}, true", "predicted"))
        drawn.append(charts.histogram(y - x, f"{name}, predicted - true"))
        rows.append((name, _cells(residuals(y, x), ".4g")))
    return _section("Residuals", _grid(drawn) + _table(["target", *RESIDUALS], rows))


def _calibration(run: Run, scores: Scores) -> str:
    """Return charts of true values, or frequencies, by what was predicted."""
    shares, y, names = scores.shares, run.dataset.y_test, run.description.class_names
    hint, drawn = "Frequency of a class by its predicted probability.", []
    if shares is None:
        y_pred, y_true, labels = scores.y_pred, units(y, run.description), run.description.target_names
        hint, labels = "Mean true value by the predicted value.", [f"{name}, predicted" for name in labels]
    elif len(names) == 2:
        y_pred, y_true, labels = shares[:, 1:], (y == 1)[:, None], [f"probability of {names[1]}"]
    else:
        y_true, labels = (scores.y_pred == y)[:, None], ["probability of the predicted class"]
        y_pred = np.max(shares, axis=1)[:, None]
    for label, x, means in zip(labels, y_pred.T, y_true.T, strict=True):
        groups = np.array_split(np.argsort(x, kind="stable"), min(10, -(-x.size // FEWEST)))
        at, mean = ([float(np.mean(values[group])) for group in groups] for values in (x, means))
        off = np.average(np.abs(np.subtract(at, mean)), weights=[group.size for group in groups])
        chart = charts.points(at, mean, label, "frequency" if names else "true", joined=True)
        drawn.append(f'{chart}<p class="legend">mean distance to the dashed line: {off:.3g}</p>')
    return _section("Calibration", _grid(drawn), f"{hint} Each point is the mean of equally many test examples.")


def _categories(run: Run, scores: Scores) -> str:
    """Return the errors for the categories of columns, if there are any."""
    y, form = run.dataset.y_test, ".4g"
    if scores.shares is None:
        errors = np.abs(scores.y_pred - units(y, run.description))[:, 0]
        what = f"Mean absolute error of {run.description.target_names[0]}"
    else:
        errors, what, form = scores.y_pred != y, "Part of the test examples that is not predicted correctly", ".1%"
    bars = [(f"{name} ({count:,})", error) for name, count, error in by_category(run.dataset, errors)[:COLUMNS]]
    if not bars or not bars[0][1]:
        return ""
    hint = f"{what}; of all examples it is {np.mean(errors):{form}}."
    return _section("Errors by category", charts.bars(bars, "errors by category", form), hint)


def _importance(run: Run) -> str:
    """Return the importance of columns, if they can be named."""
    found = importances(run.model, run.dataset, run.description, run.place)
    what = f"Decrease of the {NAMES[run.scores.main]} of the test part if the values of a column are shuffled."
    bars = charts.bars(found[:COLUMNS], "importance of columns")
    return _section("Importance of columns", bars, what) if found else ""


def _data(run: Run) -> str:
    """Return what is known of the data."""
    dataset, encoder = run.dataset, run.dataset.encoder
    rows: list[tuple[str, str]] = [
        ("file", run.source),
        ("training examples", f"{run.rows.shape[0]:,}"),
        ("validation examples", f"{run.held.shape[0]:,}"),
        ("test examples", f"{dataset.y_test.shape[0]:,}"),
        ("numbers an example", f"{dataset.n_features:,}"),
        ("to learn", ", ".join(dataset.labels or run.description.target_names) or "the class"),
    ]
    if dataset.task == "classification":
        rows.append(("classes", f"{dataset.n_outputs:,}"))
    used = []
    for encoding in () if encoder is None else encoder.encodings[:COLUMNS]:
        kind = "true or false" if encoding.kind == "truth" else encoding.kind
        more = f"{len(encoding.categories)} categories" if encoding.kind == "word" else ", ".join(encoding.parts)
        gaps = "missing values" if encoding.missing else ""
        used.append((encoding.column, kind + "".join(f", {part}" for part in (more, gaps) if part)))
    if encoder is not None:
        if len(encoder.encodings) > COLUMNS:
            used.append(("...", f"{len(encoder.encodings)} columns in all"))
        used += [(name, f"left out: {REASONS[reason]}") for name, reason in list(encoder.left_out.items())[:COLUMNS]]
    hints = "".join(f'<p class="hint">{text(line, 300)}</p>' for line in dataset.about)
    return _section("Data", hints + _grid([_pairs(rows), _pairs(used)]))


def _settings(run: Run) -> str:
    """Return the options as text of the command line."""
    values = {name: getattr(run.config, name) for name in run.config.as_metadata()}
    used = [(option(name), shown(value)) for name, value in values.items() if value is not None and value != ()]
    half = -(-len(used) // 2)
    return _section("Settings", _grid([_pairs(used[:half]), _pairs(used[half:])]))


def _section(title: str, body: str, hint: str = "") -> str:
    """Return a part of the page with a heading."""
    return f'<h2>{title}</h2><p class="hint">{text(hint, 200)}</p>{body}'


def _grid(parts: Sequence[str]) -> str:
    """Return parts next to each other if there is room."""
    return f'<div class="grid2">{"".join(f"""<div class="wide">{part}</div>""" for part in parts)}</div>'


def _cells(values: Sequence[float], form: str) -> str:
    """Return cells of numbers."""
    return "".join(f'<td class="number">{value:{form}}</td>' for value in values)


def _table(heads: Sequence[str], rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and cells."""
    first, *others = (text(head, 12) for head in heads)
    titles = f"<th>{first}</th>" + "".join(f'<th scope="col" class="number">{head}</th>' for head in others)
    body = "".join(f'<tr><th scope="row">{text(name, 30)}</th>{cells}</tr>' for name, cells in rows)
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    cells = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value, 200)}</td></tr>' for name, value in rows)
    return f"<table><tbody>{cells}</tbody></table>"
