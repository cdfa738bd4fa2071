"""CuPy's words: broadcast and empty matrices, sums at indices; and computations on two devices."""

import numpy as np
import pytest
from processes import run_program
from tensors import all_equal

import agrad
from agrad.backends import load

pytestmark = pytest.mark.needs("cupy")


def both(word: str, *arrays: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of a function of ``linalg`` on CuPy and on NumPy, on the host."""
    found = []
    for name in ("cupy", "numpy"):
        backend = load(name)
        out = getattr(backend.xp.linalg, word)(*[backend.from_host(a, None) for a in arrays])
        found.append([backend.to_host(x) for x in (out if isinstance(out, tuple) else (out,))])
    return found[0], found[1]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((2, 3, 3), (3, 2)),
        ((3, 3), (2, 3, 2)),
        ((1, 3, 3), (2, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((3, 3, 3), (3, 3)),
        ((2, 3, 3), (2, 3, 0)),
        ((3, 3), (0, 3, 2)),
        ((0, 3, 3), (3, 2)),
        ((1, 3, 3), (0, 3, 2)),
        ((2, 0, 0), (0, 3)),
        ((0, 3, 3), (3,)),
        ((0, 0), (0,)),
    ],
)
@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float64", "complex128"), ("complex64", "float32")])
def test_solve_is_numpys(a: tuple[int, ...], b: tuple[int, ...], dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    matrices = (rng.normal(size=a) + 3 * np.eye(a[-1])).astype(dtypes[0])
    (got,), (expected,) = both("solve", matrices, rng.normal(size=b).astype(dtypes[1]))
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (0, 2, 3, 3)])
@pytest.mark.parametrize(
    "word", ["inv", "det", "slogdet", "cholesky", "qr", "svd", "eigh", "eigvalsh", "eig", "eigvals"]
)
def test_decompositions_of_empty_batches_and_matrices_are_numpys(word: str, shape: tuple[int, ...]) -> None:
    got, expected = both(word, np.zeros(shape, np.float32))
    assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in expected]
    all_equal(got, expected)


def test_the_vocabulary_has_a_linalg_of_its_own() -> None:
    import cupy
    from array_api_compat import cupy as compat

    words = load("cupy").xp.linalg
    assert words is not compat.linalg
    assert compat.linalg.solve is cupy.linalg.solve
    assert words.solve is not cupy.linalg.solve
    assert words.inv is compat.linalg.inv


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64", "int8", "int64", "bool"])
def test_a_sum_at_indices_is_numpys(dtype: str) -> None:
    """Without a warning either: the run makes errors of them."""
    g, at = np.arange(5).astype(dtype), np.array([0, 2, 2, 0, 3])
    found = []
    for name in ("cupy", "numpy"):
        backend = load(name)
        given = [backend.from_host(a, None) for a in (g, at)]
        out = backend.xp.scatter_add(*given, index=(agrad.shapes.ARRAY,), shape=(4,))
        found.append(backend.to_host(out))
    assert found[0].dtype == dtype
    np.testing.assert_array_equal(*found)


# ------------------------------------------------------------------ two devices


HEAD = """
import cupy
import numpy as np
import agrad
from agrad import nn, optim, random
from agrad.errors import MixedBackendsError

first, second = cupy.cuda.Device(0), cupy.cuda.Device(1)

def draw(*shape, device=second):
    with device:
        return cupy.asarray(np.random.default_rng(len(shape)).normal(size=shape).astype("float32"))

def check(*arrays, device=second):
    for x in arrays:
        assert x.device == device, (x.device, x.shape)

def network(device="cuda:1"):
    with agrad.use_backend("cupy", device):
        layers = nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.1, rng=random.Generator(3)), nn.Linear(5, 4), nn.GELU()
        model = nn.Sequential(*layers)
    values = np.random.default_rng(5)
    for p in model.parameters():
        p.assign(agrad.asarray(values.normal(size=p.shape).astype("float32"), backend="cupy", device=device).data)
    return model

