"""Variants and directly-follows pairs: against a loop, order of codes, looking cases up."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.support.logs import (
    event_logs,
    histogram,
    naive_pairs,
    naive_variants,
    read_pairs,
    read_variants,
    trace_batch,
    variant_counts,
)
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram


@settings(deadline=None)
@given(event_logs())
def test_variants_are_those_of_a_loop(log):
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    expected = naive_variants(log)
    found = read_variants(variants, "ABC")
    assert found == expected and list(found) == sorted(expected)
    assert variants.n_cases == expected.total() == traces.n_cases


@settings(deadline=None)
@given(variant_counts(), event_logs())
def test_find_agrees_with_a_dictionary(counts, log):
    known = {variant: number for number, variant in enumerate(sorted(counts))}
    found = histogram(counts).find(trace_batch(log, "ABC"))
    expected: dict[str, list[str]] = {}
    for case, activity, _ in sorted(log, key=lambda event: event[2]):
        expected.setdefault(case, []).append(activity)
    order = list(dict.fromkeys(case for case, _, _ in log))
    assert found.tolist() == [known.get(tuple(expected[case]), -1) for case in order]


@settings(deadline=None)
@given(event_logs())
def test_pairs_are_those_of_a_loop(log):
    traces, expected = trace_batch(log, "ABC"), naive_pairs(log)
    words = traces.vocabulary
    graph = DirectlyFollows.from_traces(traces)
    assert read_pairs(graph, words) == expected
    assert (graph.sources.dtype, graph.targets.dtype) == (np.int32, np.int32)
    assert graph.counts.dtype == np.int64
    pairs = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert DirectlyFollows.from_variants(VariantHistogram.from_traces(traces), words) == graph
    inner = {p: n for p, n in expected.items() if "▶" not in p and "■" not in p}
    assert read_pairs(graph.inner(words), words) == inner


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
