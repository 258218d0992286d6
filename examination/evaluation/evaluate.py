"""One release next to its log: whether they belong together, and its measures; files or frames."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from narwhals.typing import IntoFrame

from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.examination.evaluation.origin import NotedShare, check_origin, share_noted_in
from tracecloak.examination.evaluation.report import summary_lines
from tracecloak.examination.measure import behaviour_measures, measures, utility
from tracecloak.examination.measure.intervals import (
    bootstrap,
    edge_figures,
    interval_figures,
    noise_half_width,
)
from tracecloak.examination.measure.mining import MEASURES as TREE_MEASURES
from tracecloak.examination.measure.mining import (
    PatientMiner,
    require_pm4py,
    share_that_fits,
)
from tracecloak.examination.measure.registry import MEASURES, Figures, checked, legend
from tracecloak.examination.measure.utility import (
    CaseTimes,
    next_activity_accuracy,
    service_errors,
    variants_of_fifth,
)
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.frames.functions import Released, frame_source, reword_for_frames
from tracecloak.pipelines.planning.utility import percent
from tracecloak.pipelines.release.run import redact_foreign_errors
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import parse_tree
from tracecloak.schemas.published.figures import ReleasedIndicators
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.manifest import has_starts, has_times
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.publish.release_folder import DFG_NAME
from tracecloak.transforms.sources import EventSource

# --- `tracecloak evaluate`: how far a release is from the original log. For the operator only. ----
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

_MAX_EMD_CELLS = 6_000_000
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
# Where all cases begin at one public time, nothing of that is released.
_OF_STARTS = {"drift", "hour_of_week_total_variation"}
# Names of START and END in a released graph.
_ENDS = frozenset(ActivityVocabulary.of([]).labels)


@dataclass(frozen=True)
class _Log:
    traces: TraceBatch

    @classmethod
    def of(cls, traces: TraceBatch, vocabulary: ActivityVocabulary) -> _Log:
        return cls(traces.recode(vocabulary))

    @cached_property
    def variants(self) -> VariantHistogram:
        return VariantHistogram.from_traces(self.traces)

    @property
    def edges(self) -> measures.EdgeWeights:
        """Frequencies of the directly-follows pairs between activities."""
        return behaviour_measures.edges_of(self.traces)

    @property
    def all_edges(self) -> measures.EdgeWeights:
        """The same with START and END."""
        return measures.EdgeWeights.of(DirectlyFollows.from_traces(self.traces))

    def sizes(self) -> dict[str, int]:
        return {
            "cases": self.traces.n_cases,
            "events": self.traces.n_events,
            "variants": self.variants.n_variants,
        }


@dataclass(frozen=True)
class _Judge:
    """The measures of logs by one original, in whose vocabulary all are."""

    own: _Log

    @cached_property
    def _times(self) -> CaseTimes:
        return CaseTimes(self.own.traces)

    @cached_property
    def _tested(self) -> VariantHistogram:
        return variants_of_fifth(self.own.traces)

    def figures(self, log: _Log, is_timed: bool) -> Figures:
        """The measures of a log by their names, but for the distance of variants."""
        a, b, n = self.own, log, len(self.own.traces.vocabulary)
        both = a.variants, b.variants
        counts = utility.aligned_variants(*both)[:2]
        n_cases = a.traces.n_cases
        row: Figures = {
            "variants_lost": _missing(a.variants, b.variants),
            "variants_invented": _missing(b.variants, a.variants),
            "jaccard_distance": measures.jaccard_distance(*both),
            "prefix_jaccard_distance": measures.prefix_jaccard_distance(*both),
            "edge_frequency_emd": measures.edge_frequency_emd(a.edges, b.edges),
            "edge_mean_absolute_error": measures.edge_mean_absolute_error(a.edges, b.edges),
            "variant_total_variation": utility.total_variation(*counts),
            "true_variant_mass": utility.true_variant_mass(*both),
            "relative_size": b.traces.n_cases / n_cases if n_cases else None,
            "trace_length_distance": utility.length_distance(a.traces, b.traces),
            "activity_mix_total_variation": utility.activity_mix_distance(a.traces, b.traces),
            "next_activity_accuracy": next_activity_accuracy(b.variants, self._tested, n),
            **edge_figures(a.all_edges, b.all_edges),
        }
        if is_timed:
            row |= {
                "edge_time_emd_months": measures.edge_time_emd(
                    *map(behaviour_measures.hours_of_edges, (a.traces, b.traces))
                ),
                "total_duration_error": behaviour_measures.total_duration_error(a.traces, b.traces),
                "case_duration_distance_days": utility.case_duration_distance_days(
                    a.traces, b.traces
                ),
                "hour_of_week_total_variation": utility.hour_of_week_distance(a.traces, b.traces),
                **self._times.figures(b.traces),
                **service_errors(a.traces, b.traces),
            }
        return checked(row)

    def emd(self, log: _Log) -> float | None:
        """The distance of variants; None: there are too many."""
        return measures.variant_emd(self.own.variants, log.variants, _MAX_EMD_CELLS)


def require_extras(release: Received) -> None:
    """Checks that the libraries are installed that the evaluation of a release needs.

    Raises:
        UsageError: It has a log and the extra measures is not installed.
    """
    if Contents(release).logs:
        measures.require_pot()


def evaluation_of(
    original: EventSource,
    release: Received,
    noted_share: NotedShare | None = None,
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
    if indicators is not None:
        released = ReleasedIndicators.from_json(indicators)
        return _indicator_report(original, release, released, noted_share)
    require_extras(release)
    contents = Contents(release)
    tree = None if contents.logs else release.values_of("tree.json", ReleasedTree.from_json)
    graph = {} if contents.logs or tree is not None else graph_of(release)
    _LOG.info("reading the original log")
    before, population = _as_counted(original, manifest)
    _LOG.info("reading the release")
    after = contents.whole()
    if after is not None:
        names = {*after.vocabulary.names.to_pylist()}
    elif tree is not None:
        names = {*tree["activities"]}
    else:
        ends = {edge[end] for edge in graph["edges"] for end in ("source", "target")} - _ENDS
        names = ends | {*graph.get("activities", ())}
    origin = check_origin(release.folder.path, manifest, before, names, noted_share)
    vocabulary = ActivityVocabulary.merge([before.vocabulary, ActivityVocabulary.of(names)])
    judge = _Judge(_Log.of(before, vocabulary))
    if after is not None:
        operations = manifest.get("operations", ())
        report = _log_report(judge, after, has_times(operations))
        if not has_starts(operations):
            report |= dict.fromkeys(_OF_STARTS & report.keys())
    elif tree is not None:
        report = _tree_report(judge, tree["tree"])
    else:
        report = _graph_report(judge, graph, noise_half_width(manifest))
    report = {"original": judge.own.sizes(), **report}
    return _judged(_heading(release, origin), report, population)


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
            ReleasedGraph.of_edges(body["edges"])

    graph = release.values_of(DFG_NAME, read)
    if graph is None:
        raise UsageError(
            f"the release in {release.folder.path!r} holds neither a log nor {DFG_NAME}"
        )
    return graph


def _judged(
    heading: dict[str, Any], report: dict[str, Any], population: str | None
) -> dict[str, Any]:
    """The whole report, with a verdict on what can be said of the cases that are compared."""
    if population is not None:
        dropped = _OF_DRAWN | (_OF_SIZE if population == _BY_SHARES else set())
        report |= dict.fromkeys(dropped & report.keys())
    if population == _BY_SHARES and (distance := report.get("edge_total_variation")) is not None:
        report["edge_relative_error"] = 2 * distance
    return {**heading, "verdict": verdict_of(report), "population_note": population, **report}


def _as_counted(source: EventSource, manifest: Mapping[str, Any]) -> tuple[TraceBatch, str | None]:
    """The cases of the original that a release counts, as far as its columns tell.

    Of each individual that has more than the release counts, so many are drawn, as the release drew
    them; which ones those were is not known. Returns what there is to say of it, too, if anything.
    """
    most = manifest.get("params", {}).get("max_cases_per_individual")
    if most is None:
        return _traces(source), None
    if source.mapping.individual_id is None:
        return _traces(source), _BY_SHARES
    mapping = replace(source.mapping, needs_individual=True)
    traces = _traces(replace(source, mapping=mapping), by_individual=True)
    units = Randomness(ReleaseKey(bytes(32)), "evaluation", "", "").of_units
    bounded = ContributionBounds(max_cases_per_individual=most).bound(traces, units)
    return replace(bounded, individuals=None), (
        f"At most {most:,} of the cases of each individual count, as in the release: "
        f"{bounded.n_cases:,} of the original's {traces.n_cases:,} cases are compared"
    )


def _heading(release: Received, origin: str) -> dict[str, Any]:
    return {
        "publishable": False,
        "warning": "computed on the unprotected log: for the operator, not for publication",
        "release": release.folder.path,
        "manifest_sha256": release.folder.manifest_sha256,
        "method": release.body["method"],
        "origin": origin,
    }


def _lined(of_release: Figures, of_bootstrap: Figures, of_log: Figures) -> dict[str, Any]:
    """The measures, and beside them those of a bootstrap and of the log itself."""
    return {
        **of_release,
        "bootstrap": {name: of_bootstrap[name] for name in of_release if name in of_bootstrap},
        "of_the_log": {name: of_log[name] for name in of_release if name in of_log},
        "legend": legend(of_release),
    }


def _log_report(judge: _Judge, after: TraceBatch, is_timed: bool) -> dict[str, Any]:
    original = judge.own
    log = _Log.of(after, original.traces.vocabulary)
    drawn = _Log(bootstrap(original.traces))
    emds = [judge.emd(one) for one in (log, drawn)]
    figures = []
    judged = {"the release": log, "a bootstrap of the log": drawn, "the log itself": original}
    for number, (name, one) in enumerate(judged.items()):
        progress = {"stage": "measures", "done": number, "total": len(judged)}
        _LOG.info("measures of %s", name, extra=progress)
        figures.append(judge.figures(one, is_timed))
    of_all = [
        checked({"variant_emd": emd, **one}) for emd, one in zip([*emds, 0.0], figures, strict=True)
    ]
    return {
        "released": log.sizes(),
        **_lined(*of_all),
        "variant_emd_note": (
            None
            if emds[0] is not None
            else f"not computed: more than {_MAX_EMD_CELLS:,} pairs of variants"
        ),
    }


def _graph_report(judge: _Judge, graph: dict[str, Any], half_width: float | None) -> dict[str, Any]:
    """Compares the original's graph with a released one, whose names may be others."""
    original, released = judge.own, graph["edges"]
    code = {label: number for number, label in enumerate(original.traces.vocabulary.labels)}
    edges = measures.EdgeWeights(
        np.array([code[e["source"]] for e in released], np.int32),
        np.array([code[e["target"]] for e in released], np.int32),
        np.array([e["count"] for e in released], np.int64),
    )
    true_edges = original.all_edges
    of_release = edge_figures(true_edges, edges)
    if released and all("low" in e and "high" in e for e in released):
        lows, highs = (np.array([e[end] for e in released], np.int64) for end in ("low", "high"))
        truth = _in_names_of(original.traces, graph.get("activities", ())).all_edges
        of_release |= interval_figures(truth, edges, lows, highs, half_width)
    lines = [edge_figures(true_edges, _Log(bootstrap(original.traces)).all_edges),
             edge_figures(true_edges, true_edges)]  # fmt: skip
    return _lined(of_release, *lines)


