"""The benchmarks: ``python -m bench SUITE...``, from the checkout.

They are not part of the installed package.
"""
