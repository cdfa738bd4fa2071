"""autoray: functions by name, found in the package of the Tensors' class."""

import functools
from collections.abc import Callable
from typing import Any

import autoray
import numpy as np
from filled import filling

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
P = rng.uniform(0.2, 2.0, size=(3, 4))
S = rng.normal(size=(3, 3)) + 3 * np.eye(3)
H = S @ S.T
V = rng.normal(size=4)
Z = A + 1j * rng.normal(size=(3, 4))

ALIKE_ONLY = {("do linalg.svd", "multiplied again")}
do = autoray.do


def add(name: str, call: Callable[..., Any], *inputs: np.ndarray, label: str = "") -> None:
    """File a sample twice: as it is, and with the functions of NumPy, which hand Tensors on."""

    def by_numpy(*arrays: Any) -> Any:
        with autoray.backend_like("numpy"):
            return call(*arrays)

    if (name, label) not in ALIKE_ONLY:
        SAMPLES.add(name, call, *inputs, label=label)
    SAMPLES.add(name, by_numpy, *inputs, label=", ".join(filter(None, (label, "like numpy"))))


def of(names: str, *given: Any, label: str = "", **named: Any) -> None:
    """File a sample of ``do`` with each name, of what is given; the arrays in it are the inputs."""
    inputs, filled = filling(given, named)

    def call(name: str, *arrays: Any) -> Any:
        args, settings = filled(arrays)
        return do(name, *args, **settings)

    for name in names.split():
        add(f"do {name}", functools.partial(call, name), *inputs, label=label)


of(
    "abs cos cosh exp expm1 sin sinh tan tanh sign floor arctan arcsinh square isfinite isnan negative sum prod mean "
    "max min argmax any all ravel transpose triu tril std var zeros_like ones_like copy shape ndim size fft.fft", A,
)  # fmt: skip
of("sqrt log log2 log10 log1p reciprocal", P)
of("real imag conj abs angle", Z, label="complex")
of("sum mean max prod cumsum argsort sort flip", A, axis=0, label="an axis")
of("diagonal trace linalg.inv linalg.det linalg.pinv linalg.norm", S)
of("linalg.expm", S / 4)
of("reshape", A, (4, 3))
of("clip", A, -0.5, 0.5)
of("expand_dims", A, 1)
of("squeeze", A[:, :1])
of("tile", A, (2, 1))
of("pad", A, ((1, 0), (0, 2)))
of("repeat", A, 2)
of("broadcast_to", V, (3, 4))
of("moveaxis swapaxes", A, 0, 1)
of("diag", V)
of("astype", A, "complex128")
of("sum", A, 0, label="an axis by position")
of("transpose", A, (1, 0), label="axes")
of("roll", A, 1, axis=0)
of("split", A, 2, axis=1)
of("array_split", A, 3, axis=1)
add("do take", lambda a: do("take", a, np.asarray([2, 0]), axis=0), A)
of("diag", S, label="of a matrix")
of("matmul dot kron", A, B)
of("outer", V, V[:2])
of("maximum allclose", A, P)
of("power", P, A)
of("linalg.solve", S, A)
of("stack", (A, P))
of("concatenate", (A, P), axis=1)
of("tensordot", A, B, 1)
of("tensordot", A, B, axes=((1,), (0,)), label="axes")
add("do einsum", lambda a, b: do("einsum", "ij,jk->ki", a, b), A, B)
add("do where", lambda a, b: do("where", a > 0, a, b), A, P)
add("do eye", lambda a: a @ do("eye", 4, like=a), A)
add("do zeros", lambda a: a + do("zeros", (3, 4), like=a), A)
add("do array", lambda a: a * do("array", [1.0, 2.0, 3.0, 4.0], like=a), A)
add("do asarray", lambda a: do("asarray", a) * 2, A)
add("do random.normal", lambda a: a + 0 * do("random.normal", size=(3, 4), like=a), A)
add("do linalg.cholesky", lambda a: do("linalg.cholesky", (a + a.T) / 2), H)
add("do linalg.qr", lambda a: list(do("linalg.qr", a)), S)
add("do linalg.eigh", lambda a: do("linalg.eigh", (a + a.T) / 2)[0], S)
add("do linalg.eigvalsh", lambda a: do("linalg.eigvalsh", (a + a.T) / 2), S)
add("do linalg.svd", lambda a: do("linalg.svd", a)[1], A)
add("do linalg.svd", lambda a: (lambda u, s, v: (u * s) @ v)(*do("linalg.svd", a)), A, label="multiplied again")
add("numpy.tanh", lambda a: autoray.numpy.tanh(a), A)
add("numpy.linalg.norm", lambda a: autoray.numpy.linalg.norm(a), A)
add("reshape", lambda a: autoray.reshape(a, (4, 3)), A)
add("transpose", lambda a: autoray.transpose(a), A)
add("conj", lambda a: autoray.conj(a), Z)
add("real", lambda a: autoray.real(a), Z)
add("imag", lambda a: autoray.imag(a), Z)
add("astype", lambda a: autoray.astype(a, "complex128"), A)
add("shape", lambda a: list(autoray.shape(a)), A)
add("size", lambda a: autoray.size(a), A)
add("ndim", lambda a: autoray.ndim(a), A)
add("get_namespace", lambda a: autoray.get_namespace(a).exp(a), A)
add("tree_map", lambda a, b: autoray.tree_map(lambda x: do("exp", x), {"a": a, "b": [b]}), A, B)
add("stop_gradient", lambda a: 0 * a + autoray.stop_gradient(a) * 0, A)
add("compose", lambda a: autoray.compose(lambda x: do("sum", do("exp", x), axis=0))(a), A)
SAMPLES.add("lazy", lambda a: do("sum", do("exp", autoray.lazy.array(a)) * 2).compute(), A)
SAMPLES.add("lazy", lambda a, b: (autoray.lazy.array(a) @ autoray.lazy.array(b)).compute(), A, B, label="two arrays")
