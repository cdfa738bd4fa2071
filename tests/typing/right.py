"""Uses that type checkers accept, with the types that they find."""

from typing import Any, assert_type

import numpy as np

import agrad
from agrad import Tensor, data, nn, optim, scipy


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
assert_type(agrad.jit(loss, compiler="auto")(w, x), Tensor)

raw = np.ones(2)
assert_type(agrad.sin(w), Tensor)
assert_type(agrad.sum(w, axis=0), Tensor)
assert_type(agrad.sum(raw), Any)
assert_type(agrad.matmul(raw, w), Tensor)
assert_type(agrad.where(w > 0.0, w, 0.0), Tensor)
assert_type(agrad.concat([w, w], axis=0), Tensor)
assert_type(agrad.concat([w, raw]), Any)
assert_type(agrad.argmax(x, axis=1), Tensor)
assert_type(agrad.linalg.inv(x), Tensor)
assert_type(agrad.linalg.solve(np.eye(2), w), Tensor)
assert_type(agrad.linalg.cholesky(x, upper=True), Tensor)
assert_type(agrad.linalg.inv(np.eye(2)), Any)
assert_type(agrad.fft.rfft(w, n=4), Tensor)
assert_type(agrad.fft.fftfreq(4), Tensor)
assert_type(agrad.special.erf(w), Tensor)
assert_type(agrad.special.gamma(w), Tensor)
assert_type(agrad.special.boxcox(w, 0.5), Tensor)
assert_type(agrad.special.erf(raw), Any)
assert_type(w.grad, Tensor | Any)
assert_type(w.item(), Any)


def loss_and_more(w: Tensor, x: Tensor) -> tuple[Tensor, dict[str, int]]:
    return agrad.sum(x @ w), {"rows": x.shape[0]}


Gradients = tuple[Any, ...]
assert_type(agrad.grad(loss, "w")(w, x), Any)
assert_type(agrad.grad(loss, argnums=(0, 1))(w, x), Gradients)
assert_type(agrad.grad(loss_and_more, has_aux=True)(w, x), tuple[Any, dict[str, int]])
assert_type(agrad.grad(loss_and_more, ["w", "x"], has_aux=True)(w, x), tuple[Gradients, dict[str, int]])
assert_type(agrad.value_and_grad(loss, (0, 1))(w, x), tuple[Tensor, Gradients])
assert_type(agrad.value_and_grad(loss_and_more, has_aux=True)(w, x), tuple[tuple[Tensor, dict[str, int]], Any])
assert_type(agrad.vjp(loss, w, x)[0], Tensor)
assert_type(agrad.vjp(loss, w, x)[1](1.0), Gradients)
assert_type(agrad.vjp(loss_and_more, w, x, has_aux=True)[2], dict[str, int])
assert_type(agrad.jvp(loss, (w, x), (w, x)), tuple[Tensor, Tensor])
assert_type(agrad.jvp(loss_and_more, (w, x), (w, x), has_aux=True), tuple[Tensor, Tensor, dict[str, int]])
assert_type(agrad.hvp(loss, (w, x), (w, x)), Gradients)
assert_type(agrad.hvp(loss_and_more, (w, x), (w, x), has_aux=True), tuple[Gradients, dict[str, int]])
assert_type(agrad.linearize(loss, w, x)[0], Tensor)
assert_type(agrad.linearize(loss, w, x)[1](w, x), Tensor)
assert_type(agrad.linearize(loss_and_more, w, x, has_aux=True)[2], dict[str, int])

# functions for Tensors and raw arrays stay that under transforms
assert_type(agrad.grad(agrad.sum)(raw), Any)
assert_type(agrad.value_and_grad(nn.MSELoss())(raw, raw), Any)
assert_type(agrad.vmap(agrad.linalg.det)(x), Tensor)
assert_type(agrad.vmap(agrad.linalg.det)(np.ones((3, 2, 2))), Any)
assert_type(agrad.jit(agrad.tanh)(raw), Any)
assert_type(agrad.jacobian(agrad.tanh)(raw), Any)
assert_type(agrad.vjp(agrad.tanh, raw), Any)


@agrad.jit(static_argnames="power")
def powers(x: Tensor, power: int) -> Tensor:
    return x**power


@agrad.jit
def double(x: Tensor) -> Tensor:
    return x * 2.0


assert_type(powers(w, power=2), Tensor)
assert_type(double(w), Tensor)
print(powers.lower(w, power=2))


