"""The tutorials run by themselves, without a warning."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("*.py"))

pytestmark = pytest.mark.needs("matplotlib")


NEEDS = {"10_any_library": ("mparray", "ndonnx", "onnxruntime")}
"""What a tutorial needs besides Matplotlib."""


@pytest.mark.parametrize(
    "file", [pytest.param(f, id=f.stem, marks=pytest.mark.needs(*NEEDS.get(f.stem, ()))) for f in TUTORIALS]
)
def test_a_tutorial_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
        runpy.run_path(str(file), run_name="__main__")
    plt.close("all")
    assert shown
    assert capsys.readouterr().out


def test_tutorials_end_with_a_summary() -> None:
    assert len(TUTORIALS) == 10
    assert all("# Summary\n" in file.read_text(encoding="utf-8") for file in TUTORIALS)
