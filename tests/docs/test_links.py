"""Every link of a document leads somewhere: to a file, a page that is made, and a heading of it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pytest
from markdown.extensions.toc import slugify

from docs.hooks import results, site
from tests.support.documents import DOCUMENTS, ROOT

LINKING = sorted({*DOCUMENTS, *site.DOCUMENTS})
# Pages that docs/hooks generates, as if they lay in docs/.
GENERATED = {f"docs/{path}": text for path, text in site.generated()}
GENERATED[f"docs/{results.BOARD}"] = results.charts()

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.*?) *(?:\{[^}]*\})?$", re.MULTILINE)
_NAMED = re.compile(r"\{[^}]*#([\w-]+)[^}]*\}")


def text_of(path: str) -> str | None:
    """Returns a page's text; None if there is no such page."""
    if path in GENERATED:
        return GENERATED[path]
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


def anchors(text: str) -> set[str]:
    """Returns what a link to a part of a page may name."""
    text = _FENCED.sub("", text)
    found = set(_NAMED.findall(text))
    for heading in _HEADING.findall(text):
        slug = slugify(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", ""), "-")
        n = 1
        while slug in found:
            slug, n = re.sub(r"(_\d+)?$", f"_{n}", slug), n + 1
        found.add(slug)
    return found


def wrong_links(path: str, text: str) -> Iterator[str]:
    """Yields the links of a document that lead nowhere."""
    for link in _LINK.findall(_FENCED.sub("", text)):
        parts = urlsplit(link)
        if parts.scheme or link.startswith("{"):
            continue
        target = path
        if parts.path:
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), unquote(parts.path))
            )
        folders = ("docs/reference/", "docs/project/", "docs/results/")
        is_made = target.startswith(folders) and path.startswith("docs/")
        schema = ROOT / "schemas" / "files" / posixpath.basename(target)
        if is_made and schema.is_file():
            continue
        if not (ROOT / target).exists() and not (is_made and target in GENERATED):
            yield link
        elif parts.fragment and parts.fragment not in anchors(
            text if target == path else text_of(target) or ""
        ):
            yield link


def test_every_link_of_a_document_leads_somewhere() -> None:
    texts = {document: (ROOT / document).read_text(encoding="utf-8") for document in LINKING}
    wrong = {document: list(wrong_links(document, text)) for document, text in texts.items()}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize(
    "link",
    ["gone.md", "README.md#gone", "#gone", "docs/gone.md", "docs/reference/exit-codes.md#gone"],
)
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    text = f"# Here\n\nSee [there]({link}) and [here](#here).\n"
    assert list(wrong_links("SECURITY.md", text)) == [link]
