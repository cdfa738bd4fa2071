"""Functions of NumPy, SciPy and einops on Tensors, through their protocols.

Nothing here has derivative rules: every function is a composition of ``agrad``'s functions.
"""
