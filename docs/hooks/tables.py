"""Texts of help and of schemas as cells and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# What Markdown or HTML would read as more than itself.
_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "&\\`*_[]<>|#"}


def plain(text: object) -> str:
    """Returns a text that stands in a cell as it is, on one line; what is between ` is code."""
    parts = " ".join(str(text).split()).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts).translate(_MARKS)
    marked = (code(part) if n % 2 else part.translate(_MARKS) for n, part in enumerate(parts))
    return "".join(marked)


def code(text: object) -> str:
    """Returns a text as code that stands in a cell."""
    safe = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<code>{safe.replace('|', '&#124;')}</code>"


def large(text: str) -> str:
    """Returns a text that begins small in a terminal as a sentence of a page begins."""
    return text[:1].upper() + text[1:]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table, with a blank one before and after."""
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
