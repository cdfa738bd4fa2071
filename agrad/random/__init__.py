"""Random numbers as functions of a key, the same on every backend and device.

The generator is Philox4x64-10 (Salmon et al., SC'11), which is based on a counter: a key and a position determine a
number, and no state is kept. Keys are arrays. Draws have the library and device of the key, and are Tensors if it is a
Tensor::

    key = agrad.random.key(0)
    for_weights, for_noise = agrad.random.split(key)
    x = agrad.random.normal(for_noise, (3, 2), loc=mean, scale=deviation)

Two draws from one key return the same numbers: split the key first. ``Generator`` returns a new key at each call.

``dtype`` is float32 or float64. By default, the dtype of the array parameters, otherwise the default of the backend. A
float32 sample is the float64 sample, rounded. ``shape`` is an integer or a tuple. By default, it is the shape of the
parameters. Limits of parameters are checked for numbers. The values of arrays are not read.
"""

from agrad.faces import list_names as _list_names
from agrad.random.continuous import *
from agrad.random.counts import *
from agrad.random.discrete import *
from agrad.random.generator import Generator as Generator
from agrad.random.keys import *
from agrad.random.transformed import *

_list_names(globals())
