"""Downloads from mirrors into a cache, verified by checksums."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence

from agrad.data.files import read_up_to, unpacked, write_whole
from agrad.errors import DataError, SaveError

LIMIT = 256 * 2**20
"""The largest download in bytes, above any file fetched: a wrong mirror cannot fill memory."""


def fetch(
    paths: Mapping[str, str],
    checksums: Mapping[str, str],
    mirrors: Sequence[str],
    timeout: float,
    report: Callable[[str], None] | None = None,
) -> None:
    """Download each file by name from a mirror, unless the cache has a correct copy.

    `paths` contains the cache path of each file by name; a mirror has it under that name and `.gz`. Raises `DataError`
    if no mirror has a correct copy, `SaveError` if the cache cannot be written.
    """
    for name, path in paths.items():
        reasons = []
        # the cache first; it is created before a download, because a file that cannot be kept would be fetched again
        for mirror in (None, *mirrors):
            address = path if mirror is None else f"{mirror}{name}.gz"
            try:
                packed = None if mirror is None else _download(address, path, timeout, report)
                with unpacked(address, None if packed is None else io.BytesIO(packed)) as file:
                    found = hashlib.sha256(read_up_to(file, LIMIT)).hexdigest()
                if found != checksums[name]:
                    raise DataError(f"{address!r}: expected content with SHA-256 {checksums[name]}, found {found}")
            except (OSError, http.client.HTTPException, DataError, ValueError) as error:
                if isinstance(error, SaveError):
                    raise
                reasons += [] if mirror is None else [f"  {address}: {error}"]
                continue
            if packed is not None:
                write_whole(path, packed)
            break
        else:
            raise DataError(
                f"{name} could not be downloaded from any of {len(mirrors)} mirrors:\n" + "\n".join(reasons) + "\n"
                f"What to do without a network: put the files {', '.join(paths)}, gzipped (.gz) or not, into a "
                "directory DIR, and name it: agrad train --data mnist --data-dir DIR, or agrad.data.load_mnist('DIR'). "
                f"Or copy them, named with .gz, to {os.path.dirname(path)}, the cache (AGRAD_CACHE moves it). The "
                "digits inside the package need no network: agrad train --data digits"
            )


def _download(address: str, path: str, timeout: float, report: Callable[[str], None] | None) -> bytes:
    """Return the bytes at an address; pooch fetches them if it is installed.

    The folder of `path` is created first.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SaveError(
            f"the cache {folder!r} cannot be created: {reason}. Set AGRAD_CACHE to a directory in which you can write "
            "files."
        ) from error
    if report is not None:
        report(f"downloading {address} to {path}")
    try:
        import pooch
    except ImportError:
        with urllib.request.urlopen(address, timeout=timeout) as answer:
            content: bytes = answer.read(LIMIT)
            return content
    buffer = io.BytesIO()
    pooch.HTTPDownloader(timeout=timeout)(address, buffer, None)
    return buffer.getvalue()
