"""Calls of ``scipy.special``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("special")
_X = np.asarray([[0.3, -1.2, 2.0], [1.1, 0.4, -0.7]])
_B = np.asarray([[1.0, 2.0, 0.5], [0.25, 0.0, 1.5]])
CALLS.add("logsumexp", lambda m, x: m.logsumexp(x), _X)
CALLS.add("logsumexp axis", lambda m, x: m.logsumexp(x, axis=1, keepdims=True), _X)
CALLS.add("logsumexp factors", lambda m, x, b: m.logsumexp(x, axis=0, b=b), _X, _B, fixed=(1,))
CALLS.add("logsumexp by factors", lambda m, x, b: m.logsumexp(x, b=b), _X, np.abs(_B) + 0.1)
CALLS.add("logsumexp sign", lambda m, x, b: m.logsumexp(x, axis=1, b=b, return_sign=True)[0], _X, _B - 0.7)
CALLS.add("softmax", lambda m, x: m.softmax(x), _X)
CALLS.add("softmax axis", lambda m, x: m.softmax(x, axis=1), _X)
CALLS.add("log_softmax", lambda m, x: m.log_softmax(x), _X)
CALLS.add("log_softmax axis", lambda m, x: m.log_softmax(x, axis=0), _X)
