"""Clipped directly-follows sums against fractions of unlimited size, and the norms of cases."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import MINUTE, Log, cases_of, event_logs, histogram, trace_batch
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import (
    MAX_UNITS,
    ClippedCells,
    ClippedFlows,
    _floored_roots,
    _floored_roots_of_any_size,
    cells_of_flows,
)
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows

Cell = tuple[str, str, int]

NO_LIMIT = 10**30


def vectors_of(log: Log, edges: list[int]) -> dict[str, Counter[Cell]]:
    """Each case's occurrences of (source, target, bin), by a loop."""
    vectors = {}
    for case, steps in cases_of(log).items():
        cells = Counter([("▶", steps[0][0], 0), (steps[-1][0], "■", 0)])
        for (a, earlier), (b, later) in itertools.pairwise(steps):
            cells[a, b, bisect.bisect_right(edges, later - earlier)] += 1
        vectors[case] = cells
    return vectors


def clipped(vector: Counter[Cell], clip: int, units: int) -> Counter[Cell]:
    """The largest integers w with w <= units x and w^2 S <= clip^2 x^2, by fractions."""
    square = sum(x**2 for x in vector.values())
    scaled = {}
    for cell, x in vector.items():
        limit = min(Fraction(clip**2 * x**2, square), Fraction((units * x) ** 2))
        w = math.isqrt(limit.numerator // limit.denominator)
        assert w**2 <= limit < (w + 1) ** 2
        scaled[cell] = w
    return Counter(scaled)


def read_flows(flows: ClippedFlows, words: ActivityVocabulary, n_bins: int) -> dict[Cell, int]:
    assert flows.keys.dtype == flows.values.dtype == np.int64
    assert (np.diff(flows.keys) > 0).all() and len(flows.values) == len(flows.keys)
    sources, targets, bins = flows.arcs(words, n_bins)
    return {
        (words.labels[a], words.labels[b], int(c)): int(value)
        for a, b, c, value in zip(sources, targets, bins, flows.values, strict=True)
    }


edge_lists = st.sampled_from([[], [0], [1], [MINUTE], [0, MINUTE + 1], [1, MINUTE, 3 * MINUTE]])
clips = st.integers(2, 40) | st.sampled_from([192, 3072, 2**31, 2**40 + 1, 2**62, NO_LIMIT])
lattices = st.integers(1, 20) | st.sampled_from([64, 1000, MAX_UNITS])


# --- the sums -------------------------------------------------------------------------------------


@given(event_logs(max_events=25), clips, lattices, edge_lists)
def test_sums_are_those_of_fractions(log, clip, units, edges):
    traces = trace_batch(log, "ABC")
    flows = ClippedFlows.from_traces(traces, clip, units, np.array(edges, np.int64))
    expected: Counter[Cell] = Counter()
    for vector in vectors_of(log, edges).values():
        expected.update(clipped(vector, clip, units))
    assert read_flows(flows, traces.vocabulary, len(edges) + 1) == {
        cell: value for cell, value in expected.items() if value
    }
    if not edges:
        assert flows == ClippedFlows.from_traces(traces, clip, units)


@given(event_logs(max_events=25, n_cases=1), st.integers(2, 3000), lattices, edge_lists)
def test_no_case_exceeds_the_clip(log, clip, units, edges):
    flows = ClippedFlows.from_traces(trace_batch(log, "ABC"), clip, units, np.array(edges))
    assert sum(value**2 for value in flows.values.tolist()) <= clip**2


@pytest.mark.by_day(6)
@pytest.mark.parametrize("clip", [2, 3, 5, 100, 3072, 10**6, 2**30 + 7, 2**31 + 1, 2**40 + 1])
@pytest.mark.parametrize("units", [64, 1000, MAX_UNITS])
def test_no_long_case_exceeds_the_clip_and_none_overflows(clip, units):
    rng = np.random.default_rng(clip)
    lengths = [1, 2, 999, 20_000, 100_000]  # the last repeats one activity
    codes = np.concatenate([rng.geometric(0.5, n).clip(1, 9) - 1 for n in lengths]).astype(np.int32)
    codes[-lengths[-1] :] = 0
    whole = TraceBatch(
        pa.array([str(i) for i in range(5)]),
        np.cumsum([0, *lengths]),
        codes,
        np.zeros(len(codes), np.int64),
        ActivityVocabulary.of("ABCDEFGHI"),
    )
    expected: Counter[int] = Counter()
    for i in range(5):
        case = whole.take(np.array([i]))
        counts = ClippedFlows.from_traces(case, NO_LIMIT, 1)
        vector = Counter(dict(zip(counts.keys.tolist(), counts.values.tolist(), strict=True)))
        own = clipped(vector, clip, units)
        assert sum(value**2 for value in own.values()) <= clip**2
        expected.update(own)
        found = ClippedFlows.from_traces(case, clip, units)
        assert sum(value**2 for value in found.values.tolist()) <= clip**2
        assert (found.values > 0).all()
    total = ClippedFlows.from_traces(whole, clip, units)
    assert dict(zip(total.keys.tolist(), total.values.tolist(), strict=True)) == {
        key: value for key, value in expected.items() if value
    }


def test_cells_of_a_wide_vocabulary_stay_apart():
    # 3 million codes and 5,000 bins: a case's number and a cell do not fit 63 bits together.
    names = pa.array([f"{i:07}" for i in range(3_000_000)])
    n = 300
    traces = TraceBatch(
        pa.array([f"{i:03}" for i in range(n)]),
        np.arange(n + 1, dtype=np.int64) * 2,
        np.tile(np.array([2_999_999, 0], np.int32), n),
        np.tile(np.array([0, 4_998], np.int64), n),
        ActivityVocabulary(names),
    )
    flows = ClippedFlows.from_traces(traces, 100, 10, np.arange(1, 5_000))
    sources, targets, bins = flows.arcs(traces.vocabulary, 5_000)
    assert list(zip(sources.tolist(), targets.tolist(), bins.tolist(), strict=True)) == [
        (0, 3_000_001, 0),
        (2_999_999, 0, 4_998),
        (3_000_000, 2_999_999, 0),
    ]
    assert flows.values.tolist() == [10 * n] * 3


@pytest.mark.parametrize(
    ("clip", "units", "edges", "message"),
    [
        (1, 1, None, "l2_clip_units must be at least 2, got 1"),
        (5, 0, None, "units must be from 1 to"),
        (5, MAX_UNITS + 1, None, "units must be from 1 to"),
        (5, 1, [3, 3], "bin_edges_us must ascend"),
        (5, 1, [3, 2], "bin_edges_us must ascend"),
    ],
)
def test_parameters_out_of_range_are_refused(clip, units, edges, message):
    points = None if edges is None else np.array(edges)
    with pytest.raises(UsageError, match=message):
        ClippedFlows.from_traces(trace_batch({"c": "A"}), clip, units, points)


def test_a_clip_of_nothing_is_refused():
    cells = cells_of_flows(trace_batch({"c": "A"}), None)
    with pytest.raises(UsageError, match="l2_clip_units"):
        ClippedCells.from_cases(cells, 0, 1)
    ClippedCells.from_cases(cells, 1, 1)


# --- the norms ------------------------------------------------------------------------------------


def near_ties() -> list[tuple[int, int]]:
    """(clip, square) of which clip / sqrt(square) is nearest to an integer, on either side.

    The convergents y / w of the continued fraction of sqrt(S) make y / sqrt(S) - w as small as it
    can be. The first three are just above an integer, under a root that floats round up by almost
    as much as they can; they were found by going through all w.
    """
    found = [(1_373_073_022, 19), (1_125_208_665, 78), (1_480_032_687, 271)]
    for s in range(2, 1000):
        root = math.isqrt(s)
        if root**2 == s:
            continue
        a, m, d = root, 0, 1
        before, last = (1, 0), (root, 1)
        while (last[0] + 1) ** 2 * s <= 1 << 62:
            found.append((last[0], s))
            m = d * a - m
            d = (s - m**2) // d
            a = (root + m) // d
            before, last = last, (a * last[0] + before[0], a * last[1] + before[1])
    return found


def test_a_float_that_falls_on_the_wrong_side_of_an_integer_is_put_right():
    # Called directly: of whole cases such ties are rare. The last assertion is the control.
    floats_off: Counter[int] = Counter()
    for clip, s in near_ties():
        exact = math.isqrt(clip**2 // s)
        found = _floored_roots(np.array([1]), np.array([s]), clip)
        assert (
            found.tolist()
            == [exact]
            == _floored_roots_of_any_size(np.array([1]), np.array([s]), clip)
        )
        floats_off[math.floor(clip / math.sqrt(s)) - exact] += 1
    assert set(floats_off) == {-1, 0, 1}, floats_off


@pytest.mark.parametrize(
    "cells", [FlowCells.of(2, 5, 1000), FlowCells.of(2, 5, 30), FlowCells.without_positions(2, 5)]
)
def test_the_possible_cells_of_variants_are_those_that_some_case_has(cells: FlowCells) -> None:
    """But for arcs from the last event of a longest case to another, where it has its own bin."""
    variants = [v for n in range(1, 6) for v in itertools.product("AB", repeat=n)]
    flows = VariantFlows.from_variants(histogram(dict.fromkeys(variants, 1), "AB"), cells)
    possible, reached = set(cells.possible.tolist()), {*flows.keys.tolist(), cells.cases}
    assert len(possible) == len(cells.possible) == cells.n_possible and reached <= possible
    block, arc = np.divmod(np.array(sorted(possible - reached), int), cells.side**2)
    is_alone = np.count_nonzero(cells.blocks == cells.blocks[5]) == 1
    assert block.tolist() == [cells.blocks[5]] * (4 * is_alone)
    assert (arc % cells.side < 2).all()
