"""`tracecloak evaluate`: how far a release is from the original log. For the operator only.

Its numbers are computed on the unprotected log and are not private: they are marked so and must not
be published beside the release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.pipelines.measure import behaviour_measures, measures, utility
from tracecloak.pipelines.measure.perspectives import (
    PERSPECTIVES,
    RESOURCE,
    has_resources,
    projected,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.files import match_files
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.publish.names import DFG_NAME
from tracecloak.transforms.publish.release_folder import LATEST_NAME
from tracecloak.transforms.sources import EventSource

_MAX_EMD_CELLS = 6_000_000


@dataclass(frozen=True)
class _Log:
    traces: TraceBatch
    variants: VariantHistogram

    @classmethod
    def of(cls, traces: TraceBatch, vocabulary: ActivityVocabulary) -> _Log:
        recoded = traces.recode(vocabulary)
        return cls(recoded, VariantHistogram.from_traces(recoded))

    @property
    def distribution(self) -> measures.VariantDistribution:
        v = self.variants
        return measures.VariantDistribution(v.offsets, v.codes, v.counts)

    @property
    def edges(self) -> measures.EdgeWeights:
        """Frequencies of the directly-follows pairs between activities."""
        graph = DirectlyFollows.from_traces(self.traces).inner(self.traces.vocabulary)
        return measures.EdgeWeights(graph.sources, graph.targets, graph.counts)

    @property
    def all_edges(self) -> measures.EdgeWeights:
        """The same with START and END."""
        graph = DirectlyFollows.from_traces(self.traces)
        return measures.EdgeWeights(graph.sources, graph.targets, graph.counts)

    @property
    def edge_hours(self) -> measures.EdgeWeights:
        """Total hours of the directly-follows pairs."""
        later = np.flatnonzero(~self.traces.is_first)
        codes = self.traces.activities
        return measures.edge_hours(codes[later - 1], codes[later], self.traces.durations[later])

    def sizes(self) -> dict[str, int]:
        return {
            "cases": self.traces.n_cases,
            "events": self.traces.n_events,
            "variants": self.variants.n_variants,
        }


def evaluate(original: EventSource, released: str) -> dict[str, Any]:
    """Compares a release with the log that it was made of.

    Args:
        original: The original log.
        released: A release's folder, or the folder of releases whose latest is meant.

    Returns:
        JSON values: sizes of both logs and the distances between them (pipelines.measure.measures,
        pipelines.measure.utility and, of each perspective, pipelines.measure.behaviour_measures; of
        resources if their column is mapped and they are released). Of a release without a log,
        those of its graph.

    Raises:
        UsageError: There is no release, or the extra measures is not installed, which a release
            with a log needs.
        InputSchemaError: A log cannot be read.
    """
    folder = release_folder(released)
    manifest = read_manifest(folder)
    source = released_source(folder, manifest)
    if source is not None:
        measures.require_pot()  # before a large log is read
    before = _traces(_with_resource(original))
    if source is None:
        return {**_heading(folder), **_graph_report(before, released_edges(folder, manifest))}
    after = _traces(_with_released_resource(source, before))
    vocabulary = ActivityVocabulary.merge([before.vocabulary, after.vocabulary])
    a, b = _Log.of(before, vocabulary), _Log.of(after, vocabulary)
    variants_a, variants_b = a.distribution, b.distribution
    is_timed = has_times(manifest)
    emd = measures.variant_emd(variants_a, variants_b, _MAX_EMD_CELLS)
    counts_a, counts_b, _ = utility.aligned_variants(a.variants, b.variants)
    return {
        **_heading(folder),
        "original": a.sizes(),
        "released": b.sizes(),
        "variants_lost": _missing(a.variants, b.variants),
        "variants_invented": _missing(b.variants, a.variants),
        "jaccard_distance": measures.jaccard_distance(variants_a, variants_b),
        "prefix_jaccard_distance": measures.prefix_jaccard_distance(variants_a, variants_b),
        "edge_frequency_emd": measures.edge_frequency_emd(a.edges, b.edges),
        "edge_time_emd_months": measures.edge_time_emd(a.edge_hours, b.edge_hours),
        "edge_mean_absolute_error": measures.edge_mean_absolute_error(a.edges, b.edges),
        "variant_emd": emd,
        "variant_emd_note": (
            None
            if emd is not None
            else f"not computed: more than {_MAX_EMD_CELLS:,} pairs of variants"
        ),
        "variant_total_variation": utility.total_variation(counts_a, counts_b),
        "true_variant_mass": utility.true_variant_mass(a.variants, b.variants),
        "relative_size": after.n_cases / before.n_cases if before.n_cases else None,
        "trace_length_distance": utility.length_distance(a.traces, b.traces),
        "activity_mix_total_variation": utility.activity_mix_distance(a.traces, b.traces),
        **_edge_report(a.all_edges, b.all_edges),
        **(_time_report(a.traces, b.traces) if is_timed else {}),
        "perspectives": _perspectives(before, after, is_timed, emd),
    }


def _heading(folder: str) -> dict[str, Any]:
    return {
        "publishable": False,
        "warning": "computed on the unprotected log: for the operator, not for publication",
        "release": folder,
    }


def _edge_report(a: measures.EdgeWeights, b: measures.EdgeWeights) -> dict[str, Any]:
    """The directly-follows graphs, START and END included."""
    weights = utility.aligned_edges(a, b)
    precision, recall = utility.precision_and_recall(*weights)
    return {
        "edge_total_variation": utility.total_variation(*weights),
        "edge_relative_error": utility.relative_error(*weights),
        "edge_relative_error_by_share": utility.relative_error_by_band(*weights),
        "edge_precision": precision,
        "edge_recall": recall,
    }


def _time_report(a: TraceBatch, b: TraceBatch) -> dict[str, Any]:
    return {
        "total_duration_error": behaviour_measures.total_duration_error(a, b),
        "case_duration_distance_days": utility.case_duration_distance_days(a, b),
        "hour_of_week_total_variation": utility.hour_of_week_distance(a, b),
    }


def _perspectives(
    before: TraceBatch, after: TraceBatch, is_timed: bool, emd: float | None
) -> dict[str, Any]:
    """The measures of the papers on TLKC and PRETSA, of activities, resources and both together.

    Args:
        before: The original.
        after: The released log.
        is_timed: Whether its stamps are times.
        emd: The earth mover's distance of the variants of activities.
    """
    has_both = has_resources(before) and has_resources(after)
    report: dict[str, Any] = {}
    for perspective in PERSPECTIVES if has_both else PERSPECTIVES[:1]:
        a, b = projected([before, after], perspective)
        if perspective == "activity":
            kept = None if emd is None else 1.0 - emd
        else:
            kept = behaviour_measures.data_utility(a, b, _MAX_EMD_CELLS)
        graphs = behaviour_measures.edges_of(a), behaviour_measures.edges_of(b)
        nodes = np.unique(a.activities)
        sampled = behaviour_measures.truly_sampled(a, b)
        report[perspective] = {
            "data_utility": kept,
            "graph": asdict(behaviour_measures.graph_similarity(*graphs, nodes)),
            "behavioural_appropriateness": behaviour_measures.behavioural_appropriateness(a, b),
            "truly_sampled": None if sampled is None else asdict(sampled),
            **({"bottlenecks": asdict(behaviour_measures.bottlenecks(a, b))} if is_timed else {}),
        }
    return report


def has_times(manifest: dict[str, Any]) -> bool:
    """Returns whether released stamps are times: a method that drops them writes positions."""
    return not any(
        operation["type"] == "suppression" and operation["target"] == "time:timestamp"
        for operation in manifest.get("operations", ())
    )


def _graph_report(before: TraceBatch, released: list[dict[str, Any]]) -> dict[str, Any]:
    """Compares the original's graph with released edges, whose names may be others."""
    names = {e[end] for e in released for end in ("source", "target")} - {"▶", "■"}
    vocabulary = ActivityVocabulary.merge([before.vocabulary, ActivityVocabulary.of(names)])
    log = _Log.of(before, vocabulary)
    code = {label: number for number, label in enumerate(vocabulary.labels)}
    edges = measures.EdgeWeights(
        np.array([code[e["source"]] for e in released], np.int32),
        np.array([code[e["target"]] for e in released], np.int32),
        np.array([e["count"] for e in released], np.int64),
    )
    return {"original": log.sizes(), **_edge_report(log.all_edges, edges)}