def _indicator_report(
    original: EventSource,
    release: Received,
    released: ReleasedIndicators,
    noted_share: NotedShare | None,
) -> dict[str, Any]:
    """Compares released indicators with those of the original, which are read off as they are."""
    from tracecloak.examination.evaluation import indicators as beside

    params = beside.params_of(release.body)
    attributes = tuple((one.name, one.column) for one in params.declared_attributes)
    _LOG.info("reading the original log")
    mapping = replace(original.mapping, attributes=attributes)
    before, population = _as_counted(replace(original, mapping=mapping), release.body)
    names = beside.names_in(params)
    origin = check_origin(release.folder.path, release.body, before, names, noted_share)
    _LOG.info("measuring")
    rows, lines = beside.report_of(params, released, before, bootstrap(before))
    report = {
        "original": {"cases": before.n_cases, "events": before.n_events},
        **_lined(*lines),
        "indicators": [row.to_json() for row in rows],
    }
    return _judged(_heading(release, origin), report, population)


def _in_names_of(traces: TraceBatch, activities: Sequence[str]) -> _Log:
    """The log as a graph over some activities counts it: all others are OTHER, or left out."""
    if not activities:
        return _Log(traces)
    return _Log.of(traces.recode_public(ActivityVocabulary.of(activities)), traces.vocabulary)


