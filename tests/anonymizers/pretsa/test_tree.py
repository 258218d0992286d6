"""Merging variants, t-closeness and the draws of durations, against plain Python and scipy."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from tests.anonymizers.variants.test_distance import naive_edits
from tests.support.keys import randomness
from tests.support.logs import MINUTE, Variant, cases_of, naive_durations, trace_batch
from tracecloak.anonymizers.pretsa.tree import (
    ROUNDING,
    ActivityDurations,
    MergedTree,
    draw_durations,
    released_nodes,
)
from tracecloak.anonymizers.pretsa.verify import Spread
from tracecloak.anonymizers.variants.distance import (
    EmbeddingDistance,
    LevenshteinDistance,
    Targets,
    VariantDistance,
)
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import VariantHistogram

Case = tuple[Variant, list[int]]


def cases(log: dict[str, str]) -> list[Case]:
    """Each case's variant and durations in microseconds."""
    durations = naive_durations(log)
    return [(tuple(a for a, _ in steps), durations[c]) for c, steps in cases_of(log).items()]


def tree_of(
    log: dict[str, str], k: int, t: float | None = None, protect_ends: bool = True
) -> MergedTree:
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    positions = ranges(variants.offsets[variants.find(traces)], traces.lengths)
    durations = DurationTable.from_events(positions, traces.durations)
    distance = LevenshteinDistance(variants)
    return MergedTree(variants, durations, distance, k, t, protect_ends)


def closeness(own: Sequence[int], every: Sequence[int]) -> float:
    width = max(every) - min(every)
    return wasserstein_distance(own, every) / width if own and width else 0.0


def naive_merge(
    log: list[Case], k: int, t: float | None, protect_ends: bool
) -> list[Variant] | None:
    """The variant of each case, or None where nothing is left; case by case, as defined."""
    live = {variant for variant, _ in log}
    now = [variant for variant, _ in log]
    every: dict[str, list[int]] = {}
    for variant, durations in log:
        for activity, duration in zip(variant, durations, strict=True):
            every.setdefault(activity, []).append(duration)

    def violates(prefix: Variant) -> bool:
        n = len(prefix)
        passing = [i for i, variant in enumerate(now) if variant[:n] == prefix]
        if len(passing) < k:
            return True
        own = [log[i][1][n - 1] for i in passing if log[i][0][:n] == prefix]
        return t is not None and closeness(own, every[prefix[-1]]) >= t * (1 - ROUNDING)

    while True:
        prefixes = sorted({v[:n] for v in live for n in range(1, len(v) + 1)})
        first = next((prefix for prefix in prefixes if violates(prefix)), None)
        if first is not None:
            gone = {variant for variant in live if variant[: len(first)] == first}
        else:
            having = Counter(now)
            least = min(live, key=lambda variant: (having[variant], variant))
            if not protect_ends or having[least] >= k:
                return now
            gone = {least}
        live -= gone
        if not live:
            return None
        for i, variant in enumerate(now):
            if variant in gone:
                own = log[i][0]
                now[i] = min(live, key=lambda target: (naive_edits(own, target), target))


def merged(tree: MergedTree) -> dict[Variant, Variant]:
    """What each variant of the input has become."""
    offsets, codes = tree.variants.offsets.tolist(), tree.variants.codes.tolist()
    names = [tuple("ABC"[c] for c in codes[a:b]) for a, b in itertools.pairwise(offsets)]
    return {names[i]: names[goal] for i, goal in enumerate(tree.target.tolist())}


def logs(max_cases: int = 10, most: int = 3) -> st.SearchStrategy[dict[str, str]]:
    """Few cases of 3 activities; each step takes 0 to some minutes."""
    step = st.tuples(st.sampled_from("ABC"), st.integers(0, most))
    case = st.lists(step, min_size=1, max_size=5)

    def text(steps: list[tuple[str, int]]) -> str:
        minutes = itertools.accumulate(gap for _, gap in steps)
        pairs = zip(steps, minutes, strict=True)
        return " ".join(f"{activity}@{minute}" for (activity, _), minute in pairs)

    return st.lists(case, min_size=1, max_size=max_cases).map(
        lambda found: {f"c{i}": text(steps) for i, steps in enumerate(found)}
    )


@given(logs(), st.integers(1, 4), st.none() | st.floats(0.05, 1), st.booleans())
def test_merging_is_that_of_the_definition(
    log: dict[str, str], k: int, t: float | None, protect_ends: bool
) -> None:
    assume(len(log) >= k)
    known = cases(log)
    expected = naive_merge(known, k, t, protect_ends)
    tree = tree_of(log, k, t, protect_ends)
    if expected is None:
        with pytest.raises(GuaranteeError, match="lower k or raise t"):
            tree.merge()
        return
    tree.merge()
    becomes = merged(tree)
    assert [becomes[variant] for variant, _ in known] == expected
    having = Counter(expected)
    live = {list(becomes)[i]: int(tree.n_cases[i]) for i in tree.live.tolist()}
    assert live == having
    assert tree.n_cases.sum() == len(log)
    assert not protect_ends or min(live.values()) >= k


