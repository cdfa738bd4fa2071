"""
Training a network
==================

A network that reads handwritten digits, trained twice: by a loop that one sees whole, and by ``Trainer``, which adds
validation, early stopping and a history.
"""

# %%
# The data
# --------
#
# 1,797 images of eight by eight pixels come with the package.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad
from agrad import data, nn, optim, train

digits = data.load_digits()
print(digits.X_train.shape, digits.X_train.dtype, digits.X_test.shape)


def network() -> nn.Module:
    """Return a new network, with the same weights each time."""
    nn.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))


# %%
# A loop of one's own
# -------------------
#
# Forward pass, ``backward``, a step, ``zero_grad``: the order is PyTorch's. ``agrad.jit`` traces the step once;
# weights, gradients and the optimizer's state are found and updated.

model = network()
optimizer = optim.Adam(model.parameters(), lr=3e-3)
loader = data.DataLoader(data.TensorDataset(digits.X_train, digits.y_train), batch_size=64, shuffle=True)


@agrad.jit
def step(x: Any, y: Any) -> Any:
    """Take one step, and return the loss."""
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


losses = []
for _ in range(15):
    for x, y in loader:
        losses.append(step(x, y).item())

model.eval()
with agrad.no_grad():
    guesses = agrad.argmax(model(agrad.asarray(digits.X_test)), axis=1).numpy()
print(f"accuracy {np.mean(guesses == digits.y_test):.3f}")

# %%
# The same by ``Trainer``
# -----------------------
#
# A part of the examples is held out, and training stops when it gets no better; the best weights are kept.

model = network()
trainer = train.Trainer(
    model,
    nn.CrossEntropyLoss(),
    optim.Adam(model.parameters(), lr=3e-3),
    metrics=["accuracy"],
    callbacks=[train.EarlyStopping(patience=4)],
)
history = trainer.fit(digits.X_train, digits.y_train, epochs=40, batch_size=64, validation=0.15, progress=False)
print(len(history), "epochs; accuracy", round(trainer.evaluate(digits.X_test, digits.y_test)["accuracy"], 3))

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.semilogy(losses)
left.set(title="the loop", xlabel="step", ylabel="loss")
agrad.plotting.curves(history, ["loss"], axes=right)
right.set(title="the trainer")
plt.show()

# %%
# What it gets wrong
# ------------------
#
# ``predict`` returns the outputs of the network, here ten scores an image.

scores = np.asarray(trainer.predict(digits.X_test))
wrong = np.flatnonzero(scores.argmax(axis=1) != digits.y_test)[:6]
figure, panels = plt.subplots(1, 6, figsize=(8, 1.8), layout="constrained")
for panel in panels:
    panel.axis("off")
for panel, k in zip(panels, wrong, strict=False):
    panel.imshow(digits.X_test[k].reshape(8, 8), cmap="gray_r")
    panel.set_title(f"{digits.y_test[k]} as {scores[k].argmax()}")
plt.show()

# %%
# To remember
# -----------
#
# * ``agrad.jit`` takes the whole step, state and all.
# * ``Trainer`` is for the usual course, a loop of one's own for all others; both use the same parts.
# * On a GPU: ``AGRAD_BACKEND=cupy``.
#
# Read on: :doc:`the trainer </docs/train>`.
