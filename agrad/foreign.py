"""Names of other libraries with their agrad counterparts, for error messages."""

import re
from collections.abc import Iterable

KEYWORDS = {
    "dim": "axis", "dims": "axis", "keepdim": "keepdims", "unbiased": "correction", "ddof": "correction",
    "in_dims": "in_axes", "out_dims": "out_axes", "argnum": "argnums", "static_argnum": "static_argnums",
    "learning_rate": "lr",
}  # fmt: skip
"""Keyword arguments of PyTorch, NumPy, autograd and JAX, with the names in agrad."""

_FUNCTIONS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "bitwise_not": "bitwise_invert", "clamp": "clip", "cat": "concat",
    "concatenate": "concat", "conjugate": "conj", "det": "linalg.det", "div": "divide", "dot": "matmul or vecdot",
    "eq": "equal", "erfc": "special.erfc", "expand": "broadcast_to", "fabs": "abs", "ge": "greater_equal",
    "gather": "take_along_axis", "gt": "greater", "index_select": "take", "inv": "linalg.inv", "inverse": "linalg.inv",
    "invert": "bitwise_invert", "le": "less_equal", "lgamma": "special.gammaln", "lt": "less", "masked_fill": "where",
    "mm": "matmul", "bmm": "matmul", "mul": "multiply", "mv": "matmul", "ne": "not_equal", "neg": "negative",
    "norm": "linalg.vector_norm", "permute": "permute_dims", "power": "pow", "ptp": "max(x) - agrad.min(x)",
    "resize": "reshape, or numpy.resize", "rsqrt": "reciprocal(agrad.sqrt(x))", "sub": "subtract",
    "true_divide": "divide", "unbind": "unstack", "unsqueeze": "expand_dims",
}  # fmt: skip
"""Functions and Tensor methods that have another name in agrad."""

_MODULE = {
    "Parameter": "agrad.nn.Parameter", "Variable": "agrad.asarray(..., requires_grad=True)", "array": "agrad.asarray",
    "as_tensor": "agrad.asarray", "compile": "agrad.jit", "device_put": "agrad.to", "from_numpy": "agrad.asarray",
    "inference_mode": "agrad.no_grad", "lax": "agrad.scan, agrad.cond and agrad.while_loop",
    "manual_seed": "agrad.nn.manual_seed, or agrad.random.key", "rand": "agrad.random.uniform",
    "randint": "agrad.random.randint", "randn": "agrad.random.normal",
    "seed": "agrad.nn.manual_seed, or agrad.random.key", "set_grad_enabled": "agrad.no_grad or agrad.enable_grad",
    "tensor": "agrad.asarray", "tree_map": "agrad.tree.map",
}  # fmt: skip
_TENSOR = {
    "add_": "x += y", "at": "x[i] = v, which writes in place", "bfloat16": "agrad.jit(f, precision='bfloat16')",
    "block_until_ready": "x.numpy() to wait for a value", "bool": "x.astype(bool)", "cleargrad": "x.zero_grad()",
    "clone": "x.copy()", "contiguous": "x: every Tensor is usable as it is", "copy_": "x[...] = y",
    "cpu": "x.to('numpy')", "cuda": "x.to('cupy'), or x.to_device('cuda') for a Tensor of PyTorch arrays",
    "detach_": "x.detach()", "dim": "x.ndim", "div_": "x /= y", "double": "x.astype('float64')",
    "expand_as": "agrad.broadcast_to(x, y.shape)", "fill_": "x.fill(v)", "float": "x.astype('float32')",
    "half": "agrad.jit(f, precision='bfloat16')", "int": "x.astype('int32')", "is_cuda": "x.device",
    "long": "x.astype('int64')", "masked_select": "x[mask]", "mul_": "x *= y", "new_ones": "agrad.ones_like(x)",
    "new_zeros": "agrad.zeros_like(x)", "null_grad": "x.zero_grad()", "null_gradients": "x.zero_grad()",
    "numel": "x.size", "requires_grad_": "x.requires_grad = True", "sub_": "x -= y", "t": "x.T",
    "tensor_split": "slices of x", "type": "x.astype(dtype)", "unchain": "x.detach()", "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)", "zero_": "x.fill(0)",
}  # fmt: skip
_TENSOR |= {n: f"x.detach().numpy().{n}" for n in ("base", "byteswap", "ctypes", "flags", "tobytes", "tofile")}


def function_word(name: str) -> str:
    """Return the agrad counterpart of another function, or an empty string."""
    return _MODULE.get(name) or (f"agrad.{_FUNCTIONS[name]}" if name in _FUNCTIONS else "")


class Foreign:
    """An attribute that Tensors lack. Its error includes the agrad counterpart."""

    __slots__ = ("name", "word")

    def __init__(self, name: str, word: str) -> None:
        self.name, self.word = name, word

    def __get__(self, instance: object, owner: type | None = None) -> None:
        raise AttributeError(f"'Tensor' object has no attribute {self.name!r}. Write {self.word}.")


def install(kind: type, functions: Iterable[str]) -> None:
    """Define errors for Tensor attributes of other libraries and for ``functions``."""
    words = {name: f"agrad.{name}(x)" for name in functions}
    words |= {name: f"agrad.{word}" for name, word in _FUNCTIONS.items()} | _TENSOR
    lacking = words.keys() - set(dir(kind))
    for name in lacking:
        setattr(kind, name, Foreign(name, words[name]))

    def listed(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in lacking]

    kind.__dir__ = listed  # type: ignore[assignment,method-assign]


def named(error: TypeError, name: str) -> TypeError:
    """Return the error of a call with the public name of the function.

    The error for a keyword argument of another library includes the name in agrad.
    """
    text = re.sub(r"^[\w.<>]+\(\)", f"{name}()", str(error))
    return TypeError(text + keyword_hint(text))


def keyword_hint(text: str) -> str:
    """Return ". Write axis=." for an error on the keyword ``dim``, or an empty string."""
    found = re.search(r"unexpected keyword argument '(\w+)'", text)
    return f". Write {KEYWORDS[found[1]]}=." if found and found[1] in KEYWORDS else ""
