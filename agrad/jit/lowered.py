"""Programs of jitted functions as text, and counts of their calls."""

from html import escape
from typing import NamedTuple

from agrad.jit.entry import Entry
from agrad.jit.program import Program, show


class CacheInfo(NamedTuple):
    """Counts of a jitted function's replays and traces, and of the programs it keeps."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Lowered:
    """The program of one signature.

    Its text shows the program before and after each pass, and the generated code.
    """

    def __init__(self, name: str, entry: Entry) -> None:
        self.name = name
        self.stages: list[tuple[str, Program]] = entry.stages
        self.code: str = getattr(entry.run, "text", "")

    def __str__(self) -> str:
        parts = []
        earlier = ""
        for name, program in self.stages:
            text = show(program)
            parts.append(f"# {name}\n{text}" if text != earlier else f"# {name}: as before")
            earlier = text
        if self.code:
            parts.append(f"# code\n{self.code}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the stages for notebooks, the last one open."""
        stages = [(name, show(program)) for name, program in self.stages]
        stages += [("code", self.code)] if self.code else []
        return "".join(
            f"<details{' open' * (k == len(stages) - 1)}><summary>{escape(name)}</summary><pre>{escape(text)}</pre>"
            "</details>"
            for k, (name, text) in enumerate(stages)
        )
