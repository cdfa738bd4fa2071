"""NumPy, SciPy and einops functions for Tensors, through their protocols.

Only the product with a sparse matrix and the convolution of vectors have derivative rules. Every other function is a
composition of agrad functions.
"""
