"""The page of what Python code may import: the names of both public modules."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from docs.hooks.tables import plain, table
from tracecloak import plugins

_PUBLIC = Path(__file__).parents[2] / "tracecloak"

_HEAD = """# Python

`import tracecloak` and `import tracecloak.plugins` offer the names on this page, and nothing else
is meant to be imported. A name is loaded when it is used, so the import itself is quick.
`tracecloak.METHODS` holds all methods by name, and `tracecloak.__version__` is the version."""

_PLUGINS = """## What a distribution of your own is made of

`tracecloak.plugins` has what [a method](../how-to/add-a-method.md), a product, a file format, a
source of keys or a command of another distribution needs. The docstring of each name says the rest:
`python -m pydoc tracecloak.plugins.RigorousParams`."""

# What each section is about, with the names that it explains.
SECTIONS = {
    "A frame": ("release", "Released", "plan", "evaluate", "vocabulary"),
    "In a Beam pipeline of your own": (
        "AnonymizeEventLog",
        "WriteRelease",
        "ReadEventLog",
        "PublishDirectlyFollows",
        "KeyReference",
        "ColumnMapping",
    ),
    "A whole release": (
        "load",
        "ReleaseConfig",
        "plan_lines",
        "run_release",
        "verify",
        "Verification",
        "ReleaseManifest",
        "Guarantee",
    ),
    "A stream": ("load_stream", "StreamConfig", "run_stream"),
    "In memory, without Beam": ("source_of", "group_into_traces", "anonymise", "ReleaseKey"),
    "A method of your own": ("Anonymizer", "Params"),
    "Errors": (
        "TracecloakError",
        "UsageError",
        "InputSchemaError",
        "BudgetExhausted",
        "GuaranteeError",
    ),
}
# What has no docstring of its own.
_TYPES = {
    "Decisions": "What the rounds before decided, by the names of the rounds.",
    "Exact": "A number of a parameter, kept as the decimal fraction that somebody wrote.",
}
# What the head of the page says itself.
IN_THE_HEAD = ("METHODS", "__version__")


def names(module: str = "__init__") -> dict[str, str]:
    """Returns the names of a public module, each with the place where it is written."""
    tree = ast.parse((_PUBLIC / f"{module}.py").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for checked in tree.body
        if isinstance(checked, ast.If)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def page() -> str:
    """Returns the page."""
    places = names()
    lines = [_HEAD]
    for title, listed in SECTIONS.items():
        lines += ["", f"## {title}", ""]
        for name in listed:
            lines += [f"::: {places[name]}", ""]
    lines += [_PLUGINS, *table(("Name", "What it is"), map(_row, plugins.__all__))]
    return "\n".join(lines)


def _row(name: str) -> tuple[str, str]:
    """The cells of a name of `tracecloak.plugins`."""
    text = _TYPES.get(name) or inspect.getdoc(getattr(plugins, name)) or ""
    return f"`{name}`", plain(text.split("\n\n")[0])
