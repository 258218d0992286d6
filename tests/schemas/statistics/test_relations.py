"""Relations between activities against a loop over cases and pairs of events.

Smallest distances between activities against a naive search, and their merging.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Log, cases_of, event_logs, trace_batch
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.relations import ActivityRelations, KFollows

Distances = dict[tuple[str, str], int]


def naive_distances(log: Log, max_distance: int | None = None) -> Distances:
    """The smallest distance of each pair of labels, by looking at every two places of each case."""
    found: Distances = {}
    for steps in cases_of(log).values():
        path = ["▶", *(activity for activity, _ in steps), "■"]
        for (i, a), (j, b) in itertools.combinations(enumerate(path), 2):
            if max_distance is None or j - i <= max_distance:
                found[a, b] = min(j - i, found.get((a, b), j - i))
    return found


def distances_of(follows: KFollows, traces: TraceBatch) -> Distances:
    assert follows.sources.dtype == follows.targets.dtype == follows.distances.dtype == np.int32
    keys = follows.sources.astype(np.int64) << 32 | follows.targets
    assert (np.diff(keys) > 0).all()
    labels = traces.vocabulary.labels
    return {
        (labels[a], labels[b]): int(d)
        for a, b, d in zip(follows.sources, follows.targets, follows.distances, strict=True)
    }


@given(event_logs(activities="ABCD"), st.sampled_from([None, 1, 2, 3, 7]))
def test_distances_are_those_of_a_naive_search(log: Log, max_distance: int | None) -> None:
    traces = trace_batch(log, "ABCD")
    found = KFollows.from_traces(traces, max_distance)
    assert distances_of(found, traces) == naive_distances(log, max_distance)


def test_an_empty_batch_has_no_pairs_and_a_distance_below_1_is_refused() -> None:
    traces = trace_batch({"1": "A"})
    assert KFollows.from_traces(traces.take(np.zeros(0, np.int64))) == KFollows.merge(())
    with pytest.raises(UsageError, match="max_distance must be at least 1, got 0"):
        KFollows.from_traces(traces, 0)


Pair = tuple[str, str]


def naive(log: Log) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    """Cases by pair, at all and before the first target, and cases by first activity.

    Those that have an activity are under ▶.
    """
    pairs: Counter[Pair] = Counter()
    before_first: Counter[Pair] = Counter()
    firsts: Counter[str] = Counter()
    for steps in cases_of(log).values():
        names = [name for name, _ in steps]
        pairs.update({("▶", name) for name in names})
        pairs.update(set(itertools.combinations(names, 2)))  # in the order of the case
        for target in set(names):
            before = {"▶", *names[: names.index(target)]}
            before_first.update({(source, target) for source in before})
        firsts[names[0]] += 1
    return {pair: (n, before_first[pair]) for pair, n in pairs.items()}, dict(firsts)


def read(
    relations: ActivityRelations, vocabulary: ActivityVocabulary
) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    labels = vocabulary.labels
    pairs = zip(
        relations.sources.tolist(), relations.targets.tolist(), relations.counts.tolist(),
        relations.counts_before_first.tolist(), strict=True,
    )  # fmt: skip
    firsts = zip(relations.first_codes.tolist(), relations.first_counts.tolist(), strict=True)
    return (
        {(labels[source], labels[target]): tuple(counts) for source, target, *counts in pairs},
        {labels[code]: count for code, count in firsts},
    )


@given(event_logs())
def test_relations_are_those_of_a_loop(log: Log) -> None:
    traces = trace_batch(log, "ABC")
    relations = ActivityRelations.from_traces(traces)
    assert read(relations, traces.vocabulary) == naive(log)
    assert relations.sources.dtype == relations.targets.dtype == np.int32
    assert relations.first_codes.dtype == np.int32
    assert relations.counts_before_first.dtype == np.int64
    assert relations.counts.dtype == relations.first_counts.dtype == np.int64
    pairs = list(zip(relations.sources.tolist(), relations.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


def test_pairs_of_a_wide_vocabulary_stay_apart() -> None:
    names = [f"{i:05}" for i in range(70_000)]
    traces = trace_batch({"c1": "00001 69999 00001"}, names)
    found, firsts = read(ActivityRelations.from_traces(traces), traces.vocabulary)
    assert firsts == {"00001": 1}
    assert found == {
        ("00001", "00001"): (1, 0),
        ("00001", "69999"): (1, 1),
        ("69999", "00001"): (1, 0),
        ("▶", "00001"): (1, 1),
        ("▶", "69999"): (1, 1),
    }
