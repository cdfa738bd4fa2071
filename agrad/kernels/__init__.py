"""Kernels: faster implementations of operations and rules, by array library."""
