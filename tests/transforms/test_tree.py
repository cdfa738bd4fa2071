"""``agrad.tree``: functions of nested containers."""

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from checker import host
from refusals import fails

import agrad
from agrad import tree
from agrad.errors import DtypeError, OperandError, ShapeError


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


class Pair(NamedTuple):
    first: Any
    second: Any


class Opaque:
    pass


TREE = {"b": [1, (2, None)], "a": Pair(3, Layer(4, 5))}


def test_flatten_and_unflatten() -> None:
    leaves, structure = tree.flatten(TREE)
    assert leaves == tree.leaves(TREE) == [3, 4, 5, 1, 2]
    assert structure == tree.structure(TREE) != tree.structure({"b": 1})
    assert tree.unflatten(structure, iter(leaves)) == TREE
    assert tree.leaves(None) == []
    assert tree.leaves(7) == [7]
    thing = Opaque()
    assert tree.leaves([thing]) == [thing]


def test_paths() -> None:
    pairs, structure = tree.flatten_with_path(TREE)
    paths = ["['a'].first", "['a'].second.weight", "['a'].second.bias", "['b'][0]", "['b'][1][0]"]
    assert pairs == list(zip(paths, [3, 4, 5, 1, 2], strict=True))
    assert structure == tree.structure(TREE)
    assert tree.flatten_with_path(7)[0] == [("", 7)]


