"""opt_einsum: contractions, and what is made for them beforehand."""

import functools

import numpy as np
import opt_einsum

from ecosystem.trial import Samples

SAMPLES = Samples()


def public() -> list[str]:
    """Return the names of the package's public functions."""
    return [name for name in opt_einsum.__all__ if name != "__version__"]


rng = np.random.default_rng(0)
A, B, C = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
T = rng.normal(size=(2, 3, 3))
Z = A + 1j * rng.normal(size=(2, 3))

add = SAMPLES.add
contract = opt_einsum.contract
for _label, (_equation, *_inputs) in {
    "three matrices": ("ij,jk,kl->il", A, B, C), "the result transposed": ("ij,jk->ki", A, B),
    "a diagonal and a batch axis": ("ij,ijj->i", A, T), "an outer product": ("ij,kl->ijkl", A, B),
    "one operand, summed": ("ijj->", T), "one operand, transposed": ("abc->cab", T),
    "an ellipsis": ("...j,jk->...k", A, B),
}.items():  # fmt: skip
    add("contract", lambda *a, e=_equation: contract(e, *a), *_inputs, label=_label)
add("contract", lambda a, b: contract("ij,jk", a, b, optimize=False), A, B, label="without an order")
add("contract", lambda a, b: contract(a, (0, 1), b, (1, 2), (2, 0)), A, B, label="indices as numbers")
add("contract", lambda z, b: contract("ij,jk->ik", z, b + 0j), Z, B, label="complex")
for _path in ("greedy", "optimal", "dp", "branch-2"):
    add("contract", lambda a, b, c, p=_path: contract("ij,jk,kl->li", a, b, c, optimize=p), A, B, C, label=_path)
expression = functools.partial(opt_einsum.contract_expression, "ij,jk,kl->il")
add("contract_expression", lambda *a: expression((2, 3), (3, 4), (4, 2))(*a), A, B, C)
add("contract_expression", lambda a, b, c: expression((2, 3), b, (4, 2), constants=[1])(a, c), A, B, C,
    label="with a constant that has a gradient")  # fmt: skip
add("contract_path", lambda a, b, c: list(map(list, opt_einsum.contract_path("ij,jk,kl->il", a, b, c)[0])), A, B, C)


def _shared(a, b, c):
    with opt_einsum.shared_intermediates():
        return contract("ij,jk,kl->il", a, b, c), contract("ij,jk,km->im", a, b, c * 2)


add("shared_intermediates", _shared, A, B, C)
