"""CuPy with two devices: what is computed where, with the first one current, and arrays on both are refused."""

import pytest
from processes import run_program

pytestmark = pytest.mark.needs("cupy", "cuda_on_cpu")

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


@pytest.mark.parametrize("part", PARTS)
def test_two_devices(part: str) -> None:
    """CuPy's warning that an array lies elsewhere than the work is done is an error."""
    program = f"{HEAD}{PARTS[part]}\nassert cupy.cuda.Device() == first\n"
    run_program(program, strict=True, CUPY_ON_CPU_DEVICES="2")
