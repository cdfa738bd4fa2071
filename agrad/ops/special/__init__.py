"""Special functions: ``agrad.special``.

Rules stand beside each function, generic forms in the ``*_forms`` files. An array library's own function is used where
it has one (``xp.special`` of its vocabulary), else the generic form.
"""
