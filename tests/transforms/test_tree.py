"""``agrad.tree``: functions of nested containers."""

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import agrad
from agrad import tree
from agrad.errors import OperandError, ShapeError


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
    assert pairs == [
        ("['a'].first", 3),
        ("['a'].second.weight", 4),
        ("['a'].second.bias", 5),
        ("['b'][0]", 1),
        ("['b'][1][0]", 2),
    ]
    assert structure == tree.structure(TREE)
    assert tree.flatten_with_path(7)[0] == [("", 7)]


def test_map() -> None:
    assert tree.map(lambda x: 10 * x, TREE) == {"b": [10, (20, None)], "a": Pair(30, Layer(40, 50))}
    assert tree.map(lambda x, y, z: x + y + z, TREE, TREE, TREE) == tree.map(lambda x: 3 * x, TREE)
    assert tree.map(abs, -1) == 1


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (
            {"w": [1, 2]},
            {"w": [1]},
            "tree.map: the containers differ at ['w']: container 0 has a list of 2, container 1 a list of 1",
        ),
        ({"w": [1, 2]}, {"w": (1, 2)}, "at ['w']: container 0 has a list of 2, container 1 a tuple of 2"),
        ([1, [2]], [1, 2], "at [1]: container 0 has a list of 1, container 1 a leaf"),
        ([1, 2], [1, None], "at [1]: container 0 has a leaf, container 1 None"),
        (
            {"w": 1},
            {"v": 1},
            "at the top: container 0 has a dict with the keys 'w', container 1 a dict with the keys 'v'",
        ),
        ({}, {"v": 1}, "at the top: container 0 has an empty dict, container 1 a dict with the keys 'v'"),
        ({"v": 1}, OrderedDict(v=1), "a dict with the keys 'v', container 1 a OrderedDict with the keys 'v'"),
        (
            Pair(1, Layer(2, [3])),
            Pair(1, Layer(2, 3)),
            "at .second.bias: container 0 has a list of 1, container 1",
        ),
        (Pair(1, 2), (1, 2), "at the top: container 0 has a Pair of 2, container 1 a tuple of 2"),
    ],
)
def test_map_names_the_place_that_differs(a: Any, b: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        tree.map(lambda x, y: x, a, b)
    assert text in str(caught.value)
    with pytest.raises(ShapeError, match="container 2"):
        tree.map(lambda x, y, z: x, a, a, b)


def test_all_and_reduce() -> None:
    assert tree.all(TREE)
    assert tree.all([])
    assert not tree.all([True, {"a": np.asarray(False)}])
    assert tree.all([]) is True
    assert tree.reduce(lambda x, y: x - y, [10, (3, 2)]) == 5
    assert tree.reduce(lambda x, y: [*x, y], [1, 2], []) == [1, 2]
    assert tree.reduce(max, None, None) is None
    with pytest.raises(ShapeError, match="there are no leaves; give an initializer"):
        tree.reduce(max, {})


def test_unflatten_counts() -> None:
    with pytest.raises(ShapeError, match="has 5 leaves; 2 were given"):
        tree.unflatten(tree.structure(TREE), [1, 2])
    with pytest.raises(OperandError, match=r"takes a structure first, as .* returns, not a list"):
        tree.unflatten([1, 2], tree.structure(TREE))


def test_inside_transforms(backend: str) -> None:
    x = {"w": agrad.asarray([1.0, 2.0]), "b": [agrad.asarray(3.0)]}

    def norm(parameters: Any) -> Any:
        squares = agrad.tree.map(lambda leaf: agrad.sum(leaf * leaf), parameters)
        return agrad.tree.reduce(agrad.add, squares)

    for gradient in (agrad.grad(norm), agrad.jit(agrad.grad(norm))):
        ones = agrad.tree.map(lambda g, leaf: agrad.all(g == 2 * leaf), gradient(x), x)
        assert agrad.tree.all(ones)
