"""What the table says of every primitive, tested: values, derivatives of first and second order, on every backend."""

from typing import Any

import array_api_compat.numpy as compat_numpy
import numpy as np
import pytest
from cases import CASES, ROWS
from cases_special import UNDERIVED
from checker import (
    WAYS,
    assert_all_close,
    assert_close,
    check_adjoint,
    check_all,
    check_faces,
    check_jvp,
    check_like,
    check_makes_no_tensor,
    check_read_only,
    check_recorded,
    check_same_gradients,
    check_second,
    check_second_elsewhere,
    check_vjp,
    counting_tensors,
    gradients,
    host,
    outputs,
    random_like,
    scattered,
    weighted,
)
from crossing import each
from table import Case

import agrad
from agrad.backends import load
from agrad.dtypes import dtype_name
from agrad.registry import PRIMITIVES, namespace

# PyTorch counts the degrees of freedom of an empty batch as none, whatever the axis
pytestmark = pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")

DIFFERENTIABLE = [case for case in CASES if not case.row.constant]
FILLED = [case for case in DIFFERENTIABLE if not case.is_empty]
SMOOTH = [case for case in FILLED if not case.example.kink and not case.example.implicit]
TWICE = [case for case in FILLED if not case.example.kink]
CONSTANT = [case for case in CASES if case.row.constant]


def shows(*modes: str) -> Any:
    """Mark a test as what shows that a case has a derivative of these modes: ``docs/derivatives.md`` counts it."""

    def mark(test: Any) -> Any:
        test.shows = modes
        return test

    return mark


def test_every_primitive_has_a_row_and_every_row_a_primitive() -> None:
    assert set(ROWS) == set(PRIMITIVES)


def differentiated(name: str) -> set[str]:
    """Return the arguments of a primitive that have a derivative in some example of its row."""
    seen = set()
    for example in ROWS[name].examples:
        f, xs = Case(ROWS[name], example).problem()
        ys = outputs(f(*[agrad.asarray(x, requires_grad=True) for x in xs])) if xs else ()
        stack, met = [y.node for y in ys if y.node is not None], set()
        while stack:
            node = stack.pop()
            if node not in met:
                met.add(node)
                stack += node.parents
                if node.plan.primitive is PRIMITIVES[name]:
                    seen |= {node.plan.primitive.argument_of(i) for i in node.plan.positions}
    return seen


def test_every_rule_is_exercised() -> None:
    """Each argument that has a derivative is differentiated in some example of the row."""
    for name, primitive in PRIMITIVES.items():
        with_derivative = set(primitive.all_arrays) - set(primitive.constant) - {*UNDERIVED.get(name, "")}
        assert bool(with_derivative) != ROWS[name].constant, name
        assert ROWS[name].constant or differentiated(name) == with_derivative, name


@each(CASES)
def test_value(case: Case, backend: str, place: Any) -> None:
    """On raw arrays and on Tensors the value is the array library's own, and NumPy's."""
    arguments = case.arguments()
    placed = [place(a) if isinstance(a, np.ndarray) else a for a in arguments]
    wrapped = [agrad.asarray(a) if hasattr(a, "shape") else a for a in placed]
    # not the words of agrad's own backend of NumPy
    library = compat_numpy if backend == "numpy" else load(backend).xp
    expected = outputs(case.reference(compat_numpy, *arguments))
    got_raw, got = outputs(case.call(*placed)), outputs(case.call(*wrapped))
    own = outputs(case.reference(library, *placed)) if case.row.by_name and not case.example.reference else ()
    assert len(got) == len(got_raw) == len(expected)
    for i, value in enumerate(expected):
        assert isinstance(got[i], agrad.Tensor)
        assert not isinstance(got_raw[i], agrad.Tensor)
        check_like(got[i], got_raw[i], "the value on Tensors")
        assert_close(got_raw[i], value, "value on raw arrays", 1e-12)
        assert_close(got[i], value, "value on Tensors", 1e-12)
        assert dtype_name(got_raw[i].dtype) == dtype_name(np.asarray(value).dtype)
        if own:
            check_like(got_raw[i], own[i], "the library's own value")


@shows("reverse", "forward", "second")
@each(SMOOTH, whole=True)
def test_derivatives_against_differences(case: Case) -> None:
    for check in (check_vjp, check_jvp, check_second):
        check(*case.problem(), case.rng())


@each(FILLED)
def test_memory(case: Case) -> None:
    """Nothing is written into, and the layout of the arguments does not matter."""
    f, xs = case.problem()
    check_read_only(f, xs, case.rng())
    check_same_gradients(f, xs, [scattered(x) for x in xs], case.rng())


