"""Lowering for NumPy: straight-line Python with kept buffers, and groups in blocks."""
