"""`tracecloak evaluate`: how far a released log is from the original. For the operator only.

Its numbers are computed on the unprotected log and are not private: they are marked so and must not
be published beside the release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from pipelines import measures
from pipelines.in_memory import group_into_traces
from schemas.columns import ColumnMapping
from schemas.directly_follows import DirectlyFollows
from schemas.errors import UsageError
from schemas.release import MANIFEST_NAME
from schemas.traces import TraceBatch
from schemas.variants import VariantHistogram
from schemas.vocabulary import ActivityVocabulary
from transforms.files import match_files
from transforms.formats.registry import SourceFormat
from transforms.read import EventSource
from transforms.release_folder import LATEST_NAME

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
        JSON values: sizes of both logs and the distances between them (pipelines.measures).

    Raises:
        UsageError: There is no release.
        InputSchemaError: A log cannot be read.
    """
    folder = release_folder(released)
    before = _traces(original)
    after = _traces(_released_source(folder))
    vocabulary = ActivityVocabulary.merge([before.vocabulary, after.vocabulary])
    a, b = _Log.of(before, vocabulary), _Log.of(after, vocabulary)
    variants_a, variants_b = a.distribution, b.distribution
    emd = measures.variant_emd(variants_a, variants_b, _MAX_EMD_CELLS)
    return {
        "publishable": False,
        "warning": "computed on the unprotected log: for the operator, not for publication",
        "release": folder,
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
    }


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


def _released_source(folder: str) -> EventSource:
    with FileSystems.open(FileSystems.join(folder, MANIFEST_NAME)) as stream:
        paths = [output["path"] for output in json.loads(stream.read())["outputs"]]
    parts = [path for path in paths if path.endswith(".parquet")]
    logs = parts or [path for path in paths if path.startswith("log.")][:1]
    if not logs:
        raise UsageError(f"the release in {folder!r} holds no log")
    files = match_files([FileSystems.join(folder, path) for path in logs])
    return EventSource(tuple(files), SourceFormat(), ColumnMapping())


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
