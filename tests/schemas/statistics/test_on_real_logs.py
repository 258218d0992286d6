"""Public research logs: pm4py as an independent count."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from typing import Any

import pytest

from tests.support.logs import read_pairs, read_variants
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

pytestmark = pytest.mark.logs


LOGS = ("sepsis", "unrineweginfectie", "coselog_receipt", "bpic2012")


@pytest.mark.parametrize("name", [at_night(n) if n == "bpic2012" else n for n in LOGS])
@pytest.mark.filterwarnings("default")  # pm4py's and its libraries' own
def test_pm4py_counts_the_same(name, logs_folder):
    pm4py = _quiet_pm4py()
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        frame = pm4py.read_xes(str(logs_folder / f"{name}.xes.gz"), variant="iterparse")
    source = EventSource(
        tuple(match_files([str(logs_folder / f"{name}.xes.gz")])), SourceFormat(), ColumnMapping()
    )
    traces = group_into_traces(source.events(), 4)
    found = VariantHistogram.merge([VariantHistogram.from_traces(batch) for batch in traces])
    pairs = DirectlyFollows.merge([DirectlyFollows.from_traces(batch) for batch in traces])
    words = traces[0].vocabulary
    variants = {variant: _size(cases) for variant, cases in pm4py.get_variants(frame).items()}
    assert read_variants(found, words.names.to_pylist()) == variants
    # Equal stamps are in document order on both sides, or the pairs would differ.
    theirs, starts, ends = pm4py.discover_dfg(frame)
    expected = Counter(theirs)
    expected.update({("▶", activity): n for activity, n in starts.items()})
    expected.update({(activity, "■"): n for activity, n in ends.items()})
    assert read_pairs(pairs, words) == expected


def _quiet_pm4py() -> Any:
    with contextlib.redirect_stdout(io.StringIO()):  # its banner
        import pm4py
    return pm4py


def _size(cases: Any) -> int:
    return cases if isinstance(cases, int) else len(cases)
