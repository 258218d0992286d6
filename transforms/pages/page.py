"""Pages of HTML that need no server, and texts of templates.

A page carries its scripts, styles and data, under a policy that lets nothing else run; or it names
its libraries by their digests in a folder that several pages share.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt

from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.texts import templates_of
from tracecloak.transforms.files import create, is_on_this_machine, join, read_if_there, rename

# --- Texts of templates that are no pages: Markdown, what a screen shows, scripts of shells. ------


# Stands for the end of a line within a value, while ends of lines are those of the template.
_WITHIN = "\x00"


def from_template(room: str, template: str, **context: Any) -> list[str]:
    """Returns the lines of a text; a value is printed as it is, within its line whatever it holds.

    Args:
        room: The package that has the template.
        template: Its file there.
        context: What it prints.
    """
    templates = templates_of(room, "", finalize=lambda value: str(value).replace("\n", _WITHIN))
    text = templates.get_template(template).render(context)
    return [line.replace(_WITHIN, "\n") for line in text.removesuffix("\n").split("\n")]


# --- The frame of every page: one file with its style, its scripts, its data and its libraries. ---
# Where pages share their libraries, a page names those by their digests instead; see `shared`.
#
# A page asks no server for anything, and its policy lets it ask none: scripts run that have the
# digests in its head, and no others. A page that carries Graphviz may also begin a worker of a
# blob, in which it lays maps out: only these scripts can make one, and it is under the policy of
# its page, so it asks no server either. The libraries are kept as their packages have them
# (`vendor/libraries.json` says which, with version, licence and digest). A page is a pure
# function of what it is given, so equal releases have equal pages.


_HERE = importlib.resources.files("tracecloak.transforms.pages")
_TEMPLATES = templates_of("tracecloak.transforms.pages", autoescape=True)


@dataclass(frozen=True)
class Page:
    """What a page is made of.

    Attributes:
        template: Name of its template, which extends the frame.
        title: In the bar of the browser.
        sections: The sections that one can go to: anchors and names.
        context: What the template prints; texts are escaped.
        data: What the scripts read, as JSON values.
        scripts: Names of its own scripts, in their order, after `page.js`.
        libraries: Names of the libraries that these need.
        asks_its_server: Whether it may ask the server that it came from, as a live page does.
        styles: Names of further style sheets, after `page.css`.
        shares: Whether its libraries are those of a folder beside the releases.
    """

    template: str
    title: str
    sections: tuple[tuple[str, str], ...]
    context: Mapping[str, Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    asks_its_server: bool = False
    styles: tuple[str, ...] = ()
    shares: bool = False


@dataclass(frozen=True)
class PagePart:
    """What one thing gives to a page that has several, without scripts.

    Attributes:
        template: Name of its template, which the page includes, and which prints `part`.
        sections: The sections that one can go to in it: anchors and names.
        context: What the template prints; texts are escaped.
        styles: Names of the style sheets that it needs after `page.css`.
    """

    template: str
    sections: tuple[tuple[str, str], ...]
    context: Mapping[str, Any]
    styles: tuple[str, ...] = ()


def policy_of(page: Page) -> str:
    """Returns the content security policy of a page, which a server should say in a header, too."""
    return str(_head_of(page)["policy"])


def rendered(page: Page) -> bytes:
    """Returns the page as UTF-8."""
    text = _TEMPLATES.get_template(page.template).render(
        {
            **page.context,
            **_head_of(page),
            "title": page.title,
            "sections": page.sections,
            "style": "".join(_read("static", name) for name in ("page.css", *page.styles)),
            "data": _json(page.data),
        }
    )
    return text.encode()


def _head_of(page: Page) -> dict[str, Any]:
    """Returns the scripts that a page carries, where its libraries are, and its policy."""
    libraries = [library for library in _libraries() if library["name"] in page.libraries]
    # What a page says of each library that it shares: where it is, and its digest.
    shared = [
        {
            "name": library["name"],
            "global": library["global"],
            "file": f"{library['sha256']}.js",
            "integrity": _digest(_read("vendor", library["file"])),
        }
        for library in (libraries if page.shares else ())
    ]
    carried = [_read("vendor", library["file"]) for library in libraries]
    first = [_read("static", "shared.js")] if shared else carried
    scripts = first + [_read("static", name) for name in ("page.js", *page.scripts)]
    digests = [f"'{_digest(script)}'" for script in scripts]
    digests += [f"'{library['integrity']}'" for library in shared]
    if shared:
        digests.append("file:")  # whose digests browsers do not compare; nothing to others
    policy = [
        "default-src 'none'",
        f"script-src {' '.join(digests)} 'wasm-unsafe-eval'",
        "style-src 'unsafe-inline'",  # charts and the map style what they draw
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        *["worker-src blob:"] * ("Viz.js" in page.libraries and not page.shares),
        *["connect-src 'self'"] * page.asks_its_server,
    ]
    return {
        "policy": "; ".join(policy),
        "scripts": scripts,
        "libraries": [
            one | {"source": "the package {package} {version}, file {path}".format(**one)}
            for one in libraries
        ],
        "shared": _json(shared) if shared else "",
    }


@functools.cache
def _libraries() -> tuple[dict[str, str], ...]:
    return tuple(json.loads(_read("vendor", "libraries.json")))


@functools.cache
def _read(folder: str, name: str) -> str:
    return _HERE.joinpath(folder, name).read_text(encoding="utf-8")


@functools.cache
def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _json(value: Any) -> str:
    """JSON that ends no script element, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# --- A report of headings, texts and tables as a page: from the Markdown that it is written in. ---


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
        text = "".join(child.content for child in inline.children or ())  # without its marks
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


# --- Libraries that the pages of many releases share, so that each page need not carry them. ------
# They lie in the folder `_static` beside the releases, and are named after their own SHA-256:
# what is there is never written again, and a later version of tracecloak puts its own beside
# them. They belong to no release, so no release that is withdrawn takes them away.
#
# A page names them with their digests. Of a server, a browser runs none with other bytes, by the
# page's policy. Of a disk it compares nothing, as it reads no digest of files; `verify` does.


STATIC_NAME = "_static"
_LISTED = re.compile(rb'<script type="application/json" id="libraries">(.*?)</script>', re.DOTALL)


def shared_files(page: bytes) -> list[str]:
    """Returns the names of the files that a page of ours reads in the folder of shared ones."""
    listed = _LISTED.search(page)
    return [] if listed is None else [one["file"] for one in json.loads(listed[1])]


def put_shared(output: str, page: bytes) -> None:
    """Puts the libraries that a page names beside the releases, unless they are there.

    Args:
        output: The folder of all releases.
        page: As it will lie in the folder of one of them.

    Raises:
        TracecloakError: A file is there and is not what its name says.
    """
    for name in shared_files(page):
        path = join(output, STATIC_NAME, name)
        there = read_if_there(path)
        if there is None:
            file = next(one["file"] for one in _libraries() if f"{one['sha256']}.js" == name)
            # It appears whole; two who write it write the same.
            place = f"{path}.{uuid.uuid4().hex}" if is_on_this_machine(path) else path
            with closing(create(place)) as stream:
                stream.write(_read("vendor", file).encode())
            if place != path:
                rename([place], [path])
        elif not is_what_it_says(name, there):
            raise TracecloakError(
                f"{path} is not what its name says, so pages that share it would not work: remove "
                "it and run again, which writes it anew"
            )


def is_what_it_says(name: str, data: bytes) -> bool:
    """Returns whether a shared file has the SHA-256 that it is named after."""
    return name == f"{hashlib.sha256(data).hexdigest()}.js"
