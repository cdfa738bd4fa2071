"""One thread for OpenBLAS, set before NumPy is imported: threads of several workers would wait for one another."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
