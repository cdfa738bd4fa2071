"""The benchmarks: ``python -m bench SUITE...``, from the checkout. They are no part of the installed package."""