@agrad.primitive
def cube(xp: Any, x: Any, /, *, scale: float = 1.0) -> Any:
    return scale * x**3


@cube.vjp
def cube_vjp(xp: Any, g: Any, x: Any, *, scale: float) -> Any:
    return 3 * scale * g * x**2


@agrad.custom_vjp
def straight(x: Tensor) -> Tensor:
    return x


@agrad.custom_vjp(nondiff_argnums=1)
def power_of(x: Tensor, n: int) -> Tensor:
    return x**n


assert_type(cube(w, scale=2.0), Tensor)
assert_type(cube(raw), Any)
straight.defvjp(lambda x: (x, None), lambda residuals, g: (g,))
power_of.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (n * x ** (n - 1) * g,))


class Net(nn.Module):
    def __init__(self) -> None:
        self.hidden = nn.Linear(2, 3)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(3, 1)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return self.out(self.drop(nn.functional.relu(self.hidden(x)))) * scale


assert_type(Net()(x, scale=2.0), Tensor)
assert_type(agrad.jit(Net())(x), Tensor)
assert_type(nn.Linear(2, 3)(raw), Tensor)
assert_type(nn.ReLU()(w), Tensor)
assert_type(nn.ReLU()(raw), Any)
assert_type(nn.LayerNorm(2)(w), Tensor)
assert_type(nn.LayerNorm(2).weight, Tensor | Any)
assert_type(nn.MSELoss()(w, raw), Tensor)
assert_type(nn.MSELoss()(raw, w), Tensor)
assert_type(nn.GRUCell(2, 3)(w), Tensor)
assert_type(nn.LSTM(2, 3)(x), tuple[Tensor, tuple[Tensor, Tensor]])
assert_type(nn.MultiheadAttention(4, 2)(x, x, x), tuple[Tensor, Any])
assert_type(optim.SGD(Net().parameters(), lr=0.1, momentum=0.9).momentum, float)
assert_type(optim.Adam(Net().parameters()).step(lambda: loss(w, x)), Tensor)

key = agrad.random.key(0)
assert_type(agrad.random.normal(key, (3,)), Tensor)
assert_type(agrad.random.gamma(key=key, alpha=2.0), Any)
assert_type(agrad.random.split(key, 3), Tensor)
assert_type(agrad.random.permutation(key, x), Tensor)
assert_type(agrad.linalg.svd(x).U, Tensor)
assert_type(agrad.linalg.svd(raw).S.ndim, int)
assert_type(agrad.linalg.eigh(x).eigenvalues, Tensor)
assert_type(agrad.linalg.slogdet(x)[1], Tensor)
assert_type(agrad.unique_counts(x).counts, Tensor)
assert_type(agrad.sum(x, axis=(0, np.int64(1))), Tensor)
assert_type(x.mean(axis=0), Tensor)
assert_type(scipy.linalg.expm(x), Tensor)
assert_type(scipy.linalg.expm(raw), Any)
assert_type(scipy.linalg.solve(a=x, b=w), Any)
assert_type(scipy.special.erf(x), Tensor)
assert_type(scipy.fft.rfft(x, n=4), Tensor)
assert_type(scipy.stats.norm.logpdf(x, loc=1.0), Tensor)
assert_type(scipy.stats.norm.cdf(raw), Any)
assert_type(nn.functional.conv2d(x, x, stride=2), Tensor)
assert_type(nn.functional.conv_transpose1d(x, x), Tensor)
assert_type(nn.functional.scaled_dot_product_attention(x, x, x), Tensor)
assert_type(nn.functional.linear(x, w), Tensor)
assert_type(nn.functional.batch_norm(x), Tensor)
assert_type(nn.functional.kl_div(x, x, reduction="batchmean"), Tensor)
assert_type(nn.Conv2d(1, 2, 3)(x), Tensor)
assert_type(nn.Sequential(nn.Linear(2, 3), nn.ReLU())(x), Tensor)
assert_type(agrad.jit(loss, compiler="jax", precision="bfloat16")(w, x), Tensor)
assert_type(agrad.registry.KERNELS.keys().__len__(), int)

dataset = data.TensorDataset(x, w)
loader = data.DataLoader(data.random_split(dataset, [1, 1])[0], batch_size=1)
assert_type(len(loader), int)

model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
out = model(agrad.asarray(np.ones((4, 2), np.float32)))
agrad.mean(out**2).backward()
optimizer.step()
optimizer.zero_grad()
