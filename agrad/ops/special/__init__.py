"""Special functions: ``agrad.special``.

Rules are next to each function, generic forms in the ``*_forms`` files. If an array library has the function
(``xp.special``), it is used; otherwise the generic form.
"""
