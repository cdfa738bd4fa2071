"""agrad's namespace with every floating array on the tape, for conformance tests.

Recording may change no value, shape or dtype, so the suite must say the same of this module as of agrad. What is
created is the result of a recorded operation and no leaf, as a leaf is protected from change in place. The suite reads
values with ``float`` and the like, which agrad refuses for what requires a gradient; here reading is allowed.
"""

import functools
from collections.abc import Callable
from typing import Any

import agrad
from agrad import *  # noqa: F403
from agrad.dtypes import is_floating

globals().update(
    {name: value for name, value in vars(agrad).items() if name not in ("__name__", "__file__", "__spec__")}
)


def recorded(value: Any) -> Any:
    """Return a floating Tensor as a recorded result; anything else as it is."""
    if not isinstance(value, agrad.Tensor) or not is_floating(value.dtype) or value.requires_grad:
        return value
    leaf = value.detach()
    leaf.requires_grad = True
    return agrad.positive(leaf)


def _recording(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def created(*args: Any, **settings: Any) -> Any:
        return recorded(create(*args, **settings))

    return created


_CREATION = (
    "arange", "asarray", "astype", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "ones",
    "ones_like", "zeros", "zeros_like",
)  # fmt: skip
for _name in _CREATION:
    globals()[_name] = _recording(getattr(agrad, _name))

agrad.Tensor._check_detached = agrad.Tensor._check_concrete  # type: ignore[method-assign]
