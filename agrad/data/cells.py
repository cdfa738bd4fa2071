"""Cells of text as numbers, Booleans and dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import numpy as np

MARKS = ("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "Null", "null", "None", "none", "?", "-", ".")
"""The cells that mark a missing value."""
SURE = (*MARKS[:10], "?")
"""The marks that are not likely to be the name of a class."""

TRUTHS = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0}
PAIRS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})
"""The strings for Booleans, and the ones that make a column Boolean, in any case."""

UNIT = re.compile(r"[$€£¥₹%]|\b(?:USD|EUR|GBP|CHF|JPY|CNY|INR)\b")
GAPS = re.compile(r"(?<=\d)[ '\u00a0\u202f](?=\d{3}(?!\d))")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
"""Numbers with commas between thousands, and with decimal commas."""

EPOCH = datetime(1970, 1, 1)
LIKE_DATES = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
MONTHS = re.compile(r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)
DAYS = [
    *("%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%Y", "%d.%m.%y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d-%b-%Y", "%d-%b-%y", "%b %d %Y", "%B %d %Y", "%d %b %Y", "%d %B %Y"),
]
FORMS = [
    day + time for day, time in product(DAYS, ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"))
]
"""The forms of dates other than ISO 8601, as `datetime.strptime` reads them; the first that fits most cells is used."""


def number_in(text: str) -> float | None:
    """Return the number that `text` is, or None.

    Python reads "1_000" as 1000; in a table that is text.
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def numbers(texts: Sequence[str], delimiter: str | None = ",") -> tuple[list[float | None], str]:
    """Return texts as numbers, and their form.

    A mark of a missing value becomes NaN, and other texts None.

    The form contains what was removed: a unit, and the character between thousands, or "decimal commas". Three digits
    after a comma may be decimals if another character is the `delimiter`; such texts are not numbers, unless they have
    a currency, of which nobody writes three decimals.
    """
    found = [np.nan if text in MARKS else number_in(text) for text in texts]
    if None not in found:
        return found, ""
    bodies = {at: GAPS.sub("", UNIT.sub("", texts[at]).strip()) for at, number in enumerate(found) if number is None}
    units = {unit for at in bodies for unit in UNIT.findall(texts[at])}
    commas = [body for body in bodies.values() if "," in body and (THOUSANDS.fullmatch(body) or COMMA.fullmatch(body))]
    clear = delimiter in (",", None)
    decimal = not clear and any(not THOUSANDS.fullmatch(body) for body in commas)
    sure = clear or bool(units - {"%"}) or any("." in body or body.count(",") > 1 for body in commas)
    for at, body in bodies.items():
        if len(units) > 1:
            break
        if decimal and COMMA.fullmatch(body):
            body = body.replace(".", "").replace(",", ".")
        elif sure and not decimal and THOUSANDS.fullmatch(body):
            body = body.replace(",", "")
        found[at] = number_in(body)
    forms = ["decimal commas"] if decimal else ["','"] if commas else []
    return found, " and ".join(forms + [repr(unit) for unit in sorted(units)])


def dates(texts: Sequence[str], form: str = "") -> tuple[list[float | None], str]:
    """Return texts as dates in microseconds since 1970, and their form.

    A mark of a missing value becomes NaN, and other texts None.

    The form is "" for ISO 8601 in UTC or without a time zone, or with slashes or points, and otherwise one of
    `FORMS`.
    """
    plain = [re.sub(r"\s+", " ", text.replace(",", " ")) for text in texts]
    plain = [re.sub(r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?=\D|$)", _iso, text) for text in plain]
    found = [np.nan if text in MARKS else _date(text) for text in plain]
    rest = [at for at, date in enumerate(found) if date is None]
    looks = [
        at
        for at in rest
        if LIKE_DATES.fullmatch(plain[at]) or (MONTHS.search(plain[at]) and re.search(r"\d", plain[at]))
    ]
    if len(looks) < len(rest) / 2 or not looks:
        return found, ""
    best: tuple[int, str, list[float | None]] = (0, "", [])
    for candidate in [form] if form else [f for f in FORMS if any(_date(plain[at], f) is not None for at in looks[:3])]:
        read = [_date(plain[at], candidate) for at in rest]
        best = max(best, (len(read) - read.count(None), candidate, read), key=lambda entry: entry[0])
    for at, date in zip(rest, best[2], strict=False):
        found[at] = date
    return found, best[1]


def _iso(match: re.Match[str]) -> str:
    """Return the start of a date with hyphens and two digits."""
    return f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}"


def _date(text: str, form: str = "") -> float | None:
    """Return microseconds since 1970 of a date of ISO 8601 in UTC or of a form, or None."""
    try:
        date = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if date.utcoffset() else (date.replace(tzinfo=None) - EPOCH) / timedelta(microseconds=1)


def truths(texts: Sequence[str]) -> list[float | None]:
    """Return texts as 1 and 0 (NaN for marks of missing values, None for others)."""
    return [np.nan if text in MARKS else TRUTHS.get(text.lower()) for text in texts]


def distinct(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values by first position, and the index of each among them."""
    places: dict[Any, int] = {}
    codes = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int64, len(values))
    return list(places), codes


def shown(text: str, width: int = 40) -> str:
    """Return a cell or a name in quotes, cut to `width` characters, for a message."""
    found = repr(text)
    return found if len(found) <= width + 2 else f"{found[:width]}...{found[0]}"
