"""`python -m tests.limits`: measures releases anew, writes table.json, and prints it as Markdown.

`--rest` measures only rows that are not there, and `--print` none. Public research logs are in the
folder that TRACECLOAK_LOGS names; without it, rows of them stay as they are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.limits.running import (
    ASKED,
    MIB,
    SECONDS,
    TABLE,
    as_text,
    read_table,
    try_release,
    vocabulary_of,
    write_table,
)
from tests.support.releasing import Commands
from tracecloak.anonymizers.registry import METHODS


def main(*flags: str) -> None:
    """Measures, and writes the table after every log."""
    wanted = {(m, asked.name) for asked in ASKED.values() for m in METHODS if asked.is_for(m)}
    table = read_table() if TABLE.exists() else {}
    if "--print" not in flags:
        table = {own: row for own, row in table.items() if own in wanted}
        wanted -= table.keys() if "--rest" in flags else set()
        folder = os.environ.get("TRACECLOAK_LOGS")
        with TemporaryDirectory() as made, Commands() as commands:
            for asked in ASKED.values():
                methods = sorted(method for method, log in wanted if log == asked.name)
                if not methods or (asked.file and not folder):
                    continue
                log = asked.path(Path(folder) if folder else None, Path(made))
                names = vocabulary_of(log, Path(made))
                for method in methods:
                    with TemporaryDirectory() as empty:
                        place, bounds = Path(empty), (SECONDS[-2], MIB[-1])
                        tried, _ = try_release(commands, method, asked, log, names, place, *bounds)
                    table[method, asked.name] = tried
                    sys.stderr.write(f"{method}, {asked.name}: {tried}\n")
                write_table(table)
    sys.stdout.write(as_text(table) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
