"""Uses that type checkers find: an error in each line that ends with the word."""

import agrad
from agrad import Tensor, nn, optim, scipy, train


def loss(w: Tensor, x: Tensor, *, scale: float = 1.0) -> Tensor:
    return agrad.mean(x @ w * scale)


w = agrad.asarray([1.0, 2.0], requires_grad=True)
x = agrad.asarray([[1.0, 0.0], [0.0, 1.0]])
step = agrad.jit(loss)
model = nn.Linear(2, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)


def loss_and_more(w: Tensor, x: Tensor) -> tuple[Tensor, dict[str, int]]:
    return loss(w, x), {"rows": x.shape[0]}


class Net(nn.Module):
    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return x * scale


@agrad.primitive
def cube(xp, x, /, *, scale=1.0):  # type: ignore[no-untyped-def]
    return scale * x**3


@agrad.custom_vjp
def straight(x: Tensor) -> Tensor:
    return x


agrad.grad(loss)(w)  # wrong
agrad.grad(loss)(w, x, x)  # wrong
agrad.grad(loss)(w, x, scales=2.0)  # wrong
agrad.grad(loss)(w, x, scale="2")  # wrong
agrad.grad(loss)("w", x)  # wrong
agrad.grad(loss, argnum=0)(w, x)  # wrong
agrad.grad()(w, x)  # wrong
agrad.value_and_grad(loss)(w, y=x)  # wrong
agrad.value_and_grad(loss, aux=True)  # wrong
agrad.vmap(loss)(w, x, 1.0)  # wrong
agrad.vmap(loss, axes=0)  # wrong
agrad.checkpoint(loss)(w)  # wrong
agrad.jit(loss)(w)  # wrong
step(w, x, scale=None)  # wrong
step.cache_infos()  # wrong
step.lower(w)  # wrong
agrad.hessian(loss)(w)  # wrong
agrad.jacobian(loss)(w, x, scales=2.0)  # wrong
agrad.elementwise_grad(loss)(w)  # wrong
print(step.cache_info().hit)  # wrong
agrad.jit(loss, static=("scale",))  # wrong
agrad.sin()  # wrong
agrad.sin(w, x)  # wrong
agrad.add(w)  # wrong
agrad.sum(w, axs=0)  # wrong
agrad.where(w > 0, w)  # wrong
agrad.asarray([1.0], require_grad=True)  # wrong
w.backward(gradients=w)  # wrong
w.shape.append(1)  # wrong
print(w.gradient)  # wrong
w.numpy().to("cupy")  # wrong
(w + 1.0).backwards()  # wrong
w.device = 3  # wrong
nn.Linear(2, 1, biased=False)  # wrong
nn.Linear(2)  # wrong
nn.functional.relus(w)  # wrong
optim.SGD(model.parameters(), learning_rate=0.1)  # wrong
optim.Adams(model.parameters())  # wrong
optimizer.zero_grads()  # wrong
model.parameter()  # wrong
model()  # wrong
model(x, x)  # wrong
nn.ReLU()(x, x)  # wrong
nn.MSELoss()(w)  # wrong
nn.MSELoss(reduce="sum")  # wrong
nn.GRUCell(2, 3)(x, state=x)  # wrong
nn.LSTM(2, 3)(x).backward()  # wrong
nn.Conv2d(1, 2)  # wrong
Net()(x, scales=2.0)  # wrong
Net()(2.0)  # wrong
agrad.jit(Net())(x, x)  # wrong
optim.Adam()  # wrong
optim.Adam(model.parameters(), lr="0.1")  # wrong
print(optimizer.moment)  # wrong
optimizer.step().item()  # wrong
print(optimizer.zero_grad(to_none=True))  # wrong
agrad.linalg.inverse(x)  # wrong
agrad.linalg.solve(x)  # wrong
agrad.linalg.cholesky(x, lower=True)  # wrong
agrad.fft.fft(x, axes=0)  # wrong
agrad.fft.rffts(x)  # wrong
agrad.special.erff(x)  # wrong
agrad.special.gamma(x, x)  # wrong
agrad.sinus(x)  # wrong
nn.functional.mse_loss(x)  # wrong
agrad.concat(x, x)  # wrong
agrad.reshape(x)  # wrong
agrad.grad(loss, argnums=0.5)  # wrong
agrad.grad(loss_and_more, has_aux=True)(w, x)[1].push()  # wrong
agrad.value_and_grad(loss_and_more, has_aux=True)(w, x)[0].backward()  # wrong
agrad.value_and_grad(loss, argnums=(0, 1))(w, x)[1].numpy()  # wrong
agrad.vjp(loss, w, x).backward()  # wrong
value, pullback, more = agrad.vjp(loss, w, x)  # wrong
agrad.jvp(loss, (w, x))  # wrong
value, tangent, more = agrad.jvp(loss, (w, x), (w, x))  # wrong
agrad.hvp(loss, (w, x), (w, x)).numpy()  # wrong
cube(w, scales=2.0)  # wrong
cube(w, w)  # wrong
straight.defvjps(None)  # wrong
agrad.custom_vjp(straight, batched="loop")  # wrong
agrad.sum(x, axis="a")  # wrong
agrad.flip(x, axis=0.5)  # wrong
agrad.permute_dims(x, 1)  # wrong
x.mean(axis="a")  # wrong
agrad.jit(loss, compiler="xla")  # wrong
agrad.jit(loss, precision="half")  # wrong
agrad.vmap(loss, randomness="some")  # wrong
agrad.linalg.qr(x, mode="full")  # wrong
agrad.fft.fft(x, norm="unitary")  # wrong
agrad.random.normal(agrad.random.key(0), size=3)  # wrong
print(agrad.linalg.svd(x).V)  # wrong
scipy.linalg.expm(x, 2, 3)  # wrong
scipy.special.erff(x)  # wrong
nn.MSELoss(reduction="average")  # wrong
nn.functional.mse_loss(x, x, reduction="average")  # wrong
nn.functional.conv2d(x, x, strides=2)  # wrong
nn.functional.interpolate(x, 2, mode="cubic")  # wrong
nn.functional.pad(x, (1, 1), mode="edge")  # wrong
nn.functional.gelu(x, approximate="sigmoid")  # wrong
nn.functional.scaled_dot_product_attention(x, x)  # wrong
nn.Conv2d(1, 2, 3, padding_mode="edge")  # wrong
optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="low")  # wrong
agrad.odeint(loss, x, w, method="euler")  # wrong
train.Trainer(model, nn.MSELoss(), optimizer, precision="half")  # wrong
