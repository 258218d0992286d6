"""The frame of every page: one file with its style, its scripts, its data and its libraries.

Where pages share their libraries, a page names those by their digests instead; see `shared`.

A page asks no server for anything, and its policy lets it ask none: scripts run that have the
digests in its head, and no others. A page that carries Graphviz may also begin a worker of a blob,
in which it lays maps out: only these scripts can make one, and it is under the policy of its page,
so it asks no server either. The libraries are kept as their packages have them
(`vendor/libraries.json` says which, with version, licence and digest). A page is a pure function of
what it is given, so equal releases have equal pages.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jinja2

_HERE = importlib.resources.files("tracecloak.transforms.pages")
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("tracecloak.transforms.pages"),
    undefined=jinja2.StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


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
    more = ["worker-src blob:"] if "Viz.js" in page.libraries and not page.shares else []
    more += ["connect-src 'self'"] if page.asks_its_server else []
    digests = [f"'{_digest(script)}'" for script in _scripts_of(page)]
    if _shared_of(page):
        digests += [f"'{library['integrity']}'" for library in _shared_of(page)]
        digests.append("file:")  # whose digests browsers do not compare; nothing to others
    return "; ".join([_policy(digests), *more])


def rendered(page: Page) -> bytes:
    """Returns the page as UTF-8."""
    libraries = _libraries_of(page)
    scripts = _scripts_of(page)
    policy = policy_of(page)
    text = _TEMPLATES.get_template(page.template).render(
        {
            **page.context,
            "title": page.title,
            "sections": page.sections,
            "policy": policy,
            "style": "".join(_read("static", name) for name in ("page.css", *page.styles)),
            "data": _json(page.data),
            "scripts": scripts,
            "libraries": [_described(library) for library in libraries],
            "shared": _json(_shared_of(page)) if _shared_of(page) else "",
        }
    )
    return text.encode()


def _libraries_of(page: Page) -> list[dict[str, str]]:
    return [library for library in _libraries() if library["name"] in page.libraries]


def _shared_of(page: Page) -> list[dict[str, str]]:
    """Returns what a page says of each library that it shares: where it is, and its digest."""
    return [
        {
            "name": library["name"],
            "global": library["global"],
            "file": f"{library['sha256']}.js",
            "integrity": _digest(_read("vendor", library["file"])),
        }
        for library in (_libraries_of(page) if page.shares else ())
    ]


def library_bytes(name: str) -> bytes:
    """Returns the library whose shared file has a name."""
    file = next(one["file"] for one in _libraries() if f"{one['sha256']}.js" == name)
    return _read("vendor", file).encode()


def _scripts_of(page: Page) -> list[str]:
    """Returns the scripts that a page carries."""
    if _shared_of(page):
        first = [_read("static", "shared.js")]
    else:
        first = [_read("vendor", library["file"]) for library in _libraries_of(page)]
    return first + [_read("static", name) for name in ("page.js", *page.scripts)]


def _policy(digests: Iterable[str]) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(digests)} 'wasm-unsafe-eval'",
            "style-src 'unsafe-inline'",  # charts and the map style what they draw
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _described(library: Mapping[str, str]) -> dict[str, str]:
    source = f"the package {library['package']} {library['version']}, file {library['path']}"
    return {**library, "source": source}


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
