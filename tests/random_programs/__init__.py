"""Random array programs by seed, each run by every transform and held against NumPy and finite differences."""
