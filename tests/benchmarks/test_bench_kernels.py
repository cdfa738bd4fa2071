"""The suite that measures kernels: the general rule and the kernel of each pair compute the same."""

from typing import Any

import pytest
from tensors import all_close

from agrad.backends import load
from agrad.registry import KERNELS
from bench import kernels
from bench.suites import Options

# updates write into their arguments
OURS = [key[1:] for key in KERNELS if key[0] == "numpy" and not key[1].endswith("_update") and "(" not in key[2]]


def results(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return [x for part in found for x in results(part)]
    return [found]


@pytest.mark.parametrize(("name", "part"), OURS, ids=[f"{name} {part}" for name, part in OURS])
def test_both_compute_the_same(name: str, part: str) -> None:
    calls, error = kernels.pair(load("numpy"), name, part, kernels.Case(name, 1 << 12, "float64")), 1e-9
    if calls is None:  # the guard accepts only long arrays of float32
        calls, error = kernels.pair(load("numpy"), name, part, kernels.Case(name, 1 << 15, "float32")), 2e-7
    assert calls is not None
    general, own = calls
    all_close(results(general()), results(own()), rtol=1e-6, atol=error)


def test_a_quick_run(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {key: KERNELS[key] for key in KERNELS if key[:2] in (("numpy", "relu"), ("numpy", "add"))}
    monkeypatch.setattr("agrad.registry.KERNELS", chosen)
    options = Options(("numpy",), (), (64,), "float32", None, 1, 0.001, (), True)
    report = kernels.run(options)
    assert {name.partition(",")[0] for name in report.record["seconds"]} == {f"{key[1]} {key[2]}" for key in chosen}
    assert "relu vjp:x" in report.text
