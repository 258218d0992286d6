"""The results of a comparison as JSON, and the page that is made of them: the board.

The rows that the results are made of, one a release, stay beside them (`rows.run`). The page is
made of the results alone, so that it can be made again without the logs; a script of the page
(`static/board.js`) draws what is chosen there. Figures of methods of others that cannot run in this
process are recorded in `recorded.json`: who wrote the method, which code ran with which parameters,
what its epsilon is of and leaves out, and the quartiles of our measures over its releases.
"""

from __future__ import annotations

import datetime
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from operator import attrgetter
from pathlib import PurePath
from typing import Annotated, Any

import pydantic

from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.compare import LINES, Comparison
from tracecloak.examination.comparison.contenders import KINDS, Kind, candidates
from tracecloak.examination.comparison.original import (
    COLUMNS,
    DISCLOSURE,
    LENGTH_SHARE,
    MAX_EMD_CELLS,
    Original,
    measured,
)
from tracecloak.examination.comparison.rows import Row, code_version, quartiles
from tracecloak.examination.measure.mining import ModelJudge
from tracecloak.examination.measure.registry import MEASURES
from tracecloak.transforms.pages.page import Page, from_template, rendered
from tracecloak.transforms.publish.statement import promise_in_short

# ---
# The results of a comparison as JSON: what was run, on which logs, and the quartiles of figures.
# The rows that they are made of, one a release, stay beside them (`rows.run`). Pages are made of
# the results alone (`report`), so that a page can be made again without the logs.


_OF_MODELS = ("mined_f_score", "mined_fitness")
# Of which the log itself need not have the best.
_OF_LOG = ("case_duration_distance", "relative_size", "next_activity_accuracy", *DISCLOSURE)
# Six significant digits are more than any table shows, and differ by what the figures mean.
_DIGITS = 6
_INDENTED_NUMBERS = re.compile(r"\[\n +([^\n\[\]\"{}]+),\n +([^\n]+),\n +([^\n]+)\n +\]")


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


_Rounded = Annotated[float, pydantic.AfterValidator(_round)]
# The median, the first and the third quartile.
Quartiles = tuple[_Rounded, _Rounded, _Rounded]
# By the names of measures; None where one was not computed.
QuartilesByMeasure = dict[str, Quartiles | None]
_Count = Annotated[int, pydantic.Field(ge=0)]


class Values(pydantic.BaseModel):
    """Values that are what the file says: no other key, no number that JSON does not have."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ReleaseFigures(Values):
    """What the releases of one method at one epsilon got.

    Attributes:
        method: Name of the method, or of the peer.
        kind: What it releases: `variants`, `log` or `graph`.
        epsilon: Epsilon that each release spent, as text.
        delta: Delta that each release spent, as text.
        n_releases: How many releases the quartiles are of; 0 if the method refused.
        refused: Why the method refused these parameters; null if it did not.
        figures: By measure the median, the first and the third quartile, or null if none was
            computed; empty if the method refused.
    """

    method: str
    kind: Kind
    epsilon: str
    delta: str
    n_releases: _Count
    refused: str | None = None
    figures: QuartilesByMeasure = {}


class LineFigures(Values):
    """The figures of a line, which spends no budget and protects nobody.

    Attributes:
        name: What the line is, such as the bootstrap of the log.
        n_draws: How many draws the quartiles are of.
        figures: By measure the quartiles, as of releases.
    """

    name: str
    n_draws: Annotated[int, pydantic.Field(ge=1)]
    figures: QuartilesByMeasure


class LogResults(Values):
    """One log, and what was released of it.

    Attributes:
        name: Name of the log: that of its file without its ending.
        n_cases: Cases of the whole log.
        n_events: Events of the whole log.
        n_variants: Variants of the whole log.
        n_activities: Activities of the whole log, all public.
        max_trace_length: The public length at which cases are cut, in events.
        of_log: What the log itself gets, by measure, where that need not be the best.
        of_cut_log: What cutting alone gets, without noise, by measure.
        models: Fitness and F-score of the model of the log, and of one that allows everything;
            null if no model was mined.
        releases: What each method got at each epsilon, without those for which the time was short.
        lines: What each line got, which spends nothing and protects nobody.
    """

    name: str
    n_cases: _Count
    n_events: _Count
    n_variants: _Count
    n_activities: _Count
    max_trace_length: _Count
    of_log: dict[str, _Rounded | None]
    of_cut_log: dict[str, _Rounded | None]
    models: dict[str, float] | None
    releases: tuple[ReleaseFigures, ...]
    lines: tuple[LineFigures, ...]


class Results(Values):
    """A comparison, and what came of it.

    Attributes:
        command: Command that makes the file, in the folder of the logs.
        version: Version of tracecloak, with a digest of its code.
        date: When the results were written, in UTC.
        epsilons: Epsilons of each method, as texts.
        delta: Delta of methods that need one, as text.
        n_repetitions: Releases that are wanted of each method, log and epsilon, each under a
            fresh key; `n_releases` says how many there are.
        n_mined: Of so many of them a model was mined.
        length_share: Share of the cases that have at most `max_trace_length` events.
        max_emd_cells: A distance of variants that needs a larger table was not computed.
        recorded: Peers that were recorded elsewhere; tracecloak has their figures.
        logs: One for each log, in the order of the command.
    """

    command: str
    version: str
    date: datetime.date
    epsilons: tuple[str, ...]
    delta: str
    n_repetitions: Annotated[int, pydantic.Field(ge=1)]
    n_mined: _Count
    length_share: float
    max_emd_cells: _Count
    recorded: tuple[str, ...] = ()
    logs: tuple[LogResults, ...]

    def columns(self, kind: Kind) -> tuple[str, ...]:
        """Returns the measures of a kind's table: those that its releases have figures of."""
        mined = _OF_MODELS if self.n_mined and kind != "graph" else ()
        names = (*COLUMNS[kind], *mined, "seconds")
        releases = [one for log in self.logs for one in log.releases if one.kind == kind]
        measured = {name for release in releases for name in release.figures}
        return tuple(name for name in names if name in measured or not measured)

    def to_text(self) -> str:
        """Returns the JSON, each figure on a line of its own, so that versions can be compared."""
        return _INDENTED_NUMBERS.sub(r"[\1, \2, \3]", self.model_dump_json(indent=1)) + "\n"


