"""New arrays, on the selected backend unless the arguments name another."""

from typing import Any

from agrad.backends import backend_of
from agrad.dtypes import is_floating
from agrad.engine.joining import joined
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.scalars import TracedNumber
from agrad.engine.tensor import Tensor, raw_of, wrap
from agrad.errors import OperandError, ShapeError, described
from agrad.ops.casting import astype
from agrad.ops.conversion import asarray, dtype_on, new, read
from agrad.ops.definition import public_of_array
from agrad.ops.elementwise import add, multiply
from agrad.ops.manipulation import broadcast_to, reshape
from agrad.ops.shared import ndim_of, no_view
from agrad.ops.transfer import to_device
from agrad.registry import namespace, public
from agrad.shapes import integer, shape_of_lengths

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like", "zeros",
    "zeros_like",
]  # fmt: skip


@public
def zeros(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Make a Tensor of zeros.

    Parameters
    ----------
    shape : int or tuple of ints
    dtype : dtype, optional
        dtype of any library. By default, the default dtype of the library.
    device : device, optional
        By default, the selected device.
    backend : str, optional
        By default, the selected one.
    requires_grad : bool
        If True, the result is a leaf tensor whose gradient ``backward`` computes; its dtype must be floating-point.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> agrad.zeros(3)
    Tensor([0.0, 0.0, 0.0], dtype=float64, backend=numpy, device=cpu)
    >>> weights = agrad.zeros(2, requires_grad=True)
    >>> agrad.sum(agrad.exp(weights)).backward()
    >>> weights.grad
    Tensor([1.0, 1.0], dtype=float64, backend=numpy, device=cpu)
    """
    return new("zeros", (shape_of_lengths(shape),), dtype, device, backend, requires_grad)


@public
def ones(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Make a Tensor of ones.

    Parameters
    ----------
    shape : int or tuple of ints
    dtype, device, backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> agrad.ones((2, 2))
    Tensor([[1.0, 1.0],
            [1.0, 1.0]], dtype=float64, backend=numpy, device=cpu)
    """
    return new("ones", (shape_of_lengths(shape),), dtype, device, backend, requires_grad)


@public
def empty(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Make a Tensor with arbitrary values.

    Parameters
    ----------
    shape : int or tuple of ints
    dtype, device, backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> agrad.empty((2, 3), dtype=agrad.float32).shape
    (2, 3)
    """
    return new("empty", (shape_of_lengths(shape),), dtype, device, backend, requires_grad)


@public
def full(
    shape: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """Make a Tensor filled with one value.

    Parameters
    ----------
    shape : int or tuple of ints
    fill_value : number or Tensor
        A Tensor has one element, and is differentiated.
    dtype, device, backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> agrad.full((2, 2), 7.0)
    Tensor([[7.0, 7.0],
            [7.0, 7.0]], dtype=float64, backend=numpy, device=cpu)
    """
    shape = shape_of_lengths(shape)
    if hasattr(fill_value, "shape") or isinstance(fill_value, TracedNumber):
        value = asarray(fill_value, dtype=dtype, device=device, backend=backend)
        from_one = value if not value.shape else value[(0,) * value.ndim]
        return no_view(broadcast_to(from_one, shape))
    if not isinstance(fill_value, (bool, int, float, complex)):
        raise OperandError(f"full: fill_value must be a number, got {described(fill_value)}")
    return new("full", (shape, fill_value), dtype, device, backend, requires_grad)


@public
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Make a Tensor of evenly spaced numbers.

    Parameters
    ----------
    start : number
        Start. With a single argument, this is the end, and the start is 0.
    stop : number, optional
        End, which is excluded.
    step : number
        The distance between the numbers.
    dtype, device, backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor
        Array with one axis.

    Examples
    --------
    >>> agrad.arange(1.0, 7.0, 2.0)
    Tensor([1.0, 3.0, 5.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.sum(agrad.arange(5, dtype=agrad.float32))
    Tensor(10.0, dtype=float32, backend=numpy, device=cpu)
    """
    if stop is None:
        start, stop = 0, start
    if isinstance(step, (int, float)) and step == 0:
        raise OperandError("arange: step must not be 0")
    return new("arange", (start, stop, step), dtype, device, backend, requires_grad)


@public
def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """Make a Tensor of a count of evenly spaced numbers.

    Parameters
    ----------
    start, stop : number or Tensor
        Endpoints. Tensors must have shape () and are differentiated.
    num : int
        How many numbers.
    dtype, device : optional
        As for ``zeros``.
    endpoint : bool
        If True, include ``stop``.
    backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor
        Array of shape (num,).

    Examples
    --------
    >>> agrad.linspace(0.0, 1.0, 5)
    Tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.linspace(0.0, 1.0, 4, endpoint=False)
    Tensor([0.0, 0.25, 0.5, 0.75], dtype=float64, backend=numpy, device=cpu)
    """
    start, stop = read((start, stop))
    num = integer(num, "linspace: num", "an integer")
    known = next((v for v in (start, stop) if hasattr(v, "shape")), None)
    if known is None:
        return new("linspace", (start, stop, num), dtype, device, backend, requires_grad, endpoint=endpoint)
    raw = raw_of(known)
    home = backend_of(raw)
    kind = dtype or (raw.dtype if is_floating(raw.dtype) else None)
    steps = linspace(0, 1, num, dtype=kind, device=home.device_of(raw), endpoint=endpoint, backend=home.name)
    if not any(isinstance(end, Tensor) and not end.level.is_trace for end in (start, stop)):  # raw, or traced from raw
        steps = steps.raw
    return add(multiply(start, 1 - steps), multiply(stop, steps))


@public
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows : int
    n_cols : int, optional
        By default, as many as rows.
    k : int
        Offset of the diagonal to the right of the main one.
    dtype, device, backend, requires_grad : optional
        As for ``zeros``.

    Returns
    -------
    Tensor
        Array of shape (n_rows, n_cols).

    Examples
    --------
    >>> agrad.eye(2)
    Tensor([[1.0, 0.0],
            [0.0, 1.0]], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.eye(2, 3, k=1, dtype=agrad.int64)
    Tensor([[0, 1, 0],
            [0, 0, 1]], dtype=int64, backend=numpy, device=cpu)
    """
    rows, k = integer(n_rows, "eye: n_rows", "an integer"), integer(k, "eye: k", "an integer")
    size = (rows, rows if n_cols is None else integer(n_cols, "eye: n_cols", "an integer"))
    return new("eye", size, dtype, device, backend, requires_grad, k=k)


def _arange_like(x: Any, n: int, /) -> Any:
    """Return the integers below ``n``, raw, on the backend and device of ``x``."""
    raw = raw_of(x)
    return backend_of(raw).xp.arange_like(raw, n)


# for rules, with the signature of the backends' function
namespace.arange_like = _arange_like


def _filled_like(x: Any, name: str, args: tuple[Any, ...], dtype: Any, device: Any) -> Any:
    ndim_of(x, f"{name}_like")
    raw = raw_of(x)
    backend = backend_of(raw)
    keywords = {"device": backend.device(device)} if device is not None else {}
    args = read(args)
    if len(x.shape) != len(raw.shape):  # of a mapped value: the shape of one batch element
        kind = raw.dtype if dtype is None else dtype_on(dtype, backend)
        keywords = {"device": backend.device_of(raw), **keywords}
        out = getattr(backend.xp, name)(tuple(x.shape), *args, dtype=kind, **keywords)
    else:
        out = getattr(backend.xp, f"{name}_like")(raw, *args, dtype=dtype_on(dtype, backend), **keywords)
    # a traced constant for a traced argument: array-api-strict operators reject a Tensor on their right
    return wrap(out, x.level if x.level.is_trace else GLOBAL_TAPE) if isinstance(x, Tensor) else out


@public_of_array
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make zeros of the shape, dtype, backend and device of an array.

    Parameters
    ----------
    x : array of any shape and dtype
    dtype, device : optional
        By default, as for ``x``.

    Returns
    -------
    array
        A constant Tensor if ``x`` is a Tensor, otherwise a plain array.

    Examples
    --------
    >>> agrad.zeros_like(np.asarray([5.0, 6.0]))
    array([0., 0.])
    """
    return _filled_like(x, "zeros", (), dtype, device)


@public_of_array
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make ones of the shape, dtype, backend and device of an array.

    Parameters
    ----------
    x : array of any shape and dtype
    dtype, device : optional
        By default, as for ``x``.

    Returns
    -------
    array
        A constant Tensor if ``x`` is a Tensor, otherwise a plain array.

    Examples
    --------
    >>> agrad.ones_like(np.asarray([5.0, 6.0]))
    array([1., 1.])
    """
    return _filled_like(x, "ones", (), dtype, device)


@public_of_array
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array like another, with arbitrary values.

    Parameters
    ----------
    x : array of any shape and dtype
    dtype, device : optional
        By default, as for ``x``.

    Returns
    -------
    array
        A constant Tensor if ``x`` is a Tensor, otherwise a plain array.

    Examples
    --------
    >>> agrad.empty_like(np.ones((2, 3), dtype=np.float32)).shape
    (2, 3)
    """
    return _filled_like(x, "empty", (), dtype, device)


@public_of_array
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array like another, filled with one value.

    Parameters
    ----------
    x : array of any shape and dtype
    fill_value : number or Tensor
        A Tensor has shape (), and is differentiated.
    dtype, device : optional
        By default, as for ``x``.

    Returns
    -------
    array
        A Tensor if ``x`` is a Tensor, otherwise a plain array.

    Examples
    --------
    >>> agrad.full_like(np.asarray([1.0, 2.0]), 7.0)
    array([7., 7.])
    """
    if hasattr(fill_value, "shape"):
        ndim_of(x, "full_like")
        if tuple(fill_value.shape):
            raise ShapeError(f"full_like: fill_value must be a scalar, got an array of shape {tuple(fill_value.shape)}")
        x, fill_value = joined("full_like", (x, fill_value))
        raw = raw_of(x)
        if isinstance(x, Tensor) and not isinstance(fill_value, Tensor):
            fill_value = wrap(fill_value, GLOBAL_TAPE)
        value = astype(fill_value, raw.dtype if dtype is None else dtype, copy=False)
        value = to_device(value, backend_of(raw).device_of(raw) if device is None else device)
        return no_view(broadcast_to(value, tuple(x.shape)))
    return _filled_like(x, "full", (fill_value,), dtype, device)


@public
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Return coordinate grids of 1-D arrays.

    Parameters
    ----------
    *arrays : arrays
        1-D arrays.
    indexing : str
        ``"xy"`` exchanges the first two axes, ``"ij"`` does not.

    Returns
    -------
    tuple of arrays
        One for each argument, of one shape.

    Examples
    --------
    >>> x, y = agrad.meshgrid(np.asarray([1.0, 2.0, 3.0]), np.asarray([10.0, 20.0]))
    >>> x + y
    array([[11., 12., 13.],
           [21., 22., 23.]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    for x in arrays:
        if ndim_of(x, "meshgrid") != 1:
            raise OperandError(f"meshgrid: arrays must be 1-D, got shape {tuple(x.shape)}")
    n = len(arrays)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    shape = tuple(arrays[i].shape[0] for i in places)
    return tuple(
        no_view(broadcast_to(reshape(x, tuple(-1 if i == place else 1 for i in range(n))), shape))
        for x, place in zip(arrays, places, strict=True)
    )
