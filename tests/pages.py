"""Tables in pages of the documentation, whose text is written by hand and kept."""

import re


def with_table(text: str, rows: list[str]) -> str:
    """Return a page with rows, the heads first, in place of the table whose first two columns have the same heads."""
    first = " | ".join(rows[0].split(" | ")[:2])
    found, count = re.subn(rf"(?m)^{re.escape(first)} \|.*(\n\|.*)*", lambda _: "\n".join(rows), text)
    assert count == 1, f"the page has {count} tables with the heads {first}"
    return found


def said(text: str, heading: str) -> dict[str, str]:
    """Return what the tables of a section of a page say of names, which stand in the first column."""
    section = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`.*?`) \|(?: (.*) \|)?$(?!\n\|-)", section)
    return {name: words for names, words in rows for name in re.findall("`(.+?)`", names)}
