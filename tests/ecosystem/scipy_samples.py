"""SciPy with ``SCIPY_ARRAY_API=1``: all public functions for other arrays."""

import importlib
import os

assert os.environ.get("SCIPY_ARRAY_API") == "1", "SCIPY_ARRAY_API=1 has to be set before SciPy is imported"

from scipy._lib._array_api import xp_capabilities_table  # noqa: E402

from ecosystem import (  # noqa: E402
    scipy_numeric_samples,
    scipy_signal_samples,
    scipy_special_samples,
    scipy_stats_samples,
)
from ecosystem.trial import Samples  # noqa: E402

PARTS = (scipy_special_samples, scipy_stats_samples, scipy_signal_samples, scipy_numeric_samples)
MODULES = (
    "special", "stats", "integrate", "differentiate", "optimize.elementwise", "signal", "linalg", "fft", "ndimage",
    "cluster.vq", "cluster.hierarchy", "interpolate", "constants",
)  # fmt: skip

SAMPLES = Samples(sample for part in PARTS for sample in part.SAMPLES)


def public() -> list[str]:
    """Return SciPy's public functions that its table lists for other arrays."""
    names = []
    for place in MODULES:
        module = importlib.import_module(f"scipy.{place}")
        for name in sorted(module.__all__):
            function = getattr(module, name, None)
            entry = xp_capabilities_table.get(function) if callable(function) else None
            if entry is not None and not entry.get("np_only") and not entry.get("out_of_scope"):
                names.append(f"{place}.{name}")
    return names
