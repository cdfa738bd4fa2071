"""Lowerings, which make a function for one backend of a program."""
