"""Functions of nested containers: pytrees.

The containers are those of ``grad`` and ``jit``: dict, list, tuple, namedtuple and dataclass. All else is a leaf;
None has no leaves. A dict's leaves are sorted by key.
"""

import builtins
import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import agrad
import agrad.transforms.trees as trees
from agrad.errors import DtypeError, OperandError, ShapeError

__all__ = ["all", "flatten", "flatten_with_path", "leaves", "map", "ravel", "reduce", "structure", "unflatten"]

_NO_START: Any = object()


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return a container's leaves, and its structure.

    Parameters
    ----------
    tree : container
        Nested containers, or a single leaf.

    Returns
    -------
    tuple
        (leaves, structure): a list, and an object for ``unflatten`` that is equal for containers of one structure.

    Examples
    --------
    >>> leaves, structure = agrad.tree.flatten({"a": 1, "b": (2, 3)})
    >>> leaves
    [1, 2, 3]
    >>> structure
    PyTreeSpec({'a': *, 'b': (*, *)})
    >>> agrad.tree.unflatten(structure, [10, 20, 30])
    {'a': 10, 'b': (20, 30)}
    """
    return trees.flatten(tree)


def leaves(tree: Any) -> list[Any]:
    """Return a container's leaves.

    Parameters
    ----------
    tree : container
        Nested containers, or a single leaf.

    Returns
    -------
    list
        The leaves in the order of ``flatten``.

    Examples
    --------
    >>> agrad.tree.leaves({"a": 1, "b": (2, 3)})
    [1, 2, 3]
    """
    return trees.flatten(tree)[0]


def structure(tree: Any) -> Any:
    """Return a container's structure.

    Parameters
    ----------
    tree : container
        Nested containers, or a single leaf.

    Returns
    -------
    object
        The structure of ``flatten``. Its text is the container with ``*`` for leaves.

    Examples
    --------
    >>> agrad.tree.structure({"a": 1, "b": (2, 3)})
    PyTreeSpec({'a': *, 'b': (*, *)})
    """
    return trees.flatten(tree)[1]


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Return the container with a structure and leaves.

    Parameters
    ----------
    structure : object
        A structure made by ``structure`` or ``flatten``.
    leaves : iterable
        As many leaves as the structure has.

    Returns
    -------
    container
        A new container.

    Raises
    ------
    ShapeError
        If the number of leaves is another.
    OperandError
        If ``structure`` is none; it is the first argument.

    Examples
    --------
    >>> structure = agrad.tree.structure({"a": 1, "b": (2, 3)})
    >>> agrad.tree.unflatten(structure, ["x", "y", "z"])
    {'a': 'x', 'b': ('y', 'z')}
    """
    if not hasattr(structure, "num_leaves"):
        raise OperandError(
            f"tree.unflatten takes a structure first, as tree.structure returns, not a {type(structure).__name__}"
        )
    given = list(leaves)
    if len(given) != structure.num_leaves:
        raise ShapeError(f"tree.unflatten: {structure} has {structure.num_leaves} leaves; {len(given)} were given")
    return trees.unflatten(structure, given)


