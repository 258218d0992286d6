"""What is said of every method on every log: how it goes, within which time and memory.

The bounds are coarse, of a few classes, and at least twice what was measured: they tell a release
that takes a minute from one that takes an hour.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.limits.running import Outcome, Tried

TABLE = Path(__file__).with_name("table.json")
SECONDS = (30, 120, 300, 600)
MIB = (1024, 2048, 4096, 8192)
# A bound is so many times what was measured, or more.
_ROOM = 2


@dataclass(frozen=True)
class Stated:
    """What is said of a method on a log.

    Attributes:
        outcome: How it goes.
        within_s: Seconds of processor time that it takes at most; None: it was not seen to end.
        within_mib: Memory that it has at most, in MiB; None: likewise.
        took_s: What it took when it was measured.
        took_mib: What it had then.
        says: What it is refused with.
    """

    outcome: Outcome
    took_s: float
    took_mib: int
    within_s: int | None = None
    within_mib: int | None = None
    says: str = ""


def stated(tried: Tried) -> Stated:
    """Returns what may be said of a release by how it went once."""
    has_ended = tried.outcome in ("ends", "refused")
    return Stated(
        tried.outcome,
        tried.cpu_s,
        tried.peak_mib,
        _bound(tried.cpu_s, SECONDS) if has_ended else None,
        _bound(tried.peak_mib, MIB) if has_ended else None,
        tried.says,
    )


def _bound(measured: float, classes: Sequence[int]) -> int:
    return next((own for own in classes if own >= _ROOM * measured), classes[-1])


def read_table() -> dict[tuple[str, str], Stated]:
    """What table.json says, by method and log."""
    found = json.loads(TABLE.read_text(encoding="utf-8"))
    return {(method, log): Stated(**own) for method, of in found.items() for log, own in of.items()}


def write_table(table: Mapping[tuple[str, str], Stated]) -> None:
    """Writes table.json, a line for each release."""
    methods = {method: None for method, _ in sorted(table)}
    blocks = []
    for method in methods:
        rows = [
            f"  {json.dumps(log)}: {json.dumps(_shown(own), ensure_ascii=False)}"
            for (of, log), own in sorted(table.items())
            if of == method
        ]
        blocks.append(f" {json.dumps(method)}: {{\n" + ",\n".join(rows) + "\n }")
    TABLE.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def _shown(own: Stated) -> dict[str, object]:
    return {name: value for name, value in asdict(own).items() if value not in ("", None)}


def as_text(table: Mapping[tuple[str, str], Stated], logs: Iterable[str]) -> str:
    """The table as Markdown: a row for each method, a column for each log, bounds in the cells."""
    logs = list(logs)
    lines = ["| method | " + " | ".join(logs) + " |", "|---" * (len(logs) + 1) + "|"]
    for method in dict.fromkeys(method for method, _ in sorted(table)):
        cells = [_cell(table.get((method, log))) for log in logs]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(own: Stated | None) -> str:
    if own is None:
        return ""
    if own.outcome != "ends":
        return own.outcome
    return f"{own.took_s:.1f} s, {own.took_mib} MiB"
