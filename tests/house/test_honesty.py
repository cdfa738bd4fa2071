"""No test of the suite passes without having checked something; and the check sees each way of doing so."""

from pathlib import Path

import honesty
import pytest


def test_every_test_checks_something() -> None:
    suite = honesty.Suite(honesty.sources_of(Path(__file__).parents[1]))
    assert [problem for name in suite.modules for problem in suite.problems(name)] == []


DISHONEST = {
    "returns before any assertion": [
        "def test_f(x):\n    try:\n        y = x()\n    except OSError:\n        return\n    assert y",
        "def test_f(x):\n    for y in x:\n        if not y:\n            return\n    assert x",
    ],
    "may end without an assertion": [
        "def helper(x): return x\ndef test_f(): helper(1)",
        "class TestF:\n    def test_f(self): pass",
        "def test_f():\n    def inner():\n        assert False",
        "def test_f(x):\n    for y in [z for z in x if z]:\n        assert y",
        "CASES = {}\ndef test_f(x):\n    for y in CASES.get(x, ()):\n        assert y",
        "def test_f(x):\n    while x:\n        assert x.pop()",
        "def test_f(x):\n    try:\n        assert x()\n    except OSError:\n        pass",
        "import contextlib\ndef test_f(x):\n    with contextlib.suppress(OSError):\n        assert x()",
        "def helper(x):\n    if x:\n        assert x > 1\ndef test_f(x): assert_f = helper(x)\ndef test_g(x):\n"
        "    if x:\n        assert x",
    ],
    "the parameter x is not used": [
        "def test_f(x): assert True is not False",
        "import pytest\n@pytest.fixture\ndef x(): return 1\ndef test_f(x): assert 1 < len('ab')",
    ],
    "an error of which any message will do": [
        "import pytest\ndef test_f(x):\n    with pytest.raises(ValueError):\n        x()",
        "import pytest\ndef test_f(x):\n    with pytest.raises(ValueError) as caught:\n        x()",
        "import pytest\ndef helper(x):\n    with x, pytest.raises((ValueError, TypeError)):\n        x()",
    ],
    "a tolerance that nearly everything is within": [
        "import numpy as np\ndef test_f(x): np.testing.assert_allclose(x, 1, rtol=0.5)",
        "import pytest\ndef test_f(x): assert x == pytest.approx(1, rel=0.1)",
    ],
    "skipped by what the test computed": [
        "import pytest\ndef test_f(x):\n    y = x()\n    if y is None:\n        pytest.skip('none')\n    assert y",
        "import pytest\ndef test_f(x):\n    try:\n        x()\n    except OSError:\n        pytest.skip('none')\n"
        "    assert x",
    ],
    "an assertion that cannot fail": [
        "def test_f(x): assert x or True",
        "def test_f(x): assert (x, 'message')",
        "def helper(x): assert lambda: x",
    ],
}
HONEST = [
    "import pytest\ndef test_f(x):\n    with pytest.raises(ValueError, match='why'):\n        x()",
    "import pytest\ndef test_f(x):\n    with pytest.raises(ValueError) as caught:\n        x()\n"
    "    assert 'why' in str(caught.value)",
    "import pytest\ndef test_f(x):\n    with pytest.raises(KeyboardInterrupt):\n        x()",
    "import pytest\ndef test_f(x):\n    if x == 'dask':\n        pytest.skip('lazy')\n    assert x",
    "import numpy as np\ndef test_f(x): np.testing.assert_allclose(x, 1, rtol=0.05)",
    "import subprocess\ndef test_f(x): subprocess.run(x, check=True)",
    "from agrad.testing import check_grads\ndef test_f(x): check_grads(x, ())",
    "def test_f(x):\n    if x:\n        assert x > 1\n    else:\n        assert x == 0",
    "def test_f(x):\n    if x is None:\n        raise AssertionError(x)\n    assert x",
    "def test_f(x):\n    for y in x:\n        assert y",
    "def test_f(x):\n    try:\n        y = x()\n    except OSError:\n        raise AssertionError\n    assert y",
    "def same(x):\n    for y in x:\n        deeper(y)\ndef deeper(y): assert y\ndef test_f(x): same(x)",
    "def test_f(x):\n    def inner(y):\n        assert y\n    inner(x)",
    "import pytest\n@pytest.fixture\ndef call():\n    def run(y):\n        assert y\n    return run\n"
    "def test_f(call): call(1)",
    "import pytest\n@pytest.fixture\ndef x():\n    yield\ndef test_f(x): assert 1 < len('ab')",
    "def helper(x):\n    if not x:\n        return 1\n    return 2\ndef test_f(x): assert helper(x) == 1",
]


def problems(source: str) -> list[str]:
    return [problem.what for problem in honesty.Suite({"test_it": source}).problems("test_it")]


@pytest.mark.parametrize(("what", "source"), [(what, source) for what, all in DISHONEST.items() for source in all])
def test_what_is_found(what: str, source: str) -> None:
    assert what in problems(source)


@pytest.mark.parametrize("source", HONEST)
def test_what_is_not_found(source: str) -> None:
    assert problems(source) == []


def test_helpers_of_other_modules_are_looked_into() -> None:
    sources = {
        "helpers": "def same(x):\n    assert x\ndef other(x): return x",
        "test_it": "from helpers import same, other\nimport helpers\n"
        "def test_f(x): same(x)\ndef test_g(x): helpers.same(x)\ndef test_h(x): other(x)",
    }
    found = list(honesty.Suite(sources).problems("test_it"))
    assert found == [honesty.Problem("test_it", 5, "test_h", "may end without an assertion")]
