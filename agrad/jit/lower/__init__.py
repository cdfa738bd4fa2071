"""Lowerings: generate a function for one backend from a program."""
