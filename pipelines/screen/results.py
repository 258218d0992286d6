"""What commands show once they are done: a table for people, JSON for programs, or nothing.

On a terminal the table is drawn by `rich`, which is loaded only then; it takes no colour where
NO_COLOR is set. Elsewhere, and where TERM is `dumb`, it is aligned text. Results go to standard
output, and progress, warnings and errors to standard error. Whatever is shown may hold names of
data or of somebody else's release, so characters that steer a terminal are shown as escapes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracecloak.schemas.texts.escapes import escaped, in_json

Form = Literal["table", "json", "quiet"]
"""How a result is shown: for people, for programs, or not at all."""


@dataclass(frozen=True)
class Result:
    """What came of a command.

    Attributes:
        rows: What to read, each a word or two and a text.
        data: The same for programs, as JSON values; its keys stay the same from version to version.
        above: Lines that stand above the rows.
        below: Lines that stand below them.
    """

    rows: Sequence[tuple[str, str]] = ()
    data: Any = field(default_factory=dict)
    above: Sequence[str] = ()
    below: Sequence[str] = ()


def show(result: Result, form: Form) -> None:
    """Prints a result in the form that was asked for."""
    if form == "quiet":
        return
    if form == "json":
        # Outside its strings, JSON has no control characters but the ends of its lines.
        print(escaped(json.dumps(result.data, indent=2, ensure_ascii=False), "\n", in_json))
        return
    for line in result.above:
        print(escaped(line))
    rows = [(escaped(label), escaped(text)) for label, text in result.rows]
    if rows and is_terminal():
        _draw(rows)
    else:
        width = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            print(f"{label:<{width}}  {text}")
    for line in result.below:
        print(escaped(line))


def tell(text: str) -> None:
    """Writes lines to standard error, beside the result."""
    print(escaped(text, kept="\n\t"), file=sys.stderr)


def is_terminal() -> bool:
    """Returns whether a person watches standard output on a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _draw(rows: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        # The rows are given as texts, in which nothing is read as markup, whatever a path is
        # called.
        table.add_row(Text(label, style="bold cyan"), Text(text))
    Console(file=sys.stdout, highlight=False).print(table)


def duration(seconds: float) -> str:
    """Returns a time in words: "0.4 seconds", "12 seconds", "3 minutes 5 seconds", "2 hours"."""
    if seconds < 9.95:
        return f"{seconds:.1f} seconds"
    whole = round(seconds)
    parts = [(whole // 3600, "hour"), (whole // 60 % 60, "minute"), (whole % 60, "second")]
    shown = [(number, name) for number, name in parts if number][:2]
    return " ".join(f"{number:,} {name}{'s' if number != 1 else ''}" for number, name in shown)


def quantity(number: int, one: str, many: str = "") -> str:
    """Returns a number with its noun: "1 record", "2,000 records"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
