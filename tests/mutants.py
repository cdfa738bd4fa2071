"""Mutants of good files by seed, and the results of loading them with limits.

``python tests/mutants.py FOLDER FIRST LAST`` loads the mutants of the seeds from FIRST to below LAST, and prints a JSON
record of each: its kind, the mutation, and whether it was "loaded", "refused" or "failed", with the message.
"""

import contextlib
import gzip
import io
import json
import re
import resource
import signal
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

from agrad import cli, data
from agrad.cli import models, options, train
from agrad.cli.selection import chosen
from agrad.errors import AgradError, printable

MEMORY, SECONDS = 512 * 2**20, 10
"""What loading one file may take: bytes of address space, and time."""

ODD = [None, True, 0, -1, 3, 2**31, 2**63, 10**400, 1e300, float("nan"), float("inf"), [], {}, [16000, 16000]]
ODD += ["", "\x1b[31m", "\ud800", "a\0b"]
NUMBERS = [b"0", b"-1", b"7", b"16000", b"4294967296", b"99999999999999999999", b"1e999", b"nan", b"0.5"]


def original(folder):
    """Good files of each kind, as bytes by name; made in ``folder``."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.round(rng.normal(size=(60, 3)) + 4 * np.eye(3)[y], 3)
    rows = "".join(f"{a},{b},{c},k{k}\n" for (a, b, c), k in zip(X.tolist(), y.tolist(), strict=True))
    (folder / "good.csv").write_text("a,b,c,kind\n" + rows)
    words = ["train", "--data", str(folder / "good.csv"), "--label", "kind", "--hidden", "4,3", "--epochs", "2"]
    more = {"adam.st": ["--dropout", "0.2", "--validation", "0.2"], "float16.st": ["--precision", "float16"]}
    for name, rest in more.items():
        assert cli.main([*words, *rest, "--quiet", "--backend", "numpy", "--save", str(folder / name)]) == 0
    arrays = {"X": X, "y": y}
    np.savez(folder / "plain.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays, X_test=X[:9], y_test=y[:9])
    np.savez(folder / "text.npz", X=X.astype("f4"), y=np.array(["no", "yes", "\u00e9"])[y])
    images = struct.pack(">4B3I", 0, 0, 8, 3, 20, 3, 4) + bytes(range(240))
    (folder / "images.idx").write_bytes(images)
    (folder / "images.idx.gz").write_bytes(gzip.compress(images, mtime=0))
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


# -- mutations of bytes: each gives the name of what it did, and the new bytes --


def flip(rng, content):
    found = bytearray(content)
    for at in rng.integers(0, len(found), rng.integers(1, 9)):
        found[at] ^= 1 << int(rng.integers(8))
    return bytes(found)


def cut(rng, content):
    return content[: rng.integers(0, len(content))]


def span(rng, content):
    first = int(rng.integers(0, len(content)))
    return first, first + int(rng.integers(1, max(2, len(content) // 4)))


def remove(rng, content):
    first, last = span(rng, content)
    return content[:first] + content[last:]


def repeat(rng, content):
    first, last = span(rng, content)
    return content[:last] + content[first:last] * int(rng.integers(1, 4)) + content[last:]


def overwrite(rng, content):
    first, last = span(rng, content)
    value = [b"\0", b"\xff", b"[", b'"', b"\x7f\xc0", b"\x1b[2J", b"\n"][rng.integers(7)]
    return content[:first] + (value * (last - first))[: last - first] + content[last:]


def renumber(rng, content):
    places = list(re.finditer(rb"\d+", content))
    place = places[rng.integers(len(places))] if places else re.search(b"", content)
    return content[: place.start()] + NUMBERS[rng.integers(len(NUMBERS))] + content[place.end() :]


def nest(rng, content):
    depth = int(rng.choice([90, 700, 5000, 100_000]))
    at = int(rng.integers(0, min(len(content), 2000) + 1))
    return content[:at] + b"[" * depth + b"]" * depth + content[at:]


def header(rng, content):
    """Random numbers in the first bytes, where formats keep sizes."""
    at = int(rng.integers(0, min(len(content), 24)))
    value = int(rng.choice([0, 1, 255, 2**16, 2**31, 2**32 - 1]))
    return content[:at] + value.to_bytes(4, rng.choice(["big", "little"])) + content[at + 4 :]


BYTES = [flip, cut, remove, repeat, overwrite, renumber, nest, header]

# -- mutations inside a format, whose checksums and lengths fit again --


def places(value, at=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


def changed_json(rng, value):
    """Return a JSON object with one or two values changed, removed or nested."""
    for _ in range(rng.integers(1, 3)):
        known = list(places(value))
        at = known[rng.integers(len(known))]
        holder = value
        for key in at[:-1]:
            holder = holder[key]
        way = rng.integers(4)
        if way == 0:
            del holder[at[-1]]
        elif way == 1:
            for _ in range(rng.choice([3, 99, 450])):
                holder[at[-1]] = [holder[at[-1]]]
        elif way == 2 and isinstance(holder[at[-1]], list | str):
            holder[at[-1]] = holder[at[-1]] * int(rng.choice([2, 1000]))
        else:
            holder[at[-1]] = ODD[rng.integers(len(ODD))]
    return value


def model_header(rng, content):
    length = int.from_bytes(content[:8], "little")
    found, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    if rng.integers(4):
        metadata = json.loads(found["__metadata__"]["agrad"])
        found["__metadata__"]["agrad"] = json.dumps(changed_json(rng, metadata))
    else:
        found = changed_json(rng, found)
    text = json.dumps(found, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + body


def model_body(rng, content):
    """NaN, infinities, large and negative numbers in the tensors."""
    length = 8 + int.from_bytes(content[:8], "little")
    body = bytearray(content[length:])
    for at in rng.integers(0, len(body) // 8, rng.integers(1, 4)) * 8:
        body[at : at + 8] = struct.pack("<d", rng.choice([np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0]))
    return content[:length] + bytes(body)


def members(rng, content):
    """Return an archive with one member changed, and a right checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        kind = archive.infolist()[0].compress_type
    name = list(parts)[rng.integers(len(parts))]
    parts[name] = [*BYTES, lambda rng, part: renumber(rng, part[:128]) + part[128:]][rng.integers(9)](rng, parts[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for key, part in parts.items():
            archive.writestr(key, part)
    return buffer.getvalue()


def repacked(rng, content):
    inner = gzip.decompress(content)
    if not rng.integers(4):
        return gzip.compress(inner + bytes(50_000_000), mtime=0)
    return gzip.compress(BYTES[rng.integers(len(BYTES))](rng, inner), mtime=0)


INSIDE = {".st": [model_header, model_body], ".npz": [members], ".gz": [repacked]}


def mutant(seed, files):
    """Return the name of the mutated file, its mutation, and its bytes."""
    rng = np.random.default_rng(seed)
    name = list(files)[seed % len(files)]
    inside = INSIDE.get(Path(name).suffix, [])
    ways = inside if inside and rng.integers(2) else BYTES
    way = ways[rng.integers(len(ways))]
    return name, way.__name__, way(rng, files[name])


# -- loading --


def load(path, folder):
    """Load a file by its kind, as the command line does, and check the result.

    Raises ``AgradError``.
    """
    if path.suffix == ".st":
        with chosen("numpy", None) as place:
            saved = models.load(str(path))
            finite(saved.model(place).state_dict())
            args = ["train", "--resume", str(path), "--epochs", "2000000000", "--quiet"]
            train.Run(options.parser().parse_args(args), place)
        code = cli.main(["evaluate", str(path), "--data", str(folder / "good.csv"), "--backend", "numpy"])
        assert code in (0, 1, 2)
    elif path.suffix == ".csv":
        loaded = data.load_csv(path, "kind", report=lambda line: None)
        assert loaded.X_train.shape[1] == len(loaded.feature_names)
        finite({"train": loaded.X_train, "test": loaded.X_test})
    elif path.suffix == ".npz":
        loaded = data.load_npz(path)
        finite({"train": loaded.X_train, "test": loaded.X_test})
    else:
        assert data.read_idx(path).ndim > 0


def finite(arrays):
    for name, value in arrays.items():
        assert np.isfinite(value).all(), name


def readable(text):
    """Return True for a few lines without control characters."""
    return len(text) < 2100 and text.count("\n") <= 12 and (text.replace("\n", "") == printable(text.replace("\n", "")))


def outcome(path, folder):
    try:
        load(path, folder)
    except AgradError as error:
        return ("refused" if readable(str(error)) else "failed"), str(error)
    except BaseException as error:
        return "failed", f"{type(error).__name__}: {error}"
    return "loaded", ""


def main(folder, first, last):
    files = original(folder)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, lambda *args: (_ for _ in ()).throw(TimeoutError("too slow")))
    (folder / "mutants").mkdir(exist_ok=True)
    for seed in range(first, last):
        name, way, content = mutant(seed, files)
        path = folder / "mutants" / f"{seed}{''.join(Path(name).suffixes)}"
        path.write_bytes(content)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            signal.alarm(SECONDS)
            result, text = outcome(path, folder)
            signal.alarm(0)
        if result != "failed" and not readable(printed.getvalue()):
            result, text = "failed", f"printed {printed.getvalue()[:300]!r}"
        path.unlink()
        print(json.dumps({"seed": seed, "file": name, "way": way, "result": result, "text": text}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
