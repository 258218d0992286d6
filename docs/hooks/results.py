"""The results on public logs: the board, a page for each log, and the tables above them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from docs.hooks.comparison_tables import log_lines, measure_lines, summary_lines
from docs.hooks.tables import code, large, plain, table
from tracecloak.examination.comparison.report import (
    LineFigures,
    LogResults,
    ReleaseFigures,
    Results,
    board,
)

FILE = Path(__file__).parents[1] / "results" / "comparison.json"
# The page whose tables are made, and where each stands in it.
INDEX = "results/index.md"
# The page of charts, as `tracecloak compare` writes it.
BOARD = "results/board.html"
_SUMMARY = "<!-- table of comparison.json: at a glance -->"
_LOGS = "<!-- table of comparison.json: the logs -->"
_MEASURES = "<!-- table of comparison.json: what is measured -->"
_KEYS = "<!-- table of comparison.json: its keys -->"
# What has keys of its own, and where it stands in the file.
_PARTS = {
    "": Results,
    "logs[].": LogResults,
    "logs[].releases[].": ReleaseFigures,
    "logs[].lines[].": LineFigures,
}


@functools.cache
def comparison() -> Results:
    """Returns what `make board` wrote.

    Raises:
        pydantic.ValidationError: The file is no such JSON.
    """
    return Results.model_validate_json(FILE.read_text(encoding="utf-8"))


def pages() -> Iterator[tuple[str, str]]:
    """Yields the name of each log's page, and its text."""
    results = comparison()
    for log in results.logs:
        lines = (
            f"# {log.name}",
            "",
            "[Results on public logs](index.md) says how this was made, and explains the columns.",
            "",
            *log_lines(results, log, "## Epsilon"),
        )
        yield f"{log.name}.md", "\n".join(lines) + "\n"


def charts() -> str:
    """Returns the board: a page by itself, and none of the site's own."""
    return board(comparison()).decode()


def with_tables(markdown: str) -> str:
    """Returns the text of the page above them, with its tables in place of their comments.

    Raises:
        ValueError: The page has no place for one of them.
    """
    results = comparison()
    logs = ["| log | cases | events | variants | activities | cut at |",
            "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for log in results.logs:
        sizes = (log.n_cases, log.n_events, log.n_variants, log.n_activities, log.max_trace_length)
        logs.append(f"| [{log.name}]({log.name}.md) | {' | '.join(f'{n:,}' for n in sizes)} |")
    tables = {
        _SUMMARY: list(summary_lines(results)),
        _LOGS: logs,
        _MEASURES: list(measure_lines(results)),
        _KEYS: list(table(("Key", "What it says"), keys())),
    }
    for place, lines in tables.items():
        if markdown.count(place) != 1:
            raise ValueError(f"{INDEX} must have {place!r} once")
        markdown = markdown.replace(place, "\n".join(lines))
    return markdown


def keys() -> Iterator[tuple[str, str]]:
    """Yields each key of the file with what it says, from the classes that read and write it."""
    for place, part in _PARTS.items():
        attributes = inspect.getdoc(part).split("Attributes:\n")[1]  # type: ignore[union-attr]
        texts = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE))
        for name in part.model_fields:
            yield code(place + name), large(plain(texts[name]))
