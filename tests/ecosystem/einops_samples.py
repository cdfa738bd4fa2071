"""einops: all that takes arrays."""

import einops
import einops.array_api
import numpy as np

from ecosystem.trial import Samples

SAMPLES = Samples()


def public() -> list[str]:
    """Return the public functions of the package and of its array API module."""
    from einops import array_api

    own = [name for name in einops.__all__ if name != "EinopsError"]
    return [*own, *(f"array_api.{name}" for name in array_api.__all__)] if hasattr(array_api, "__all__") else own


rng = np.random.default_rng(0)
X = rng.normal(size=(2, 3, 4))
Y = rng.normal(size=(2, 3, 5))

add = SAMPLES.add
add("rearrange", lambda x: einops.rearrange(x, "a b c -> (c a) b"), X, label="transposed and merged")
add("rearrange", lambda x: einops.rearrange(x, "a b (c d) -> d a c b", d=2), X, label="an axis split")
add("rearrange", lambda x, y: einops.rearrange([x, y], "n a b -> a (n b)"), X[0], Y[1, :, :4], label="a list")
for _how in ("mean", "sum", "max", "min", "prod"):
    add("reduce", lambda x, how=_how: einops.reduce(x, "a b c -> a c", how), X, label=_how)
add("reduce", lambda x: einops.reduce(x, "a b (c d) -> a b c", "mean", d=2), X, label="pooling")
add("repeat", lambda x: einops.repeat(x, "a b c -> a (b r) c n", r=2, n=3), X)
add("einsum", lambda x, y: einops.einsum(x, y, "a b c, a b d -> c d"), X, Y)
add("pack", lambda x, y: einops.pack([x, y], "a b *")[0], X, Y)
add("unpack", lambda x: einops.unpack(x, [(2,), (1, 2)], "a b *"), X)
add("parse_shape", lambda x: einops.parse_shape(x, "a b c"), X)
add("array_api.rearrange", lambda x: einops.array_api.rearrange(x, "a b c -> (c a) b"), X)
add("array_api.reduce", lambda x: einops.array_api.reduce(x, "a b c -> a c", "max"), X)
add("array_api.repeat", lambda x: einops.array_api.repeat(x, "a b c -> a (b r) c", r=2), X)
add("array_api.pack", lambda x, y: einops.array_api.pack([x, y], "a b *")[0], X, Y)
add("array_api.unpack", lambda x: einops.array_api.unpack(x, [(2,), (1, 2)], "a b *"), X)