def flatten_with_path(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return a container's leaves with their paths, and its structure.

    Parameters
    ----------
    tree : container
        Nested containers, or a single leaf.

    Returns
    -------
    tuple
        (pairs, structure): a list of (path, leaf), and the structure of ``flatten``. A path is a string in Python's
        notation, such as ``"['layers'][0].weight"``; that of a single leaf is empty.

    Examples
    --------
    >>> pairs, structure = agrad.tree.flatten_with_path({"a": 1, "b": (2, 3)})
    >>> pairs
    [("['a']", 1), ("['b'][0]", 2), ("['b'][1]", 3)]
    """
    found, spec = trees.flatten(tree)
    return list(zip(trees.paths(tree), found, strict=True)), spec


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:  # the name that users know
    """Apply a function to each leaf.

    Parameters
    ----------
    f : callable
        Takes one leaf of each container.
    tree : container
        Nested containers, or a single leaf.
    *rest : container
        Containers of the same structure.

    Returns
    -------
    container
        Like ``tree``, with the results as leaves.

    Raises
    ------
    ShapeError
        If a container has another structure. The text names the first place where it differs.

    Examples
    --------
    >>> params = {"w": np.asarray([1.0, 2.0]), "b": np.asarray(0.5)}
    >>> gradient = agrad.grad(lambda p: agrad.sum(p["w"] ** 2) + p["b"])(params)
    >>> agrad.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    {'w': array([0.8, 1.6]), 'b': np.float64(0.4)}
    """
    found, spec = trees.flatten(tree)
    columns = [found]
    for number, other in enumerate(rest, start=1):
        more, other_spec = trees.flatten(other)
        if other_spec != spec:
            raise ShapeError(f"tree.map: {_difference(spec, other_spec, '', number)}")
        columns.append(more)
    return trees.unflatten(spec, [f(*column) for column in zip(*columns, strict=True)])


def _difference(a: Any, b: Any, path: str, number: int) -> str:
    """Return the first difference of two unequal structures, in words."""
    kind, keys = a.type, a.entries()
    if kind is b.type and keys == b.entries() and len(keys) > 0:
        for key, child, other in zip(keys, a.children(), b.children(), strict=True):
            if child != other:
                return _difference(child, other, path + _step(kind, key), number)
    where = f"at {path}" if path else "at the top"
    return f"the containers differ {where}: container 0 has {_words(a)}, container {number} {_words(b)}"


def _step(kind: Any, key: Any) -> str:
    """Return the notation of one step into a container."""
    if isinstance(key, int) and hasattr(kind, "_fields"):
        return f".{kind._fields[key]}"
    return f".{key}" if hasattr(kind, "__dataclass_fields__") else f"[{key!r}]"


def _words(spec: Any) -> str:
    """Return what a structure is at its top, in words."""
    if spec.type is None:
        return "a leaf"
    if spec.type is type(None):
        return "None"
    keys = spec.entries()
    if issubclass(spec.type, dict):
        return (
            f"a {spec.type.__name__} with the keys {', '.join(builtins.map(repr, keys))}" if keys else "an empty dict"
        )
    return f"a {spec.type.__name__} of {len(keys)}"


def all(tree: Any) -> bool:
    """Return True if every leaf is true.

    Parameters
    ----------
    tree : container
        Nested containers of numbers or arrays of shape ().

    Returns
    -------
    bool
        True also where there are no leaves.

    Examples
    --------
    >>> agrad.tree.all({"a": True, "b": [np.asarray(True), 1]})
    True
    >>> agrad.tree.all({"a": True, "b": [np.asarray(False), 1]})
    False
    """
    return builtins.all(trees.flatten(tree)[0])


def reduce(f: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NO_START) -> Any:
    """Combine the leaves from the first to the last.

    Parameters
    ----------
    f : callable
        Takes the result so far and a leaf.
    tree : container
        Nested containers, or a single leaf.
    initializer : object
        The result before the first leaf; by default the first leaf itself.

    Returns
    -------
    object
        The last result.

    Raises
    ------
    ShapeError
        If there are no leaves and no ``initializer``.

    Examples
    --------
    >>> agrad.tree.reduce(lambda total, leaf: total + leaf, {"a": 1, "b": (2, 3)})
    6
    """
    found = trees.flatten(tree)[0]
    if initializer is not _NO_START:
        return functools.reduce(f, found, initializer)
    if not found:
        raise ShapeError("tree.reduce: there are no leaves; give an initializer")
    return functools.reduce(f, found)


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a container's elements as one vector, and the way back.

    Parameters
    ----------
    tree : container
        Nested containers of numbers and arrays of one library, or a single leaf.

    Returns
    -------
    tuple
        (vector, unravel): an array of one axis, and a function from an array of that shape to a container with the
        structure of ``tree`` and the shapes and dtypes of its leaves. The vector is a Tensor if a leaf is one, else a
        raw array. Both ways are differentiable.

    Raises
    ------
    DtypeError
        If truth values, integers and floating-point numbers are mixed; Python integers go with all numbers.
    OperandError
        If a leaf is neither an array nor a number.
    ShapeError
        If the argument of ``unravel`` has another shape than the vector.

    Notes
    -----
    The vector has the dtype to which those of the arrays promote. ``unravel`` casts each leaf to its own again, and
    takes the real part of a complex number for a real leaf. Python numbers come back as arrays without axes. Raw leaves
    may be views of the argument of ``unravel``, as its parts are; the vector is no view of the tree.

    Examples
    --------
    >>> vector, unravel = agrad.tree.ravel({"w": np.asarray([1.0, 2.0]), "b": np.asarray(0.5)})
    >>> vector
    array([0.5, 1. , 2. ])
    >>> unravel(vector * 2)
    {'w': array([2., 4.]), 'b': array(1.)}
    >>> agrad.hessian(lambda v: unravel(v)["b"] * agrad.sum(unravel(v)["w"]))(vector)
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    found, spec = trees.flatten(tree)
    shapes = [tuple(getattr(leaf, "shape", ())) for leaf in found]
    ends = list(itertools.accumulate((math.prod(shape) for shape in shapes), initial=0))
    dtypes = [agrad.asarray(leaf).dtype if _is_array(leaf) else None for leaf in found]
    _check_kinds(tree, found, dtypes)

    def unravel(vector: Any) -> Any:
        shape = tuple(getattr(vector, "shape", ()))
        if shape != (ends[-1],):
            raise ShapeError(f"unravel takes an array of shape ({ends[-1]},), as tree.ravel returned, not of {shape}")
        cut = [vector[start:end] for start, end in itertools.pairwise(ends)]
        return trees.unflatten(
            spec, [_cast(agrad.reshape(x, s), dtype) for x, s, dtype in zip(cut, shapes, dtypes, strict=True)]
        )

    return _joined(found, [dtype for dtype in dtypes if dtype is not None]), unravel


def _is_array(leaf: Any) -> bool:
    """Return True for an array or a scalar of a library."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _check_kinds(tree: Any, found: list[Any], dtypes: list[Any]) -> None:
    """Raise an error for leaves that one vector cannot hold and give back."""
    first = None
    for path, leaf, dtype in zip(trees.paths(tree), found, dtypes, strict=True):
        place = f"the leaf at {path}" if path else "the leaf"
        if dtype is None and not isinstance(leaf, (int, float, complex)):
            raise OperandError(f"tree.ravel: {place} is a {type(leaf).__name__}, neither an array nor a number")
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            continue
        dtype = agrad.asarray(leaf).dtype if dtype is None else dtype
        kind = next(kind for kind in ("bool", "integral", "numeric") if agrad.isdtype(dtype, kind))
        here = f"{place} has dtype {dtype.name}"
        first = first or (kind, here)
        if kind != first[0]:
            raise DtypeError(f"tree.ravel: {first[1]}, and {here}; cast one of them, or leave it out")


def _joined(found: list[Any], dtypes: list[Any]) -> Any:
    """Return the elements of the leaves in one vector."""
    if not dtypes:
        return agrad.asarray(found).raw if found else agrad.zeros((0,)).raw
    dtype = agrad.result_type(*dtypes, *[leaf for leaf in found if not _is_array(leaf)])
    one = next(leaf for leaf in found if _is_array(leaf))
    like = agrad.asarray(one)
    parts = []
    for leaf in found:
        if not _is_array(leaf):
            number = agrad.full((1,), leaf, dtype=dtype, backend=like.backend, device=like.device)
            leaf = number if isinstance(one, agrad.Tensor) else number.raw
        parts.append(_cast(agrad.reshape(leaf, (math.prod(leaf.shape),)), dtype))
    return agrad.concat(parts)


def _cast(x: Any, dtype: Any) -> Any:
    """Return an array in a dtype; None keeps its own."""
    if dtype is None or dtype == x.dtype:
        return x
    if agrad.isdtype(x.dtype, "complex floating") and not agrad.isdtype(dtype, "complex floating"):
        x = agrad.real(x)
    return agrad.astype(x, dtype)
