"""Random numbers as functions of a key, the same on every backend and device.

The generator is Philox4x64-10 (Salmon et al., SC'11). It is based on a counter: a key and a position give the number,
and no state is kept. Keys are arrays. Draws have the backend and device of the key, and are Tensors for a Tensor and
raw arrays for a raw one::

    key = agrad.random.key(0)
    for_weights, for_noise = agrad.random.split(key)
    x = agrad.random.normal(for_noise, (3, 2), loc=mean, scale=deviation)

Two draws from one key give the same numbers: split it first. ``Generator`` returns a new key at each call.

``dtype`` is float32 or float64, by default that of the parameters that are arrays, else the backend's own. A sample in
one is that in the other, rounded. ``shape`` is an integer or a tuple, by default that of the parameters.
"""

from agrad.faces import list_names as _list_names
from agrad.random.continuous import *
from agrad.random.counts import *
from agrad.random.discrete import *
from agrad.random.generator import Generator as Generator
from agrad.random.keys import *
from agrad.random.transformed import *

_list_names(globals())
