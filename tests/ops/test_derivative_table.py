"""The page of derivatives says what the tests do, and has no hole."""

import derivative_table as page
import pytest
import test_cases

from agrad.backends import load


def name_of(backend: str) -> str:
    return load(backend).name


def test_the_page_is_what_the_tests_take(backend: str) -> None:
    """The columns of the backend made anew, the others as they stand: the page does not change."""
    committed = page.PAGE.read_text(encoding="utf-8")
    made = page.page([name_of(backend), page.NEVER_RUN], committed)
    assert made == committed, "run: python tests/derivative_table.py"


def test_there_is_no_hole(backend: str) -> None:
    """Every function has a derivative in every mode, or a reason; a function that is not there is skipped as such."""
    for title, names in page.sections().items():
        assert not page.holes(names, name_of(backend)), title
    on_page, _ = page.read(page.PAGE.read_text(encoding="utf-8"))
    for column in on_page.values():
        assert "?" not in column.values()


def test_every_function_of_the_standard_is_on_the_page() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name in (*page.STANDARD, *page.extras()):
        assert text.count(f"\n| `{name}` |") == 1, name


def test_a_function_without_rows_or_with_a_mode_untested_is_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page.holes(["exp", "floor", "no_such_function"], "numpy") == ["no_such_function"]
    monkeypatch.setattr(test_cases, "test_derivatives_against_differences", None)
    monkeypatch.setattr(test_cases, "test_second_order_on_every_backend", None)
    page.proofs.cache_clear()
    page.shown.cache_clear()
    try:
        assert page.counts("exp", "numpy")[-1] == 0
        assert page.holes(["exp"], "numpy") == ["exp"]
        assert page.page(["numpy"], page.PAGE.read_text(encoding="utf-8")) != page.PAGE.read_text(encoding="utf-8")
    finally:
        page.proofs.cache_clear()
        page.shown.cache_clear()


def test_the_names_of_cases_are_distinct() -> None:
    """A page counts names, and a report is read by them."""
    for proof in page.proofs():
        names = [case.name.replace(" ", "_") for case in proof.cases]
        assert len(set(names)) == len(names)
