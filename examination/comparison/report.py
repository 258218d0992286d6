"""The page of a comparison, the board: charts of medians and quartiles by log, epsilon and measure.

It is made of `results` alone: the logs are not needed. A script of the page (`static/board.js`)
draws what somebody chooses.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import pydantic

from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.compare import LINES
from tracecloak.examination.comparison.contenders import KINDS, Kind, candidates
from tracecloak.examination.comparison.recorded import caveat, recordings, source_of
from tracecloak.examination.comparison.results import COLUMNS, DISCLOSURE, LogResults, Results
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.transforms.pages.page import Page, rendered

INTERNAL = (
    "Computed on unprotected logs: every figure is exact about their data. For the operator, not "
    "for publication unless the logs are public anyway."
)
TITLE = "Releases at the same true epsilon"
TITLES: Mapping[Kind, str] = {
    "variants": "variants",
    "log": "logs with times",
    "graph": "directly-follows graphs",
}
BASELINE = "laplace-levels"
_SECTIONS = (
    ("charts", "Charts"),
    ("compared", "What is compared"),
    ("apart", "What is not compared"),
    ("measured", "What is measured"),
    ("add", "Add a method or a log"),
    ("cite", "Cite"),
)


def command_line(flags: Mapping[str, Any]) -> str:
    """Returns the command of these flags, its paths without their folders."""
    parts = ["tracecloak", "compare"]
    for name, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            text = str(one)
            if name in ("log", "output"):
                text = ",".join(PurePath(path.strip()).name for path in text.split(","))
            parts += [f"--{name}", text]
    return shlex.join(parts)


def board(results: Results) -> bytes:
    """Returns the page."""
    kinds = [kind for kind in KINDS if any(_names(results, kind))]
    measured = {name for kind in kinds for name in results.columns(kind)}
    asked = {name for kind in kinds for name in COLUMNS[kind]}
    legend = [one for one in MEASURES.values() if one.name in measured]
    context = {
        "internal": INTERNAL,
        "results": results,
        "baseline": BASELINE,
        "apart": list(_apart()),
        "legend": legend,
        "unmeasured": [MEASURES[name] for name in DISCLOSURE if name in asked - measured],
        "recorded": [(name, caveat(name)) for name in results.recorded],
    }
    data = {
        "epsilons": results.epsilons,
        "wanted": results.n_repetitions,
        "kinds": [
            {"name": kind, "title": TITLES[kind], "measures": results.columns(kind)}
            for kind in kinds
        ],
        "measures": {one.name: one.to_json() for one in legend},
        "disclosure": [name for name in DISCLOSURE if name in measured],
        "lines": LINES,
        "logs": [_log(results, log) for log in results.logs],
    }
    page = Page(
        "board.html.j2", TITLE, _SECTIONS, context, data, ("chart.js", "board.js"),
        ("D3", "Observable Plot"), styles=("board.css",),
    )  # fmt: skip
    return rendered(page)


def _names(results: Results, kind: Kind) -> Iterator[str]:
    """What releases a kind of thing in some results, or is recorded as doing so."""
    yield from (one.method for log in results.logs for one in log.releases if one.kind == kind)
    yield from (name for name in results.recorded if recordings()[name].kind == kind)


def _log(results: Results, log: LogResults) -> dict[str, Any]:
    """Returns what the script reads of a log."""
    recorded = [
        {"method": name, "kind": recordings()[name].kind, **one.model_dump(mode="json")}
        for name in results.recorded
        for one in recordings()[name].of_log(log)
    ]
    notes = [source_of(name, log) for name in results.recorded]
    return {**log.model_dump(mode="json"), "recorded": recorded, "notes": notes}


def _apart() -> Iterator[tuple[str, str, str]]:
    """Yields the methods that are not compared: name, what they are, and what they promise."""
    compared = candidates()
    for name, method in sorted(METHODS.items()):
        if name in compared:
            continue
        try:
            promise = method.guarantee(method.Params(**method.examples[0])).short
        except pydantic.ValidationError:  # of another distribution, without an example
            promise = method.guarantee_kind
        yield name, method.summary, promise
