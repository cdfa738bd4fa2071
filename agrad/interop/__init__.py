"""Functions of NumPy, SciPy and einops on Tensors, through their protocols.

Nothing here has derivative rules but the product with a sparse matrix and the convolution of vectors: every other
function is a composition of ``agrad``'s functions.
"""