def test_map() -> None:
    assert tree.map(lambda x: 10 * x, TREE) == {"b": [10, (20, None)], "a": Pair(30, Layer(40, 50))}
    assert tree.map(lambda x, y, z: x + y + z, TREE, TREE, TREE) == tree.map(lambda x: 3 * x, TREE)
    assert tree.map(abs, -1) == 1


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ({"w": [1, 2]}, {"w": [1]}, "tree.map: pytree 1 must have a list of length 2 at ['w'], like pytree 0, got a"),
        ({"w": [1, 2]}, {"w": (1, 2)}, "a list of length 2 at ['w'], like pytree 0, got a tuple of length 2"),
        ([1, [2]], [1, 2], "a list of length 1 at [1], like pytree 0, got a leaf"),
        ([1, 2], [1, None], "a leaf at [1], like pytree 0, got None"),
        ({"w": 1}, {"v": 1}, "a dict with keys 'w' at the top, like pytree 0, got a dict with keys 'v'"),
        ({}, {"v": 1}, "an empty dict at the top, like pytree 0, got a dict with keys 'v'"),
        ({"v": 1}, OrderedDict(v=1), "a dict with keys 'v' at the top, like pytree 0, got a OrderedDict with keys 'v'"),
        (Pair(1, Layer(2, [3])), Pair(1, Layer(2, 3)), "a list of length 1 at .second.bias, like pytree 0"),
        (Pair(1, 2), (1, 2), "a Pair of length 2 at the top, like pytree 0, got a tuple of length 2"),
    ],
)
def test_map_names_the_place_that_differs(a: Any, b: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        tree.map(lambda x, y: x, a, b)
    assert text in str(caught.value)
    fails(ShapeError, "pytree 2 must have", lambda: tree.map(lambda x, y, z: x, a, a, b))


def test_all_and_reduce() -> None:
    assert tree.all(TREE)
    assert tree.all([])
    assert not tree.all([True, {"a": np.asarray(False)}])
    assert tree.all([]) is True
    assert tree.reduce(lambda x, y: x - y, [10, (3, 2)]) == 5
    assert tree.reduce(lambda x, y: [*x, y], [1, 2], []) == [1, 2]
    assert tree.reduce(max, None, None) is None
    fails(ShapeError, "tree must have leaves, got none", lambda: tree.reduce(max, {}))


def test_unflatten_counts() -> None:
    fails(ShapeError, r"leaves must have length 5, .* got 2", lambda: tree.unflatten(tree.structure(TREE), [1, 2]))
    fails(OperandError, r"must be a result of tree\.structure", tree.unflatten, [1, 2], tree.structure(TREE))


def mixed(place: Any) -> Any:
    return {
        "b": [place(np.asarray([[1.0, 2.0], [3.0, 4.0]])), (place(np.asarray(5.0)), None)],
        "a": Pair(place(np.zeros((0, 2))), Layer(6.0, place(np.asarray([7.0, 8.0])))),
    }


def test_ravel_and_back(place: Any) -> None:
    x = mixed(place)
    vector, unravel = tree.ravel(x)
    assert type(vector) is type(x["b"][0])
    assert host(vector).tolist() == [6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    back = unravel(vector)
    assert tree.structure(back) == tree.structure(x)
    for a, b in zip(tree.leaves(back), tree.leaves(x), strict=True):
        assert tuple(a.shape) == np.shape(b) and host(a).tolist() == np.asarray(host(b)).tolist()
    assert isinstance(tree.ravel(mixed(lambda a: agrad.asarray(place(a))))[0], agrad.Tensor)


def test_ravel_of_numbers_and_of_nothing(backend: str) -> None:
    vector, unravel = tree.ravel((1.0, [2.0, {"x": 3.0}], 4))
    assert not isinstance(vector, agrad.Tensor)
    assert agrad.asarray(vector).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert agrad.asarray(unravel(2 * vector)[1][1]["x"]).tolist() == 6.0
    vector, unravel = tree.ravel([None, ()])
    assert tuple(vector.shape) == (0,)
    assert unravel(vector) == [None, ()]
    vector, unravel = tree.ravel(7.0)
    assert float(unravel(vector)) == 7.0


def test_ravel_promotes_and_casts_back(place: Any) -> None:
    x = {"a": place(np.asarray([1.0, 2.0], np.float32)), "b": place(np.asarray([3.0])), "c": 4}
    vector, unravel = tree.ravel(x)
    assert agrad.float64 == vector.dtype
    assert agrad.float32 == unravel(vector)["a"].dtype and agrad.float64 == unravel(vector)["b"].dtype
    vector, unravel = tree.ravel({"a": x["a"], "b": place(np.asarray([3.0 + 1.0j], np.complex64))})
    assert agrad.complex64 == vector.dtype
    assert agrad.float32 == unravel(1j * vector)["a"].dtype and agrad.complex64 == unravel(vector)["b"].dtype
    assert host(unravel((1 + 1j) * vector)["a"]).tolist() == [1.0, 2.0]
    vector, unravel = tree.ravel([place(np.asarray([1, 2])), place(np.asarray([3], np.int8)), 4])
    assert agrad.int64 == vector.dtype and agrad.int8 == unravel(vector)[1].dtype


@pytest.mark.parametrize(
    ("leaf", "error", "text"),
    [
        (np.asarray([1, 2]), DtypeError, r"\['b'\] must .* kind of float64, like the leaf at \['a'\], got int64"),
        (np.asarray(True), DtypeError, r"the leaf at \['b'\] must .* got bool. Cast one of them, or leave it out"),
        (True, DtypeError, r"the leaf at \['b'\] must .* got bool"),
        ("text", OperandError, r"the leaf at \['b'\] must be an array or a number, got str"),
    ],
)
def test_ravel_refuses_what_one_vector_cannot_hold(leaf: Any, error: type, text: str) -> None:
    fails(error, text, lambda: tree.ravel({"a": np.zeros(2), "b": leaf}))
    fails(error, "the leaf at", lambda: tree.ravel({"a": 1, "b": leaf, "c": np.zeros(2)}))


def test_unravel_takes_the_shape_that_ravel_gave() -> None:
    _, unravel = tree.ravel({"a": np.zeros(2), "b": 1.0})
    fails(ShapeError, r"vector must have shape \(3,\), as tree.ravel returned, got \(4,\)", unravel, np.zeros(4))
    fails(ShapeError, r"got \(\)", unravel, 1.0)


def test_ravel_is_differentiable_both_ways(place: Any) -> None:
    x = mixed(place)
    vector, unravel = tree.ravel(x)

    def forth(x: Any) -> Any:
        flat = tree.ravel(x)[0]
        return agrad.sum(flat**3)

    def back(vector: Any) -> Any:
        return tree.reduce(agrad.add, tree.map(lambda leaf: agrad.sum(leaf**3), unravel(vector)))

    agrad.testing.check_grads(forth, (x,))
    agrad.testing.check_grads(back, (vector,))
    expected = 3 * host(vector) ** 2
    for gradient in (agrad.grad(back), agrad.jit(agrad.grad(back))):
        for _ in range(2):
            assert host(gradient(vector)).tolist() == expected.tolist()
    for gradient in (agrad.grad(forth), agrad.jit(agrad.grad(forth))):
        assert host(tree.ravel(gradient(x))[0]).tolist() == expected.tolist()


def test_ravel_under_vmap(place: Any) -> None:
    batch = {"a": place(np.arange(6.0).reshape(3, 2)), "b": place(np.asarray([1.0, 2.0, 3.0]))}

    def around(x: Any) -> Any:
        vector, unravel = tree.ravel(x)
        return vector, unravel(2 * vector)

    vectors, doubled = agrad.vmap(around)(batch)
    assert host(vectors).tolist() == [[0.0, 1.0, 1.0], [2.0, 3.0, 2.0], [4.0, 5.0, 3.0]]
    assert host(doubled["a"]).tolist() == (2 * np.arange(6.0).reshape(3, 2)).tolist()
    assert host(doubled["b"]).tolist() == [2.0, 4.0, 6.0]
