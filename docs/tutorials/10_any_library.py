"""
Use any library of the array API standard
=========================================

agrad needs no adapter for a library that implements the array API standard. This
tutorial uses two of them: mparray computes derivatives with 50 digits, and ndonnx
exports a training step as an ONNX model. Install them with
``pip install mparray ndonnx onnxruntime``.
"""

# %%
# Write a function for arrays of any library
# ------------------------------------------
#
# The function asks its argument for the namespace, and does not import agrad. For
# small :math:`x`, :math:`(1 - \cos\,x) / x^2 = 1/2 - x^2/24 + \dots`

from typing import Any

import matplotlib.pyplot as plt
import mparray
import ndonnx
import numpy as np
import onnxruntime
from array_api_compat import array_namespace
from mpmath import mp

import agrad


def ratio(x: Any) -> Any:
    """Return the sum of (1 - cos x) / x**2."""
    xp = array_namespace(x)
    return xp.sum((1 - xp.cos(x)) / x**2)


print(agrad.grad(ratio)(np.asarray([1e-1, 1e-4, 1e-7])))

# %%
# The exact derivative is close to :math:`-x/12`. NumPy computes in float64, with 16
# digits, and the difference :math:`1 - \cos\,x` cancels most of them. The last two
# numbers are wrong.
#
# Compute with 50 digits
# ----------------------
#
# The same function accepts mparray arrays, whose elements are numbers of mpmath. All
# derivatives have the precision that you set there.

mp.dps = 50
x = mparray.asarray([mp.mpf("1e-1"), mp.mpf("1e-4"), mp.mpf("1e-7")])
print(repr(agrad.grad(ratio)(x)))

# %%
# Hessians work the same way. The second derivative is close to :math:`-1/12`.

print(repr(agrad.hessian(ratio)(x[2:])))

# %%
# The plot shows how many digits of the derivative are correct at each precision.

points = np.logspace(-8, 0, 33)


def derivative(digits: int) -> list[Any]:
    """Return the derivative at all points, with some digits."""
    mp.dps = digits
    return list(agrad.grad(ratio)(mparray.asarray([mp.mpf(float(p)) for p in points])))


exact = derivative(80)
computed = {
    "float64 (NumPy)": list(agrad.grad(ratio)(points)),
    "25 digits (mparray)": derivative(25),
    "50 digits (mparray)": derivative(50),
}
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for label, values in computed.items():
    errors = [abs(v / e - 1) for v, e in zip(values, exact, strict=True)]
    axes.loglog(points, [max(float(e), 1e-52) for e in errors], label=label)
axes.set(xlabel="x", ylabel="relative error of the derivative")
axes.legend()
plt.show()

# %%
# Export a training step as an ONNX model
# ---------------------------------------
#
# ndonnx arrays have a dtype and a shape and no values. Operations on them build an ONNX
# graph. Differentiate at such arrays, and the graph contains the gradient. The model
# below is one step of gradient descent for a logistic regression.


def loss(weights: Any, features: Any, labels: Any) -> Any:
    """Return the mean logistic loss; labels are -1 or 1."""
    xp = array_namespace(weights, features, labels)
    return xp.mean(xp.log1p(xp.exp(-labels * (features @ weights))))


shapes = {"weights": (2,), "features": (100, 2), "labels": (100,), "rate": ()}
inputs = {
    name: ndonnx.argument(shape=shape, dtype=ndonnx.float32)
    for name, shape in shapes.items()
}
*arguments, rate = inputs.values()
value, gradient = agrad.value_and_grad(loss)(*arguments)
outputs = {"loss": value, "new_weights": arguments[0] - rate * gradient}
model = ndonnx.build(inputs, outputs).SerializeToString()
print(len(model), "bytes")

# %%
# onnxruntime runs the model. It needs neither agrad nor ndonnx, so you can train in a
# browser, on a phone, or from another programming language.

rng = np.random.default_rng(0)
features = rng.normal(size=(100, 2)).astype(np.float32)
labels = np.sign(features @ np.asarray([2.0, -1.0], np.float32))
session = onnxruntime.InferenceSession(model)
feed = {"features": features, "labels": labels, "rate": np.asarray(1.0, np.float32)}
weights, losses = np.zeros(2, np.float32), []
for _ in range(100):
    now, weights = session.run(None, {"weights": weights, **feed})
    losses.append(float(now))
print(f"loss {losses[0]:.3f} before the first step, {losses[-1]:.3f} at the last")
print("weights:", weights.round(2))

# %%
# NumPy computes the same step with the same function:

expected = weights - 1.0 * agrad.grad(loss)(weights, features, labels)
print(expected)
print(session.run(["new_weights"], {"weights": weights, **feed})[0])

# %%
# Summary
# -------
#
# * Pass arrays of any library of the standard. agrad finds their namespace.
# * mparray sets the precision of derivatives, and ndonnx exports them as models.
# * MLX, dpnp, Cubed and sparse arrays work the same way.
#
# Next: :doc:`three libraries in detail </docs/howto/other_libraries>`.
