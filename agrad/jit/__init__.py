"""``jit``: functions traced once for each signature and replayed as programs.

``api`` is the entry point, ``capture`` traces a call, ``state`` finds the values that a function reads and writes
besides its arguments, ``trace`` records operations, ``program`` is their form, ``passes`` improve it, ``lower`` makes a
Python function of it for a backend, and ``bindings`` reads its inputs and writes its results back.
"""
