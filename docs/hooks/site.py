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

from docs.hooks import commands, methods, notebooks, python, results, schemas, speed, terms

ROOT = Path(__file__).parents[2]
# Documents at the root, and the pages that they are.
DOCUMENTS = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
# Pages whose tables are made of docs/results/.
_TABLES = {
    results.INDEX: results.with_tables,
    speed.PAGE: speed.with_tables,
}
_METHODS = "reference/methods/"
_RESULTS = "results/"
_LINK = re.compile(r"\]\(([^)\s:#]+\.md)(#[^)\s]*)?\)")


def generated() -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each page that docs/ does not have."""
    yield "reference/commands.md", commands.page()
    for name, text in methods.pages():
        yield _METHODS + name, text
    for name, text in schemas.pages():
        yield f"reference/{name}", text
    yield "reference/python.md", python.page()
    for name, text in results.pages():
        yield _RESULTS + name, text
    for name, text in notebooks.pages():
        yield f"notebooks/{name}", text
    for document, path in DOCUMENTS.items():
        yield path, (ROOT / document).read_text(encoding="utf-8")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages of methods and of results where the navigation names their folder."""
    config.nav = navigation(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, the board, and the schemas to download."""
    for path, text in generated():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, results.BOARD, content=results.charts()))
    for path in sorted(schemas.FILES.iterdir()):
        if path.suffix in (".json", ".avsc"):
            files.append(File.generated(config, f"reference/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adds the tables of results, and mends links to what a checkout has elsewhere."""
    with_tables = _TABLES.get(page.file.src_uri)
    markdown = markdown if with_tables is None else with_tables(markdown)
    return mended(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links the first use of each term to the page that explains it."""
    if page.file.src_uri == terms.PAGE:
        return html
    explained = files.get_file_from_path(terms.PAGE)
    if explained is None:
        return html
    return terms.with_links(html, explained.url_relative_to(page.file))


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

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        page = DOCUMENTS.get(target, target.removeprefix("docs/"))
        to = posixpath.relpath(page, posixpath.dirname(path) or ".")
        return f"]({to}{match[2] or ''})"

    return _LINK.sub(link, markdown)


def navigation(nav: Any) -> Any:
    """Returns a navigation with the pages of each folder of pages in place of the folder."""
    folders = {
        _METHODS: [_METHODS + name for name, _ in methods.pages()],
        _RESULTS: [results.INDEX, *(_RESULTS + name for name, _ in results.pages())],
    }

    def with_pages(part: Any) -> Any:
        if isinstance(part, list):
            return [with_pages(one) for one in part]
        if isinstance(part, dict):
            return {title: with_pages(one) for title, one in part.items()}
        return folders.get(part, part)

    return with_pages(nav)
