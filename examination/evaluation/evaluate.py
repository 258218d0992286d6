"""One release next to its log: whether they belong together, and its measures; files or frames."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from narwhals.typing import IntoFrame

from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.examination.comparison.original import (
    MAX_EMD_CELLS,
    Side,
    graph_figures,
    measured,
    names_of_log,
)
from tracecloak.examination.evaluation import indicators as beside
from tracecloak.examination.evaluation.indicators import figure_rows, furthest_line
from tracecloak.examination.evaluation.origin import NotedShare, check_origin, share_noted_in
from tracecloak.examination.measure.intervals import bootstrap, edge_figures, noise_half_width
from tracecloak.examination.measure.measures import require_pot
from tracecloak.examination.measure.mining import MEASURES as TREE_MEASURES
from tracecloak.examination.measure.mining import PatientMiner, require_pm4py, share_that_fits
from tracecloak.examination.measure.registry import INTERNAL, MEASURES, Figures, checked, legend
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.frames.functions import Released, frame_source
from tracecloak.pipelines.planning.utility import percent
from tracecloak.pipelines.runners.failures import redact_foreign_errors
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import parse_tree
from tracecloak.schemas.published.figures import ReleasedIndicators
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.manifest import has_starts, has_times
from tracecloak.transforms.pages.page import from_template
from tracecloak.transforms.publish.release_folder import DFG_NAME
from tracecloak.transforms.sources import EventSource

# --- `tracecloak evaluate`: how far a release is from the original log. For the operator only. ---
# Its numbers are computed on the unprotected log and are not private: they are marked so and must
# not be published beside the release. Beside a measure stands what a bootstrap of the log gets,
# which no release need pass, and what the log itself gets.
#
# What a release is good for, by its measures: the sentence that its evaluation begins with.
#
# Each use of a log is judged by one measure of how far off the release is, 0 where it is the log
# itself. It is good up to a tenth, and rough up to a third, with which of two numbers, one twice
# the other, the larger one stays the larger. A release need not be nearer than a bootstrap of the
# log, which is good whatever it gets.


_LOG = logging.getLogger("tracecloak")

# Replay on a tree can take hours, and is ended after so long.
_TREE_SECONDS = 600.0
_BY_SHARES = (
    "The release counts a limited number of cases of each individual, so shares are compared, and "
    "no counts; map individual_id to compare counts"
)
# Measures that grow with the number of cases; without that they say nothing of a release.
_OF_SIZE = {
    *("relative_size", "edge_mean_absolute_error", "edge_frequency_emd"),
    *("edge_time_emd_months", "total_duration_error"),
}
# Of cases that were drawn for a release, the numbers of other ones need not lie in its intervals.
_OF_DRAWN = {"interval_coverage", "indicator_coverage"}
_OF_INTERVALS = {"interval_coverage", "interval_width"}
# Where all cases begin at one public time, nothing of that is released.
_OF_STARTS = {"drift", "hour_of_week_total_variation"}
# Names of START and END in a released graph.
_ENDS = frozenset(ActivityVocabulary.of([]).labels)


def _sizes(side: Side) -> dict[str, int]:
    return {
        "cases": side.cases.n_cases,
        "events": side.cases.n_events,
        "variants": side.variants.n_variants,
    }


def evaluation_of(
    original: EventSource, release: Received, noted_share: NotedShare | None = None
) -> dict[str, Any]:
    """Compares a release with the log that it was made of.

    Args:
        original: The original log.
        release: The release, see `Received.at`.
        noted_share: Returns which share of the cases that a release read, by the folder of all
            releases and its name, is in a log, or None: it is not known; see
            `examination.evaluation.origin`.

    Returns:
        JSON values: `manifest_sha256`, the digest of the manifest that is judged, a `verdict`
        (`verdict_of`), sizes, the measures of
        `examination.measure.registry` by their names, under `bootstrap` and `of_the_log` what a
        bootstrap of the log and the log itself get, and a `legend`. Of a release without a log,
        those of its graph or its tree. Of released indicators theirs, and under `indicators` each
        of them beside the log's. Where the release counts some cases of each individual, so does
        the original; where no individuals are mapped, shares are compared. `population_note` says
        which.

    Raises:
        UsageError: It is of another log, or the extra measures is not installed, which a release
            with a log needs.
        InputSchemaError: A log or a file of the release cannot be read.
    """
    manifest = release.body
    indicators = release.values_of("indicators.json", ReleasedIndicators.from_json)
    contents = Contents(release)
    is_log = indicators is None and bool(contents.logs)
    if is_log:
        require_pot()
    tree = None if is_log else release.values_of("tree.json", ReleasedTree.from_json)
    graph = {} if is_log or tree or indicators else graph_of(release)
    if indicators is not None:
        params = beside.params_of(manifest)
        attributes = tuple((one.name, one.column) for one in params.declared_attributes)
        original = replace(original, mapping=replace(original.mapping, attributes=attributes))
    _LOG.info("reading the original log")
    before, population = _as_counted(original, manifest)
    _LOG.info("reading the release")
    after = contents.whole() if is_log else None
    if indicators is not None:
        names = beside.names_in(params)
    elif after is not None:
        names = {*after.vocabulary.names.to_pylist()}
    elif tree is not None:
        names = {*tree["activities"]}
    else:
        ends = {edge[end] for edge in graph["edges"] for end in ("source", "target")} - _ENDS
        names = ends | {*graph.get("activities", ())}
    origin = check_origin(release.folder.path, manifest, before, names, noted_share)
    vocabulary = ActivityVocabulary.merge([before.vocabulary, ActivityVocabulary.of(names)])
    side = Side.of(before.recode(vocabulary))
    operations = manifest.get("operations", ())
    if indicators is not None:
        released = ReleasedIndicators.from_json(indicators)
        rows, lines = beside.report_of(params, released, before, bootstrap(before))
        report = {**_lined(*lines), "indicators": rows}
    elif after is not None:
        report = _log_report(side, after, has_times(operations))
        if not has_starts(operations):
            report |= dict.fromkeys(_OF_STARTS & report.keys())
    elif tree is not None:
        report = _tree_report(side, tree["tree"])
    else:
        report = _graph_report(side, graph, noise_half_width(manifest))
    if population is not None:
        dropped = _OF_DRAWN | (_OF_SIZE if population == _BY_SHARES else set())
        report |= dict.fromkeys(dropped & report.keys())
    if population == _BY_SHARES and (distance := report.get("edge_total_variation")) is not None:
        report["edge_relative_error"] = 2 * distance
    sizes = _sizes(side)
    if indicators is not None:
        del sizes["variants"]
    return {
        "publishable": False,
        "warning": "computed on the unprotected log: for the operator, not for publication",
        "release": release.folder.path,
        "manifest_sha256": release.folder.manifest_sha256,
        "method": manifest["method"],
        "origin": origin,
        "verdict": verdict_of(report),
        "population_note": population,
        "original": sizes,
        **report,
    }


def graph_of(release: Received) -> dict[str, Any]:
    """Returns the released directly-follows graph of a release without a log, as JSON values.

    Raises:
        UsageError: It has none.
        InputSchemaError: It cannot be read.
    """

    def read(body: Any) -> None:
        names = body.get("activities", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError
        if body["edges"]:
            ReleasedGraph.from_edges(body["edges"])

    graph = release.values_of(DFG_NAME, read)
    if graph is None:
        raise UsageError(
            f"the release in {release.folder.path!r} holds neither a log nor {DFG_NAME}"
        )
    return graph


def _as_counted(source: EventSource, manifest: Mapping[str, Any]) -> tuple[TraceBatch, str | None]:
    """The cases of the original that a release counts, as far as its columns tell.

    Of each individual that has more than the release counts, so many are drawn, as the release drew
    them; which ones those were is not known. Returns what there is to say of it, too, if anything.
    """
    most = manifest.get("params", {}).get("max_cases_per_individual")
    if most is None:
        return source.log(), None
    if source.mapping.individual_id is None:
        return source.log(), _BY_SHARES
    mapping = replace(source.mapping, needs_individual=True)
    traces = replace(source, mapping=mapping).log(by_individual=True)
    units = Randomness(ReleaseKey(bytes(32)), "evaluation", "", "").unit_stream
    bounded = ContributionBounds(max_cases_per_individual=most).bound(traces, units)
    return replace(bounded, individuals=None), (
        f"At most {most:,} of the cases of each individual count, as in the release: "
        f"{bounded.n_cases:,} of the original's {traces.n_cases:,} cases are compared"
    )


def _lined(released: Figures, bootstrap: Figures, log: Figures) -> dict[str, Any]:
    """The measures, and beside them those of a bootstrap and of the log itself."""
    return {
        **released,
        "bootstrap": {name: bootstrap[name] for name in released if name in bootstrap},
        "of_the_log": {name: log[name] for name in released if name in log},
        "legend": legend(released),
    }


def _log_report(original: Side, after: TraceBatch, is_timed: bool) -> dict[str, Any]:
    released = Side.of(after.recode(original.vocabulary))
    names = names_of_log(is_timed)
    judged = {
        "the release": (released, names),
        "a bootstrap of the log": (Side.of(bootstrap(original.cases)), names),
        "the log itself": (original, names[1:]),  # at no distance by variants
    }
    figures = []
    for number, (name, (side, wanted)) in enumerate(judged.items()):
        progress = {"stage": "measures", "done": number, "total": len(judged)}
        _LOG.info("measures of %s", name, extra=progress)
        figures.append(measured(original, side, wanted))
    release_figures, bootstrap_figures, log_figures = figures
    is_computed = release_figures["variant_emd"] is not None
    return {
        "released": _sizes(released),
        **_lined(release_figures, bootstrap_figures, {"variant_emd": 0.0, **log_figures}),
        "variant_emd_note": (
            None if is_computed else f"not computed: more than {MAX_EMD_CELLS:,} pairs of variants"
        ),
    }


def _graph_report(
    original: Side, graph: dict[str, Any], half_width: float | None
) -> dict[str, Any]:
    """Compares the original's graph with a released one, whose names may be others."""
    edges, names = graph["edges"], graph.get("activities", ())
    public = None
    if names:  # all others are OTHER, or left out
        traces = original.cases.recode_public(ActivityVocabulary.of(names))
        public = Side.of(traces.recode(original.vocabulary)).edges
    released_figures = graph_figures(original, ReleasedGraph.from_edges(edges), half_width, public)
    if not edges or not all("low" in edge and "high" in edge for edge in edges):
        released_figures = {n: x for n, x in released_figures.items() if n not in _OF_INTERVALS}
    drawn = Side.of(bootstrap(original.cases))
    lines = [edge_figures(original.edges, side.edges) for side in (drawn, original)]
    return _lined(released_figures, *lines)


