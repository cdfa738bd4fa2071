"""Seeded mutants of the package, each run against the tests of its module."""
