"""NumPy: straight-line Python over kept buffers, and groups computed in blocks."""
