"""NumPy: the backend and its kernels."""
