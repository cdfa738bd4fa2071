"""Random array programs by seed, each run by every transform and compared."""