def trained(device, how, make):
    model, criterion = network(str(device.id and "cuda:1" or "cuda:0")), nn.CrossEntropyLoss()
    opt = make(model.parameters())
    def step(x, labels):
        loss = criterion(model(x), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss, agrad.sum(agrad.astype(agrad.argmax(model(x), axis=1) == labels, agrad.int32))
    step, losses = how(step), []
    with device:
        labels = cupy.arange(4)
    for k in range(6):
        loss, hits = step(draw(4, 6, device=device), labels)
        check(loss, hits, *model.parameters(), device=device)
        losses.append(loss.item())
    for arrays in opt.arrays:
        check(*arrays, device=device)
    return losses, step
"""

PARTS = {
    "words": """
from agrad.backends import load
from agrad.kernels.cupy.products import gemm, lt_of
from agrad.jit.lower.cuda.products import cupy_narrow_matmul, product_function
from agrad.jit.program import Instruction, Variable
from agrad.registry import PRIMITIVES
from agrad.shapes import ARRAY

xp, placed = load("cupy").xp, load("cupy").placed
with second:
    x, square, at = cupy.ones((3, 3), np.float32), cupy.eye(3, dtype=np.float32) * 2, cupy.asarray([0, 2, 2])
v = Variable((3, 3), x.dtype, cupy.ndarray)
made = {
    "arange": xp.arange(3, device=second), "linspace": xp.linspace(0, 1, 3, device=second),
    "eye": xp.eye(3, device=second), "full": xp.full((2,), 1.0, device=second),
    "ones_like": xp.ones_like(cupy.ones(3), device=second), "arange_like": xp.arange_like(x, 3),
    "zeros": agrad.zeros(3, backend="cupy", device="cuda:1").data, "solve": xp.linalg.solve(square, x),
    "solve of a vector": xp.linalg.solve(square, x[0]), "getitem": xp.getitem(x, at, index=(ARRAY,)),
    "setitem": xp.setitem(x, x[0], at, index=(ARRAY,)), "from_parts": xp.from_parts(x, x),
    "scatter_add": xp.scatter_add(x, at, index=(ARRAY,), shape=(4, 3)),
    "scatter_add of integers": xp.scatter_add(at, at, index=(ARRAY,), shape=(4,)),
    "gemm": placed(gemm)(x, x, x.dtype), "gemm in TF32": placed(gemm)(x, x, x.dtype, True),
    "product": product_function(Instruction(PRIMITIVES["matmul"], (v, v), {}, (v,)))(x, x),
}
for precision in ("float16", "bfloat16"):
    way = cupy_narrow_matmul(precision)
    narrow = made[precision] = way.narrow(x)
    made[precision + " product"] = way.product(narrow, narrow)
    made[precision + " batch"] = way.product(narrow[None], narrow)
with agrad.use_backend("cupy", "cuda:1"):
    key = random.key(0)
    made["key"] = key
    made["split"] = random.split(key)
    made["bits"] = random.bits(key, (5,))
    made["uniform"] = random.uniform(key, (5,))
    made["randint"] = random.randint(key, 0, 9, (5,))
    made["permutation"] = random.permutation(key, 5)
    made["bernoulli"] = random.bernoulli(key, 0.5, (5,))
wrong = {name: str(a.device) for name, a in made.items() if a.device != second}
assert not wrong, wrong
np.testing.assert_array_equal(made["product"].get(), np.full((3, 3), 3))
np.testing.assert_array_equal(made["scatter_add"].get(), [[1] * 3, [0] * 3, [2] * 3, [0] * 3])
assert lt_of(1) is not lt_of(0)
""",
    "kernels": """
from agrad.backends import load
from agrad.kernels.cupy import kernels as cupy_kernels  # noqa: F401 - the kernels are filed without CuPy too
from agrad.registry import KERNELS

load("cupy")
with second:
    x = cupy.asarray(np.arange(12.0).reshape(3, 4))
    labels = cupy.asarray(np.arange(3))
settings = {
    "cross_entropy_of_labels": {"ignore": None, "smoothing": 0.0, "reduction": "mean"},
    "max_pool": {"kernel": (1, 1), "strides": (1, 1), "dilation": (1, 1)},
    "scatter_sum": {"indices": ((...,),), "shape": (3, 4)},
    "softmax": {"axis": 1}, "log_softmax": {"axis": 1}, "gelu": {"approximate": True},
    "sgd_update": {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0,
                   "maximize": False, "donate": False},
    "adam_update": {"rate": 0.1, "floor": 1e-8, "beta1": 0.9, "beta2": 0.99, "decay": 0.0, "shrink": None,
                    "step": 1, "donate": False},
    "linalg.over_triangle": {"upper": True},
}
tried = 0
for (backend, name, part), filed in KERNELS.items():
    if backend != "cupy" or name.startswith("random_") or part == "namespace":
        continue
    with second:
        arrays = {"g_loss": labels * 1.0, "g_lse": labels * 1.0, "labels": labels, "lse": labels * 1.0, "used": x > 2}
        arrays |= {"divisor": labels.sum() * 1.0, "weight": cupy.ones((4, 2)), "bias": cupy.ones(2)}
        arrays |= {"x2": cupy.eye(4)} if name == "linalg.over_triangle" else {}
        given = [arrays.get(n, x + 0) for n in filed.names]
    assert filed.when(*given), name
    out = filed.function(*given, **{s: v for s, v in settings.get(name, {}).items() if s in filed.settings})
    for y in out if isinstance(out, tuple) else (out,):
        assert y.device == second, (name, part)
    tried += 1
assert tried == 32, tried
""",
    "eager training": """
for make in (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=0.01)):
    assert trained(first, lambda f: f, make)[0] == trained(second, lambda f: f, make)[0]
