"""Times of a log: each case against a count by hand, medians against sorted durations."""

import datetime
import statistics
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.schemas.statistics.log_times import BIN_EDGES_US, LogTimes, middles

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000


moments = st.integers(-2000 * DAY, 40_000 * DAY)
cases = st.lists(st.lists(st.tuples(st.sampled_from("ABC"), moments), min_size=1, max_size=5))


@given(cases)
def test_counts_are_those_of_a_loop(drawn: list[list[tuple[str, int]]]) -> None:
    log = {f"c{i}": sorted(events, key=lambda e: e[1]) for i, events in enumerate(drawn)}
    traces = trace_batch([(case, *event) for case, events in log.items() for event in events])
    times = LogTimes.from_traces(traces)
    labels = traces.vocabulary.names.to_pylist()
    waits: dict[tuple[str, str], list[int]] = defaultdict(list)
    for events in log.values():
        for (a, before), (b, after) in pairwise(events):
            waits[a, b].append(after - before)
    found = {(labels[a], labels[b]): s for (a, b), s in times.medians_s().items()}
    assert found.keys() == waits.keys()
    for pair, lasted in waits.items():
        median_s = statistics.median_low(lasted) / SECOND
        assert found[pair] == pytest.approx(median_s, rel=0.05, abs=1)
    epoch = datetime.datetime(1970, 1, 1)
    stamps = [epoch + datetime.timedelta(microseconds=t) for es in log.values() for _, t in es]
    hours = Counter(24 * stamp.weekday() + stamp.hour for stamp in stamps)
    assert dict(zip(times.hours.tolist(), times.hour_counts.tolist(), strict=True)) == hours
    days = Counter(events[0][1] // DAY for events in log.values())
    assert dict(zip(times.days.tolist(), times.day_counts.tolist(), strict=True)) == days
    assert times.span_counts.sum() == len(log)


def test_bins_have_one_ratio_and_their_middles_lie_in_them() -> None:
    ratios = BIN_EDGES_US[1:] / BIN_EDGES_US[:-1]
    assert np.allclose(ratios, 2 ** (1 / 8), rtol=1e-6)
    for duration_bin in (1, 7, len(BIN_EDGES_US) - 1):
        [middle] = middles(np.array([duration_bin]), SECOND)
        assert BIN_EDGES_US[duration_bin - 1] <= middle * SECOND < BIN_EDGES_US[duration_bin]
