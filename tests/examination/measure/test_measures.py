"""Distances between logs: worked by hand, against naive references, and what they are blind to."""

from __future__ import annotations

import itertools
import math
import posixpath
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from tracecloak.examination.measure.behaviour_measures import edge_time_emd, hours_of_edges
from tracecloak.examination.measure.measures import (
    edge_frequency_emd,
    edge_mean_absolute_error,
    jaccard_distance,
    prefix_jaccard_distance,
    variant_emd,
)
from tracecloak.examination.measure.registry import MEASURES, checked
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

HOUR = 3_600_000_000  # microseconds

Trace = tuple[int, ...]


def log(variants: Mapping[Trace, int]) -> VariantHistogram:
    offsets = np.cumsum([0, *map(len, variants)], dtype=np.int64)
    codes = np.array(list(itertools.chain(*variants)), dtype=np.int32)
    counts = np.array(list(variants.values()), dtype=np.int64)
    return VariantHistogram.of(encode_sequences(offsets, codes), counts)


def variants(*names: str) -> VariantHistogram:
    """One case for each name, a letter being an activity."""
    return log({tuple(map(ord, name)): 1 for name in names})


def edges(weights: Mapping[tuple[int, int], float]) -> DirectlyFollows:
    pairs = np.array(list(weights), dtype=np.int32).reshape(-1, 2)
    return DirectlyFollows(pairs[:, 0], pairs[:, 1], np.array(list(weights.values())))


EMPTY = log({})

traces = st.lists(st.integers(0, 2), max_size=5).map(tuple)
logs = st.dictionaries(traces, st.integers(1, 9), max_size=7)
graphs = st.dictionaries(
    st.tuples(st.integers(-2, 3), st.integers(-2, 3)), st.integers(-5, 50), max_size=9
)


# --- plain Jaccard distance -----------------------------------------------------------------------


@given(logs, logs)
def test_jaccard_is_that_of_the_sets(a, b):
    union = set(a) | set(b)
    expected = 1 - len(set(a) & set(b)) / len(union) if union else 0
    assert jaccard_distance(log(a), log(b)) == pytest.approx(expected)


# --- prefix-weighted Jaccard distance -------------------------------------------------------------


def similarity(x: Trace, y: Trace) -> int:
    """The peer's, which makes paths of the variants; the empty path has one component."""
    common = posixpath.commonpath(["/".join(map(str, x)), "/".join(map(str, y))])
    return len(common.split("/"))


def greedy_prefix_jaccard(a: Sequence[Trace], b: Sequence[Trace], ties: random.Random) -> float:
    """The peer's algorithm, pair by pair; equally similar pairs come in the order of `ties`."""
    pairs = list(itertools.product(range(len(a)), range(len(b))))
    ties.shuffle(pairs)
    pairs.sort(key=lambda pair: similarity(a[pair[0]], b[pair[1]]), reverse=True)
    used_a, used_b, total = set(), set(), 0
    for i, j in pairs:
        if i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            total += similarity(a[i], b[j])
    lengths = sum(max(1, len(trace)) for trace in [*a, *b])
    return 1 - total / (lengths - total) if lengths else 0.0


@given(logs, logs, st.randoms(use_true_random=False))
def test_prefix_jaccard_is_the_greedy_matching_whatever_the_order_of_ties(a, b, ties):
    expected = greedy_prefix_jaccard(list(a), list(b), ties)
    assert prefix_jaccard_distance(log(a), log(b)) == pytest.approx(expected)


# --- directly-follows edges -----------------------------------------------------------------------


@given(graphs, graphs)
def test_edge_measures_are_their_definitions(a, b):
    union = sorted({*a, *b})
    left, right = [a.get(edge, 0) for edge in union], [b.get(edge, 0) for edge in union]
    emd, error = (
        edge_frequency_emd(edges(a), edges(b)),
        edge_mean_absolute_error(edges(a), edges(b)),
    )
    if union:
        assert emd == pytest.approx(wasserstein_distance(left, right))
        assert error == pytest.approx(np.mean(np.abs(np.subtract(left, right))))
    else:
        assert emd == error == 0
    assert emd <= error + 1e-12
    assert edge_frequency_emd(edges(b), edges(a)) == pytest.approx(emd)
    assert (
        edge_frequency_emd(edges(a), edges(a)) == edge_mean_absolute_error(edges(a), edges(a)) == 0
    )


