"""A page for each notebook: its text, its code, and what the code printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"


def pages() -> Iterator[tuple[str, str]]:
    """Yields the name of each page's file, and its text."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        body = json.loads(path.read_text(encoding="utf-8"))
        blocks = [block for cell in body["cells"] for block in _cell(cell)]
        download = f"[Download this page as a notebook]({path.name}){{ download }}."
        yield f"{path.stem}.md", "\n\n".join([*blocks[:1], download, *blocks[1:]]) + "\n"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        printed = output.get("text") or output.get("data", {}).get("text/plain", ())
        if printed:
            yield f"```text\n{''.join(printed).rstrip()}\n```"
