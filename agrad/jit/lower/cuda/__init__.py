"""CuPy: generated kernels, products by cuBLASLt, CUDA graphs."""
