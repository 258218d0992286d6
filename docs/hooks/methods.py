"""A page for each method, and the list of all, from the registry that releases them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown.extensions.toc import slugify

from docs.hooks.tables import code, large, plain, table
from tracecloak.anonymizers.accounting.composition import decimal_text, joint_sentence
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.commands import catalogue
from tracecloak.examination.demo.hospital import ACTIVITIES
from tracecloak.pipelines.configuration.flags import default_text, form_of

_EXPLAINED = Path(__file__).parents[1] / "explanation" / "methods"

_WIDTH = 76  # what a page shows of code without a bar to scroll

_HEAD = """# Methods

Each method has a page here with its parameters, a command that works, and what that command
promises and spends. [The methods](../../explanation/methods/index.md) explains how they work
and how they differ, and [Terms](../glossary.md) what the words mean."""

_KINDS = {
    "rigorous": """## Rigorous { #rigorous }

Epsilon and delta hold for everything that the release has. The method draws exact noise, and
the accounting of its parts is proved. Choose one of these to protect people.""",
    "published": """## Published { #published }

The method does what its paper says. What really holds differs from what the paper claims, and
each page says how. These methods are here to repeat and to compare published results.""",
    "syntactic": """## Syntactic { #syntactic }

The released log has a property, such as that every case looks like several others. Other code
than the method's reads the files back and checks the property before they are published. No
epsilon holds.""",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yields the name of each page's file, and its text; the list comes first."""
    yield "index.md", _list()
    places = explained()
    for name in sorted(METHODS.builtins):
        yield f"{name}.md", "\n".join(_page(name, places.get(name))) + "\n"


def explained() -> Mapping[str, str]:
    """Returns where each method is explained: by its name, the link from the pages of methods."""
    found = {}
    for path in sorted(_EXPLAINED.glob("*.md")):
        for heading in re.findall(r"^##+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            slug = slugify(heading.replace("`", ""), "-")
            for name in re.findall(r"`([a-z-]+)`", heading):
                found[name] = f"../../explanation/methods/{path.name}#{slug}"
    return found


def _list() -> str:
    lines = [_HEAD]
    for kind, text in _KINDS.items():
        lines += ["", text]
        rows = (
            [f"[{code(name)}]({name}.md)", plain(large(METHODS[name].summary))]
            for name in sorted(METHODS.builtins)
            if METHODS[name].guarantee_kind == kind
        )
        lines += table(("Method", "What it releases"), rows)
    return "\n".join(lines)


def _page(name: str, explanation: str | None) -> Iterator[str]:
    method = METHODS[name]
    example = dict(method.examples[0])
    if example.get("vocabulary"):
        example["vocabulary"] = sorted(ACTIVITIES)
    params = method.Params(**example)
    guarantee = method.guarantee(params)
    more = "" if explanation is None else f" [How it works]({explanation})."
    yield f"# `{name}` {{ #{name} }}"
    yield ""
    yield f"{plain(large(method.summary))}. Its guarantee is **{guarantee.kind}**.{more}"
    yield ""
    yield "## Example"
    yield ""
    yield "```sh"
    yield from wrapped(
        "tracecloak sample --cases 2000 --output hospital.xes.gz --vocabulary activities.txt"
    )
    yield from wrapped(catalogue.example_line(name, example))
    yield "```"
    yield ""
    yield "What this release does:"
    yield ""
    for sentence in method.explain(params):
        yield f"* {_labelled(sentence)}"
    yield ""
    yield "## Promise"
    yield ""
    yield "With the parameters of the example, the release promises this:"
    yield ""
    yield f"> {plain(guarantee.sentence)}"
    yield ""
    yield plain(guarantee.reality)
    yield ""
    if guarantee.not_covered:
        yield "The promise does not cover this:"
        yield ""
        for sentence in guarantee.not_covered:
            yield f"* {plain(sentence)}"
        yield ""
    yield from _spends(method, params)
    yield "## Parameters"
    yield ""
    yield (
        "Each is a flag of `tracecloak release`, and a key of `params` in a configuration file. "
        "A parameter without a default that is not required may be left out; its text says what "
        "holds then."
    )
    yield from table(("Flag", "Value", "Default", "What it says"), _parameters(method))


def wrapped(command: str) -> Iterator[str]:
    """Yields a command line in lines that are not too wide for a page, broken before flags."""
    line, *flags = command.split(" --")
    for flag in flags:
        if len(f"{line} --{flag}") > _WIDTH:
            yield f"{line} \\"
            line = f"  --{flag}"
        else:
            line = f"{line} --{flag}"
    yield line


def _labelled(sentence: str) -> str:
    """A sentence on a part of a release, with the part's name in front made bold."""
    part, colon, text = sentence.partition(": ")
    if not colon or len(part) > 40:
        return plain(large(sentence))
    return f"**{plain(large(part))}:** {plain(text)}"


def _spends(method: Anonymizer, params: object) -> Iterator[str]:
    yield "## What it spends"
    yield ""
    parts = method.spends(params)
    for part in parts:
        yield (
            f"* {plain(large(part.what))}: epsilon {decimal_text(part.epsilon)}, "
            f"delta {decimal_text(part.delta)}. "
            + (plain(joint_sentence(part.to_json())) if part.blocks else "")
        )
    if not parts:
        yield "No epsilon that is finite: there is nothing to add up."
    yield ""


def _parameters(method: Anonymizer) -> Iterator[list[str]]:
    schemas = method.Params.model_json_schema()["properties"]
    for name, field in method.Params.model_fields.items():
        default = default_text(field)
        if field.is_required():
            standing = "required"
        else:
            standing = "" if default is None else code(default)
        says = " ".join(f"{field.description or ''} {form_of(name, field)}".split())
        yield [
            code(f"--{name}"),
            plain(catalogue.kind_of_value(name, schemas[name])),
            standing,
            plain(says),
        ]
