"""Docstrings are in numpydoc form and fit the signatures; every public name has an example that runs."""

import doctest
import importlib.util
import inspect
import pkgutil
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import agrad
import agrad.nn

SECTIONS = ["Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes", "References",
            "Examples"]  # fmt: skip
FACES = [
    "linalg",
    "fft",
    "special",
    "nn",
    "nn.functional",
    "optim",
    "random",
    "data",
    "testing",
    "train",
    "train.metrics",
]


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring, by title, in their order."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$", text, flags=re.MULTILINE)
    return {title: body.strip("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}


_MODULES = """
    linalg fft special random nn nn.functional nn.init nn.utils optim optim.lr_scheduler optim.swa_utils data train
    train.callbacks train.metrics parallel plotting sklearn testing tree errors scipy.fft scipy.integrate
    scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.signal.windows scipy.sparse
    scipy.sparse.linalg scipy.spatial.distance scipy.special scipy.stats
""".split()  # noqa: SIM905
PACKAGES = {
    "agrad.data": "pyarrow PIL",
    "agrad.parallel": "dask",
    "agrad.scipy.optimize": "scipy",
    **dict.fromkeys(("agrad.scipy.sparse", "agrad.scipy.sparse.linalg"), "scipy"),
    "agrad.sklearn": "sklearn",
    **dict.fromkeys(("agrad.train", "agrad.train.callbacks", "agrad.plotting"), "matplotlib"),
}
MODULES = {module: PACKAGES.get(module) for module in ("agrad", *(f"agrad.{name}" for name in _MODULES))}
"""Modules of public names, and the packages that their examples need."""

NEEDING = dict.fromkeys(("SparseArray", "sparse_hessian", "sparse_jacobian"), "scipy")
"""Names in other modules whose examples need a package."""

TRANSFORMS = [
    "grad", "value_and_grad", "vjp", "jvp", "jacobian", "jacfwd", "jacrev", "hessian", "hvp", "gnvp",
    "elementwise_grad", "linearize", "linear_transpose", "vmap", "jit", "checkpoint", "stop_gradient", "custom_jvp",
    "custom_vjp", "scan", "fori_loop", "while_loop", "cond", "switch", "root", "fixed_point", "linear_solve",
]  # fmt: skip

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public(module: str) -> dict[str, Any]:
    """Return what a module has that is public, can be called, and is of agrad, by name."""
    found = pkgutil.resolve_name(module)
    names = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    things = {name: getattr(found, name) for name in names}
    return {n: t for n, t in things.items() if callable(t) and str(getattr(t, "__module__", "")).startswith("agrad")}


def documented(name: str, thing: Any) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of a public thing and of its public members, if classes of agrad define them, with names."""
    yield name, inspect.cleandoc(thing.__doc__ or "")
    for base in thing.__mro__ if inspect.isclass(thing) else ():
        for member, method in vars(base).items() if base.__module__.startswith("agrad") else ():
            if not member.startswith("_") and method.__doc__ and not inspect.isclass(method):
                yield f"{name}.{member}", inspect.cleandoc(method.__doc__)


def lacks(name: str, thing: Any) -> bool:
    """Return whether a docstring has no example that names the thing and prints something."""
    text = sections(inspect.cleandoc(thing.__doc__ or "")).get("Examples", "")
    shown = doctest.DocTestParser().get_examples(text)
    return not any(example.want for example in shown) or not any(name in x.source + x.want for x in shown)


def failures(name: str, text: str) -> list[str]:
    """Return what the examples of a docstring print other than what they say."""
    agrad.nn.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, {"np": np, "agrad": agrad}, name, None, 0)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append)
    return told


def marked(module: str, packages: str | None) -> Any:
    return pytest.param(module, marks=pytest.mark.needs(*packages.split()) if packages else ())


@pytest.mark.parametrize("module", [marked(*row) for row in MODULES.items()])
def test_every_public_name_has_an_example_that_runs(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with agrad.use_backend("numpy"):
        absent = {name for name, package in NEEDING.items() if importlib.util.find_spec(package) is None}
        things = {name: thing for name, thing in public(module).items() if name not in absent}
        # members that are inherited by many run once
        texts = {text: n for row in things.items() for n, text in documented(*row) if ">>> " in text}
        told = {n: failures(n, text) for text, n in texts.items()}
    assert agrad.get_backend() == "numpy"
    assert not list(tmp_path.iterdir())
    wrong = {name: lines for name, lines in told.items() if lines}
    wrong |= {name: "no example that prints something" for name, thing in things.items() if lacks(name, thing)}
    assert things
    assert not wrong


def inner(module: str) -> set[str]:
    """Return the modules that a module names as public."""
    found = pkgutil.resolve_name(module)
    names = getattr(found, "__all__", ())
    return {f"{module}.{n}" for n in names if isinstance(getattr(found, n), ModuleType)}


@pytest.mark.parametrize("module", [marked(*row) for row in {**MODULES, "agrad.scipy": None}.items()])
def test_every_public_module_is_listed(module: str) -> None:
    assert not {name for name in inner(module) if not any(f"{listed}.".startswith(f"{name}.") for listed in MODULES)}


def related(text: str) -> list[str]:
    """Return the names in the section See Also."""
    rows = re.findall(r"^(\S.*?) : \S", sections(text).get("See Also", ""), flags=re.MULTILINE)
    return [name for row in rows for name in row.split(", ")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_help_of_a_transform_tells_the_whole_story(name: str) -> None:
    text = inspect.cleandoc(getattr(agrad, name).__doc__)
    assert "As for ``" not in text
    assert {"Parameters", "See Also", "Examples"} <= sections(text).keys()
    assert related(text)
    assert all(pkgutil.resolve_name(other) for other in related(text))


def test_the_check_sees_what_is_wrong() -> None:
    def mute() -> None:
        """Do.

        Examples
        --------
        >>> mute = 1
        """

    assert lacks("mute", mute)
    assert len(failures("wrong", ">>> 1 + 1\n3\n")) == 1
    assert len(failures("warns", ">>> import warnings\n>>> warnings.warn('here')\n")) == 1


def described(body: str) -> list[str]:
    """Return the names that a section of parameters describes."""
    entries = re.findall(r"^(\*{0,2}\w[\w, *]*?)(?: :.*)?$", body, flags=re.MULTILINE)
    return [name.strip() for entry in entries for name in entry.split(",")]


def parameters(thing: Any) -> list[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:
        return []
    return [stars.get(p.kind, "") + p.name for p in found if p.name != "self"]


def gives(thing: Any) -> bool:
    """Return whether a function returns something."""
    if inspect.isclass(thing) or "return" not in getattr(thing, "__annotations__", {}):
        return False
    return thing.__annotations__["return"] not in (None, "None", type(None))


def faults(thing: Any) -> list[str]:
    """Return the faults of one docstring."""
    text = inspect.getdoc(thing)
    if not text:
        return ["no docstring"]
    first = text.splitlines()[0]
    found, wrong = sections(text), []
    if not first.endswith((".", ":")) or len(first) > 80:
        wrong.append(f"first line: {first}")
    if not inspect.isclass(thing) and re.match(r"(The|A|An|As)\b", first):
        wrong.append(f"first line is not imperative: {first}")
    if list(found) != sorted(found, key=SECTIONS.index):
        wrong.append(f"order of sections: {list(found)}")
    names = parameters(thing)
    if described(found.get("Parameters", "")) != names:
        wrong.append(f"Parameters: {described(found.get('Parameters', ''))} for the signature's {names}")
    if gives(thing) and not {"Returns", "Yields"} & set(found):
        wrong.append("no section Returns")
    return wrong


def numpydoc() -> Iterator[tuple[str, Any]]:
    """Yield the public things of the faces, and the public methods that their classes define."""
    seen = set()
    for face in ("agrad", *(f"agrad.{name}" for name in FACES)):
        for name, thing in public(face).items():
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            yield f"{face}.{name}", thing
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for member, method in vars(thing).items():
                    function = getattr(method, "__func__", method)
                    plain = member == "forward" and len(parameters(function)) == 1  # one line says all of one array
                    if not (plain or member[0] == "_" or id(function) in seen) and inspect.isfunction(function):
                        seen.add(id(function))
                        is_bound = isinstance(method, classmethod)
                        yield f"{face}.{name}.{member}", getattr(thing, member) if is_bound else function


def test_docstrings_fit_signatures() -> None:
    wrong = {name: faults(thing) for name, thing in numpydoc()}
    assert len(wrong) > 300
    assert not {name: text for name, text in wrong.items() if text}


def test_faults_are_seen() -> None:
    def g(x: Any, y: Any) -> Any:
        """The sum.

        Parameters
        ----------
        x, z : array
        """

    assert len(faults(g)) == 3
