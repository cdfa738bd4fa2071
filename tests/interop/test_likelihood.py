"""The example that fits a NumPy and SciPy model with agrad's derivatives: what it finds, counts and prints."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "likelihood"


@pytest.mark.needs("scipy")
def test_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    found = runpy.run_path(str(FOLDER / "fit.py"))["main"]()
    assert found["errors"]["gradient"] < 1e-8
    assert found["errors"]["Hessian"] < 1e-8
    by_differences, by_gradient, by_hessian = found["fits"].values()
    assert by_gradient.nfev * 3 < by_differences.nfev
    assert by_hessian.nfev < by_gradient.nfev
    for fit in (by_differences, by_gradient):
        np.testing.assert_allclose(fit.x, found["estimates"], atol=1e-4)
    assert np.all(np.abs(found["estimates"] - found["truth"]) < 3 * found["deviation"])
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "likelihood.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", page, flags=re.S)
    assert shown is not None
    # the estimates to their last digit; counts and rounding errors differ from one SciPy to the next
    assert printed[-4:] == shown[1].splitlines()[-4:]
    assert len(printed) == len(shown[1].splitlines())


def test_the_page_shows_the_model_as_it_is_and_the_model_knows_nothing_of_agrad() -> None:
    model = (FOLDER / "survival.py").read_text(encoding="utf-8")
    assert "agrad" not in model.split('"""', 2)[2]
    page = (ROOT / "docs" / "likelihood.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(def .*?)```", page, flags=re.S)
    assert shown is not None
    # the page leaves the docstring out
    without = re.sub(r'    """.*?"""\n', "", model, flags=re.S)
    assert shown[1] in without
