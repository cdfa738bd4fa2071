"""The members of Tensor that are declared for type checkers are those that it has at run time."""

import ast
import inspect
from types import ModuleType

import pytest

import agrad
from agrad.engine import protocols
from agrad.engine.tensor import Tensor
from agrad.interop import scipy
from agrad.ops.operators import ARITHMETIC, COMPARISONS
from agrad.optim import optimizer
from agrad.registry import namespace


def declared(module: ModuleType) -> set[str]:
    """Return the names that a module's classes declare for type checkers only."""
    return declared_in(ast.parse(inspect.getsource(module)))


def declared_in(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("_typing.") == "TYPE_CHECKING":
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    names.add(member.name)
                elif isinstance(member, ast.Assign):
                    names.update(ast.unparse(target) for target in member.targets)
    return names - {"_binary", "_unary", "_method", "_along", "_over", "_word"}


def test_members_installed_at_run_time_are_declared() -> None:
    names = declared(protocols)
    assert {name for name in names if not hasattr(Tensor, name)} == set()
    forward = {f"__{name}__" for name in (*ARITHMETIC, *COMPARISONS)}
    reflected = {f"__r{name}__" for name in ARITHMETIC}
    assert names == set(protocols._METHODS) | forward | reflected | {
        *("__neg__", "__pos__", "__abs__", "__invert__", "__getitem__", "__setitem__", "__contains__"),
        *("T", "mT", "to", "to_device"),
    }


def test_declared_methods_have_the_parameters_of_run_time() -> None:
    assert list(inspect.signature(Tensor.to).parameters)[1:] == ["where"]
    assert list(inspect.signature(Tensor.to_device).parameters)[1:] == ["device", "stream"]


@pytest.mark.parametrize("module", [agrad.linalg, agrad.fft, agrad.special])
def test_sections_are_those_of_the_namespace(module: ModuleType) -> None:
    section = getattr(namespace, module.__name__.rpartition(".")[2])
    lazy = {*scipy.WORDS, *scipy._OTHER_NAMES} if module is agrad.special else set()
    assert declared(module) == lazy
    assert set(module.__all__) == set(vars(section))
    assert all(getattr(module, name) is getattr(section, name) for name in module.__all__)


def optimizers(base: type[optimizer.Optimizer]) -> list[type[optimizer.Optimizer]]:
    return [base, *(below for kind in base.__subclasses__() for below in optimizers(kind))]


def test_options_of_optimizers_are_declared() -> None:
    found = [kind for kind in optimizers(optimizer.Optimizer)[1:] if kind.__module__.startswith("agrad.")]
    assert len(found) > 10
    for kind in found:
        assert list(inspect.signature(kind).parameters) == ["params", *kind.fields]
        assert {"lr", *kind.checks} <= kind.fields.keys()
        assert all(isinstance(inspect.getattr_static(kind, name), property) for name in ("lr", *kind.checks))
