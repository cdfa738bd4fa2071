"""The tables of measured comparisons in README and on the page of benchmarks."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from refusals import fails

from bench import diff, summary


def test_the_table_is_that_of_the_committed_results() -> None:
    text = summary.README.read_text(encoding="utf-8")
    inside = text.partition(summary.BEGIN)[2].partition(summary.END)[0]
    assert inside.strip() == summary.table(summary.compared())


def test_the_table_of_slow_rows_is_that_of_the_committed_results() -> None:
    inside = summary.PAGE.read_text(encoding="utf-8").partition(summary.BEGIN)[2].partition(summary.END)[0]
    assert inside.strip() == summary.slow()


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize("dark", [False, True])
def test_the_picture_has_the_ratios_of_the_table(dark: bool, tmp_path: Path) -> None:
    rows = summary.compared()
    picture = tmp_path / "plots" / "measured.svg"
    summary.draw(rows, picture, dark)
    # matplotlib writes the text of each label as a comment beside its outlines
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.parse(picture, parser).getroot()
    texts = [(part.text or "").strip() for part in root.iter() if part.tag is ElementTree.Comment]
    ratios = [f"{ours / theirs:.2g}" for _, ours, theirs in rows]
    assert [text for text in texts if text in ratios][-len(rows) :] == ratios


def test_a_row_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    row = summary.Row("x", "overhead", (), "nobody", "nobody", "x")
    monkeypatch.setattr(summary, "ROWS", (row,))
    fails(diff.BadRun, r"overhead.json has no row \('nobody',\)", summary.compared)
