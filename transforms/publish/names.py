"""What the files of a release are called."""

from __future__ import annotations

DFG_NAME = "dfg.json"
STATEMENT_NAME = "statement.md"


def part_name(number: int) -> str:
    """Returns the path of one part of the log."""
    return f"log/part-{number:05d}.parquet"
