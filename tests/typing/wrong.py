"""Uses that type checkers find: an error in each line that ends with the word."""

import agrad
from agrad import Tensor, nn, optim


def loss(w: Tensor, x: Tensor, *, scale: float = 1.0) -> Tensor:
    return agrad.mean(x @ w * scale)


w = agrad.asarray([1.0, 2.0], requires_grad=True)
x = agrad.asarray([[1.0, 0.0], [0.0, 1.0]])
step = agrad.jit(loss)
model = nn.Linear(2, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)

agrad.grad(loss)(w)  # wrong
agrad.grad(loss)(w, x, x)  # wrong
agrad.grad(loss)(w, x, scales=2.0)  # wrong
agrad.grad(loss)(w, x, scale="2")  # wrong
agrad.grad(loss)("w", x)  # wrong
agrad.grad(loss, argnum=0)(w, x)  # wrong
agrad.grad()(w, x)  # wrong
agrad.value_and_grad(loss)(w, x)[0].backwards()  # wrong
agrad.value_and_grad(loss)(w, y=x)  # wrong
agrad.value_and_grad(loss, aux=True)  # wrong
agrad.vmap(loss)(w, x, 1.0)  # wrong
agrad.vmap(loss, axes=0)  # wrong
agrad.checkpoint(loss)(w)  # wrong
agrad.jit(loss)(w)  # wrong
step(w, x, scale=None)  # wrong
step(w, x).backwards()  # wrong
step.cache_infos()  # wrong
step.lower(w)  # wrong
agrad.hessian(loss)(w)  # wrong
agrad.jacobian(loss)(w, x, scales=2.0)  # wrong
agrad.elementwise_grad(loss)(w)  # wrong
print(step.cache_info().hit)  # wrong
agrad.jit(loss, static=("scale",))  # wrong
agrad.sin()  # wrong
agrad.sin(w, x)  # wrong
agrad.sin(w).backwards()  # wrong
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
