"""The public research logs as batches of cases, read once for the tests that follow each other."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

LOGS = (
    *("sepsis.xes.gz", "unrineweginfectie.xes.gz", "coselog_receipt.xes.gz"),
    *("bpic2013_closed.xes.gz", "bpic2013_incidents.xes.gz", "traffic_fines.parquet"),
    *("hospital_billing.parquet", "bpic2012.xes.gz", "purchasing_example.xes.gz"),
    *("academic_credentials.xes.gz", "renting_log_high.xes.gz", "bpic15_1.xes.gz"),
    *("bpic20_prepaid.xes.gz", "bpic13_open.xes.gz", "insurance_claims.csv.gz"),
)
# Logs that have each event twice, when it starts and when it is complete.
_WITH_STARTS = ("purchasing_example.xes.gz", "academic_credentials.xes.gz")


def source_of(
    folder: Path,
    file: str,
    attributes: tuple[tuple[str, str], ...] = (),
    filters: tuple[RowFilter, ...] = (),
) -> EventSource:
    """Returns where a log is and how it is read; those in CSV are of one kind."""
    if file.startswith("insurance"):
        form = SourceFormat()
        mapping = ColumnMapping(
            "case_id", "activity", "end_time", attributes=attributes, filters=filters
        )
    elif file.endswith(".csv.gz"):
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


def each_event_once(folder: Path, file: str) -> TraceBatch:
    """Returns a log over its own activities as a public vocabulary, each event once."""
    complete = RowFilter("lifecycle:transition", ("complete",))
    traces = real_log(folder, file, (), (complete,) if file in _WITH_STARTS else ())
    return traces.recode_public(ActivityVocabulary.public(traces.vocabulary.names.to_pylist()))


def sample_of(traces: TraceBatch, size: int) -> TraceBatch:
    """Returns so many cases of a log, the same each time."""
    order = np.random.default_rng(20_26).permutation(traces.n_cases)
    return traces.take(np.sort(order[:size]))


def sepsis(folder: Path) -> TraceBatch:
    """Returns the Sepsis log with age and diagnosis."""
    return real_log(
        folder, "sepsis_attributes.csv.gz", (("case:Age", "Age"), ("case:Diagnose", "Diagnose"))
    )
