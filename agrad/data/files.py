"""Files read as a whole, and written as a whole or not at all."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from agrad.errors import DataError, MissingExtraError, SaveError

try:
    from lzma import LZMAError
except ImportError:
    LZMAError = OSError  # type: ignore[assignment, misc]
try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

StrPath = str | os.PathLike[str]

PACKINGS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
"""The modules that unpack files, by the first bytes of these."""
BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
PIECE = 2**20
PREFIX, SUFFIX = ".agrad-", ".tmp"


def optional(module: str, package: str, extra: str, what: str) -> Any:
    """Return a module of an optional package, or raise `MissingExtraError`."""
    try:
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs the package {package}, which is not installed. Install it with: pip install 'agrad[{extra}]'"
        ) from error


def open_file(path: StrPath) -> IO[bytes]:
    """Open a file to read its bytes. Raises `DataError` if missing or unreadable."""
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


@contextlib.contextmanager
def unpacked(path: StrPath, packed: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, unpacked from gzip, bzip2, xz or zip.

    `packed` contains the bytes that were found at `path` if it is not a file.
    """
    with open_file(path) if packed is None else packed as file:
        try:
            start = file.read(6)
            file.seek(0)
            packing = next((name for magic, name in PACKINGS.items() if start.startswith(magic)), None)
            if start.startswith(b"PK\3\4"):
                archive = zipfile.ZipFile(file)
                # macOS adds a file of its own for each packed one
                members = [info for info in archive.infolist() if not info.filename.startswith("__MACOSX/")]
                if len(members) != 1 or members[0].flag_bits & 1:
                    raise zipfile.BadZipFile(
                        f"{len(members)} packed files, of which one without a password is expected"
                    )
                stream = archive.open(members[0])
            else:
                stream = file if packing is None else importlib.import_module(packing).open(file)
            with stream:
                yield stream
        except (OSError, EOFError, zlib.error, LZMAError, zipfile.BadZipFile, NotImplementedError) as error:
            raise unreadable(path, error) from error


