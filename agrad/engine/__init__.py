"""The engine: Tensors, levels, the backward pass and the notation of primitives."""
