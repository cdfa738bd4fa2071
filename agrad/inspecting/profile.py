"""``agrad.profile``: a table of the time and the bytes of every operation."""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from agrad.backends import backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.anomalies import users_line
from agrad.engine.levels import OutputCotangents
from agrad.engine.observing import Observer, Proceed
from agrad.engine.tape import Mode, Node, _ModeChange
from agrad.engine.tensor import raw_of
from agrad.errors import ConfigurationError
from agrad.inspecting.drawing import Bar, flame
from agrad.inspecting.html import table as html_table
from agrad.inspecting.text import aligned

_SORTS: dict[str, Callable[["Line"], Any]] = {
    "time": lambda line: -line.seconds,
    "calls": lambda line: -line.calls,
    "mean": lambda line: -line.mean,
    "bytes": lambda line: -line.bytes,
    "name": lambda line: (line.operation, line.direction, line.where or ""),
}


_NUMBERS = range(2, 7)
"""The numeric columns of the table."""
_HTML_ROWS = 30
"""The number of operations in the table of a notebook."""

_Key = tuple[str, str, str | None]
"""An operation, its direction, and a line of user code or None."""


class Line(NamedTuple):
    """A row of the table: an operation in one direction, or at one line of code."""

    operation: str
    direction: str
    """``"forward"``; ``"tangent"`` or ``"backward"`` for its derivative rules."""
    calls: int
    seconds: float
    """Seconds in the operation, without the operations that it called."""
    bytes: int
    """The size of its results, in new memory or as views."""
    where: str | None
    """``file:line: text``. None without ``lines=True``, and for rules of operations that were recorded before."""

    @property
    def mean(self) -> float:
        """Mean seconds of a call."""
        return self.seconds / self.calls


class _Clock(threading.local):
    """The time of the operations inside the running operation, in this thread."""

    inner = 0.0


class _Table(Observer):
    """The observer of a profile and its decorated functions."""

    def __init__(self, lines: bool) -> None:
        self.lines = lines
        self.lock = threading.Lock()
        self.entries: dict[_Key, list[Any]] = {}
        self.clock = _Clock()
        self.wall = 0.0

    def call(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], proceed: Proceed) -> Any:
        return self._timed((primitive.name, "forward", self._line()), args, proceed)

    def pushforward(self, primitive: Any, proceed: Proceed) -> Any:
        return self._timed((primitive.name, "tangent", self._line()), (), proceed)

    def pullback(self, node: Node, g: Any, proceed: Proceed) -> Any:
        where = getattr(node, "where", None) if self.lines else None
        gs = g.by_output.values() if isinstance(g, OutputCotangents) else (g,)
        return self._timed((node.plan.primitive.name, "backward", where), gs, proceed)

    def _line(self) -> str | None:
        return users_line() if self.lines else None

    def _timed(self, key: _Key, values: Iterable[Any], proceed: Proceed) -> Any:
        """Return the result of an operation, and add its time and bytes to the table."""
        wait, clock = waits(values), self.clock
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
        with self.lock:
            entry = self.entries.setdefault(key, [0, 0.0, 0])
            for i, part in enumerate((1, own, size_of(out))):
                entry[i] += part
        return out


