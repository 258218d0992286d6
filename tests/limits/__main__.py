"""`python -m tests.limits`: measures releases anew, writes table.json, and prints it as Markdown.

`--methods` takes names by commas and `--logs` by semicolons; other rows stay as they are. `--rest`
measures rows that are not there, and `--print` only prints. Public research logs are in the folder
that TRACECLOAK_LOGS names; without it, rows of them stay as they are.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.limits.running import (
    ASKED,
    MIB,
    SECONDS,
    TABLE,
    Tried,
    as_text,
    read_table,
    try_release,
    vocabulary_of,
    write_table,
)
from tests.support.limited import LimitedCommands
from tracecloak.anonymizers.registry import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.limits", description=__doc__)
    parser.add_argument("--methods", default=",".join(METHODS), help="by default all")
    parser.add_argument("--logs", default=";".join(ASKED), help="separated by ; and by default all")
    parser.add_argument("--seconds", type=int, default=SECONDS[-2], help="by default 300")
    parser.add_argument("--rest", action="store_true", help="by default all is measured anew")
    parser.add_argument("--print", action="store_true", help="by default it measures, too")
    given = parser.parse_args()
    table = read_table() if TABLE.exists() else {}
    if not given.print:
        table = {own: row for own, row in table.items() if _is_known(*own)}
        wanted = {
            (method, log)
            for log in given.logs.split(";")
            for method in given.methods.split(",")
            if _is_known(method, log) and not (given.rest and (method, log) in table)
        }
        _measure(table, wanted, given.seconds)
    sys.stdout.write(as_text(table) + "\n")


def _is_known(method: str, log: str) -> bool:
    return method in METHODS and log in ASKED and ASKED[log].is_for(method)


def _measure(
    table: dict[tuple[str, str], Tried], wanted: set[tuple[str, str]], seconds: int
) -> None:
    """Changes the table, and writes it after every log."""
    folder = os.environ.get("TRACECLOAK_LOGS")
    with TemporaryDirectory() as made, LimitedCommands() as commands:
        for asked in ASKED.values():
            methods = sorted(method for method, log in wanted if log == asked.name)
            if not methods or (asked.file and not folder):
                continue
            log = asked.path(Path(folder) if folder else None, Path(made))
            vocabulary = vocabulary_of(log, Path(made))
            for method in methods:
                with TemporaryDirectory() as empty:
                    tried, _ = try_release(
                        commands, method, asked, log, vocabulary, Path(empty), seconds, MIB[-1]
                    )
                table[method, asked.name] = tried
                sys.stderr.write(f"{method}, {asked.name}: {tried}\n")
            write_table(table)


if __name__ == "__main__":
    main()
