"""The four objectives of ADBench, each implemented once for all libraries, on one thread.

    python -m bench adbench --json bench/results/adbench.json

Srajer, Kukelova and Fitzgibbon, A benchmark of selected algorithmic differentiation tools on some problems in computer
vision and machine learning, Optimization Methods and Software 33 (2018). The objectives are the log posterior of a
Gaussian mixture with Wishart's prior (gradient), bundle adjustment (the blocks of a sparse Jacobian), the tracking of a
hand (Jacobian), and an LSTM over characters (gradient). The data are random numbers, in the sizes of the paper and in
smaller ones. Constants without a derivative are omitted.
"""

from typing import Any

import numpy as np

from bench import transforms
from bench.suites import Options, Report, Suite
from bench.transforms_jobs import GRADIENT, JACOBIAN, Problem, mixture_points, places_of, residual

PEERS = ("torch.func", "jax.jit", "autograd")
MIXTURES = ((2, 5), (10, 5), (10, 25), (32, 25), (64, 25))
"""Dimensions and components, for 1,000 points."""
OBSERVATIONS = (31_843, 36_455, 182_072)
"""The observations of sets 1 to 3, with 49, 21 and 161 cameras, and 7,776, 11,315 and 48,126 points."""
VERTICES = (100, 544)
SEQUENCES = (32, 1024)
LAYERS, CHARACTERS = 2, 14
GAMMA, DEGREES = 1.0, 0.0
"""Parameters of Wishart's prior."""


# ------------------------------------------------------------------ the objectives


def posterior(m: Any, x: Any, points: Any, places: Any) -> Any:
    """Return the log posterior of a mixture of Gaussians, up to a constant (section 4.1).

    ``x`` contains the logarithms of the weights (k,), the means, and the inverse square root of each covariance: the
    logarithms of the diagonal and the entries below it.
    """
    d = points.shape[0]
    k = x.shape[0] // (1 + 2 * d + d * (d - 1) // 2)
    logs, below = x[k + k * d : k + 2 * k * d], x[k + 2 * k * d :]
    likelihood = m.sum(mixture_points(m, x[:k], x[k:], points, places))
    size = m.sum(m.exp(2.0 * logs)) + m.sum(below**2)
    return likelihood - 0.5 * GAMMA**2 * size + DEGREES * m.sum(logs)


def observed(m: Any, v: Any, feature: Any) -> Any:
    """Return the three residuals of an observation: two for its position, one for its weight (section 4.2)."""
    return m.concat([residual(m, v, feature), 1.0 - v[..., 14:15] ** 2], -1)


FINGERS = 5
POSE = 6 + 4 * FINGERS
"""A rotation and a translation of the hand, and for each finger two angles at the first joint, one at two others."""


def turned(m: Any, angle: Any, along: int) -> Any:
    """Return the rotations (n, 3, 3) about an axis, by angles (n,)."""
    c, s = m.cos(angle), m.sin(angle)
    none, one = 0.0 * c, 0.0 * c + 1.0
    rows = {
        0: [one, none, none, none, c, -s, none, s, c],
        1: [c, none, s, none, one, none, -s, none, c],
        2: [c, -s, none, s, c, none, none, none, one],
    }[along]
    return m.reshape(m.stack_last(rows), (angle.shape[0], 3, 3))


def hand(m: Any, pose: Any, rest: Any, joints: Any, skin: Any, seen: Any) -> Any:
    """Return the distances of the vertices of a posed hand to their data (section 4.3).

    ``rest`` (bones, 3, n): the vertices relative to each bone; ``joints`` (3, fingers, 3, 1): the positions of the
    joints, the first relative to the hand, the others to the previous one; ``skin`` (bones, 1, n): the weights with
    which a vertex follows each bone.
    """
    palm = turned(m, pose[0:1], 0) @ turned(m, pose[1:2], 1) @ turned(m, pose[2:3], 2)
    place = m.reshape(pose[3:6], (1, 3, 1))
    angles = m.reshape(pose[6:], (4, FINGERS))
    turn, at = palm, place
    turns, places = [palm], [place]
    for joint in range(3):
        at = turn @ joints[joint] + at
        bend = turned(m, angles[joint + 1], 0)
        turn = turn @ (turned(m, angles[0], 2) @ bend if joint == 0 else bend)
        turns.append(turn)
        places.append(at)
    moved = m.concat(turns, 0) @ rest + m.concat(places, 0)
    return m.reshape(m.sum(moved * skin, 0) - seen, (-1,))