def _tree_report(judge: _Judge, text: str) -> dict[str, Any]:
    """Judges a released tree by the log: by pm4py where that is installed and ends in time."""
    tree, vocabulary = parse_tree(text), judge.own.traces.vocabulary
    variants = judge.own.variants
    if not variants.n_variants:
        raise UsageError("the original has no case, so a tree cannot be judged by it")
    of_release: Figures = {"tree_share": share_that_fits(tree, variants, vocabulary)}
    note = None
    try:
        require_pm4py()
        judge_of_tree = PatientMiner(variants, vocabulary, _TREE_SECONDS)
        with contextlib.closing(judge_of_tree):
            quality = judge_of_tree.mined(tree)
        of_release |= {f"tree_{name}": getattr(quality, name) for name in TREE_MEASURES}
    except (UsageError, TimeoutError, RuntimeError) as error:
        note = f"tree_share alone was computed: {error}"
    return {**_lined(checked(of_release), {}, {}), "tree_note": note}


def _missing(variants: VariantHistogram, others: VariantHistogram) -> int:
    """How many of the variants are not among the others."""
    shared = pc.is_in(variants.sequences, value_set=others.sequences)
    return int(variants.n_variants - (pc.sum(shared).as_py() or 0))


def _traces(source: EventSource, by_individual: bool = False) -> TraceBatch:
    batches = group_into_traces(source.events(), 1, by_individual, source.drops_duplicates)
    return batches[0] if batches else TraceBatch.from_events([])


