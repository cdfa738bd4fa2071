"""The sections of ``agrad`` as modules, for type checkers alone.

At run time they are those of ``agrad.registry.namespace``.
"""
