"""The public names of the package."""

from typing import Any

from standard_names import STANDARD

import agrad


def test_the_public_names() -> None:
    names = dir(agrad)
    assert names == sorted(set(names)) == agrad.__all__
    assert not [name for name in names if name.startswith("_")]
    assert {"sum", "linalg", "errors", "nn", "optim", "random", "testing", "einsum"} <= set(names)
    assert not {"importlib", "math", "sys", "Any", "arrival", "engine", "ops", "registry", "annotations"} & set(names)
    assert not [name for name in STANDARD if not name.startswith("_") and name.partition(".")[0] not in names]
    scope: dict[str, Any] = {}
    exec("from agrad import *", scope)
    assert scope.keys() - {"__builtins__"} == set(names)
    assert all(scope[name] is getattr(agrad, name) for name in names if name != "nan")
