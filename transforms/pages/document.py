"""A report of headings, texts and tables as a page: from the Markdown that it is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tracecloak.transforms.pages.page import Page, rendered

_MAX_SECTIONS = 12


@dataclass(frozen=True)
class Chart:
    """A chart before the first section of a report.

    Attributes:
        name: Its name in the data of the page and in `static/assessment.js`.
        caption: What it shows.
        data: What that script reads.
    """

    name: str
    caption: str
    data: Any


def document(lines: Iterable[str], charts: Sequence[Chart] = ()) -> bytes:
    """Returns a report as a page; tables scroll where they are wider than the window.

    HTML in the lines is text: what a report quotes stays what it is.

    Args:
        lines: CommonMark with tables; the first heading is the title.
        charts: Those that stand before the first section.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse("\n".join(lines))
    title = ""
    sections: list[tuple[str, str]] = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = _plain(inline)
        title = title or text
        if opening.tag == "h2":
            anchor = f"{len(sections) + 1}-{re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')}"
            opening.attrSet("id", anchor)
            sections.append((anchor, text))
    body = reader.renderer.render(tokens, reader.options, {})
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>")
    above, mark, below = body.partition("<h2")  # charts stand before the first section
    data: Mapping[str, Any] = {chart.name: chart.data for chart in charts}
    return rendered(
        Page(
            "document.html.j2",
            title,
            tuple(sections) if len(sections) <= _MAX_SECTIONS else (),
            {
                "above": above,
                "below": f"{mark}{below}",
                "figures": [(chart.name, chart.caption) for chart in charts],
            },
            data,
            ("chart.js", "assessment.js") if charts else (),
            ("D3", "Observable Plot") if charts else (),
        )
    )


def _plain(token: Token) -> str:
    """The text of a heading without its marks."""
    return "".join(child.content for child in token.children or ())
