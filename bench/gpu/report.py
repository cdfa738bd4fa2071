"""Reports on the parts: lines as they end, the table at the end, the files in OUT."""

import errno
import json
import os
import shutil
from pathlib import Path

from bench import common, suites
from bench.gpu import goals
from bench.gpu.goals import Verdict
from bench.gpu.parts import PARTS
from bench.gpu.runner import DONE, Clock, Ended, Part

WIDEST, TAIL = 78, 12
"""Characters of a cell, and number of log lines that are shown."""
WROTE = ("table.md", "details.md", "results.json", "compare.png")


def prepared(out: Path) -> Path:
    """Return the folder, without files of an earlier run.

    It has a folder for logs that git ignores. Raises ``OSError`` if it is not writable, and for a folder of logs that
    no such run created.
    """
    out.mkdir(parents=True, exist_ok=True)
    logs = out / "logs"
    if logs.exists():
        if not (logs / ".gitignore").exists():
            raise FileExistsError(errno.EEXIST, "it holds a folder 'logs' of something else")
        shutil.rmtree(logs)
    logs.mkdir()
    (logs / ".gitignore").write_text("*\n", encoding="utf-8")
    for name in WROTE:
        (out / name).unlink(missing_ok=True)
    return out.resolve()


def short(text: str) -> str:
    """Return a text as a cell: one line, shortened, without the path of this checkout."""
    text = " ".join(text.replace("|", "/").replace(f"{common.ROOT}{os.sep}", "").split())
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


class Teller:
    """Prints how each part ended and its findings; collects the verdicts."""

    def __init__(self, logs: Path, clock: Clock) -> None:
        self.logs, self.clock = logs, clock
        self.verdicts: dict[str, list[Verdict]] = {}

    def __call__(self, ended: Ended) -> None:
        log = self.logs / f"{ended.name}.log"
        tail = log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-TAIL:] if log.exists() else []
        why = "" if ended.how == DONE else ended.how
        if why.startswith("exit code") and tail:
            why += f", {tail[-1]}"
        found = goals.completed(ended.name, goals.read(self.logs / f"{ended.name}.jsonl"), why)
        self.verdicts[ended.name] = found
        lines = [f"[{self.clock.spent():3.0f} s] {ended.name}: {ended.how}, {ended.seconds:.0f} s"]
        lines += [f"        {v.name}: {v.measured or '-'} [{short(v.text)}]" for v in found]
        lines += [f"        | {line[:150]}" for line in tail if why]
        print("\n".join(lines), flush=True)


def heading(about: str, small: bool, parts: list[Part]) -> list[str]:
    title = "# A dry run at small sizes: no measurement of a GPU" if small else "# A CUDA GPU compared with the goals"
    some = [] if len(parts) == len(PARTS) else ["", f"Only these parts: {', '.join(p.name for p in parts)}."]
    return [title, "", about, *some]


def table(head: list[str], verdicts: list[Verdict], ended: list[Ended], seconds: float) -> str:
    """Return the last table: the verdicts, the ends of the parts, and the counts."""
    rows = [[v.part, v.name, v.wanted, short(v.measured), short(v.text)] for v in verdicts]
    counts = dict.fromkeys((goals.MET, goals.NOT_MET, goals.NOT_MEASURED, goals.NOT_JUDGED), 0)
    for v in verdicts:
        counts[v.verdict] += 1
    ends = [[e.name, short(e.how), f"{e.seconds:.0f}"] for e in ended]
    parts = [
        *head,
        "",
        common.table(["part", "question", "wanted", "measured", "verdict"], rows, left=True),
        "",
        common.table(["part", "ended", "seconds"], ends, left=True),
        "",
        f"{', '.join(f'{n} {kind}' for kind, n in counts.items())}; {seconds:.0f} s in all.",
    ]
    return "\n".join(parts)


def write(out: Path, text: str, about: str, small: bool, verdicts: list[Verdict], ended: list[Ended]) -> None:
    """Write the table, the tables of the suites that ran, and one record of all."""
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    files = [out / "logs" / f"{part}.json" for part in PARTS]
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()}
    details = [file.read_text(encoding="utf-8") for f in files if (file := f.with_suffix(".md")).exists()]
    record = {
        "suite": "gpu",
        "device": about,
        "small": small,
        "verdicts": goals.record(verdicts),
        "ended": {e.name: {"how": e.how, "seconds": round(e.seconds, 1)} for e in ended},
        "records": records,
    }
    whole = suites.as_json(record).replace(f"{common.ROOT}{os.sep}", "")
    (out / "results.json").write_text(whole + "\n", encoding="utf-8")
    if details:
        (out / "details.md").write_text("\n".join(details), encoding="utf-8")
