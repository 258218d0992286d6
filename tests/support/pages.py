"""What is in pages of HTML."""

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def watched(browser: Any) -> Iterator[Callable[..., Any]]:
    """Gives what opens a page of a file; whatever a page logs, or asks for, fails at the end."""
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:

        def opened(file: Path, **context: Any) -> Any:
            window = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
            stack.callback(window.close)
            page = window.new_page()
            page.on("console", lambda said: wrong.append(said.text))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("request", lambda sent: wrong.append(sent.url))
            page.goto(file.as_uri())
            return page

        yield opened
    assert [one for one in wrong if not one.startswith(("file:", "data:", "blob:"))] == []


class Read(HTMLParser):
    """What a browser makes of a page.

    Attributes:
        text: Its texts, with one blank between them.
        elements: The tag of each element, with its attributes.
        scripts: What its scripts hold, with their attributes.
    """

    def __init__(self, page: bytes | str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._texts: list[str] = []
        self._is_script = False
        self.feed(page if isinstance(page, str) else page.decode())
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._is_script = tag == "script"
        if self._is_script:
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._is_script = self._is_script and tag != "script"

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._is_script:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


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
