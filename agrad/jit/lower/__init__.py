"""Lowerings: from a program to a function that runs it on one backend."""