class profile(_ModeChange):
    """Context manager and decorator that counts and times operations.

    ``print(p)`` shows a table. ``p.rows()`` returns its rows, and ``p.to_json()`` the same as JSON. Every evaluation on
    plain arrays and every call of a derivative rule counts once, also inside transforms. You can enter a profile
    several times.

    On GPUs and other asynchronous devices, the profile waits for the device before and after each operation. The times
    are then right, but the program is slower. For Dask, the times are for building the graph. Operations of another
    thread count only if that thread enters the profile.

    Parameters
    ----------
    lines : bool, default False
        True for separate rows for each line of your code.

    See Also
    --------
    agrad.graph : Show operations and their values.
    agrad.compare_backends : Compare results on several backends.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0])
    >>> with agrad.profile() as p:
    ...     y = agrad.sum(agrad.sin(x) * agrad.sin(x))
    >>> sorted((row.operation, row.calls) for row in p.rows())
    [('multiply', 1), ('sin', 2), ('sum', 1)]
    """

    looks = True

    def __init__(self, lines: bool = False) -> None:
        super().__init__()
        self.lines = lines
        self._table = _Table(lines)
        self._since: list[float] = []

    def _recreate_cm(self) -> "profile":
        twin = profile(self.lines)
        twin._table = self._table
        return twin

    def _change(self, now: Mode) -> Mode:
        running = self._table in now.observers
        return now if running else now._replace(observers=(*now.observers, self._table))

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

    # ---------------------------------------------------------------- results

    @property
    def wall(self) -> float:
        """Seconds inside the profile, of blocks that have ended."""
        return self._table.wall

    def rows(self, sort: str = "time") -> list[Line]:
        """Return the rows of the table, sorted.

        Parameters
        ----------
        sort : {"time", "calls", "mean", "bytes", "name"}
            Column to sort by, with numbers in descending order.

        Returns
        -------
        list of Line
            Rows.
        """
        if sort not in _SORTS:
            raise ConfigurationError(f"profile: sort must be one of {', '.join(map(repr, _SORTS))}, got {sort!r}")
        with self._table.lock:
            entries = list(self._table.entries.items())
        found = [
            Line(operation, direction, calls, seconds, size, where)
            for (operation, direction, where), (calls, seconds, size) in entries
        ]
        return sorted(found, key=_SORTS[sort])

    def table(self, sort: str = "time", limit: int | None = 30) -> str:
        """Return the table as text.

        Parameters
        ----------
        sort : {"time", "calls", "mean", "bytes", "name"}
            Column to sort by, as for ``rows``.
        limit : int or None
            Maximum number of rows. None shows all.

        Returns
        -------
        str
            Table.
        """
        rows = self.rows(sort)
        lines = aligned(self._cells(rows[:limit]), right=_NUMBERS)
        if self.lines:
            lines = [f"{text}  {where}" for text, where in zip(lines, ["line", *map(_where, rows)], strict=False)]
        if limit is not None and len(rows) > limit:
            lines.append(f"... {len(rows) - limit} more; limit=None shows all")
        return "\n".join(line.rstrip() for line in [*lines, self._summary()])

    def _cells(self, rows: list[Line]) -> list[list[str]]:
        """Return the cells of the table, without the lines of code."""
        total = sum(row.seconds for row in self.rows())
        cells = [["operation", "", "calls", "total ms", "share", "mean us", "bytes"]]
        for row in rows:
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
        return cells

    def _summary(self) -> str:
        rows = self.rows()
        calls, total = sum(row.calls for row in rows), sum(row.seconds for row in rows)
        return f"{calls:,} calls, {total * 1e3:,.3f} ms in operations of {self.wall * 1e3:,.3f} ms in all"

    def to_json(self) -> str:
        """Return the rows as JSON.

        Returns
        -------
        str
            ``{"wall_seconds": ..., "rows": [{"operation": ..., "direction": ..., ...}]}``
        """
        return json.dumps({"wall_seconds": self.wall, "rows": [row._asdict() for row in self.rows()]}, indent=1)

    def to_svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a flame graph of the times as SVG.

        The lowest bar is the total time in operations. Above it are forward, tangent and backward, then with
        ``lines=True`` the lines of code, and at the top the operations. The width of a bar is its share of the time. A
        tooltip shows its name, time and calls.

        Parameters
        ----------
        path : str or path, optional
            File to write the figure to.

        Returns
        -------
        str
            SVG figure.

        Examples
        --------
        >>> with agrad.profile() as p:
        ...     _ = agrad.exp(agrad.asarray([1.0]))
        >>> p.to_svg().count("<title>")
        3
        """
        picture = flame([Bar(self._path(row), row.seconds, row.calls) for row in self.rows()])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(picture)
        return picture

    def _path(self, row: Line) -> tuple[str, ...]:
        return ("operations", row.direction, *([_where(row)] if self.lines else []), row.operation)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        rows = self.rows()[:_HTML_ROWS]
        cells = self._cells(rows)
        if self.lines:
            cells = [[*line, where] for line, where in zip(cells, ["line", *map(_where, rows)], strict=True)]
        return f"<div>{self.to_svg()}{html_table(cells, _NUMBERS)}<p>{self._summary()}</p></div>"

    def __repr__(self) -> str:
        return f"<profile of {sum(row.calls for row in self.rows()):,} calls>"


def _where(row: Line) -> str:
    return row.where or "(recorded before the profile)"


def waits(values: Iterable[Any]) -> Callable[[], None]:
    """Return the function that waits for the device of the arrays of an operation."""
    for value in values:
        backend = backend_of_type(type(raw_of(value)))
        if backend is not None:
            return backend.synchronize
    return lambda: None


def size_of(out: Any) -> int:
    """Return the number of bytes of the arrays in a result."""
    total = 0
    for part in out if isinstance(out, tuple) else (out,):
        if isinstance(part, OutputCotangents):
            total += size_of(tuple(part.by_output.values()))
        elif hasattr(part, "shape"):
            bits = "".join(c for c in dtype_name(part.dtype) if c.isdigit())
            sizes = [n for n in part.shape if isinstance(n, int)]  # a Dask array may have unknown lengths
            total += math.prod(sizes) * (int(bits) // 8 if bits else 1)
    return total