@given(st.data())
def test_distances_are_scipys(data: st.DataObject) -> None:
    """By both ways of computing them: of the method and of the verifier."""
    largest = data.draw(st.sampled_from([3, 1000, 10**15]))
    value = st.integers(0, largest)
    activities = data.draw(st.lists(st.lists(value, min_size=1, max_size=12), min_size=1))
    codes = np.repeat(np.arange(len(activities)), [len(own) for own in activities])
    values = np.concatenate([np.array(own, np.int64) for own in activities])
    counts = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(values),
                                         max_size=len(values))), np.int64)  # fmt: skip
    every = ActivityDurations(codes, values, counts)
    groups, rows, taken, expected, by_ranks = [], [], [], [], []
    for activity in range(len(activities)):
        own = np.flatnonzero(codes == activity)
        chosen = data.draw(st.lists(st.sampled_from(own.tolist()), max_size=6))
        weights = data.draw(st.lists(st.integers(1, 3), min_size=len(chosen),
                                     max_size=len(chosen)))  # fmt: skip
        groups += [activity] * len(chosen)
        rows += chosen
        taken += weights
        repeated = np.repeat(values[chosen], weights) if chosen else np.zeros(0, np.int64)
        all_values = np.repeat(values[own], counts[own])
        expected.append(closeness(repeated.tolist(), all_values.tolist()))
        by_ranks.append(Spread(all_values.astype(float)).distance(repeated.astype(float)))
    found = every.distances(
        np.array(groups, np.int64), every.places[np.array(rows, np.int64)],
        np.array(taken, np.int64), len(activities),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(by_ranks, expected, atol=1e-9)


def drawn_of(
    log: dict[str, str], k: int, t: float | None = None
) -> tuple[MergedTree, np.ndarray, np.ndarray]:
    tree = tree_of(log, k, t)
    tree.merge()
    drawn = draw_durations(tree, t, randomness())
    return tree, released_nodes(tree), drawn


def test_no_duration_is_one_that_a_case_had() -> None:
    """All steps of the input differ by a minute or more, so equal ones would be copies."""
    rng = np.random.default_rng(2)
    log = {f"c{i}": f"A@0 B@{3 * i + 2} C@{3 * i + 2 + rng.integers(1, 999)}" for i in range(60)}
    _, _, drawn = drawn_of(log, 5)
    had = {duration for _, durations in cases(log) for duration in durations[1:]}
    released = drawn[drawn > 0].tolist()
    assert len(released) == 120
    assert not had & set(released)


@pytest.mark.parametrize(("k", "n_alike", "fewest", "most"), [(3, 2, 5, 5), (4, 3, 0, 1)])
def test_fewer_than_k_durations_are_not_drawn_from(
    k: int, n_alike: int, fewest: int, most: int
) -> None:
    """B follows A in 3 cases, after 5000 minutes, and those of A A join them."""
    log = {f"c{i}": f"A@0 C@{100 + i}" for i in range(50)}
    log |= {f"d{i}": f"A@0 B@{5000 + i}" for i in range(3)}
    log |= {f"e{i}": "A@0 A@99" for i in range(n_alike)}
    tree, nodes, drawn = drawn_of(log, k)
    assert merged(tree)[("A", "A")] == ("A", "B")
    of_b = drawn[tree.trie.activities[nodes] == 1]
    assert len(of_b) == 3 + n_alike
    assert fewest <= (of_b > 3000 * MINUTE).sum() <= most
    assert (drawn[tree.trie.depths[nodes] == 1] == 0).all()


def test_fewer_than_k_durations_in_the_whole_log_are_none() -> None:
    """The only duration of the log, of B C, would be that of both released cases."""
    tree, _, drawn = drawn_of({"1": "A", "2": "B C@777"}, 2)
    assert set(merged(tree).values()) == {("B", "C")}
    assert drawn.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("direction", ["edits", "text", "authors_code"])
def test_whoever_is_left_the_nearest_is_the_first_of_those_at_the_smallest_distance(
    direction: Any,
) -> None:
    """Asked again and again, as goals are merged away: also of those that were as near before."""
    for seed in range(12):
        draw = np.random.default_rng(seed)
        lengths = draw.integers(1, 24, 60)
        codes = draw.integers(0, 3, lengths.sum()).astype(np.int32)
        sequences = encode_sequences(offsets_of(lengths), codes)
        variants = VariantHistogram.of(sequences, np.ones(60, np.int64))
        apart = draw.integers(0, 3, (3, 3)) * (1 - np.eye(3)) / 2  # with many ties
        distance: VariantDistance = LevenshteinDistance(variants)
        if direction != "edits":
            distance = EmbeddingDistance(variants, apart, 0.5, 0.25, direction)
        targets = Targets(distance, variants.n_variants)
        left = np.arange(variants.n_variants)
        for _ in range(40):
            gone = draw.choice(left, min(2, len(left) - 1), replace=False)
            left = np.setdiff1d(left, gone)
            targets.remove(gone)
            for variant in draw.integers(0, 6, 3).tolist():
                expected = left[np.argmin(distance.between(variant, left, None))]
                assert targets.nearest(variant) == expected
            if len(left) == 1:
                break
