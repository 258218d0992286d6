"""`tracecloak catalogue`: lists methods and what they promise, or shows one in full."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tracecloak.anonymizers.contract.declarations import declarations
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.runners.memory import keep_pandas_out, without_collections
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import UsageError

_ONE = "tracecloak catalogue METHOD shows one in full: an example, its promise, its parameters."
# The log that examples are for, and its activities.
_LOG, _VOCABULARY = "hospital.xes.gz", "activities.txt"

RECOMMENDED = {
    "private-dfg": "a process map",
    "auto-variants": "the usual paths and how many cases take them",
    "private-log": "a whole log with times",
    "private-indicators": "last month's figures",
}
"""What most people want to publish, by the method for it, as the README has them."""

# What holds, by the kind of guarantee, in the order of the list.
_KINDS = {
    "rigorous": "differential privacy of the whole release, with an epsilon that is accounted for",
    "published": "as the paper says; what is really guaranteed differs, and each says how",
    "syntactic": "each case is hidden among others with the same steps; no epsilon",
}


def words() -> Sequence[str]:
    """Returns the methods."""
    return sorted(METHODS)


def run(given: Given) -> int:
    """Prints the list, or one method.

    Raises:
        UsageError: There is no such method, or one is to be shown and all are to be listed.
    """
    with without_collections():
        asked, all_too = given.flags.get("method"), given.flags.get("all", False)
        if asked is not None and all_too:
            raise UsageError(f"--all lists methods, and {asked!r} asks for one: leave one out")
        listed = sorted(METHODS) if all_too else list(RECOMMENDED)
        names = listed if asked is None else [_known(asked)]
        if given.form == "json":
            entries = list(map(_entry, names))
            result = Result((), entries if asked is None else entries[0])
        else:
            rows = _list(names) if all_too else _recommended()
            lines = rows if asked is None else _in_full(names[0])
            result = Result((), above=list(lines))
    show(result, given.form)
    return 0


def _known(name: str) -> str:
    if name in METHODS:
        return name
    if name in METHODS.removed:
        raise UsageError(METHODS.why_not(name))
    close = difflib.get_close_matches(name, sorted(METHODS))
    meant = f"; did you mean {' or '.join(close)}?" if close else ";"
    raise UsageError(f"unknown method {name!r}{meant} tracecloak catalogue --all lists all")


def _method(name: str) -> Any:
    """Returns a method, whose family is loaded."""
    keep_pandas_out()
    return METHODS[name]


def _entry(name: str) -> dict[str, Any]:
    method = _method(name)
    guarantee = method.guarantee(method.Params(**method.examples[0]))
    return {
        "name": name,
        "summary": method.summary,
        "guarantee": guarantee.kind,
        "statement": guarantee.sentence,
        "example": dict(method.examples[0]),
        "params": method.Params.model_json_schema()["properties"],
    }


def _recommended() -> Iterator[str]:
    """A line for each recommended method, under what it is for."""
    for name, use in RECOMMENDED.items():
        yield f"To publish {use}:"
        yield f"  {name:<22} {declarations()[name]['summary']}"
        yield ""
    yield f"tracecloak catalogue --all lists all {len(METHODS)} methods, by what they promise."
    yield _ONE


def _list(names: Iterable[str]) -> Iterator[str]:
    """A line for each method, under what its kind of promise is."""
    lines: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for name in names:
        row = declarations().get(name)  # none of another distribution's
        method = _method(name) if row is None else SimpleNamespace(**row)
        lines[method.guarantee_kind].append(f"  {name:<22} {method.summary}")
    for kind, kind_lines in lines.items():
        yield f"{kind}: {_KINDS[kind]}"
        yield from kind_lines
        yield ""
    yield _ONE


def _in_full(name: str) -> list[str]:
    from tracecloak.anonymizers.accounting.composition import joint_sentence
    from tracecloak.examination.demo.hospital import ACTIVITIES
    from tracecloak.pipelines.configuration.flags import key_help
    from tracecloak.transforms.pages.page import from_template

    method = _method(name)
    example = dict(method.examples[0])
    if example.get("vocabulary"):
        example["vocabulary"] = sorted(ACTIVITIES)
    params = method.Params(**example)
    schemas = method.Params.model_json_schema()["properties"]
    return from_template(
        __package__,
        "method.txt.j2",
        method=method,
        params=params,
        guarantee=method.guarantee(params),
        sample=f"tracecloak sample --cases 2000 --output {_LOG} --vocabulary {_VOCABULARY}",
        example=example_line(name, example),
        joint_sentence=joint_sentence,
        parameters=[
            (flag, kind_of_value(flag, schemas[flag]), key_help(field, flag))
            for flag, field in method.Params.model_fields.items()
        ],
    )


def example_line(name: str, example: Mapping[str, Any]) -> str:
    """The command line of a release with the parameters; the vocabulary is that of the sample."""
    from tracecloak.pipelines.configuration.flags import flag_text

    words = ["tracecloak", "release", "--log", _LOG, "--output", "releases", "--method", name]
    words += ["--release_id", f"{name}-1"]
    for flag, value in example.items():
        text = _VOCABULARY if flag == "vocabulary" else flag_text(value)
        words += [f"--{flag}", text]
    return shlex.join(words)


# Limits from here on are those of the arithmetic, and tell nobody anything.
_SO_LARGE = 10**15
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "object": "mapping",
}


def kind_of_value(name: str, schema: Mapping[str, Any]) -> str:
    """What a parameter's value is, in which range, by its JSON Schema."""
    from tracecloak.pipelines.configuration.flags import NAMES_OF_FILES

    if name in NAMES_OF_FILES:
        return "file"
    # Exact decimals may be numbers or texts.
    all_kinds = [_one_kind(part) for part in _alternatives(schema)]
    kinds = [kind for kind in all_kinds if kind != "text"] or all_kinds
    return " or ".join(dict.fromkeys(kinds))


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    around = {key: schema[key] for key in ("ge", "le") if key in schema}
    for part in schema.get("anyOf", [schema]):
        if "anyOf" in part:
            yield from _alternatives(part)
        elif part.get("type") != "null":
            yield {**around, **part}


def _one_kind(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "prefixItems" in schema:
        return ", ".join(_one_kind(part) for part in schema["prefixItems"])
    if schema.get("type") == "array":
        return f"list, each {_one_kind(schema['items'])}"
    if schema.get("format") == "date-time":
        return "time with its offset, such as 2026-01-01T00:00:00Z"
    kind = _TYPES[schema.get("type", "object")]
    keywords = (
        ("above", "exclusiveMinimum"),
        ("from", "minimum"),
        ("from", "ge"),
        ("below", "exclusiveMaximum"),
        ("to", "maximum"),
        ("to", "le"),
    )
    limits = ((word, schema[key]) for word, key in keywords if key in schema and kind != "text")
    return " ".join(
        [kind, *(f"{word} {limit:,.15g}" for word, limit in limits if limit < _SO_LARGE)]
    )
