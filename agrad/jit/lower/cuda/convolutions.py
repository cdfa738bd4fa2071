"""Convolutions as products of a copy of the windows.

A group copies the windows, cuBLASLt multiplies, and the readers find the elements of the result.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.backends.convolution import Windows
from agrad.jit.passes.fusion import Contiguous
from agrad.jit.program import FunctionOperation, Instruction, Program, Variable
from agrad.kernels.cupy.products import current_lt
from agrad.ops import convolution, linear_algebra, manipulation

CONVOLUTION, MATMUL, RESHAPE, PERMUTE = (
    f.primitive
    for f in (convolution.convolution, linear_algebra.matmul_p, manipulation.reshape_p, manipulation.permute_dims_p)
)

MOST_BYTES = 1 << 28
"""The most bytes of windows; the kernel of the operation copies more in parts."""


class WindowCopy(FunctionOperation):
    """The windows of an array, as a factor of a product.

    The array has shape (n, groups * c, ...), and the result (groups, c * taps, n * places). A tap is a position in the
    kernel, and a place is one in the result. A single group has no axis.
    """

    def __init__(self, x: Sequence[int], w: Sequence[int], how: Windows) -> None:
        super().__init__("windows", self._copied)
        self.how, self.kernel, self.out = how, tuple(w[2:]), tuple(how.lengths(x, w))
        self.images, self.channels = x[0], x[1] // how.groups
        lead = (how.groups,) if how.groups > 1 else ()
        self.shape = (*lead, self.channels * math.prod(self.kernel), self.images * math.prod(self.out))

    def _copied(self, x: Any) -> Any:
        """Return the windows by a convolution, whose kernels are 1 at one tap."""
        taps, channels = math.prod(self.kernel), x.shape[1]
        xp = backend_of(x).xp
        eye = xp.reshape(xp.eye(taps, dtype=x.dtype), (taps, 1, *self.kernel))
        found = CONVOLUTION.bind(x, xp.concat([eye] * channels), how=self.how._replace(groups=channels))
        return xp.reshape(xp.moveaxis(found, 0, 1), self.shape)

    def lines(self, shape: Sequence[int], kind: str, index: str, read: Callable[[str], str]) -> list[str]:
        """Return the statements for element ``i`` of the result, for an array of a shape."""
        axes = (self.how.groups, self.channels, *self.kernel, self.images, *self.out)
        at = [f"i / {math.prod(axes[k + 1 :])}{f' % {n}' if k else ''}" if n > 1 else "0" for k, n in enumerate(axes)]
        m = len(self.kernel)
        lines = [f"    const {index} channel = {at[0]} * {self.channels} + {at[1]}, image = {at[2 + m]};"]
        tests, position = [], f"image * {shape[1]} + channel"
        steps = zip(self.how.strides, self.how.padding, self.how.x_dilation, self.how.w_dilation, strict=True)
        for a, (stride, (low, _), apart, spread) in enumerate(steps):
            n = shape[2 + a]
            lines.append(f"    const {index} p{a} = ({at[3 + m + a]}) * {stride} + ({at[2 + a]}) * {spread} - {low};")
            tests += [f"p{a} >= 0", f"p{a} < {(n - 1) * apart + 1}", *([f"p{a} % {apart} == 0"] if apart > 1 else [])]
            position = f"({position}) * {n} + p{a}{f' / {apart}' if apart > 1 else ''}"
        return [*lines, f"    return {' && '.join(tests)} ? {read(position)} : {kind}(0);"]


def products_where_available(program: Program) -> Program:
    """Run the pass ``with_convolutions_as_products`` if cuBLASLt is available."""
    if program.backends() != {"cupy"} or current_lt().absent:
        return program
    return with_convolutions_as_products(program)


def with_convolutions_as_products(program: Program) -> Program:
    """Replace convolutions of moderate size by copies of windows and products."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept += _product(instruction, program) if _fits(instruction) else [instruction]
    return program.with_instructions(kept)


def _fits(instruction: Instruction) -> bool:
    if instruction.operation is not CONVOLUTION or instruction.outputs[0] is None:
        return False
    (x, w), (out,) = instruction.operands, instruction.results
    dtype = np.dtype(out.dtype)
    if not (isinstance(x, Variable) and isinstance(w, Variable) and x.size and w.size and out.size):
        return False
    size = math.prod(WindowCopy(x.shape, w.shape, instruction.settings["how"]).shape) * dtype.itemsize
    alike = x.dtype == w.dtype == out.dtype and dtype.char in "fd" and x.kind is out.kind
    return alike and size <= MOST_BYTES


def _product(instruction: Instruction, program: Program) -> list[Instruction]:
    (x, w), (out,), how = instruction.operands, instruction.results, instruction.settings["how"]
    windows, rows = WindowCopy(x.shape, w.shape, how), w.shape[0]
    *lead, depth, places = windows.shape

    def made(*shape: int) -> Variable:
        return Variable(shape, out.dtype, out.kind)

    copied, kernels = made(*windows.shape), made(*lead, rows // how.groups, depth)
    product, parted = made(*lead, rows // how.groups, places), made(rows, x.shape[0], *windows.out)
    leaves = any(v is out for v in program.outputs)
    turned = out.twin() if leaves else out
    return [
        Instruction(windows, (x,), {}, (copied,)),
        Instruction(RESHAPE, (w,), {"shape": kernels.shape}, (kernels,)),
        Instruction(MATMUL, (kernels, copied), {}, (product,)),
        Instruction(RESHAPE, (product,), {"shape": parted.shape}, (parted,)),
        Instruction(PERMUTE, (parted,), {"axes": (1, 0, *range(2, len(out.shape)))}, (turned,)),
        *([Instruction(Contiguous(), (turned,), {}, (out,))] if leaves else []),
    ]
