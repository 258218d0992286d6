"""The page of what Python code may import: the names of the face, each with its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

_FACE = Path(__file__).parents[2] / "face" / "__init__.pyi"

_HEAD = """# Python

`import tracecloak` offers the names on this page, and nothing else is meant to be imported. A
name is loaded when it is used, so the import itself is quick. `tracecloak.METHODS` holds all
methods by name, and `tracecloak.__version__` is the version."""

# What each section is about, with the names that it explains.
SECTIONS = {
    "In a Beam pipeline of your own": (
        "AnonymizeEventLog",
        "ReadEventLog",
        "KeyReference",
        "ColumnMapping",
    ),
    "A whole release": (
        "load",
        "ReleaseConfig",
        "plan_lines",
        "run_release",
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
# What the head of the page says itself.
IN_THE_HEAD = ("METHODS", "__version__")


def names() -> dict[str, str]:
    """Returns the names of the face, each with the place where it is written."""
    tree = ast.parse(_FACE.read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: f"tracecloak.{node.module}.{alias.name}"
        for node in tree.body
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
    return "\n".join(lines)