@contextlib.contextmanager
def opened_text(path: StrPath, encoding: str) -> Iterator[Iterable[str]]:
    """Open a file to read its lines, unpacked, with their line ends."""
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    with unpacked(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:  # type: ignore[type-var]
        yield text


def encoding_of(path: StrPath) -> str:
    """Return the encoding of a text file, guessed from its first bytes.

    Raises `DataError` for a file that is not text.
    """
    with unpacked(path) as file:
        start = file.read(PIECE)
    for mark, name in BOMS.items():
        if start.startswith(mark):
            return name
    if b"\0" in start:
        for name in WIDE:
            with contextlib.suppress(UnicodeDecodeError):
                text = start[: len(start) // 4 * 4].decode(name)
                if "\0" not in text and any(end in text for end in "\r\n"):
                    return name
    # the last character may be cut
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(start)
    odd = "\ufffd" in text
    if "\0" in text or (odd and any(c < " " and c not in "\t\r\n\f\v" for c in text)):
        raise DataError(f"{os.fspath(path)!r}: expected text in UTF-8 or another encoding, found a binary file")
    return "cp1252" if odd else "utf-8"


def read_file(path: StrPath) -> bytes:
    """Return the bytes of a file. Raises `DataError` if missing or unreadable."""
    with open_file(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise unreadable(path, error) from error


def unreadable(path: StrPath, error: Exception) -> DataError:
    """Return the `DataError` of a file that the system cannot read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{os.fspath(path)!r} cannot be read: {reason}; expected an existing, readable file")


def read_up_to(stream: IO[bytes], limit: int) -> bytes:
    """Return at most `limit` bytes; no more are unpacked."""
    parts = []
    # piece by piece, because one read of `limit` bytes would reserve them all at once
    while limit and (part := stream.read(min(limit, PIECE))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def check_writable(path: StrPath) -> None:
    """Raise `SaveError` unless a file could be written at `path`.

    An existing file is not changed. Refused are: an empty name, a directory, anything else that is not a regular file,
    a missing directory, and a missing permission.
    """
    # permission bits do not show a read-only file system, a full disk or a quota
    temporary = _temporary(os.path.dirname(_target(path)))
    try:
        with open(temporary, "xb"):
            pass
        # another process may have removed it as a leftover
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error


@contextlib.contextmanager
def written_whole(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` once it is complete and on the disk.

    Until then, and if the body raises or the process is killed, the file at `path` is unchanged. Its permissions are
    kept in any case. If `path` is a symbolic link, the file behind it is replaced. Files of killed processes in the
    directory are removed. Raises `SaveError` as `check_writable`, and for a full disk.
    """
    target = _target(path)
    directory = os.path.dirname(target)
    _remove_leftovers(directory)
    temporary = ""
    try:
        with _opened(directory) as file:
            temporary = file.name
            _keep_permissions(file, target)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_directory(directory)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and not isinstance(error, SaveError):
            raise _refused(path, error.strerror or str(error)) from error
        raise


def write_whole(path: StrPath, content: bytes) -> None:
    """Write `content` to `path`, as a whole or not at all; see `written_whole`."""
    with written_whole(path) as file:
        file.write(content)


def _target(path: StrPath) -> str:
    """Return the absolute name that a write to `path` would replace, after checks."""
    name = os.fspath(path)
    if not name or name.endswith(os.sep):
        raise _refused(path, "the name of a file is expected")
    try:
        target = os.path.realpath(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.stat(target)  # the name may be too long
    except (OSError, ValueError) as error:
        raise _refused(path, getattr(error, "strerror", None) or str(error)) from error
    directory, exists = os.path.dirname(target), os.path.exists(target)
    for wrong, reason, *fix in (
        (
            not os.path.exists(directory),
            f"the directory {directory!r} does not exist",
            "Create it first, or choose another directory.",
        ),
        (not os.path.isdir(directory), f"{directory!r} is not a directory"),
        (os.path.isdir(target), "it is a directory", "Append a file name."),
        (exists and not os.path.isfile(target), "it is not a regular file"),
        (exists and not os.access(target, os.W_OK), "the existing file is read-only"),
        (not os.access(directory, os.W_OK | os.X_OK), f"no permission to write into {directory!r}"),
    ):
        if wrong:
            raise _refused(path, reason, *fix)
    return target


def _temporary(directory: str) -> str:
    """Return a new name next to the target, for a rename within one file system."""
    return os.path.join(directory, f"{PREFIX}{os.getpid()}-{os.urandom(6).hex()}{SUFFIX}")


def _opened(directory: str) -> IO[bytes]:
    """Open a new temporary file, locked to show other processes that it is in use."""
    while True:
        # "x" obeys the umask; tempfile's files are private, and a model may be shared
        file = open(_temporary(directory), "xb")  # noqa: SIM115 - closed by the caller
        if fcntl is not None:
            # on a file system without locks no leftovers are removed either
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(file.name):
            return file
        # removed before it was locked
        file.close()


def _remove_leftovers(directory: str) -> None:
    """Remove the temporary files in `directory` that no process is writing any more."""
    if fcntl is None:
        return
    left: list[str] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        left += [e.path for e in entries if e.name.startswith(PREFIX) and e.name.endswith(SUFFIX) and e.is_file()]
    for name in left:
        with contextlib.suppress(OSError), open(name, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name)


def _keep_permissions(file: IO[bytes], target: str) -> None:
    """Give `file` the permissions and, where allowed, the owner of the file `target`."""
    try:
        before = os.stat(target)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):
        os.fchown(file.fileno(), before.st_uid, before.st_gid)
    os.chmod(file.name, stat.S_IMODE(before.st_mode))


def _sync_directory(directory: str) -> None:
    # without it the file is whole too, but a crash may bring the old one back
    """Write the entries of a directory to the disk, on systems that can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refused(path: StrPath, reason: str, fix: str = "Choose another path.") -> SaveError:
    return SaveError(f"{os.fspath(path)!r} cannot be written: {reason}. {fix}")
