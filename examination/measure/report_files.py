"""Reports for the operator: one JSON file, and beside it a page to read as Markdown and as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracecloak.transforms.files import keep_private
from tracecloak.transforms.pages.document import Chart, document

INTERNAL = "INTERNAL: computed on raw data, not for publication"
_ENDINGS = (".json", ".md", ".html")


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