def characters(m: Any, x: Any, state: Any, text: Any) -> Any:
    """Return the mean loss of predicting each character of a text by an LSTM (section 4.4).

    ``x`` (8 layers + 3, b): four weights and four biases for each layer, and a weight before, a weight and a bias after
    them; ``state`` (2 layers, b): hidden and cell. All products are elementwise. ``text`` (c, b).
    """
    hidden, cell = [state[2 * i] for i in range(LAYERS)], [state[2 * i + 1] for i in range(LAYERS)]
    weights = [[x[8 * i + j] for j in range(8)] for i in range(LAYERS)]
    first, last, shift = x[8 * LAYERS], x[8 * LAYERS + 1], x[8 * LAYERS + 2]
    total = 0.0
    for t in range(text.shape[0] - 1):
        value = text[t] * first
        for i in range(LAYERS):
            w = weights[i]
            forget, out = m.sigmoid(value * w[0] + w[4]), m.sigmoid(value * w[2] + w[6])
            enter, change = m.sigmoid(hidden[i] * w[1] + w[5]), m.tanh(hidden[i] * w[3] + w[7])
            cell[i] = cell[i] * forget + enter * change
            value = hidden[i] = out * m.tanh(cell[i])
        guess = value * last + shift
        total = total + m.sum(text[t + 1] * (guess - m.log(m.sum(m.exp(guess)) + 2.0)))
    return -total / ((text.shape[0] - 1) * text.shape[1])


# ------------------------------------------------------------------ their data


def _mixture(rng: Any, d: int, k: int, n: int) -> Problem:
    means, below = rng.standard_normal(k * d), rng.standard_normal(k * d * (d - 1) // 2) * 0.1
    x = np.concatenate([rng.standard_normal(k), means, rng.standard_normal(k * d) * 0.3, below])
    return Problem(posterior, x, (rng.standard_normal((d, n)), places_of(d)))


def _adjustment(rng: Any, observations: int) -> Problem:
    usual = np.asarray([0.3] * 3 + [0.0] * 10 + [3.0, 1.0])
    v = rng.standard_normal((observations, 15)) * 0.1 + usual
    return Problem(observed, v, rows=(rng.standard_normal((observations, 2)),), task=JACOBIAN, outputs=3)


def _hand(rng: Any, n: int) -> Problem:
    bones = 1 + 3 * FINGERS
    skin = rng.uniform(0, 1, (bones, 1, n)) ** 8
    joints = rng.standard_normal((3, FINGERS, 3, 1)) * 0.3
    data = (rng.standard_normal((bones, 3, n)) * 0.2, joints, skin / skin.sum(axis=0), rng.standard_normal((3, n)))
    return Problem(hand, rng.standard_normal(POSE) * 0.3, data, task=JACOBIAN)


def _text(rng: Any, length: int) -> Problem:
    text = np.eye(CHARACTERS)[rng.integers(0, CHARACTERS, length)]
    state = rng.standard_normal((2 * LAYERS, CHARACTERS)) * 0.1
    x = rng.standard_normal((8 * LAYERS + 3, CHARACTERS)) * 0.5
    return Problem(characters, x, (state, text), unrolled=length)


def problems(quick: bool = False) -> dict[tuple[str, str], Problem]:
    """Return all problems by objective and size. ``quick``: the smallest ones, and smaller."""
    rng = np.random.default_rng(0)
    found = {}
    for d, k in MIXTURES[: 1 if quick else None]:
        found["mixture", f"d={d}, k={k}, {GRADIENT}"] = _mixture(rng, d, k, 20 if quick else 1000)
    for number, count in enumerate((50,) if quick else OBSERVATIONS, 1):
        found["bundle adjustment", f"set {number}, {JACOBIAN}"] = _adjustment(rng, count)
    for n in (10,) if quick else VERTICES:
        found["hand", f"{n} vertices, {JACOBIAN}"] = _hand(rng, n)
    for length in (4,) if quick else SEQUENCES:
        found["LSTM", f"{length} characters, {GRADIENT}"] = _text(rng, length)
    return found


def run(options: Options) -> Report:
    """Check that all agree, and time them alternately, on one thread."""
    return transforms.report(options, "adbench", "The objectives of ADBench", "bench.adbench", one_thread=True)


NAMES = tuple(dict.fromkeys(name for name, _ in problems(quick=True)))

SUITE = Suite(
    about="the four objectives of ADBench against other libraries, on one thread",
    run=run,
    repeat=5,
    peers=PEERS,
    dtypes=("float64",),
    only=NAMES,
)