def _tree_report(original: Side, text: str) -> dict[str, Any]:
    """Judges a released tree by the log: by pm4py where that is installed and ends in time."""
    tree, vocabulary = parse_tree(text), original.vocabulary
    variants = original.variants
    if not variants.n_variants:
        raise UsageError("the original has no case, so a tree cannot be judged by it")
    tree_figures: Figures = {"tree_share": share_that_fits(tree, variants, vocabulary)}
    note = None
    try:
        require_pm4py()
        judge_of_tree = PatientMiner(variants, vocabulary, _TREE_SECONDS)
        with contextlib.closing(judge_of_tree):
            quality = judge_of_tree.mined(tree)
        tree_figures |= {f"tree_{name}": getattr(quality, name) for name in TREE_MEASURES}
    except (UsageError, TimeoutError, RuntimeError) as error:
        note = f"tree_share alone was computed: {error}"
    return {**_lined(checked(tree_figures), {}, {}), "tree_note": note}


_BOUNDS = {"good": 1 / 10, "rough": 1 / 3}
_GRADES = {"good": "Good for", "rough": "Rough for", "no": "Not for"}


def verdict_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the verdict on a release as JSON values.

    Args:
        report: Its measures by their names, those of a `bootstrap` and those `of_the_log`.

    Returns:
        `sentence`; `bounds`, the largest errors of `good` and `rough`; and `uses`, one for each
        measure that was computed: `use`, `measure`, `error` and `grade`.
    """
    uses: list[dict[str, Any]] = []
    for name, measure in MEASURES.items():
        if measure.use is None:
            continue
        error = _error(name, report, report)
        if error is None:
            continue
        drawn = _error(name, report.get("bootstrap", {}), report) or 0.0
        fitting = (grade for grade, most in _BOUNDS.items() if error <= max(most, drawn))
        grade = next(fitting, "no")
        uses.append({"use": measure.use, "measure": name, "error": round(error, 4), "grade": grade})
    parts = []
    for grade, words in _GRADES.items():
        named = [f"{u['use']} ({percent(u['error'])} off)" for u in uses if u["grade"] == grade]
        if named:
            parts.append(f"{words} {', '.join(named)}.")
    sentence = " ".join(parts) or "No measure says what this release is good for."
    return {"sentence": sentence, "bounds": _BOUNDS, "uses": uses}


def _error(name: str, line: Mapping[str, Any], report: Mapping[str, Any]) -> float | None:
    """How far off a line is; what is the better the more it is, as a share of what the log gets."""
    value: float | None = line.get(name)
    if value is None or MEASURES[name].better == "less":
        return value
    log_value = report.get("of_the_log", {}).get(name) or 1.0
    return max(1 - value / log_value, 0.0)


# --- `tracecloak.evaluate`: how far a release is from a log in memory. For the operator only. ----


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How far a release is from its log; computed on the unprotected log, and not private.

    Attributes:
        figures: JSON values, see `evaluation_of`.
    """

    figures: dict[str, Any]

    def __repr__(self) -> str:
        """Returns what is most to the point, as a screen or a notebook shows it."""
        return "\n".join(summary_lines(self.figures))


