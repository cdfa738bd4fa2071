"""cotengra: contractions, and the trees and expressions that are made for them."""

import functools

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
for _label, (_equation, *_inputs) in {
    "": ("ij,jk->ik", A, B), "three matrices": ("ij,jk,kl->li", A, B, C), "an outer product": ("ij,kl->ijkl", A, B),
    "a batch axis": ("ij,ijk->ik", A, T), "a diagonal": ("ijj->i", T), "one operand, summed": ("ijk->", T),
    "one operand, transposed": ("abc->cab", T), "an ellipsis": ("...j,jk->...k", A, B),
}.items():  # fmt: skip
    add("einsum", lambda *a, e=_equation: einsum(e, *a), *_inputs, label=_label)
add("einsum", lambda z, b: einsum("ij,jk->ik", z, b + 0j), Z, B, label="complex")
for _how in ("greedy", "optimal", "auto"):
    add("einsum", lambda a, b, c, h=_how: einsum("ij,jk,kl->il", a, b, c, optimize=h), A, B, C, label=_how)
add("einsum", lambda a, b, c: einsum("ij,jk,ki->", a, b, c, strip_exponent=True), A, B, C, label="strip_exponent")
SHAPES, INDICES = (A.shape, B.shape, C.shape), [("i", "j"), ("j", "k"), ("k", "l")]
expression = functools.partial(cotengra.einsum_expression, "ij,jk,kl->il")
tree = functools.partial(cotengra.einsum_tree, "ij,jk,kl->il", *SHAPES)
add("einsum_expression", lambda *a: expression(*SHAPES)(*a), A, B, C)
add("einsum_expression", lambda a, b, c: expression(A.shape, b, C.shape, constants=[1])(a, c), A, B, C,
    label="with a constant that has a gradient")  # fmt: skip
add("einsum_tree", lambda *a: tree().contract(list(a)), A, B, C)
add("ContractionTree.slice", lambda *a: tree().slice(target_slices=2).contract(list(a)), A, B, C)
add("array_contract", lambda *a: cotengra.array_contract(list(a), INDICES, ("i", "l")), A, B, C)
add(
    "array_contract_expression",
    lambda *a: cotengra.array_contract_expression(INDICES, ("l", "i"), shapes=list(SHAPES))(*a), A, B, C,
)  # fmt: skip
add("ncon", lambda a, b, c: cotengra.ncon([a, b, c], [(-1, 1), (1, 2), (2, -2)]), A, B, C)
