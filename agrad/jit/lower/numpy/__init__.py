"""Lowering for NumPy: Python with kept buffers, and groups computed in blocks."""
