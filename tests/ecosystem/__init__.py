"""Samples of calls of other libraries' functions on Tensors, and their trial."""
