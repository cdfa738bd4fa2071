"""cotengra: contractions, and the trees and expressions that are made for them."""

import cotengra
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
A, B, C = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
T = rng.normal(size=(2, 3, 3))
Z = A + 1j * rng.normal(size=(2, 3))

add = SAMPLES.add
einsum = cotengra.einsum
add("einsum", lambda a, b: einsum("ij,jk->ik", a, b), A, B)
add("einsum", lambda a, b, c: einsum("ij,jk,kl->li", a, b, c), A, B, C, label="three matrices")
add("einsum", lambda a, b: einsum("ij,kl->ijkl", a, b), A, B, label="an outer product")
add("einsum", lambda a, t: einsum("ij,ijk->ik", a, t), A, T, label="a batch axis")
add("einsum", lambda t: einsum("ijj->i", t), T, label="a diagonal")
add("einsum", lambda t: einsum("ijk->", t), T, label="one operand, summed")
add("einsum", lambda t: einsum("abc->cab", t), T, label="one operand, transposed")
add("einsum", lambda a, b: einsum("...j,jk->...k", a, b), A, B, label="an ellipsis")
add("einsum", lambda z, b: einsum("ij,jk->ik", z, b + 0j), Z, B, label="complex")
for _how in ("greedy", "optimal", "auto"):
    add("einsum", lambda a, b, c, h=_how: einsum("ij,jk,kl->il", a, b, c, optimize=h), A, B, C, label=_how)
add("einsum", lambda a, b, c: einsum("ij,jk,ki->", a, b, c, strip_exponent=True), A, B, C, label="strip_exponent")
add("einsum_expression", lambda a, b, c: cotengra.einsum_expression("ij,jk,kl->il", A.shape, B.shape, C.shape)(a, b, c),
    A, B, C)  # fmt: skip
add(
    "einsum_expression",
    lambda a, b, c: cotengra.einsum_expression("ij,jk,kl->il", A.shape, b, C.shape, constants=[1])(a, c),
    A, B, C, label="with a constant that has a gradient",
)  # fmt: skip
add(
    "einsum_tree",
    lambda a, b, c: cotengra.einsum_tree("ij,jk,kl->il", A.shape, B.shape, C.shape).contract([a, b, c]),
    A, B, C,
)  # fmt: skip


def _sliced(a, b, c):
    tree = cotengra.einsum_tree("ij,jk,kl->il", A.shape, B.shape, C.shape)
    return tree.slice(target_slices=2).contract([a, b, c])


add("ContractionTree.slice", _sliced, A, B, C)
add(
    "array_contract",
    lambda a, b, c: cotengra.array_contract([a, b, c], [("i", "j"), ("j", "k"), ("k", "l")], ("i", "l")),
    A, B, C,
)  # fmt: skip
add(
    "array_contract_expression",
    lambda a, b, c: cotengra.array_contract_expression(
        [("i", "j"), ("j", "k"), ("k", "l")], ("l", "i"), shapes=[A.shape, B.shape, C.shape]
    )(a, b, c),
    A, B, C,
)  # fmt: skip
add("ncon", lambda a, b, c: cotengra.ncon([a, b, c], [(-1, 1), (1, 2), (2, -2)]), A, B, C)

NOT_TRIED = {"optimizers, paths and plots": "search for an order, from shapes only, and plot it"}


def public() -> list[str]:
    """Return the names that the samples cover; most others are about orders."""
    return sorted({sample.name for sample in SAMPLES})