_USES = {
    "edge_relative_error": "how often one activity follows another",
    "activity_mix_total_variation": "how often activities occur",
    "variant_emd": "the course of cases",
    "variant_total_variation": "the variants and their shares",
    "next_activity_accuracy": "the prediction of the next activity",
    "case_duration_distance": "how long cases take",
    "misplaced_waiting_time": "where time passes",
    "service_time_error": "service times",
    "indicator_error": "the figures",
    "tree_fitness": "the model of the process",
}
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
    for name, use in _USES.items():
        error = _error(name, report, report)
        if error is None:
            continue
        drawn = _error(name, report.get("bootstrap", {}), report) or 0.0
        fitting = (grade for grade, most in _BOUNDS.items() if error <= max(most, drawn))
        grade = next(fitting, "no")
        uses.append({"use": use, "measure": name, "error": round(error, 4), "grade": grade})
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
    of_log = report.get("of_the_log", {}).get(name) or 1.0
    return max(1 - value / of_log, 0.0)


# --- `tracecloak.evaluate`: how far a release is from a log in memory. For the operator only. -----


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
    with reword_for_frames(), redact_foreign_errors():
        if isinstance(released, Released):
            given, folder = {**released.keys, **keys}, str(released.folder)
        else:
            given, folder = dict(keys), os.fspath(released)
        store, ledger = given.pop("key_store", None), given.pop("ledger", None)
        source = frame_source(frame, given)
        noted_share = share_noted_in(store_at(store), ledger)
        return Evaluation(evaluation_of(source, Received.at(folder), noted_share))