def evaluate(
    frame: IntoFrame, released: Released[Any] | str | os.PathLike[str], **keys: Any
) -> Evaluation:
    """Compares a release with the log that it was made of.

    Args:
        frame: The log; see `tracecloak.release`.
        released: What `tracecloak.release` returned, whose keys hold here as well; or the folder of
            a release, or of releases whose latest is meant.
        **keys: Keys that say how the log is read, and `key_store` and `ledger`, which can tell that
            the release is of another log.

    Raises:
        UsageError: It is of another log, or the extra measures is not installed, which a release
            with a log needs.
        InputSchemaError: The frame lacks a column, or there is no release, or not as it was made.
    """
    with redact_foreign_errors():
        if isinstance(released, Released):
            given, folder = {**released.keys, **keys}, str(released.folder)
        else:
            given, folder = dict(keys), os.fspath(released)
        store, ledger = given.pop("key_store", None), given.pop("ledger", None)
        source = frame_source(frame, given)
        noted_share = share_noted_in(store_at(store), ledger)
        return Evaluation(evaluation_of(source, Received.at(folder), noted_share))


# --- The report of an evaluation for people: a summary on the screen, and a page. -----------------


_HERE = "tracecloak.examination.evaluation"
_NOTHING = "-"
_HEADER = ("measure", "verdict", "release", "bootstrap", "log itself", "better")
_SHORT = {"less": "less", "more": "more", "log": "as the log", "none": ""}


