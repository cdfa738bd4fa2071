"""Check a CUDA GPU with one command: see ``bench/gpu/README.md``."""
