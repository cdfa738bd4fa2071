"""The engine: Tensors, levels, the backward pass and the notation of primitives.

Importing it files what a Tensor's methods look up by name.
"""

from agrad.engine import backward as backward
