"""Write ``docs/reference/pytorch_names.md``: the names of PyTorch, and which of them agrad has.

    python tests/torch_page.py

Whether a name is there, and which arguments it lacks, is read from both packages. What else differs, and why something
is missing, is written into the page by hand.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import said

import agrad

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "pytorch_names.md"
SPACES = "nn nn.functional nn.init nn.utils optim optim.lr_scheduler utils.data"
DEPRECATED = {"size_average", "reduce", "min_value", "max_value"}
ELSEWHERE = {"self", "args", "kwargs", "inplace", "name", "generator", "device", "dtype", "out",
             "_weight", "_freeze", "_stacklevel", "foreach", "fused", "capturable", "differentiable"}  # fmt: skip
"""Arguments for what agrad has in one form: how a step is computed, where arrays are born and are written to."""
HELPERS = {"boolean_dispatch", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "Callable", "Optional", "DType", "Tensor",
           "native_channel_shuffle"}  # fmt: skip
"""Names in PyTorch's modules that are no functions of it."""


def written(section: str) -> dict[str, str]:
    """Return what the page says of the names of a section, besides what signatures show."""
    texts = said(PAGE.read_text(encoding="utf-8"), f"## `{section}`")
    return {name: text.partition("; ")[2] if text.startswith("without `") else text for name, text in texts.items()}


def public(section: str) -> list[str]:
    """Return the public names of a module of PyTorch's, without its submodules."""
    module = importlib.import_module(section)
    names = getattr(module, "__all__", None) or dir(module)
    if section == "torch.nn":
        names = [name for name in names if inspect.isclass(getattr(module, name))]
    values = {name: getattr(module, name) for name in names if not name.startswith("_") and name not in HELPERS}
    is_function = section != "torch.nn.functional"
    kept = [name for name, value in values.items() if not inspect.ismodule(value) and (is_function or callable(value))]
    return sorted(kept, key=lambda name: (name.lower(), name))


def space(section: str) -> Any:
    """Return agrad's module of a section."""
    return importlib.import_module(section.replace("torch.utils.data", "agrad.data").replace("torch.", "agrad."))


def options(thing: Any) -> dict[str, Any] | None:
    """Return the arguments of a function or class, by name; None if its signature is unknown or open."""
    try:
        found = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters
    except (TypeError, ValueError):
        return None
    if "boolean_dispatch" in str(getattr(thing, "__qualname__", "")):
        return None
    return dict(found)


def lacks(theirs: Any, mine: Any) -> list[str]:
    """Return the optional arguments of PyTorch's function that agrad's has not."""
    wanted, found = options(theirs), options(mine)
    if wanted is None or found is None or any(p.kind is p.VAR_KEYWORD for p in found.values()):
        return []
    given = [name for name, p in wanted.items() if p.default is not p.empty]
    return [name for name in given if name not in {*found, *ELSEWHERE, *DEPRECATED}]


def table(heading: str, rows: dict[str, str]) -> Iterator[str]:
    if rows:
        two = any(rows.values())
        yield f"\n| {heading} | |\n|---|---|\n" if two else f"\n| {heading} |\n|---|\n"
        yield from (f"| {names} | {text} |\n" if two else f"| {names} |\n" for names, text in rows.items())


def section_of(section: str) -> Iterator[str]:
    """Yield the lines of a section."""
    theirs, mine, notes = importlib.import_module(section), space(section), written(section)
    has: list[str] = []
    differs: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    for name in public(section):
        if not hasattr(mine, name):
            missing.setdefault(notes.get(name, ""), []).append(f"`{name}`")
            continue
        absent = lacks(getattr(theirs, name), getattr(mine, name))
        texts = ["without " + ", ".join(f"`{option}`" for option in absent)] if absent else []
        texts += [notes[name]] if notes.get(name) else []
        if texts:
            differs[f"`{name}`"] = "; ".join(texts)
        else:
            has.append(f"`{name}`")
    count = sum(map(len, missing.values()))
    total = len(has) + len(differs) + count
    yield f"\n## `{section}`\n\n"
    yield f"{total} names: {len(has)} as in PyTorch, {len(differs)} differ, {count} missing.\n"
    yield from table("as in PyTorch", {", ".join(has): ""} if has else {})
    yield from table("differs", differs)
    yield from table("missing", {", ".join(names): text for text, names in sorted(missing.items(), reverse=True)})


def page() -> str:
    """Return the page: its present text, of the version of PyTorch that is here, and new tables."""
    import torch

    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    head = re.sub(r"(?<=names of PyTorch )\S+", torch.__version__.partition("+")[0], head)
    return head + "".join(line for name in SPACES.split() for line in section_of(f"torch.{name}"))


if __name__ == "__main__":
    agrad.set_backend("numpy")
    PAGE.write_text(page(), encoding="utf-8")
