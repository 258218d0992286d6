"""Directly-follows graphs against a loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.support.logs import event_logs, naive_pairs, read_pairs, trace_batch
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram


@settings(deadline=None)
@given(event_logs())
def test_pairs_are_those_of_a_loop(log):
    traces = trace_batch(log, "ABC")
    graph = DirectlyFollows.from_traces(traces)
    assert read_pairs(graph, traces.vocabulary) == naive_pairs(log)
    assert (graph.sources.dtype, graph.targets.dtype) == (np.int32, np.int32)
    assert graph.counts.dtype == np.int64
    pairs = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


@settings(deadline=None)
@given(event_logs())
def test_variants_give_the_same_pairs_as_cases(log):
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    assert DirectlyFollows.from_variants(
        variants, traces.vocabulary
    ) == DirectlyFollows.from_traces(traces)


@settings(deadline=None)
@given(event_logs())
def test_inner_pairs_are_between_activities(log):
    traces = trace_batch(log, "ABC")
    inner = DirectlyFollows.from_traces(traces).inner(traces.vocabulary)
    expected = {p: n for p, n in naive_pairs(log).items() if "▶" not in p and "■" not in p}
    assert read_pairs(inner, traces.vocabulary) == expected


def test_pairs_of_a_wide_vocabulary_stay_apart():
    # Pairs are counted by one number each, which must not mix source and target.
    names = [f"{i:05}" for i in range(70_000)]
    traces = trace_batch({"c1": "00001 69999 00000 69999", "c2": "69999 00001"}, names)
    graph = DirectlyFollows.from_traces(traces)
    assert read_pairs(graph, traces.vocabulary) == {
        ("00000", "69999"): 1, ("00001", "69999"): 1, ("00001", "■"): 1, ("69999", "00000"): 1,
        ("69999", "00001"): 1, ("69999", "■"): 1, ("▶", "00001"): 1, ("▶", "69999"): 1,
    }  # fmt: skip
    assert DirectlyFollows.merge([graph, graph]).counts.tolist() == [2] * 8