def summary_lines(report: dict[str, Any]) -> list[str]:
    """Returns the most important measures as a table for a screen, and what its columns are."""
    names = (name for name, one in MEASURES.items() if one.is_summarized)
    rows = [_HEADER, *(row_of(report, name) for name in names if report.get(name) is not None)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = [f"{{:{side}{width}}}" for side, width in zip("<<>>><", widths, strict=True)]
    lines = ["  ".join(forms).format(*row).rstrip() for row in rows]
    given = {"rows": lines, "notes": notes_of(report), "percent": percent}
    return from_template(_HERE, "summary.txt.j2", report=report, **given)


def notes_of(report: dict[str, Any]) -> Iterator[str]:
    """Which cases are compared; what was not computed, and why; and what is furthest off."""
    emd = f"{MEASURES['variant_emd'].title} was "
    for name, of in {"population_note": "", "variant_emd_note": emd, "tree_note": ""}.items():
        if note := report.get(name):
            yield f"{of}{note}."
    yield from furthest_line(report.get("indicators", ()))


def markdown_lines(report: dict[str, Any]) -> list[str]:
    """Returns a page with all measures and what they are, line by line."""
    names = [name for name in report["legend"] if report.get(name) is not None]
    return from_template(
        _HERE,
        "report.md.j2",
        report=report,
        internal=INTERNAL,
        header=_HEADER,
        percent=percent,
        rows=[row_of(report, name) for name in names],
        notes=notes_of(report),
        figures=figure_rows(report.get("indicators", ())),
        legend=[MEASURES[name] for name in names],
    )


def row_of(report: dict[str, Any], name: str) -> tuple[str, ...]:
    """Returns the cells of a measure: its title, verdict, three numbers, and what is better."""
    measure = MEASURES[name]
    grades = {use["measure"]: use["grade"] for use in report["verdict"]["uses"]}
    lines = (report, report.get("bootstrap", {}), report.get("of_the_log", {}))
    values = (_number(line.get(measure.name)) for line in lines)
    return (measure.title, grades.get(name, ""), *values, _SHORT[measure.better])


def _number(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:.3f}" if abs(value) < 10 and value != int(value) else f"{value:,.4g}"
