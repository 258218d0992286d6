"""`tracecloak catalogue`: lists the methods, their parameters and what they promise."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tracecloak.pipelines.commands.table import Given


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the form of the list."""
    parser.add_argument("--json", action="store_true", default=None, help="as JSON")


def run(given: Given) -> int:
    """Prints the list."""
    from tracecloak.pipelines.runners.memory import without_collections

    with without_collections():
        lines = list(_json() if given.flags.get("json") else _text())
    print("\n".join(lines))
    return 0


def _json() -> Iterator[str]:
    from tracecloak.anonymizers.registry import METHODS

    entries = []
    for name, method in sorted(METHODS.items()):
        guarantee = method.guarantee(method.Params(**method.examples[0]))
        entries.append(
            {
                "name": name,
                "summary": method.summary,
                "guarantee": guarantee.kind,
                "statement": guarantee.sentence,
                "example": dict(method.examples[0]),
                "params": method.Params.model_json_schema()["properties"],
            }
        )
    yield json.dumps(entries, indent=2)


def _text() -> Iterator[str]:
    import pydantic

    from tracecloak.anonymizers.registry import METHODS

    as_json: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)
    for name, method in sorted(METHODS.items()):
        guarantee = method.guarantee(method.Params(**method.examples[0]))
        yield f"{name}  [{guarantee.kind}]  {method.summary}"
        shown = ", ".join(f"{flag} {value}" for flag, value in method.examples[0].items())
        yield f"    {guarantee.sentence}" + (f" (for {shown})" if shown else "")
        for flag, field in method.Params.model_fields.items():
            has_one = not field.is_required() and field.default_factory is None
            default = field.default if has_one else None
            yield f"    --{flag} (default {as_json.dump_python(default, mode='json')})"
            yield f"        {' '.join((field.description or '').split())}"