""",
    "jitted training": """
for make in (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=0.01)):
    expected, _ = trained(first, agrad.jit, make)
    losses, fast = trained(second, agrad.jit, make)
    assert losses == expected
    ((entry,),) = fast._entries.values()
    program = entry.run
    assert program.home == 1 and not program.given_up and program._replays >= 2, (program.home, program.text)
""",
    "one function on two devices": """
f = agrad.jit(lambda x: (agrad.sum(agrad.sin(x) * 2.0, axis=0), agrad.argmax(x, axis=1)))
for k in range(8):
    device = (first, second)[k % 2]
    x = draw(4, 6, device=device)
    out = f(x)
    check(*out, device=device)
    np.testing.assert_allclose(out[0].get(), np.sum(np.sin(x.get()) * 2, axis=0), rtol=1e-5)
assert f.cache_info().misses == 2
""",
    "derivatives": """
def f(x, w):
    return agrad.sum(agrad.tanh(x @ w) ** 2 + agrad.max(x, axis=1, keepdims=True) * 0.5, axis=0)
x, w = draw(4, 6), draw(6, 5)
y, pull = agrad.vjp(f, x, w)
check(y, *pull(draw(5)))
y, t = agrad.jvp(f, (x, w), (x, w))
check(y, t)
g = agrad.grad(lambda x: agrad.sum(f(x, w)))
check(g(x), agrad.grad(lambda x: agrad.sum(g(x) ** 2))(x))
a = agrad.asarray(x, requires_grad=True)
for _ in range(2):
    agrad.sum(f(a, w)).backward()
check(a.grad)
np.testing.assert_allclose(a.grad.data.get(), 2 * g(x).get(), rtol=1e-5)
""",
    "a network on both devices": """
a = agrad.asarray(draw(4, 6, device=first), requires_grad=True)
b = agrad.asarray(draw(4, 6), requires_grad=True)
y = agrad.tanh(a) * 2.0
z = (agrad.sin(y).to("cuda:1") + b * b) * 3.0
u = agrad.exp(-z).to("cuda:0") * y + y
agrad.sum(u * a).backward()
check(a.grad, device=first)
check(b.grad)
p, q = (agrad.asarray(x.data.get(), requires_grad=True) for x in (a, b))
y = agrad.tanh(p) * 2.0
agrad.sum((agrad.exp(-((agrad.sin(y) + q * q) * 3.0)) * y + y) * p).backward()
for x, right in ((a, p), (b, q)):
    np.testing.assert_allclose(x.grad.data.get(), right.grad.data, rtol=1e-4, atol=1e-5)
""",
    "random numbers": """
key = random.key(3, backend="cupy", device="cuda:1")
check(key, random.normal(key, (5,)), random.uniform(key, (5,)), random.split(key), random.randint(key, 0, 9, (4,)))
with agrad.use_backend("cupy", "cuda:1"):
    check(random.key(3), agrad.ones(3), agrad.arange(3))
np.testing.assert_array_equal(
    random.normal(key, (5,)).data.get(), random.normal(random.key(3, backend="cupy"), (5,)).data.get()
)
""",
    "arrays on two devices": """
a, b = draw(4, 4, device=first), draw(4, 4)
f = agrad.jit(lambda a, b: a * b)
labels = cupy.arange(4)
for call in (
    lambda: agrad.add(a, b), lambda: agrad.asarray(a) @ agrad.asarray(b), lambda: agrad.concat([a, b]),
    lambda: agrad.asarray(a) + b, lambda: f(a, b), lambda: agrad.cross_entropy(agrad.asarray(b), labels),
):
    try:
        call()
    except MixedBackendsError as error:
        assert "arrays must be on one device, got <CUDA Device 0> and <CUDA Device 1>. Move one" in str(error), error
    else:
        raise AssertionError("no error")
""",
}


@pytest.mark.needs("cuda_on_cpu")
def test_two_devices() -> None:
    """CuPy's warning that an array lies elsewhere than the work is done is an error."""
    parts = [f"print({name!r})\n{text}\nassert cupy.cuda.Device() == first\n" for name, text in PARTS.items()]
    said = run_program("\n".join([HEAD, *parts]), strict=True, CUPY_ON_CPU_DEVICES="2")
    assert said.splitlines() == [*PARTS]
