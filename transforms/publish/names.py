"""What the files of a release are called."""

from __future__ import annotations

from tracecloak.transforms.formats.registry import FORMATS

# The format of the parts of a log, from which the files of all others are written.
PARTS = "parquet"
DFG_NAME = "dfg.json"
STATEMENT_NAME = "statement.md"
REPORT_NAME = "report.html"


def part_name(number: int) -> str:
    """Returns the path of one part of the log."""
    return f"log/part-{number:05d}.parquet"


def log_name(kind: str) -> str:
    """Returns the path of the whole log in a format of releases that is not PARTS."""
    return f"log{FORMATS[kind].log_ending}"
