"""Downloads from mirrors into a cache, verified by checksums."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence

from agrad.data.files import read_file, unpack, write_whole
from agrad.errors import DataError, SaveError

LIMIT = 256 * 2**20
"""The largest download in bytes, above any file fetched: a wrong mirror cannot fill memory."""


def fetch(
    paths: Mapping[str, str],
    checksums: Mapping[str, str],
    mirrors: Sequence[str],
    timeout: float,
    report: Callable[[str], None] | None = None,
) -> dict[str, bytes]:
    """Return the unpacked content of each file by name, from the cache or a mirror.

    `paths` contains the cache path of each file by name; a mirror has it under that name and `.gz`. Raises `DataError`
    if no mirror has a correct copy, `SaveError` if the cache cannot be written.
    """
    contents = {}
    for name, path in paths.items():
        content = _cached(path, checksums[name])
        if content is None:
            # before the download, because a file that cannot be kept would be fetched by every run
            make_directory(os.path.dirname(path))
            content = _download(name, paths, checksums[name], mirrors, timeout, report)
        contents[name] = content
    return contents


def make_directory(path: str) -> None:
    """Make a directory and its parents. Raises `SaveError` if that fails."""
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SaveError(
            f"the cache {path!r} cannot be created: {reason}. Set AGRAD_CACHE to a directory in which you can write "
            "files."
        ) from error


def _cached(path: str, checksum: str) -> bytes | None:
    """Return the content of a file of the cache, or None if missing or damaged."""
    if not os.path.exists(path):
        return None
    try:
        return _verified(read_file(path), path, checksum)
    except DataError:
        return None


def _verified(packed: bytes, source: str, checksum: str) -> bytes:
    """Return unpacked content. Raises `DataError` for another checksum."""
    content = unpack(packed, source, LIMIT)
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        raise DataError(f"{source!r}: expected content with SHA-256 {checksum}, found {found}")
    return content


def _download(
    name: str,
    paths: Mapping[str, str],
    checksum: str,
    mirrors: Sequence[str],
    timeout: float,
    report: Callable[[str], None] | None,
) -> bytes:
    """Return the content of a file from the first good mirror, and cache it."""
    path = paths[name]
    reasons = []
    for mirror in mirrors:
        address = f"{mirror}{name}.gz"
        if report is not None:
            report(f"downloading {address} to {path}")
        try:
            with urllib.request.urlopen(address, timeout=timeout) as answer:
                packed = answer.read(LIMIT)
            content = _verified(packed, address, checksum)
        except (OSError, http.client.HTTPException, DataError, ValueError) as error:
            reasons.append(f"  {address}: {error}")
            continue
        write_whole(path, packed)
        return content
    directory = os.path.dirname(path)
    raise DataError(
        f"{name} could not be downloaded from any of {len(mirrors)} mirrors:\n" + "\n".join(reasons) + "\n"
        f"What to do without a network: put the files {', '.join(paths)}, gzipped (.gz) or not, "
        "into a directory DIR, and name it: agrad train --data mnist --data-dir DIR, or "
        f"agrad.data.load_mnist('DIR'). Or copy them, named with .gz, to {directory}, the cache "
        "(AGRAD_CACHE moves it). "
        "The digits inside the package need no network: agrad train --data digits"
    )
