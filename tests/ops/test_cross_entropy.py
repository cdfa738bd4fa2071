"""Cross entropy with its reduction as one operation: its rules on every backend, and the arrays it is used for."""

from typing import Any

import numpy as np
import pytest
from checker import host

import agrad
from agrad import nn
from agrad.ops.losses import cross_entropy_p

RNG = np.random.default_rng(5)
X, LABELS = RNG.normal(size=(4, 3)), np.array([2, 0, 1, 0])
OPTIONS = [
    {"ignore": ignore, "smoothing": smoothing, "reduction": reduction}
    for ignore, smoothing in ((None, 0.0), (0, 0.0), (None, 0.2), (0, 0.2))
    for reduction in ("mean", "sum", "none")
]


def expected(x: np.ndarray, labels: np.ndarray, ignore: Any, smoothing: float, reduction: str) -> np.ndarray:
    log_p = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))
    targets = (1 - smoothing) * np.eye(x.shape[1])[labels] + smoothing / x.shape[1]
    kept = np.ones(len(labels), bool) if ignore is None else labels != ignore
    losses = np.where(kept, -np.sum(targets * log_p, axis=1), 0)
    return losses if reduction == "none" else losses.sum() / (kept.sum() if reduction == "mean" else 1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_function_is_the_operation_and_its_definition(place: Any, options: dict[str, Any]) -> None:
    """CuPy uses the operation, other libraries several ones: value, gradients, forward mode, batches and jit agree."""
    x, t, labels = place(X), place(X[::-1].copy()), place(LABELS)
    how = {"label_smoothing": options["smoothing"], "reduction": options["reduction"]}
    how |= {} if options["ignore"] is None else {"ignore_index": options["ignore"]}

    def f(x: Any, labels: Any = labels) -> Any:
        return nn.functional.cross_entropy(x, labels, **how)

    def total(x: Any, labels: Any = labels) -> Any:
        return agrad.sum(f(x, labels) * 3)

    right = expected(X, LABELS, **options)
    for call in (f, agrad.jit(f)):
        np.testing.assert_allclose(host(call(x)), right, rtol=1e-12)
    slopes = agrad.grad(lambda x: agrad.sum(cross_entropy_p(x, LABELS, **options)[0] * 3))(X)
    for call in (agrad.grad(total), agrad.jit(agrad.grad(total)), agrad.grad(agrad.jit(total))):
        np.testing.assert_allclose(host(call(x)), slopes, rtol=1e-10, atol=1e-14)
    for call in (total, agrad.jit(total)):
        np.testing.assert_allclose(host(agrad.jvp(call, (x,), (t,))[1]), np.sum(slopes * X[::-1]), rtol=1e-10)
    curved = agrad.grad(lambda x: agrad.sum(agrad.grad(total)(x) * t))(x)
    push = agrad.jvp(agrad.grad(total), (x,), (t,))[1]
    np.testing.assert_allclose(host(curved), host(push), rtol=1e-10, atol=1e-14)
    both = place(np.stack([X, 2 * X])), place(np.stack([LABELS, LABELS[::-1]]))
    for call in (agrad.grad(total), agrad.grad(agrad.jit(total))):
        each = agrad.vmap(call)(*both)
        np.testing.assert_allclose(host(each[0, ...]), slopes, rtol=1e-10, atol=1e-14)
        one = host(agrad.grad(total)(both[0][1, ...], both[1][1, ...]))
        np.testing.assert_allclose(host(each[1, ...]), one, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2, 2), (3,)])
def test_axes_after_the_classes_and_narrow_labels(place: Any, shape: tuple[int, ...]) -> None:
    x, lead = RNG.normal(size=shape), (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    labels = RNG.integers(0, 3, lead).astype(np.uint8)
    for reduction in ("mean", "none"):
        found = host(nn.functional.cross_entropy(place(x), place(labels), reduction=reduction))
        flat = np.moveaxis(x, 1, -1).reshape(-1, shape[1]) if len(shape) > 1 else x[None]
        right = expected(flat, labels.reshape(-1), None, 0.0, reduction)
        np.testing.assert_allclose(found, right.reshape(lead) if reduction == "none" else right, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_are_ignored_are_not_used(place: Any) -> None:
    """The derivative of a row that changes nothing is 0, also behind an infinite derivative and a product."""
    x, labels = np.array([[0.0, 1.0, 4.0], [1.0, 4.0, 9.0]]), place(np.array([-100, 1]))
    weight = place(np.eye(3))
    for f in (lambda x: agrad.sqrt(x), lambda x: agrad.sqrt(x) @ weight):
        g = agrad.grad(lambda x, f=f: nn.functional.cross_entropy(f(x), labels))
        for call in (g, agrad.jit(g)):
            found = host(call(place(x)))
            assert not found[0].any() and np.isfinite(found).all() and found[1].all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, agrad.jit])
def test_a_used_row_is_used_as_a_whole(place: Any, wrap: Any) -> None:
    """A used element with the cotangent 0 and an infinite derivative is not a number, whatever masks other rows."""
    x, labels, kept = (
        place(np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 9.0]])),
        place(np.array([0, -100])),
        place(np.array([True, False])),
    )
    rows, ones = agrad.reshape(kept, (2, 1)), place(np.ones(3))
    for f in (
        *(
            lambda x, r=r: agrad.sum(nn.functional.cross_entropy(x, labels, reduction=r))
            for r in ("none", "mean", "sum")
        ),
        lambda x: nn.functional.cross_entropy(x, labels, weight=ones),
        lambda x: agrad.sum(agrad.where(kept, agrad.cross_entropy(x, place(np.array([0, 0])), reduction="none"), 0.0)),
        lambda x: agrad.sum(agrad.where(rows, agrad.softmax(x), 0.0)),
        lambda x: agrad.sum(agrad.where(rows, agrad.logsumexp(x, axis=1, keepdims=True), 0.0)),
        lambda x: agrad.sum(agrad.where(kept, agrad.logsumexp(x, axis=(1,)), 0.0)),
    ):
        found = host(wrap(agrad.grad(lambda x, f=f: f(agrad.log(x))))(x))
        assert np.isnan(found[0, 1:]).all() and not found[1].any()