@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from("AB"), st.integers(0, 9 * HOUR)),
        max_size=20,
    )
)
def test_hours_against_a_counter(events):
    expected: Counter[tuple[int, int]] = Counter()
    for source, target, microseconds in events:
        expected["AB".index(source), "AB".index(target)] += microseconds // HOUR
    traces = TraceBatch(
        pa.array([str(number) for number in range(len(events))], pa.string()),
        np.arange(0, 2 * len(events) + 1, 2),
        np.array(["AB".index(name) for event in events for name in event[:2]], np.int32),
        np.array([time for event in events for time in (0, event[2])], np.int64),
        ActivityVocabulary.of(["A", "B"]),
    )
    hours = hours_of_edges(traces)
    pairs = zip(hours.sources.tolist(), hours.targets.tolist(), strict=True)
    assert dict(zip(pairs, hours.counts.tolist(), strict=True)) == expected
    first = traces.take(np.arange(traces.n_cases)[:1])
    emd = edge_frequency_emd(hours, hours_of_edges(first))
    assert edge_time_emd(traces, first) == pytest.approx(emd / 720)


# --- earth mover's distance of variants -----------------------------------------------------------


def levenshtein(x: Trace, y: Trace) -> int:
    row = list(range(len(y) + 1))
    for i, left in enumerate(x, 1):
        above, row = row, [i]
        for j, right in enumerate(y, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right)))
    return row[-1]


def transport(a: Mapping[Trace, int], b: Mapping[Trace, int]) -> float:
    """The linear programme as it is written in books."""
    cost = [[levenshtein(x, y) / max(len(x), len(y), 1) for y in b] for x in a]
    rows = np.kron(np.eye(len(a)), np.ones(len(b)))
    columns = np.kron(np.ones(len(a)), np.eye(len(b)))
    mass = np.concatenate([np.array(list(side.values())) / sum(side.values()) for side in (a, b)])
    return float(linprog(np.ravel(cost), A_eq=np.vstack([rows, columns]), b_eq=mass).fun)


@given(logs.filter(bool), logs.filter(bool))
def test_variant_emd_is_the_transport_problem(a, b):
    value = variant_emd(log(a), log(b))
    assert value == pytest.approx(transport(a, b), abs=1e-9)
    assert -1e-12 <= value <= 1 + 1e-12
    assert value == pytest.approx(variant_emd(log(b), log(a)), abs=1e-9)
    assert variant_emd(log(a), log(a)) == pytest.approx(0, abs=1e-12)


def test_variant_emd_of_empty_sides():
    no_cases = log({(1, 2): 0})
    assert variant_emd(EMPTY, EMPTY) == variant_emd(EMPTY, no_cases) == 0
    assert variant_emd(EMPTY, variants("ab")) == variant_emd(variants("ab"), no_cases) == 1


def test_variant_emd_declines_a_table_that_is_too_large():
    a, b = log({(1,): 1, (2,): 1, (3,): 0}), log({(1,): 1, (2,): 1, (4,): 1})
    assert variant_emd(a, b, max_cells=6) == pytest.approx(1 / 3)  # variants without cases are free
    assert variant_emd(a, b, max_cells=5) is None


def test_variant_emd_keeps_all_codes_apart():
    # Codes in the range of the surrogates, which are no characters, and beyond 16 bits.
    codes = [0, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xE7FF, 0xE800, 70_000]
    for x, y in itertools.combinations(codes, 2):
        assert variant_emd(log({(x, 5): 1}), log({(y, 5): 1})) == pytest.approx(0.5)


def test_what_is_called_a_share_goes_to_one() -> None:
    """Catches an F-score of 1.26 and a fitness of 1.70."""
    for name, measure in MEASURES.items():
        if any(word in name for word in ("f_score", "fitness", "precision", "share", "kept")):
            assert measure.range == [0, 1], name
    assert len({measure.title for measure in MEASURES.values()}) == len(MEASURES)


def test_a_value_out_of_range_is_refused_and_rounding_is_not() -> None:
    assert checked({"drift": 0.25, "seconds": None}) == {"drift": 0.25, "seconds": None}
    assert checked({"variant_emd": -1e-12, "drift": 1 + 1e-12}) == {"variant_emd": 0, "drift": 1}
    for name, value in (("mined_f_score", 1.26), ("tree_fitness", 1.7), ("drift", math.nan)):
        with pytest.raises(ArithmeticError, match=name):
            checked({name: value})
    with pytest.raises(KeyError):
        checked({"f1": 0.5})
