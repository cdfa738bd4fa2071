"""Tables in pages of the documentation, whose text is written by hand and kept."""

import re


def with_table(text: str, rows: list[str]) -> str:
    """Return a page with rows, the heads first, in place of the table whose first two columns have the same heads."""
    first = " | ".join(rows[0].split(" | ")[:2])
    found, count = re.subn(rf"(?m)^{re.escape(first)} \|.*(\n\|.*)*", lambda _: "\n".join(rows), text)
    assert count == 1, f"the page has {count} tables with the heads {first}"
    return found


def by_name(texts: dict[str, str]) -> dict[str, str]:
    """Return the texts by name, given names by text."""
    return {name: text for text, names in texts.items() for name in names.split()}
