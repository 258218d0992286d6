"""What is in pages of HTML."""

import base64
import re
from pathlib import Path


def drawn_in(page: str, folder: Path) -> list[str]:
    """Returns the files of a folder whose drawings a page carries, in the order of the page.

    Fails where it carries another drawing.
    """
    files: dict[bytes, list[Path]] = {}
    for file in sorted(folder.rglob("*.svg")):
        files.setdefault(file.read_bytes(), []).append(file)
    carried = re.findall(r'<img src="data:image/svg\+xml;base64,(.+?)"', page)
    assert len(carried) == page.count("<img ")
    found = []
    for text in carried:
        alike = files[base64.b64decode(text)]
        found.append(alike.pop(0) if len(alike) > 1 else alike[0])
    return [str(file.relative_to(folder)) for file in found]
