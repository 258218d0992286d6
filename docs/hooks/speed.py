"""The tables of the page on speed, of what `make bench` measured of the last version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "speed.json"
PAGE = "explanation/speed.md"
# Where a table stands in the page: which of a benchmark's figures it has.
_PLACE = re.compile(r"<!-- (works|ratios) of speed\.json: (\w+) -->")


def with_tables(markdown: str) -> str:
    """Returns the page's text with its tables in place of their comments.

    Raises:
        KeyError: A benchmark was not measured.
    """
    versions = json.loads(FILE.read_text(encoding="utf-8"))
    benchmarks = versions[max(versions, key=_number_of)]["benchmarks"]

    def table(place: re.Match[str]) -> str:
        what, name = place.groups()
        lines = _of_works if what == "works" else _of_ratios
        return "\n".join(lines(benchmarks[name][what]))

    return _PLACE.sub(table, markdown)


def _of_works(works: dict[str, Any]) -> Iterator[str]:
    yield "| what | seconds of the processor | of the clock | events a second | memory, MB |"
    yield "|---|---:|---:|---:|---:|"
    for name, one in works.items():
        n_events, seconds = one["n_events"], one["seconds"]
        rate = "" if n_events is None else f"{float(f'{n_events / seconds:.2g}'):,.0f}"
        clock, peak_mb = one["wall_seconds"], one["peak_mb"]
        yield f"| {name} | {seconds:.2f} | {clock:.2f} | {rate} | {peak_mb:,} |"


def _of_ratios(ratios: dict[str, Any]) -> Iterator[str]:
    yield "| ratio | measured | goal |"
    yield "|---|---:|---:|"
    for text, one in ratios.items():
        goal = one["goal"]
        sign = "at most" if one["at_most"] else "at least"
        yield f"| {text} | {one['value']:.2f} | {'' if goal is None else f'{sign} {goal:g}'} |"


def _number_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