def test_the_counter_of_tensors_counts() -> None:
    x = agrad.asarray(np.ones(3), requires_grad=True)
    y = agrad.sum(x * x)
    with counting_tensors() as count:
        y.backward(create_graph=True)
    assert count[0] > 3
    with counting_tensors() as count:
        agrad.zeros(3)
    assert count == [1]


@shows("reverse", "forward")
@each(DIFFERENTIABLE)
def test_faces_agree_on_every_backend(case: Case, place: Any) -> None:
    """All ways to a gradient agree, on Tensors too, keep dtype and device, and give what NumPy gives."""
    f, xs = case.problem(place)
    found = check_faces(f, xs, case.rng())
    on_host, host_xs = case.problem()
    weights = random_like(outputs(on_host(*host_xs)), case.rng())
    assert_all_close(found, gradients(on_host, host_xs, weights), "the gradient on NumPy, of argument")
    if not case.is_empty:
        check_recorded(f, xs, case.rng())
        check_makes_no_tensor(f, xs, case.rng())


@shows("second")
@each(TWICE, elsewhere=True)
def test_second_order_on_every_backend(case: Case, place: Any) -> None:
    """Second derivatives are NumPy's, which ``test_derivatives_against_differences`` compares with differences."""
    check_second_elsewhere(*case.problem(place), *case.problem(), case.rng, ways=WAYS[1:])


@shows("second")
@each([case for case in TWICE if case.example.implicit])
def test_second_order_without_differences(case: Case) -> None:
    """All orders of modes agree where finite differences say nothing."""
    check_second_elsewhere(*case.problem(), *case.problem(), case.rng)


@each(FILLED)
def test_single_precision(case: Case, place: Any) -> None:
    """In float32 everything stays float32, and the numbers are those of float64."""
    f, xs = case.problem(place, single=True)
    double_f, double_xs = case.problem()
    doubles = outputs(double_f(*double_xs))
    narrow = {"float64": "float32", "complex128": "complex64"}
    if case.row.primitive != "astype":
        for value, double in zip(outputs(f(*xs)), doubles, strict=True):
            assert dtype_name(value.dtype) == narrow[dtype_name(double.dtype)]
    found = check_adjoint(f, xs, case.rng())
    weights = random_like(doubles, case.rng())
    assert_all_close(
        found, gradients(double_f, double_xs, weights), "the gradient, single and double, of argument", 2e-4
    )


@each(CONSTANT)
def test_no_derivative_by_decision(case: Case, place: Any) -> None:
    """The result is a constant, nothing is recorded, and the gradient through it is zero."""
    args = [place(a) if isinstance(a, np.ndarray) else a for a in case.arguments()]
    leaves = [
        agrad.asarray(a, requires_grad="float" in dtype_name(a.dtype)) if hasattr(a, "shape") else a for a in args
    ]
    for out in outputs(case.call(*leaves)):
        assert isinstance(out, agrad.Tensor)
        assert not out.requires_grad
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, agrad.Tensor) and leaf.requires_grad:

            def total(x: Any, i: int = i) -> Any:
                y = outputs(case.call(*args[:i], x, *args[i + 1 :]))[0]
                return agrad.sum(agrad.astype(y, agrad.float64)) + agrad.sum(x)

            assert_close(agrad.grad(total)(args[i]), np.ones(args[i].shape), "gradient past a constant")
            _, tangent = agrad.jvp(lambda x, i=i: case.call(*args[:i], x, *args[i + 1 :]), (args[i],), (args[i],))
            assert not any(host(t).any() for t in outputs(tangent))


@pytest.mark.parametrize("name", ["sgd_update", "adam_update"])
def test_optimizer_steps_are_differentiable(name: str) -> None:
    """On Tensors their bodies are recorded, as are the compositions of any function."""
    body = PRIMITIVES[name].forward
    for example in ROWS[name].examples:
        case = Case(ROWS[name], example)
        check_all(lambda *at, o=example.settings: body(namespace, *at, **o), case.problem()[1], case.rng())


def test_weighted_is_linear_in_the_weights() -> None:
    """The checks stand on it, so it is held to numbers."""
    y = np.asarray([1.0, 2.0])
    assert weighted(y, [np.asarray([3.0, 4.0])]) == 11.0
    assert weighted(y, [np.asarray([3.0, 4.0])], square=True) == 3 * 1 * 2 + 4 * 2 * 3
    assert weighted((y, 1j * y), [y, 1j * y]) == 5.0 - 5.0
