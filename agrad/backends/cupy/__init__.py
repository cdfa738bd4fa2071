"""CuPy: the backend and its CUDA kernels."""
