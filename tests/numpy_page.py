"""Write ``docs/numpy.md``, the results of NumPy functions for Tensors, and the names in ``docs/agrad_numpy.md``."""

import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
from numpy_sampling import SAMPLES

import agrad.interop.numpy  # noqa: F401 - files the handlers
from agrad.interop.table import FUNCTIONS, REFUSED, UFUNCS, find
from agrad.numpy import names as _names

PAGE = Path(__file__).parent.parent / "docs" / "numpy.md"

HEAD = """# Supported NumPy functions

You can call NumPy functions on Tensors of every backend. They are differentiable and return Tensors of that backend:

```python
import numpy as np
import agrad

def energy(x):
    return np.sum(np.sin(x) ** 2)

agrad.grad(energy)(np.linspace(0.0, 1.0, 5))
```

agrad composes them from its other functions, so they do not have separate derivative rules. These rules apply to all:

- **Operands.** You can mix Tensors with numbers, nested lists and NumPy scalars. An array of another library raises an
  error that says how to move it. Dtypes promote by the rules of NumPy on every backend. Integers become float64.
- **`out=`.** A Tensor passed as `out` is rebound to the result and remains differentiable. An ndarray cannot record, so
  it raises `DetachError` for a result that requires a gradient. The same holds for `a += t` if `a` is an ndarray: write
  `a = a + t`.
- **`where=`** of a ufunc requires `out=`, since NumPy does not set the other elements.
- **`reduce`, `accumulate`, `reduceat` and `outer`** support ufuncs with two operands and one result. `at` also supports
  ufuncs with one operand. If its index repeats a position, `at` needs one step per repetition; `add` and `subtract`
  need one step in total.
- **Writing** (`put`, `copyto`, `fill_diagonal`, ...) rebinds the Tensor, as `x[i] = v` does. A leaf that requires a
  gradient raises an error.
- **Lists of Tensors** are supported by functions of several arrays (`concatenate`, `stack`, `block`, `select`, ...).
  For other functions, NumPy converts the list, which raises an error. Write `np.sum(np.stack([a, b]))`.
- **Indices and counts** (results of `argmax`, `searchsorted` and `unique`) are computed on the host and are constants.
- **Memory order** (`order="K"`, `"A"`) depends on the library. `weights=` of quantiles is not supported.
- **Small arrays.** With a few elements, 686 of 800 calls with recorded Tensors and 727 with other Tensors need at most
  5 times the time of NumPy, or 30 us (`python tests/numpy_times.py` lists the others). Slower functions, in us: `pad`
  with statistics 80 to 250, `polyfit` 180 to 220, `at` of ufuncs other than sums 50 to 155, `linalg.lstsq` 110 to 120,
  `nanvar` and `var` with `where=` 90 to 120, `gradient` with uneven spacing 65 to 105, `interp` 45 to 105, `poly` 75 to
  95, `piecewise` and `apply_along_axis` 65 to 95, `put` and similar functions 40 to 85, quantiles that skip NaN 75,
  `accumulate` and `reduce` of ufuncs without a sum, product or extremum 35 to 70, `out=` 30 to 55, others below 60.
- **Subclasses** of ndarray (`numpy.ma`, `numpy.matrix`) and unknown classes can handle the call themselves. If they do
  not, NumPy raises `TypeError`.

In the tables, "differentiable" means in every order, compared with finite differences of the NumPy function. "constant"
means that the result is an integer, a Boolean or piecewise constant.
"""


NOT_ASKED: dict[str, str] = {}
"""NumPy's other names, which do not dispatch on Tensors, with what happens to one."""


def _aside(reason: str, names: str) -> None:
    NOT_ASKED.update(dict.fromkeys(names.split(), reason))


_aside(
    "creates an array; with a Tensor as `like=`, it creates a Tensor on its backend and device",
    "arange empty eye frombuffer fromfile fromfunction fromiter fromstring full genfromtxt identity loadtxt ones tri "
    "zeros",
)
_aside(
    "converts to an ndarray; raises an error for a Tensor that requires a gradient; with a Tensor as `like=`, "
    "differentiable",
    "array asanyarray asarray ascontiguousarray asfortranarray require",
)
_aside(
    "converts to an ndarray; raises an error for a Tensor that requires a gradient: use `agrad.asarray`",
    "asarray_chkfinite asmatrix bmat matrix from_dlpack broadcast ndenumerate nditer nested_iters vectorize",
)
_aside(
    "accepts and returns numbers; raises an error for a Tensor that requires a gradient: use `.detach()`",
    "bartlett blackman hamming hanning kaiser base_repr binary_repr format_float_positional format_float_scientific",
)
_aside(
    "creates integer indices or shapes",
    "broadcast_shapes diag_indices indices mask_indices ndindex tril_indices triu_indices",
)
_aside("describes dtypes", "dtype finfo iinfo isdtype issubdtype mintypecode promote_types typename")
_aside("describes an object; does not read values", "iterable isscalar isfortran")
_aside("calls `numpy.vstack`, and works like it", "row_stack")
_aside("calls the functions above, and works like them", "poly1d")
_aside("creates a ufunc, which does not support Tensors: write the function with array operations", "frompyfunc")
_aside(
    "concerns NumPy itself: array classes, files, configuration or help",
    "busdaycalendar flatiter memmap ndarray recarray ufunc datetime_data errstate fromregex get_include "
    "get_printoptions getbufsize geterr geterrcall info load printoptions set_printoptions setbufsize seterr "
    "seterrcall show_config show_runtime test linalg.LinAlgError linalg.test fft.test",
)
_aside("creates an array of frequencies; use the function of `agrad.fft` for a Tensor", "fft.fftfreq fft.rfftfreq")


