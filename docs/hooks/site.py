"""What mkdocs calls: pages that are made of the code and of the documents at the root.

A document at the root, such as CONTRIBUTING.md, is a page too. Links between the two kinds are
written as they work in a checkout, and are mended here for the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.hooks import commands, methods, notebooks, python, schemas

ROOT = Path(__file__).parents[2]
# Documents at the root, and the pages that they are.
DOCUMENTS = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RESULTS.md": "reference/results.md",
    "SECURITY.md": "project/security.md",
}
_METHODS = "reference/methods/"
_LINK = re.compile(r"\]\(([^)\s:#]+\.md)(#[^)\s]*)?\)")


def made() -> Iterator[tuple[str, str]]:
    """Yields the path of each page that is made, and its text."""
    yield "reference/commands.md", commands.page()
    for name, text in methods.pages():
        yield _METHODS + name, text
    for name, text in schemas.pages():
        yield f"reference/{name}", text
    yield "reference/python.md", python.page()
    for name, text in notebooks.pages():
        yield f"notebooks/{name}", text
    for document, path in DOCUMENTS.items():
        yield path, (ROOT / document).read_text(encoding="utf-8")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages of the methods where the navigation names their folder."""
    listed = [_METHODS + name for name, _ in methods.pages()]
    config.nav = _spread(config.nav, listed)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made, and the schemas to download."""
    for path, text in made():
        files.append(File.generated(config, path, content=text))
    for path in sorted(schemas.FILES.iterdir()):
        if path.suffix in (".json", ".avsc"):
            files.append(File.generated(config, f"reference/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links at the pages of the site that are elsewhere in a checkout."""
    return mended(markdown, page.file.src_uri)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Names the theme's search dialog, which readers of screens ask for."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def mended(markdown: str, path: str) -> str:
    """Returns a page's text with its links as the site has them.

    Args:
        markdown: The text as it stands in the checkout.
        path: Of the page, in the site.
    """
    places = {page: document for document, page in DOCUMENTS.items()}
    folder = posixpath.dirname(places.get(path, f"docs/{path}"))

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[1]))
        page = DOCUMENTS.get(target, target.removeprefix("docs/"))
        to = posixpath.relpath(page, posixpath.dirname(path) or ".")
        return f"]({to}{found[2] or ''})"

    return _LINK.sub(link, markdown)


def _spread(nav: Any, listed: list[str]) -> Any:
    if isinstance(nav, list):
        return [_spread(part, listed) for part in nav]
    if isinstance(nav, dict):
        return {title: _spread(part, listed) for title, part in nav.items()}
    return listed if nav == _METHODS else nav
