"""The page of what Python code may import: the names of both public modules."""

from __future__ import annotations

import inspect

from deploy.stubs import names
from docs.hooks.tables import plain, table
from tracecloak import plugins

_HEAD = """# Python

`import tracecloak` and `import tracecloak.plugins` offer the names on this page, and nothing else
is meant to be imported. A name is loaded when it is used, so the import itself is quick.
`tracecloak.METHODS` holds all methods by name, and `tracecloak.__version__` is the version.

Type checkers, such as mypy, check every keyword of a call: the keys of a configuration,
and the parameters of its method. Where no method takes the arguments of a call, mypy says that
`MethodWithTheseArguments` was expected: a keyword is misspelt, missing, of another method or of
another type, the first argument is no frame, or `method` is no name that it knows. Parameters that
are known at run time only, such as those of a file, are given as `**parameters`. The name of a
method of another distribution, or one that is known at run time only, is a
`tracecloak.PluginMethod`:
`release(df, method=PluginMethod("last-activities"), epsilon=1)`. Its parameters are not checked."""

_PLUGINS = """## What a distribution of your own is made of

`tracecloak.plugins` has what [a method](../how-to/add-a-method.md), a product, a file format, a
source of keys or a command of another distribution needs. The docstring of each name says the rest:
`python -m pydoc tracecloak.plugins.RigorousParams`."""

# What each section is about, with the names that it explains.
SECTIONS = {
    "A frame": ("release", "Released", "plan", "evaluate", "vocabulary", "session", "Session"),
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
    "PluginMethod": "Name of a method that type checkers do not know, for `tracecloak.release`.",
    "Decisions": "What the rounds before decided, by the names of the rounds.",
    "Exact": "A number of a parameter, kept as the decimal fraction that somebody wrote.",
}
# What the head of the page says itself.
IN_THE_HEAD = ("METHODS", "PluginMethod", "__version__")


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
