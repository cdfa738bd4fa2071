"""autoray: functions by name, found in the package of the Tensors' class."""

from collections.abc import Callable
from typing import Any

import autoray
import numpy as np

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


def one(name: str, x: np.ndarray, *args: object, label: str = "", **settings: object) -> None:
    """File a sample of ``do(name, x, ...)``."""
    add(f"do {name}", lambda a: do(name, a, *args, **settings), x, label=label)


for _name in (
    "abs", "cos", "cosh", "exp", "expm1", "sin", "sinh", "tan", "tanh", "sign", "floor", "arctan", "arcsinh", "square",
    "isfinite", "isnan", "negative", "sum", "prod", "mean", "max", "min", "argmax", "any", "all", "ravel", "transpose",
    "triu", "tril", "std", "var", "zeros_like", "ones_like", "copy", "shape", "ndim", "size",
):  # fmt: skip
    one(_name, A)
for _name in ("sqrt", "log", "log2", "log10", "log1p", "reciprocal"):
    one(_name, P)
for _name in ("real", "imag", "conj", "abs", "angle"):
    one(_name, Z, label="complex")
for _name in ("sum", "mean", "max", "prod", "cumsum", "argsort", "sort", "flip"):
    one(_name, A, axis=0, label="an axis")
for _name, _x, *_arguments in (
    ("reshape", A, (4, 3)), ("clip", A, -0.5, 0.5), ("expand_dims", A, 1), ("squeeze", A[:, :1]), ("tile", A, (2, 1)),
    ("pad", A, ((1, 0), (0, 2))), ("repeat", A, 2), ("broadcast_to", V, (3, 4)),
    ("moveaxis", A, 0, 1), ("swapaxes", A, 0, 1), ("diag", V),
    ("diagonal", S), ("trace", S), ("astype", A, "complex128"), ("linalg.inv", S), ("linalg.det", S),
    ("linalg.pinv", S), ("linalg.norm", S), ("linalg.expm", S / 4),
):  # fmt: skip
    one(_name, _x, *_arguments)
one("sum", A, 0, label="an axis by position")
one("transpose", A, (1, 0), label="axes")
one("roll", A, 1, axis=0)
one("split", A, 2, axis=1)
one("array_split", A, 3, axis=1)
one("take", A, np.asarray([2, 0]), axis=0)
one("diag", S, label="of a matrix")
for _name, *_inputs in (
    ("matmul", A, B), ("dot", A, B), ("outer", V, V[:2]), ("kron", A, B), ("maximum", A, P), ("power", P, A),
    ("allclose", A, P), ("linalg.solve", S, A),
):  # fmt: skip
    add(f"do {_name}", lambda a, b, n=_name: do(n, a, b), *_inputs)
add("do einsum", lambda a, b: do("einsum", "ij,jk->ki", a, b), A, B)
add("do tensordot", lambda a, b: do("tensordot", a, b, 1), A, B)
add("do tensordot", lambda a, b: do("tensordot", a, b, axes=((1,), (0,))), A, B, label="axes")
add("do where", lambda a, b: do("where", a > 0, a, b), A, P)
add("do stack", lambda a, b: do("stack", (a, b)), A, P)
add("do concatenate", lambda a, b: do("concatenate", (a, b), axis=1), A, P)
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
add("do fft.fft", lambda a: do("fft.fft", a), A)
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

NOT_TRIED = {
    "do linalg.svd without like numpy, both factors": "autoray calls functions of a package that it does not know as "
    "they are, and by the standard `linalg.svd` gives full matrices; for NumPy autoray asks for reduced ones",
    "lazy (like numpy)": "does not take NumPy's functions",
    "autojit": "compiles for the backends that autoray knows; `agrad.jit` is agrad's",
    "backend_like, set_backend": "choose the backend of new arrays",
    "to_numpy": "leaves the graph",
}


def public() -> list[str]:
    """Return the names that the samples cover: ``do`` takes any name."""
    return sorted({sample.name for sample in SAMPLES})
