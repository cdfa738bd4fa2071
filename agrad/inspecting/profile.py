"""``agrad.profile``: time and bytes of every operation, as a table."""

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from agrad.backends import backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.levels import OutputCotangents, users_line
from agrad.engine.observing import Observer, Proceed
from agrad.engine.tape import Mode, Node, _ModeChange
from agrad.errors import ConfigurationError
from agrad.inspecting.text import raw_of

_SORTS: dict[str, Callable[["Line"], Any]] = {
    "time": lambda line: -line.seconds,
    "calls": lambda line: -line.calls,
    "mean": lambda line: -line.mean,
    "bytes": lambda line: -line.bytes,
    "name": lambda line: (line.operation, line.direction, line.where or ""),
}


class Line(NamedTuple):
    """A line of the table: one operation in one direction.

    With ``lines=True`` it counts the calls of one line of the user's code.
    """

    operation: str
    direction: str
    """``"forward"``, or for derivative rules ``"tangent"`` in forward mode and ``"backward"`` in a backward pass."""
    calls: int
    seconds: float
    """The time in the operation itself, without the operations that it called."""
    bytes: int
    """The size of its results, in new memory or as views."""
    where: str | None
    """``file:line: text``. None without ``lines=True``, and for backward rules of operations recorded before."""

    @property
    def mean(self) -> float:
        """The mean time of a call in seconds."""
        return self.seconds / self.calls


