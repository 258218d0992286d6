"""`tracecloak catalogue`: lists the methods, their parameters and what they promise."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from tracecloak.pipelines.commands.table import Given


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the form of the list."""
    parser.add_argument("--json", action="store_true", default=None, help="as JSON")


def run(given: Given) -> int:
    """Prints the list."""
    from tracecloak.pipelines.runners.memory import without_collections

    with without_collections():
        entries = _entries()
    if given.flags.get("json"):
        print(json.dumps(entries, indent=2))
        return 0
    for entry in entries:
        print(f"{entry['name']}  [{entry['guarantee']}]  {entry['summary']}")
        shown = ", ".join(f"{name} {value}" for name, value in entry["example"].items())
        print(f"    {entry['statement']}" + (f" (for {shown})" if shown else ""))
        for name, schema in entry["params"].items():
            print(f"    --{name} (default {schema.get('default')})")
            print(f"        {' '.join(schema.get('description', '').split())}")
    return 0


def _entries() -> list[dict[str, Any]]:
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
    return entries
