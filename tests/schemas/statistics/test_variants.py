"""Variant histograms: against a loop, order of codes, looking cases up.

Cases by activity: addition, order, merging, the wire.
"""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.logs import (
    event_logs,
    histogram,
    naive_variants,
    read_variants,
    trace_batch,
    variant_counts,
)
from tracecloak.schemas.statistics.variants import VariantHistogram


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
