"""
Train a neural network
======================

Train a network that recognizes handwritten digits. First write the training loop
yourself, then use ``Trainer``, which adds validation, early stopping and a history.
"""

# %%
# Load the data
# -------------
#
# The package contains 1,797 images of eight by eight pixels.

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
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
    )


# %%
# Write a training loop
# ---------------------
#
# The loop calls ``backward``, ``step`` and ``zero_grad``, as in PyTorch. ``agrad.jit``
# compiles the step once. It finds the weights, the gradients and the state of the
# optimizer, and updates them.

model = network()
optimizer = optim.Adam(model.parameters(), lr=3e-3)
loader = data.DataLoader(
    data.TensorDataset(digits.X_train, digits.y_train), batch_size=64, shuffle=True
)


@agrad.jit
def step(x: Any, y: Any) -> Any:
    """Run one step, and return the loss."""
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
    labels = agrad.argmax(model(agrad.asarray(digits.X_test)), axis=1).numpy()
print(f"accuracy {np.mean(labels == digits.y_test):.3f}")

# %%
# Use ``Trainer``
# ---------------
#
# ``Trainer`` uses a part of the examples for validation. It stops when the validation
# loss no longer decreases, and keeps the best weights.

model = network()
trainer = train.Trainer(
    model,
    nn.CrossEntropyLoss(),
    optim.Adam(model.parameters(), lr=3e-3),
    metrics=["accuracy"],
    callbacks=[train.EarlyStopping(patience=4)],
)
history = trainer.fit(
    digits.X_train,
    digits.y_train,
    epochs=40,
    batch_size=64,
    validation=0.15,
    progress=False,
)
accuracy = trainer.evaluate(digits.X_test, digits.y_test)["accuracy"]
print(f"{len(history)} epochs; accuracy {accuracy:.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.semilogy(losses)
left.set(title="the loop", xlabel="step", ylabel="loss")
agrad.plotting.curves(history, ["loss"], axes=right)
right.set(title="the trainer")
plt.show()

# %%
# Look at the errors
# ------------------
#
# ``predict`` returns the outputs of the network, here ten scores per image.

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
# Summary
# -------
#
# * ``agrad.jit`` compiles a whole step, including its state.
# * Use ``Trainer`` for standard training, and a loop for everything else.
# * Set ``AGRAD_BACKEND=cupy`` to train on a GPU.
#
# Next: :doc:`train a model with Trainer </docs/train>`.
