"""The engine: Tensors, nesting levels, the backward pass, notation of primitives.

Its import registers the functions that the methods of Tensors find by name in ``CALLS``.
"""

from agrad.engine import calls as calls
from agrad.engine import gradients as gradients