def _missing(variants: VariantHistogram, others: VariantHistogram) -> int:
    """How many of the variants are not among the others."""
    found = pc.is_in(variants.sequences, value_set=others.sequences)
    return int(variants.n_variants - (pc.sum(found).as_py() or 0))


def release_folder(path: str) -> str:
    """Returns the folder of the release that a path means: itself, or its latest.

    Raises:
        UsageError: There is no manifest and no pointer to one.
    """
    if FileSystems.exists(FileSystems.join(path, MANIFEST_NAME)):
        return path
    latest = FileSystems.join(path, LATEST_NAME)
    if not FileSystems.exists(latest):
        raise UsageError(f"released {path!r} holds neither {MANIFEST_NAME} nor {LATEST_NAME}")
    with FileSystems.open(latest) as stream:
        return FileSystems.join(path, json.loads(stream.read())["path"])


def read_manifest(folder: str) -> dict[str, Any]:
    """Returns the manifest of a release's folder."""
    with FileSystems.open(FileSystems.join(folder, MANIFEST_NAME)) as stream:
        return cast(dict[str, Any], json.loads(stream.read()))


def released_edges(folder: str, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the edges of the released directly-follows graph: source, target, count.

    Raises:
        UsageError: The release has none.
    """
    if DFG_NAME not in [output["path"] for output in manifest["outputs"]]:
        raise UsageError(f"the release in {folder!r} holds neither a log nor {DFG_NAME}")
    with FileSystems.open(FileSystems.join(folder, DFG_NAME)) as stream:
        return cast(list[dict[str, Any]], json.loads(stream.read())["edges"])


def released_source(folder: str, manifest: dict[str, Any]) -> EventSource | None:
    """Returns the released log, or None: there is none."""
    paths = [output["path"] for output in manifest["outputs"]]
    parts = [path for path in paths if path.startswith("log/")]
    logs = parts or [path for path in paths if path.startswith("log.")][:1]
    if not logs:
        return None
    files = match_files([FileSystems.join(folder, path) for path in logs])
    return EventSource(tuple(files), SourceFormat(), ColumnMapping())


def _with_resource(source: EventSource) -> EventSource:
    """The source with the resource as an attribute, if its column is mapped."""
    column = source.mapping.resource
    return source if column is None else _carrying(source, column)


def _with_released_resource(source: EventSource, original: TraceBatch) -> EventSource:
    """Likewise, if the original has one and the release may have."""
    found = [source.columns_of(file) for file in source.files]
    may_have = all(columns is None or RESOURCE in columns for columns in found)
    return _carrying(source, RESOURCE) if has_resources(original) and may_have else source


def _carrying(source: EventSource, column: str) -> EventSource:
    return replace(source, mapping=replace(source.mapping, attributes=((RESOURCE, column),)))


def _traces(source: EventSource) -> TraceBatch:
    batches = group_into_traces(_events(source))
    if not batches:
        return TraceBatch.from_events([])
    return batches[0]


def _events(source: EventSource) -> Iterator[pa.RecordBatch]:
    """The events of all files; malformed records are left out, as the release left them out."""
    for file in source.files:
        for events, _ in source.read(file):
            yield events
