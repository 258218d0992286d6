"""The last runs of the tiers of tests that take long, for the page on testing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).parents[1] / "results" / "tiers.json"
PAGE = "contributing/testing.md"
_PLACE = re.compile(r"<!-- last runs of tiers\.json -->")
_COMMANDS = {"engines": "make test-engines", "slow": "make test-slow"}


def with_table(markdown: str) -> str:
    """Returns the page's text with the table in place of its comment."""
    return _PLACE.sub(lambda _: "\n".join(_lines()), markdown)


def _lines() -> Iterator[str]:
    yield "| command | on | passed | failed | skipped | minutes | with |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for tier, run in json.loads(FILE.read_text(encoding="utf-8")).items():
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        yield (
            f"| `{_COMMANDS[tier]}` | {run['date']} | {run['passed']:,} | {run['failed']:,} | "
            f"{run['skipped']:,} | {run['seconds'] / 60:.0f} | {versions} |"
        )
