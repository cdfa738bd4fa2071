"""The members of Tensor that are declared for type checkers are those that it has at run time."""

import ast
import inspect
from types import ModuleType

from agrad.engine import protocols
from agrad.engine.tensor import Tensor
from agrad.ops.operators import ARITHMETIC, COMPARISONS


def declared(module: ModuleType) -> set[str]:
    """Return the names that a module's classes declare for type checkers only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    names.add(member.name)
                elif isinstance(member, ast.Assign):
                    names.update(ast.unparse(target) for target in member.targets)
    return names - {"_binary", "_unary", "_method"}


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
