"""Decide about a CUDA GPU in one command: see ``bench/gpu/README.md``."""
