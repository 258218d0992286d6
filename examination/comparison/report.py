"""The page of a comparison, the board: charts of medians and quartiles by log, epsilon and measure.

It is made of `results` alone: the logs are not needed. A script of the page (`static/board.js`)
draws what somebody chooses.

Figures of methods of others that cannot run in this process, as they were recorded elsewhere.

`recorded.json` has them: who wrote the method, which code ran with which parameters, what the
epsilon is of that it declares, what that epsilon leaves out, and the quartiles of our measures over
its releases of public logs. Nothing is run here, and no figure is computed.
"""

from __future__ import annotations

import datetime
import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib import resources
from pathlib import PurePath
from typing import Annotated, Any

import pydantic

from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.compare import LINES
from tracecloak.examination.comparison.contenders import KINDS, Kind, candidates
from tracecloak.examination.comparison.results import (
    COLUMNS,
    DISCLOSURE,
    LogResults,
    QuartilesByMeasure,
    Results,
    Values,
)
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


def command_line(words: Sequence[str], flags: Mapping[str, Any]) -> str:
    """Returns a command of words and flags, its paths without their folders."""
    parts = ["tracecloak", *words]
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


_Text = Annotated[str, pydantic.Field(min_length=1)]
_Number = Annotated[int, pydantic.Field(ge=1)]


class RecordedFigures(Values):
    """What the releases of a method got on one log at one declared epsilon.

    Attributes:
        log: What the public log is called.
        n_cases: Of the whole log.
        n_events: Likewise.
        n_variants: Likewise.
        n_activities: Likewise.
        epsilon: That the method was given, as text.
        delta: That it chose itself, as text.
        n_runs: Trainings, each under a seed of its own, with one release each.
        n_failed: Trainings beside these that ended in an error of the method's code, unreleased.
        figures: Of these releases.
    """

    log: _Text
    n_cases: _Number
    n_events: _Number
    n_variants: _Number
    n_activities: _Number
    epsilon: str
    delta: str
    n_runs: _Number
    n_failed: Annotated[int, pydantic.Field(ge=0)]
    figures: QuartilesByMeasure

    def is_of(self, log: LogResults) -> bool:
        """Returns whether a log is the one that was released, whatever its file is called."""
        sizes = ("n_cases", "n_events", "n_variants", "n_activities")
        return all(getattr(self, size) == getattr(log, size) for size in sizes)


class Recording(Values):
    """What is recorded of one method.

    Attributes:
        kind: What it releases.
        paper: Where it was published.
        code: Which version of whose code ran.
        date: When it ran.
        parameters: That it ran with, as text.
        promise: What its epsilon is of, a sentence.
        unaccounted: What reads the log and is not in that epsilon, each a clause.
        figures: By log and epsilon.
    """

    kind: Kind
    paper: _Text
    code: _Text
    date: datetime.date
    parameters: _Text
    promise: _Text
    unaccounted: Annotated[tuple[_Text, ...], pydantic.Field(min_length=1)]
    figures: tuple[RecordedFigures, ...]

    def of_log(self, log: LogResults) -> tuple[RecordedFigures, ...]:
        """Returns what is recorded of a log."""
        return tuple(one for one in self.figures if one.is_of(log))


@functools.cache
def recordings() -> dict[str, Recording]:
    """Returns all recordings, by the name of the peer."""
    text = (resources.files(__package__) / "recorded.json").read_text(encoding="utf-8")
    return pydantic.TypeAdapter(dict[str, Recording]).validate_json(text)


def recorded_at(
    names: Sequence[str], log: LogResults, epsilon: str, kind: Kind
) -> dict[str, RecordedFigures]:
    """Returns what is recorded of a log at an epsilon, by peer.

    Args:
        names: Of recorded peers.
        log: That was released.
        epsilon: As text; 1 and 1.0 are one.
        kind: Peers that release something else are left out.
    """
    return {
        name: one
        for name in names
        if recordings()[name].kind == kind
        for one in recordings()[name].of_log(log)
        if Decimal(one.epsilon) == Decimal(epsilon)
    }


def source_of(name: str, log: LogResults) -> str:
    """Returns where a peer's figures on a log are from, or that there are none, in sentences."""
    recording = recordings()[name]
    here = recording.of_log(log)
    if not here:
        logs = ", ".join(sorted({one.log for one in recording.figures}))
        return (
            f"`{name}` cannot run in this process, and no figures of it are recorded for this "
            f"log: they are for {logs}."
        )
    runs = ", ".join(f"{one.n_runs} at epsilon {one.epsilon}" for one in here)
    n_failed = sum(one.n_failed for one in here)
    failed = f" Trainings that ended in an error of that code: {n_failed}." if n_failed else ""
    return (
        f"`{name}` is recorded, not run here. The releases of this log are {runs}, each of a "
        f"training of its own, made on {recording.date.isoformat()} by {recording.code}, with "
        f"{recording.parameters}.{failed} The method is of {recording.paper}."
    )


def caveat(name: str) -> str:
    """Returns what the epsilon of a recorded row is of, and what it leaves out."""
    recording = recordings()[name]
    return (
        f"`{name}` is recorded, not run here, and stands at the epsilon that it declares. "
        f"{recording.promise} Not accounted are {'; '.join(recording.unaccounted)}."
    )
