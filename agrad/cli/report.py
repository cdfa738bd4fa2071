"""The report of a training run: one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agrad.cli import charts
from agrad.cli.charts import text
from agrad.cli.config import option, shown
from agrad.cli.importance import importances
from agrad.cli.outputs import REPORT
from agrad.cli.scores import SHOWN, residual_lines, summary
from agrad.cli.tasks import Scores, by_class, confusion, units
from agrad.data.encoder import REASONS
from agrad.data.files import write_whole

if TYPE_CHECKING:
    from agrad.cli.train import Run

COLUMNS = 30
"""The number of columns that are listed."""

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
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 14px 24px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0 0; }
.figures div { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 16px; }
.figures b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); }
.wide { overflow-x: auto; }
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
        _figures(run, scores),
        _curves(run),
        _classes(run, scores) if dataset.task == "classification" else _residuals(run, scores),
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
    names = {
        "accuracy": "accuracy",
        "auc": "AUC",
        "r2": "R2",
        "mae": "mean absolute error",
        "mse": "mean squared error",
    }
    shares = ("accuracy",)
    found = [
        (names[name], f"{value:.2%}" if name in shares else f"{value:.4g}") for name, value in scores.numbers.items()
    ]
    found.append(("loss", f"{scores.loss:.4g}"))
    found.append(("epochs", str(run.progress.epoch)))
    return '<div class="figures">' + "".join(f"<div><b>{v}</b><span>{n}</span></div>" for n, v in found) + "</div>"


def _curves(run: Run) -> str:
    """Return the learning curves."""
    history, drawn = run.progress.history, []
    epochs = [record["epoch"] for record in history]
    best, main = run.end.get("best_epoch"), run.scores.main
    mark = (float(best), f"best: {best}") if best else None
    for name, shown_name in (("loss", "loss"), (main, "R2" if main == "r2" else main)):
        series = []
        for part, label in (("", "training"), ("validation_", "validation")):
            values = [record.get(part + name) for record in history]
            if values and all(isinstance(value, int | float) for value in values):
                series.append((label, epochs, values))
        if series:
            drawn.append(f"<div>{charts.lines(series, 'epoch', shown_name, mark)}</div>")
    return f'<h2>Learning curves</h2><div class="grid2">{"".join(drawn)}</div>'


def _classes(run: Run, scores: Scores) -> str:
    """Return the confusion matrix with the scores of each class."""
    names, y = run.description.class_names, run.dataset.y_test
    matrix = confusion(scores.told, y, len(names))
    few = len(names) <= SHOWN
    heads = "".join(f'<th scope="col" class="number">{text(name, 12)}</th>' for name in names) if few else ""
    rows = []
    values = np.stack(by_class(matrix), axis=1).tolist()
    for name, row, of_class in zip(names, matrix.tolist(), values, strict=True):
        cells = ""
        for count in row if few else []:
            shade = 0.65 * count / max(sum(row), 1)
            cells += f'<td class="cell" style="background:rgba(var(--cell), {shade:.2f})">{count:,}</td>'
        cells += f'<td class="number">{sum(row):,}</td>'
        cells += "".join(f'<td class="number">{value:.1%}</td>' for value in of_class)
        rows.append(f'<tr><th scope="row">{text(name, 30)}</th>{cells}</tr>')
    ends = "".join(f'<th scope="col" class="number">{name}</th>' for name in ("examples", "precision", "recall", "F1"))
    hint = "Rows are true classes, columns what the model took their examples for." if few else ""
    return (
        f'<h2>Classes</h2><p class="hint">{hint}</p><div class="wide"><table>'
        f"<thead><tr><th>class</th>{heads}{ends}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _residuals(run: Run, scores: Scores) -> str:
    """Return charts of predictions and residuals of each target."""
    description = run.description
    true = units(run.dataset.y_test, description)
    parts = []
    for at, name in enumerate(description.target_names):
        parts.append(f"<div>{charts.points(true[:, at], scores.told[:, at], name)}</div>")
        parts.append(f"<div>{charts.histogram(scores.told[:, at] - true[:, at], f'{name}, predicted - true')}</div>")
    head, *lines = residual_lines(scores.told, true, description.target_names)
    return (
        f'<h2>Residuals</h2><div class="grid2">{"".join(parts)}</div>'
        f'<div class="wide"><pre>{text(head, 400)}\n{chr(10).join(text(line, 400) for line in lines)}</pre></div>'
    )


def _importance(run: Run) -> str:
    """Return the importance of columns, if they can be named."""
    found = importances(run.model, run.dataset, run.description, run.place)
    if not found:
        return ""
    what = "R2" if run.scores.main == "r2" else "accuracy"
    return (
        f'<h2>Importance of columns</h2><p class="hint">How much the {what} of the test part falls when the values of '
        f"a column change places at random.</p>{charts.bars(found[:COLUMNS], 'importance of columns')}"
    )


def _data(run: Run) -> str:
    """Return what is known of the data."""
    dataset = run.dataset
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
    table = _pairs(rows)
    lines = "".join(f'<p class="hint">{text(line, 300)}</p>' for line in dataset.about)
    encoder = dataset.encoder
    if encoder is None:
        return f"<h2>Data</h2>{lines}{table}"
    used = []
    for encoding in encoder.encodings[:COLUMNS]:
        kind = "true or false" if encoding.kind == "truth" else encoding.kind
        more = f"{len(encoding.categories)} categories" if encoding.kind == "word" else ", ".join(encoding.parts)
        gaps = "missing values" if encoding.missing else ""
        used.append((encoding.column, kind + "".join(f", {part}" for part in (more, gaps) if part)))
    if len(encoder.encodings) > COLUMNS:
        used.append(("...", f"{len(encoder.encodings)} columns in all"))
    used += [(name, f"left out: {REASONS[reason]}") for name, reason in list(encoder.left_out.items())[:COLUMNS]]
    return f'<h2>Data</h2>{lines}<div class="grid2"><div>{table}</div><div class="wide">{_pairs(used)}</div></div>'


def _settings(run: Run) -> str:
    """Return the options as text of the command line."""
    values = {name: getattr(run.config, name) for name in run.config.as_metadata()}
    used = [(option(name), shown(value)) for name, value in values.items() if value is not None and value != ()]
    half = -(-len(used) // 2)
    return f'<h2>Settings</h2><div class="grid2"><div>{_pairs(used[:half])}</div><div>{_pairs(used[half:])}</div></div>'


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    cells = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value, 200)}</td></tr>' for name, value in rows)
    return f"<table><tbody>{cells}</tbody></table>"
