"""Reports for the operator: one JSON file and one Markdown page beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

INTERNAL = "INTERNAL: computed on raw data, not for publication"


def write_both(path: Path, body: Mapping[str, Any], lines: Iterable[str]) -> list[Path]:
    """Writes FILE.json and FILE.md; returns both paths.

    Args:
        path: FILE, with or without the ending .json.
        body: What the first says, as JSON values.
        lines: What the second says.
    """
    stem = path.with_suffix("") if path.suffix in (".json", ".md") else path
    written = [stem.parent / f"{stem.name}{ending}" for ending in (".json", ".md")]
    written[0].write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    written[1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written
