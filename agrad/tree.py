"""Functions of pytrees: nested dicts, lists, tuples, namedtuples and dataclasses.

``grad`` and ``jit`` accept the same pytrees. Any other object is a leaf. None has no leaves. The leaves of a dict are
sorted by key.
"""

import builtins
import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import agrad
import agrad.transforms.trees as trees
from agrad.errors import DtypeError, OperandError, ShapeError, described

__all__ = ["all", "flatten", "flatten_with_path", "leaves", "map", "ravel", "reduce", "structure", "unflatten"]

_NO_START: Any = object()


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a pytree, and its structure.

    Parameters
    ----------
    tree : pytree
        Pytree, or a single leaf.

    Returns
    -------
    tuple
        (leaves, structure): a list, and an object for ``unflatten`` that is equal for pytrees of the same structure.

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
    """Return the leaves of a pytree.

    Parameters
    ----------
    tree : pytree
        Pytree, or a single leaf.

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
    """Return the structure of a pytree.

    Parameters
    ----------
    tree : pytree
        Pytree, or a single leaf.

    Returns
    -------
    object
        Structure as in ``flatten``. ``str`` shows the pytree with ``*`` for leaves.

    Examples
    --------
    >>> agrad.tree.structure({"a": 1, "b": (2, 3)})
    PyTreeSpec({'a': *, 'b': (*, *)})
    """
    return trees.flatten(tree)[1]


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Return a new pytree with a structure and leaves.

    Parameters
    ----------
    structure : object
        Result of ``structure`` or ``flatten``.
    leaves : iterable
        Leaves, as many as in the structure.

    Returns
    -------
    pytree
        New pytree.

    Raises
    ------
    ShapeError
        If the number of leaves is wrong.

    Examples
    --------
    >>> structure = agrad.tree.structure({"a": 1, "b": (2, 3)})
    >>> agrad.tree.unflatten(structure, ["x", "y", "z"])
    {'a': 'x', 'b': ('y', 'z')}
    """
    if not hasattr(structure, "num_leaves"):
        raise OperandError(
            f"tree.unflatten: structure must be a result of tree.structure, got {described(structure)}. Pass it first."
        )
    given = list(leaves)
    if len(given) != structure.num_leaves:
        raise ShapeError(
            f"tree.unflatten: leaves must have length {structure.num_leaves}, as {structure} has, got {len(given)}"
        )
    return trees.unflatten(structure, given)


def flatten_with_path(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the leaves of a pytree with their paths, and its structure.

    Parameters
    ----------
    tree : pytree
        Pytree, or a single leaf.

    Returns
    -------
    tuple
        (pairs, structure): a list of (path, leaf), and the structure of ``flatten``. A path is a string in Python
        notation, such as ``"['layers'][0].weight"``. The path of a single leaf is empty.

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
        Function of one leaf of each pytree.
    tree : pytree
        Pytree, or a single leaf.
    *rest : pytree
        Pytrees of the same structure.

    Returns
    -------
    pytree
        Structure of ``tree``, with the results as leaves.

    Raises
    ------
    ShapeError
        If the structures differ. The message includes the path of the first difference.

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
    """Return the text on the first difference of two unequal structures."""
    kind, keys = a.type, a.entries()
    if kind is b.type and keys == b.entries() and len(keys) > 0:
        for key, child, other in zip(keys, a.children(), b.children(), strict=True):
            if child != other:
                return _difference(child, other, path + _step(kind, key), number)
    return f"pytree {number} must have {_words(a)} at {path or 'the top'}, like pytree 0, got {_words(b)}"


def _step(kind: Any, key: Any) -> str:
    """Return the notation of one step into a container."""
    if isinstance(key, int) and hasattr(kind, "_fields"):
        return f".{kind._fields[key]}"
    return f".{key}" if hasattr(kind, "__dataclass_fields__") else f"[{key!r}]"


def _words(spec: Any) -> str:
    """Return the text of the outermost part of a structure."""
    if spec.type in (None, type(None)):
        return "a leaf" if spec.type is None else "None"
    keys = spec.entries()
    if not issubclass(spec.type, dict):
        return f"a {spec.type.__name__} of length {len(keys)}"
    return f"a {spec.type.__name__} with keys {', '.join(builtins.map(repr, keys))}" if keys else "an empty dict"


def all(tree: Any) -> bool:
    """Return True if every leaf is true.

    Parameters
    ----------
    tree : pytree
        Pytree of numbers or arrays of shape ().

    Returns
    -------
    bool
        True also if there are no leaves.

    Examples
    --------
    >>> agrad.tree.all({"a": True, "b": [np.asarray(False), 1]})
    False
    """
    return builtins.all(trees.flatten(tree)[0])


def reduce(f: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NO_START) -> Any:
    """Combine the leaves from the first to the last.

    Parameters
    ----------
    f : callable
        Function of the result so far and a leaf.
    tree : pytree
        Pytree, or a single leaf.
    initializer : object, optional
        Result before the first leaf. By default, the first leaf itself.

    Returns
    -------
    object
        Last result.

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
        raise ShapeError("tree.reduce: tree must have leaves, got none. Pass an initializer.")
    return functools.reduce(f, found)


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Flatten a pytree into one vector.

    Parameters
    ----------
    tree : pytree
        Pytree of numbers and arrays of one library, or a single leaf.

    Returns
    -------
    tuple
        (vector, unravel): a 1-D array, and a function from an array of that shape to a pytree with the structure of
        ``tree`` and the shapes and dtypes of its leaves. The vector is a Tensor if a leaf is one, otherwise a plain
        array. Both are differentiable.

    Raises
    ------
    DtypeError
        If Booleans, integers and floating-point numbers are mixed. Python integers may be mixed with all numbers.
    ShapeError
        If the argument of ``unravel`` does not have the shape of the vector.

    Notes
    -----
    The vector has the promoted dtype of the arrays. ``unravel`` casts each leaf to its original dtype, and uses the
    real part of a complex number for a real leaf. Python numbers become arrays of shape (). Plain leaves may be views
    of the argument of ``unravel``. The vector is not a view of the tree.

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
            raise ShapeError(f"unravel: vector must have shape ({ends[-1]},), as tree.ravel returned, got {shape}")
        cut = [vector[start:end] for start, end in itertools.pairwise(ends)]
        return trees.unflatten(
            spec, [_cast(agrad.reshape(x, s), dtype) for x, s, dtype in zip(cut, shapes, dtypes, strict=True)]
        )

    return _joined(found, [dtype for dtype in dtypes if dtype is not None]), unravel


def _is_array(leaf: Any) -> bool:
    """Return True for an array or an array scalar."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _check_kinds(tree: Any, found: list[Any], dtypes: list[Any]) -> None:
    """Raise an error for leaves that one vector cannot represent."""
    first = None
    for path, leaf, dtype in zip(trees.paths(tree), found, dtypes, strict=True):
        place = f"the leaf at {path}" if path else "the leaf"
        if dtype is None and not isinstance(leaf, (int, float, complex)):
            raise OperandError(f"tree.ravel: {place} must be an array or a number, got {type(leaf).__name__}")
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            continue
        dtype = agrad.asarray(leaf).dtype if dtype is None else dtype
        kind = next(kind for kind in ("bool", "integral", "numeric") if agrad.isdtype(dtype, kind))
        first = first or (kind, dtype, place)
        if kind != first[0]:
            raise DtypeError(
                f"tree.ravel: {place} must have a dtype of the kind of {first[1].name}, like {first[2]}, got "
                f"{dtype.name}. Cast one of them, or leave it out."
            )


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
