"""The site as it is built: what it loads, and whether everybody can read it."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.documents import ROOT


class Loaded(HTMLParser):
    """What is loaded with a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("link", "script", "img", "iframe", "source"):
            self.loaded += [v for name in ("src", "href") if (v := given.get(name))]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(built: Path) -> None:
    pages = {path: Loaded(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 40
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.loaded:
            assert not urlsplit(link).netloc, (path, link)
            assert (path.parent / unquote(urlsplit(link).path)).is_file(), (path, link)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(built: Path, browser: Any, scheme: str) -> None:
    """Catches a contrast too low, and a control or a dialog without a name."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    names = ("index", "explanation/promise", "reference/commands", "reference/methods/private-log",
             "reference/python")  # fmt: skip
    page = browser.new_context(color_scheme=scheme).new_page()
    for name in names:
        page.goto((built / f"{name}.html").as_uri())
        found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        seen = [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]]
        assert seen == [], name
    page.close()
