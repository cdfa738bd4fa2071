"""``jit``: functions traced once for each signature and replayed as programs.

``trace`` records what a function does, ``ir`` is the program, ``passes`` make it a better one, ``lowerings`` make a
Python function of it for a backend, ``state`` finds what a function reads and writes besides its arguments, and
``api`` is the face.
"""
