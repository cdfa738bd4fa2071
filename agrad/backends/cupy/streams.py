"""Waiting for a CUDA device beside captures of other threads."""

import sys
import threading

CAPTURE = threading.RLock()
"""Held during agrad's captures. CUDA does not wait for a device while a stream of it is captured: the call fails, and
the capture too."""


def synchronize() -> None:
    """Wait for the current device, after captures by other threads."""
    with CAPTURE:
        sys.modules["cupy"].cuda.Device().synchronize()
