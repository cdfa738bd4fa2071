"""Docstrings of public names are in numpydoc form: imperative first lines, and sections that fit the signature."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

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


def public() -> Iterator[tuple[str, Any]]:
    """Yield all public functions and classes, and the public methods that classes of agrad define."""
    seen = set()
    for face in ("agrad", *(f"agrad.{name}" for name in FACES)):
        module = importlib.import_module(face)
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
            thing = getattr(module, name)
            if not callable(thing) or id(thing) in seen or not str(thing.__module__).startswith("agrad"):
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
    wrong = {name: faults(thing) for name, thing in public()}
    assert len(wrong) > 300
    assert not {name: text for name, text in wrong.items() if text}


def test_faults_are_seen() -> None:
    def f(x: Any, /, *arrays: Any, axis: int = 0) -> Any:
        """Return x.

        Parameters
        ----------
        x : array
            Of any shape.
        *arrays : arrays
            More.
        axis : int

        Returns
        -------
        array
        """

    def g(x: Any, y: Any) -> Any:
        """The sum.

        Parameters
        ----------
        x, z : array
        """

    assert faults(f) == []
    assert len(faults(g)) == 3