def results_of(
    comparison: Comparison, rows: Sequence[Row], command: str, recorded: Sequence[str] = ()
) -> Results:
    """Returns the results of a comparison.

    Args:
        comparison: What was compared.
        rows: All of its rows.
        command: That makes it, in the folder of the logs.
        recorded: Peers whose figures are recorded, not computed.
    """
    return Results(
        command=command,
        version=code_version(),
        date=datetime.datetime.now(datetime.UTC).date(),
        epsilons=comparison.epsilons,
        delta=comparison.delta,
        n_repetitions=comparison.repetitions,
        n_mined=comparison.mined,
        length_share=LENGTH_SHARE,
        max_emd_cells=MAX_EMD_CELLS,
        recorded=tuple(recorded),
        logs=tuple(
            _log_results(comparison, original, [r for r in rows if r["log"] == original.name])
            for original in comparison.logs
        ),
    )


def _log_results(comparison: Comparison, original: Original, rows: Sequence[Row]) -> LogResults:
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["method"], row["epsilon"]), []).append(row)
    every = {name for names in COLUMNS.values() for name in names}
    return LogResults(
        name=original.name,
        n_cases=original.traces.n_cases,
        n_events=original.traces.n_events,
        n_variants=original.variants.n_variants,
        n_activities=len(original.names),
        max_trace_length=original.max_length,
        of_log=measured(original.side, original.side, _OF_LOG),
        of_cut_log=original.figures(original.cut),
        models=_models(original) if comparison.mined else None,
        releases=tuple(_release(comparison, at) for (n, _), at in cells.items() if n not in LINES),
        lines=tuple(
            LineFigures(
                name=name, n_draws=len(at), figures=_quartiles(at, sorted(every & at[0].keys()))
            )
            for (name, _), at in cells.items()
            if name in LINES
        ),
    )


def _models(original: Original) -> dict[str, float]:
    judge = ModelJudge(original.variants, original.vocabulary)
    judged = {"": judge.judged("IMf"), "flower_": judge.judged("flower")}
    names = ("f_score", "fitness")
    return {f"{of}{name}": getattr(one, name) for of, one in judged.items() for name in names}


def _release(comparison: Comparison, rows: Sequence[Row]) -> ReleaseFigures:
    first = rows[0]
    head = {name: first[name] for name in ("method", "kind", "epsilon", "delta")}
    if "refused" in first:
        return ReleaseFigures(**head, n_releases=0, refused=first["refused"])
    names = [*COLUMNS[first["kind"]], "seconds"]
    if comparison.mined and first["kind"] != "graph":
        names += _OF_MODELS
    n_releases = sum("refused" not in row for row in rows)
    return ReleaseFigures(**head, n_releases=n_releases, figures=_quartiles(rows, names))


def _quartiles(rows: Sequence[Row], names: Iterable[str]) -> QuartilesByMeasure:
    return {name: quartiles(row.get(name) for row in rows) for name in names}


# ---
# The page of a comparison, the board: charts of medians and quartiles by log, epsilon and measure.
# It is made of `results` alone: the logs are not needed. A script of the page (`static/board.js`)
# draws what somebody chooses. Figures of methods of others that cannot run in this process, as they
# were recorded elsewhere.
#
# `recorded.json` has them: who wrote the method, which code ran with which parameters, what the
# epsilon is of that it declares, what that epsilon leaves out, and the quartiles of our measures
# over its releases of public logs. Nothing is run here, and no figure is computed.


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
        "recorded": [(name, remark_on(name)) for name in results.recorded],
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
    notes = [remark_on(name, log) for name in results.recorded]
    return {**log.model_dump(mode="json"), "recorded": recorded, "notes": notes}


def _apart() -> Iterator[tuple[str, str, str]]:
    """Yields the methods that are not compared: name, what they are, and what they promise."""
    compared = candidates()
    for name, method in sorted(METHODS.items()):
        if name in compared:
            continue
        try:
            promise = promise_in_short(method.guarantee(method.Params(**method.examples[0])))
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
        """Returns what is recorded of a log, whatever its file is called."""
        sizes = attrgetter("n_cases", "n_events", "n_variants", "n_activities")
        return tuple(one for one in self.figures if sizes(one) == sizes(log))


@functools.cache
def recordings() -> dict[str, Recording]:
    """Returns all recordings, by the name of the peer."""
    text = (resources.files(__package__) / "recorded.json").read_text(encoding="utf-8")
    return pydantic.TypeAdapter(dict[str, Recording]).validate_json(text)


def remark_on(name: str, log: LogResults | None = None) -> str:
    """Returns where a peer's figures on a log are from, or that there are none, in sentences.

    Without a log, what the epsilon of a recorded row is of, and what it leaves out.
    """
    one = recordings()[name]
    runs = None if log is None else one.of_log(log)
    return " ".join(from_template(__package__, "recorded.md.j2", name=name, one=one, runs=runs))
