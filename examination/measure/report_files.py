"""Reports for the operator: one JSON file, and beside it a page to read as Markdown and as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tracecloak.transforms.files import keep_private
from tracecloak.transforms.pages.document import Chart, document

INTERNAL = "INTERNAL: computed on raw data, not for publication"
_ENDINGS = (".json", ".md", ".html")


class Report(Protocol):
    """What an attack found; not private."""

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""

    def summary_lines(self) -> Iterator[str]:
        """Yields the outcome in a few lines."""

    def markdown_lines(self) -> list[str]:
        """Returns the report as Markdown, line by line."""

    def charts(self) -> list[Chart]:
        """Returns the pictures of the page."""


def renamed(values: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Returns the values in their order, some of them under other names."""
    return {names.get(name, name): value for name, value in values.items()}


def write_all(
    path: Path, body: Mapping[str, Any], lines: Iterable[str], charts: Sequence[Chart] = ()
) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html, for their owner only; returns their paths.

    Args:
        path: FILE, with or without one of these endings.
        body: What the first says, as JSON values.
        lines: What the others say, in Markdown.
        charts: What stands above it in the last.
    """
    stem = path.with_suffix("") if path.suffix in _ENDINGS else path
    numbers, text, page = (stem.parent / f"{stem.name}{ending}" for ending in _ENDINGS)
    text_lines = list(lines)
    for path in (numbers, text, page):
        keep_private(path)
    numbers.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    text.write_text("\n".join(text_lines) + "\n", encoding="utf-8")
    page.write_bytes(document(text_lines, charts))
    return [numbers, text, page]
