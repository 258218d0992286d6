"""Public research logs: known figures, and pm4py as an independent count."""

from __future__ import annotations

import contextlib
import functools
import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.logs import Variant, read_pairs, read_variants
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

pytestmark = pytest.mark.logs


@dataclass(frozen=True)
class RealLog:
    """A log, how it is read, and what is known of it.

    Attributes:
        figures: Cases, events, activities, variants, directly-follows pairs, shortest and longest
            trace.
        singletons: Variants of one case, where known.
    """

    file: str
    figures: tuple[int, int, int, int, int, int, int]
    singletons: int | None = None
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    format: SourceFormat = field(default_factory=SourceFormat)


SEPSIS_COLUMNS = ColumnMapping(
    case_id="Case ID",
    activity="Activity",
    timestamp="Complete Timestamp",
    resource="org:group",
    lifecycle="lifecycle:transition",
    time_zone="Europe/Amsterdam",  # where the hospital is, and what the XES file's offsets say
)

LOGS = {
    "Sepsis": RealLog("sepsis.xes.gz", (1050, 15_214, 16, 846, 115, 3, 185), 784),
    "Sepsis with attributes": RealLog(
        "sepsis_attributes.csv.gz",
        (1050, 15_214, 16, 846, 115, 3, 185),
        784,
        SEPSIS_COLUMNS,
        SourceFormat(delimiter=";"),
    ),
    "urinary infections": RealLog("unrineweginfectie.xes.gz", (1650, 6973, 10, 50, 15, 2, 35)),
    "CoSeLoG": RealLog("coselog_receipt.xes.gz", (1434, 8577, 27, 116, 99, 1, 25), 86),
    "BPIC 2012": RealLog("bpic2012.xes.gz", (13_087, 262_200, 24, 4366, 125, 3, 175)),
}
XES_LOGS = [name for name, log in LOGS.items() if log.file.endswith(".xes.gz")]


@dataclass(frozen=True)
class Counted:
    """What our own kernels make of a log."""

    traces: list[TraceBatch]
    vocabulary: ActivityVocabulary
    variants: VariantHistogram
    pairs: DirectlyFollows
    n_rejects: int

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([batch.lengths for batch in self.traces])

    def named_variants(self) -> dict[Variant, int]:
        return read_variants(self.variants, self.vocabulary.names.to_pylist())

    def named_pairs(self) -> dict[tuple[str, str], int]:
        return read_pairs(self.pairs, self.vocabulary)


@functools.lru_cache(maxsize=2)  # a log is read once for the tests that follow each other
def counted(folder: Path, name: str, n_shards: int = 4, *filters: RowFilter) -> Counted:
    log = LOGS[name]
    mapping = ColumnMapping(**{**vars(log.mapping), "filters": filters})
    source = EventSource(tuple(match_files([str(folder / log.file)])), log.format, mapping)
    read = list(source.read(source.files[0]))
    traces = group_into_traces([events for events, _ in read], n_shards)
    return Counted(
        traces,
        traces[0].vocabulary,
        VariantHistogram.merge([VariantHistogram.from_traces(batch) for batch in traces]),
        DirectlyFollows.merge([DirectlyFollows.from_traces(batch) for batch in traces]),
        sum(rejects.num_rows for _, rejects in read),
    )


def figures_of(log: Counted) -> tuple[int, ...]:
    return (
        sum(batch.n_cases for batch in log.traces),
        sum(batch.n_events for batch in log.traces),
        len(log.vocabulary),
        log.variants.n_variants,
        log.pairs.inner(log.vocabulary).weight,
        int(log.lengths.min()),
        int(log.lengths.max()),
    )


@pytest.mark.parametrize("name", LOGS)
def test_the_known_figures_are_found(name, logs_folder):
    log = counted(logs_folder, name)
    assert log.n_rejects == 0
    assert figures_of(log) == LOGS[name].figures
    if LOGS[name].singletons is not None:
        assert int((log.variants.counts == 1).sum()) == LOGS[name].singletons


def test_the_activities_of_the_applications_alone(logs_folder):
    log = counted(logs_folder, "BPIC 2012", 4, RowFilter("activity", begins_with="A_"))
    cases, events, activities, variants, *_ = figures_of(log)
    assert (cases, events, activities, variants) == (13_087, 60_849, 10, 17)


@pytest.mark.parametrize("name", [at_night(n) if n == "BPIC 2012" else n for n in XES_LOGS])
@pytest.mark.filterwarnings("default")  # pm4py's and its libraries' own
def test_pm4py_counts_the_same(name, logs_folder):
    pm4py = _quiet_pm4py()
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        frame = pm4py.read_xes(str(logs_folder / LOGS[name].file), variant="iterparse")
    log = counted(logs_folder, name)
    variants = {variant: _size(cases) for variant, cases in pm4py.get_variants(frame).items()}
    assert log.named_variants() == variants
    # Equal stamps are in document order on both sides, or the pairs would differ.
    pairs, starts, ends = pm4py.discover_dfg(frame)
    expected = Counter(pairs)
    expected.update({("▶", activity): n for activity, n in starts.items()})
    expected.update({(activity, "■"): n for activity, n in ends.items()})
    assert log.named_pairs() == expected


def _quiet_pm4py() -> Any:
    with contextlib.redirect_stdout(io.StringIO()):  # its banner
        import pm4py
    return pm4py


def _size(cases: Any) -> int:
    return cases if isinstance(cases, int) else len(cases)
