"""``jit``: trace a function once for each signature, and replay its program.

``api`` is the entry point. ``capture`` traces a call. ``state`` finds the values that a function reads and writes
besides its arguments. ``trace`` records operations, and ``program`` defines how they are stored. ``passes`` optimize
the program. ``lower`` generates a Python function for a backend. ``bindings`` reads the inputs and writes the results
back.
"""