EXPIRING = {"in1d", "trapz"}
"""Names that NumPy before 2.4 has and warns of; they call ``isin`` and ``trapezoid``."""


def public() -> Iterator[tuple[str, Any]]:
    """Return every public callable of NumPy, ``numpy.linalg`` and ``numpy.fft``."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in dir(module):
            if name.startswith("_") or name in np.__expired_attributes__ or name in EXPIRING:
                continue
            value = getattr(module, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, np.generic)):
                yield prefix + name, value


def verdict(name: str, value: Any) -> tuple[str, str] | None:
    """Return the section of a function on the page and a remark, or None."""
    if name in NOT_ASKED:
        return "not asked", NOT_ASKED[name]
    if value in UFUNCS or value in FUNCTIONS:
        mine = [s for s in SAMPLES if find(s.group) is value]
        if name in REFUSED or not mine:
            return None if name not in READS else ("works", READS[name])
        return "works", "constant" if all(s.constant for s in mine) else "differentiable"
    if name in REFUSED:
        return "refused", REFUSED[name]
    return None


READS = dict.fromkeys(
    ("save", "savetxt", "savez", "savez_compressed"),
    "writes the values of a Tensor that does not require a gradient; call `.detach()` on others",
)


def page() -> str:
    """Return the text of the page."""
    sections: dict[str, list[str]] = {"works": [], "refused": [], "not asked": []}
    for name, value in public():
        decided = verdict(name, value)
        assert decided is not None, f"numpy.{name} is not decided"
        sections[decided[0]].append(f"| `{name}` | {decided[1]} |")
    titles = {
        "works": "Functions that support Tensors",
        "refused": "Not supported (`TypeError`)",
        "not asked": "Other names",
    }
    heads = {"works": "result", "refused": "alternative", "not asked": "behavior"}
    parts = [HEAD]
    for key, rows in sections.items():
        parts.append(f"\n## {titles[key]}\n\n| `numpy.` | {heads[key]} |\n|---|---|\n" + "\n".join(rows) + "\n")
    parts.append(
        "\nNumPy scalar types (`float64`, `int8`, ...) are dtypes. They do not accept Tensors that need gradients.\n"
    )
    return "".join(parts)


NAMES_PAGE = PAGE.with_name("agrad_numpy.md")
START, END = "<!-- names -->\n", "<!-- end of names -->\n"
KINDS = {
    "differentiable": "functions with derivatives of every order",
    "constant": "functions whose results are integers, Booleans or steps, which have no derivative",
    "create": "functions that create arrays on the current backend, differentiable with respect to the values",
    "draw": "functions that draw random numbers and move them to the current backend",
    "refused": "functions that raise `TypeError` for Tensors; the message contains the alternative",
    "numpy": "dtypes, classes, constants, options and functions without array results: the NumPy objects",
}


def kind_of(part: str, name: str) -> str:
    """Return what ``agrad.numpy`` does for a public name of a NumPy module, a key of ``KINDS``."""
    original, made = getattr(importlib.import_module(f"numpy.{part}".rstrip(".")), name), getattr(_module(part), name)
    if part == "random":
        return "numpy" if made is original else "draw"
    if part == "polynomial":
        return "numpy" if name == "set_default_printstyle" else "differentiable"
    if name in ("finfo", "iinfo"):
        return "numpy"
    full = f"{part}.{name}".lstrip(".")
    section, remark = verdict(full, original) or ("", "") if callable(original) else ("", "")
    if name in _names.OWN.get(part, {}) and remark != "constant" and not isinstance(made, type):
        return "create"
    return "refused" if section == "refused" else remark if remark in KINDS else "numpy"


def _module(part: str) -> Any:
    return importlib.import_module(f"agrad.numpy.{part}".rstrip("."))


def release() -> str:
    """Return the name of the NumPy release that the page counts."""
    return f"NumPy {np.__version__.rpartition('.')[0]}"


def names_text() -> str:
    """Return the counts and the lists of the names of ``agrad.numpy``, as the page has them."""
    found = {part: {name: kind_of(part, name) for name in sorted(_module(part).__all__)} for part in PARTS}
    count = sum(map(len, found.values()))
    differentiable = sum(kind == "differentiable" for kinds in found.values() for kind in kinds.values())
    text = [f"{release()} has {count} public names in these modules, {differentiable} of them differentiable:", ""]
    text.append(f"| kind | {' | '.join(f'`numpy.{part}`'.replace('.`', '`') for part in PARTS)} |")
    text.append("|---|" + "---:|" * len(PARTS))
    for kind in KINDS:
        counts = [sum(k == kind for k in kinds.values()) for kinds in found.values()]
        text.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    text.append(f"| all public names | {' | '.join(str(len(kinds)) for kinds in found.values())} |")
    for kind, meaning in KINDS.items():
        names = [f"{part}.{n}".lstrip(".") for part, kinds in found.items() for n, k in kinds.items() if k == kind]
        line = f"**{kind}**: {meaning}. " + ("" if kind == "numpy" else ", ".join(f"`{name}`" for name in names))
        text += ["", *textwrap.wrap(line.strip(), 120, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(text) + "\n"


PARTS = ("", "linalg", "fft", "random", "polynomial")


def with_names(text: str) -> str:
    """Return the text of the page of ``agrad.numpy`` with its names written anew."""
    before, rest = text.split(START)
    return before + START + "\n" + names_text() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    NAMES_PAGE.write_text(with_names(NAMES_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
