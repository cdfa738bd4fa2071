"""The texts of errors that the operations raise themselves: the function, the value that is wrong, the remedy."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from refusals import each_fails

import agrad
from agrad.errors import IndexRangeError, OperandError, ShapeError

A = np.arange(6.0).reshape(1, 2, 3)
OPERATIONS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: agrad.squeeze(x, axis=1), ShapeError, "squeeze: axis 1 must have length 1, got 2"),
    (lambda x: agrad.squeeze(x, axis=(0, -1)), ShapeError, "squeeze: axis 2 must have length 1, got 3"),
    (lambda x: agrad.squeeze(x, axis=3), IndexRangeError, "axis 3 is out of range for an array of 3 dimensions"),
    (lambda x: agrad.squeeze(2.0, axis=0), OperandError, "squeeze: arguments must be Tensors or arrays, got float"),
    (lambda x: agrad.concat(x), OperandError, "concat: arrays must be a list or tuple of arrays, got one array"),
    (lambda x: agrad.stack(x), OperandError, "stack: arrays must be a list or tuple of arrays, got one array"),
    (lambda x: agrad.concat([]), ShapeError, "concat: arrays must contain at least one array"),
    (lambda x: agrad.stack(()), ShapeError, "stack: arrays must contain at least one array"),
    (
        lambda x: agrad.broadcast_to(x, (1, 2, 4)),
        ShapeError,
        "broadcast_to: shape must be one that x of shape (1, 2, 3) broadcasts to, got (1, 2, 4)",
    ),
    (
        lambda x: agrad.broadcast_to(x, (2, 3)),
        ShapeError,
        "broadcast_to: shape must be one that x of shape (1, 2, 3) broadcasts to, got (2, 3)",
    ),
    (
        lambda x: agrad.matrix_transpose(agrad.reshape(x, (6,))),
        ShapeError,
        "matrix_transpose: x must have at least 2 axes, got shape (6,)",
    ),
]
EINSUM: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: np.einsum("ijk,k->i", x), ValueError, "subscripts must describe 1 operands, got 2"),
    (lambda x: np.einsum("ijk->i", x, x), ValueError, "subscripts must describe 2 operands, got 1"),
    (lambda x: np.einsum("ij->i", x), ValueError, "the indices 'ij' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("hijk->i", x), ValueError, "the indices 'hijk' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("...hijk", x), ValueError, "the indices '...hijk' do not match an operand of shape (1, 2, 3)"),
    (lambda x: np.einsum("ijk->jj", x), ValueError, "must be distinct indices of the operands, got 'jj'"),
    (lambda x: np.einsum("ijk->il", x), ValueError, "must be distinct indices of the operands, got 'il'"),
    (lambda x: np.einsum("ijj->i", x), ValueError, "the index 'j' must have one length, got 2 and 3"),
    (lambda x: np.einsum("ijk,ikj->", x, x), ValueError, "the index 'k' must have one length, got 3 and 2"),
    (lambda x: np.einsum("ijk->", x, chosen=1), TypeError, "numpy.einsum: unexpected keyword arguments: chosen"),
]


def test_of_operations(place: Any) -> None:
    raw = place(A)
    for x in (raw, agrad.asarray(raw), agrad.asarray(raw, requires_grad=True)):
        each_fails([(call, error, re.escape(text)) for call, error, text in OPERATIONS], x)


def test_of_sums_over_indices(place: Any) -> None:
    each_fails([(call, error, re.escape(text)) for call, error, text in EINSUM], agrad.asarray(place(A)))
