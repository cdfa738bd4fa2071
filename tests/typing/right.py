"""Uses that type checkers accept, with the types that they find."""

from typing import Any, assert_type

import numpy as np

import agrad
from agrad import Tensor, nn, optim


def loss(w: Tensor, x: Tensor, *, scale: float = 1.0) -> Tensor:
    return (x @ w * scale).mean()


w = agrad.asarray([1.0, 2.0], requires_grad=True)
x = agrad.asarray([[1.0, 0.0], [0.0, 1.0]])

assert_type(loss(w, x), Tensor)
assert_type(w + 1.0, Tensor)
assert_type(2.0 * w, Tensor)
assert_type(-w, Tensor)
assert_type(x @ w, Tensor)
assert_type(x[0, :], Tensor)
assert_type(x.T, Tensor)
assert_type(x.mT, Tensor)
assert_type(w < 2.0, Tensor)
assert_type(w == 2.0, Tensor)
assert_type(w != 2.0, Tensor)
assert_type(2.0 in w, bool)
assert_type(w.to("numpy"), Tensor)
assert_type(w.detach(), Tensor)
assert_type(w.shape, tuple[int, ...])
assert_type(w.ndim, int)
assert_type(w.backend, str)

assert_type(agrad.grad(loss)(w, x, scale=2.0), Any)
assert_type(agrad.value_and_grad(loss)(w, x, scale=2.0), tuple[Tensor, Any])
assert_type(agrad.vmap(loss)(w, x), Tensor)
assert_type(agrad.checkpoint(loss)(w, x), Tensor)
assert_type(agrad.jit(loss)(w, x, scale=2.0), Tensor)
assert_type(agrad.jit(agrad.value_and_grad(loss))(w, x), tuple[Tensor, Any])
assert_type(agrad.jit(loss).cache_info().hits, int)


@agrad.jit(static_argnames="power")
def powers(x: Tensor, power: int) -> Tensor:
    return x**power


@agrad.jit
def double(x: Tensor) -> Tensor:
    return x * 2.0


assert_type(powers(w, power=2), Tensor)
assert_type(double(w), Tensor)
print(powers.lower(w, power=2))

model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
out = model(agrad.asarray(np.ones((4, 2), np.float32)))
agrad.mean(out**2).backward()
optimizer.step()
optimizer.zero_grad()