class _Table:
    """The sums of a profile and of its copies for decorated functions."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[tuple[str, str, str | None], list[Any]] = {}
        self.wall = 0.0

    def add(self, key: tuple[str, str, str | None], seconds: float, size: int) -> None:
        with self.lock:
            entry = self.entries.setdefault(key, [0, 0.0, 0])
            entry[0] += 1
            entry[1] += seconds
            entry[2] += size


class _Clock(threading.local):
    """The time of the operations inside the running one, in this thread."""

    inner = 0.0


class profile(_ModeChange, Observer):
    """Count and time the operations inside. A context manager and a decorator.

    It can be used again. ``print(p)`` shows the table, ``p.rows()`` are its lines, and ``p.to_json()`` is the same as
    JSON. Every evaluation on raw arrays counts once, at any level and in any transform, recorded or not, and so does
    each run of a derivative rule. If a library works asynchronously, as on GPUs, the profile waits for the device
    before and after each operation: the times are the operations' own, and the whole is slower. For Dask the times are
    those of building its graph. Operations of another thread count only if that thread enters the profile. Without a
    profile nothing is slower.

    Parameters
    ----------
    lines : bool
        Count the calls of each line of the user's code separately.
    """

    looks = True

    def __init__(self, lines: bool = False) -> None:
        super().__init__()
        self.lines = lines
        self._table = _Table()
        self._clock = _Clock()
        self._since: list[float] = []

    def _recreate_cm(self) -> "profile":
        twin = profile(self.lines)
        twin._table, twin._clock = self._table, self._clock
        return twin

    def _change(self, now: Mode) -> Mode:
        running = any(isinstance(o, profile) and o._table is self._table for o in now.observers)
        return now if running else now._replace(observers=(*now.observers, self))

    def __enter__(self) -> "profile":
        self._since.append(time.perf_counter())
        super().__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        since = self._since.pop()
        if not self._since:
            with self._table.lock:
                self._table.wall += time.perf_counter() - since

    # ---------------------------------------------------------------- as an observer

    def call(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], proceed: Proceed) -> Any:
        """Measure an evaluation of a primitive. agrad calls it.

        Parameters
        ----------
        primitive : Primitive
            The operation.
        args : tuple
            Its raw arrays and numbers.
        settings : dict
            Its settings by name.
        proceed : callable
            Computes the result.

        Returns
        -------
        object
            The result of ``proceed``.
        """
        wait = _waits(args)
        out, seconds = self._timed(proceed, wait)
        self._table.add((primitive.name, "forward", users_line() if self.lines else None), seconds, _size(out))
        return out

    def pushforward(self, primitive: Any, proceed: Proceed) -> Any:
        """Measure the forward rules of a primitive. agrad calls it.

        Parameters
        ----------
        primitive : Primitive
            The operation.
        proceed : callable
            Computes the tangents of its outputs.

        Returns
        -------
        object
            The result of ``proceed``.
        """
        out, seconds = self._timed(proceed, lambda: None)
        self._table.add((primitive.name, "tangent", users_line() if self.lines else None), seconds, _size(out))
        return out

    def pullback(self, node: Node, g: Any, proceed: Proceed) -> Any:
        """Measure the backward rules of a recorded operation. agrad calls it.

        Parameters
        ----------
        node : Node
            The node of the operation.
        g : array
            The cotangent of its result.
        proceed : callable
            Computes the cotangents of its operands.

        Returns
        -------
        object
            The result of ``proceed``.
        """
        wait = _waits(g.by_output.values() if isinstance(g, OutputCotangents) else (g,))
        out, seconds = self._timed(proceed, wait)
        where = getattr(node, "where", None) if self.lines else None
        self._table.add((node.plan.primitive.name, "backward", where), seconds, _size(out))
        return out

    def _timed(self, proceed: Proceed, wait: Callable[[], None]) -> tuple[Any, float]:
        clock = self._clock
        outer, clock.inner = clock.inner, 0.0
        wait()
        start = time.perf_counter()
        try:
            out = proceed()
            wait()
        finally:
            whole = time.perf_counter() - start
            own = whole - clock.inner
            clock.inner = outer + whole
        return out, own

    # ---------------------------------------------------------------- results

    @property
    def wall(self) -> float:
        """The time inside the profile in seconds, of blocks that have ended."""
        return self._table.wall

    def rows(self, sort: str = "time") -> list[Line]:
        """Return the lines of the table, sorted.

        Parameters
        ----------
        sort : str
            ``"time"``, ``"calls"``, ``"mean"`` or ``"bytes"``, the largest first, or ``"name"``.

        Returns
        -------
        list of Line
            One line for each operation and direction.

        Raises
        ------
        ConfigurationError
            ``sort`` is none of these.
        """
        if sort not in _SORTS:
            raise ConfigurationError(f"profile: sort is one of {', '.join(map(repr, _SORTS))}, not {sort!r}")
        with self._table.lock:
            found = [
                Line(name, direction, calls, seconds, size, where)
                for (name, direction, where), (calls, seconds, size) in self._table.entries.items()
            ]
        return sorted(found, key=_SORTS[sort])

    def table(self, sort: str = "time", limit: int | None = 30) -> str:
        """Return the table as text.

        Parameters
        ----------
        sort : str
            The order of the lines, as in ``rows``.
        limit : int or None
            The largest number of lines, or None for all.

        Returns
        -------
        str
            A header, the lines, and the sums.

        Raises
        ------
        ConfigurationError
            ``sort`` is unknown.
        """
        rows = self.rows(sort)
        total = sum(row.seconds for row in rows)
        cells = [["operation", "", "calls", "total ms", "share", "mean us", "bytes"]]
        for row in rows[:limit]:
            share = row.seconds / total if total else 0.0
            cells.append(
                [
                    row.operation,
                    row.direction,
                    f"{row.calls:,}",
                    f"{row.seconds * 1e3:,.3f}",
                    f"{share:.1%}",
                    f"{row.mean * 1e6:,.1f}",
                    f"{row.bytes:,}",
                ]
            )
        widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
        lines = [
            "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths, strict=True)))
            for line in cells
        ]
        if self.lines:
            lines = [f"{text}  {where}" for text, where in zip(lines, ["line", *map(_where, rows)], strict=False)]
        if limit is not None and len(rows) > limit:
            lines.append(f"... {len(rows) - limit} more; limit=None shows all")
        calls = sum(row.calls for row in rows)
        lines.append(f"{calls:,} calls, {total * 1e3:,.3f} ms in operations of {self.wall * 1e3:,.3f} ms in all")
        return "\n".join(line.rstrip() for line in lines)

    def to_json(self) -> str:
        """Return the lines as JSON.

        Returns
        -------
        str
            ``{"wall_seconds": ..., "rows": [{"operation": ..., "direction": ..., ...}]}``
        """
        return json.dumps({"wall_seconds": self.wall, "rows": [row._asdict() for row in self.rows()]}, indent=1)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {sum(row.calls for row in self.rows()):,} calls>"


def _where(row: Line) -> str:
    return row.where or "(recorded before the profile)"


def _waits(values: Any) -> Callable[[], None]:
    """Return the function that waits for the devices of an operation's arrays."""
    for value in values:
        backend = backend_of_type(type(raw_of(value)))
        if backend is not None:
            return backend.synchronize
    return lambda: None


def _size(out: Any) -> int:
    """Return the number of bytes of the arrays in a result."""
    total = 0
    for part in out if isinstance(out, tuple) else (out,):
        if isinstance(part, OutputCotangents):
            total += _size(tuple(part.by_output.values()))
        elif hasattr(part, "shape"):
            bits = "".join(c for c in dtype_name(part.dtype) if c.isdigit())
            sizes = [n for n in part.shape if isinstance(n, int)]  # Dask may not know one yet
            total += math.prod(sizes) * (int(bits) // 8 if bits else 1)
    return total
