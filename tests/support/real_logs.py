"""The public research logs as batches of cases, read once for the tests that follow each other."""

from __future__ import annotations

import functools
from pathlib import Path

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_filter import RowFilter
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource


def source_of(
    folder: Path,
    file: str,
    attributes: tuple[tuple[str, str], ...] = (),
    filters: tuple[RowFilter, ...] = (),
) -> EventSource:
    """Returns where a log is and how it is read; those in CSV are of one kind."""
    if file.endswith(".csv.gz"):
        form = SourceFormat(delimiter=";")
        mapping = ColumnMapping(
            "Case ID", "Activity", "Complete Timestamp", attributes=attributes, filters=filters
        )
    else:
        form, mapping = SourceFormat(), ColumnMapping(attributes=attributes, filters=filters)
    return EventSource(tuple(match_files([str(folder / file)])), form, mapping)


@functools.lru_cache(maxsize=4)
def real_log(
    folder: Path,
    file: str,
    attributes: tuple[tuple[str, str], ...] = (),
    filters: tuple[RowFilter, ...] = (),
) -> TraceBatch:
    """Reads a log with some of its attributes, as one batch."""
    source = source_of(folder, file, attributes, filters)
    [traces] = group_into_traces([events for events, _ in source.read(source.files[0])])
    return traces


def public_log(folder: Path, file: str) -> TraceBatch:
    """Reads a log and takes its activities for a public vocabulary."""
    traces = real_log(folder, file)
    return traces.recode_public(ActivityVocabulary.public(traces.vocabulary.names.to_pylist()))


def sepsis(folder: Path) -> TraceBatch:
    """Returns the Sepsis log with age and diagnosis."""
    return real_log(
        folder,
        "sepsis_attributes.csv.gz",
        (("case:Age", "Age"), ("case:Diagnose", "Diagnose")),
    )
