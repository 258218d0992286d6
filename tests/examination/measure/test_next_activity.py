"""What a release teaches of the next activity: by hand, by its laws, and against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given

from tests.support.logs import cases_of, event_logs, trace_batch
from tracecloak.examination.measure.utility import (
    next_activity_accuracy,
    variants_of_fifth,
)
from tracecloak.schemas.statistics.variants import VariantHistogram


def accuracy(trained: Any, tested: Any, names: str = "ABC") -> float | None:
    logs = (VariantHistogram.from_traces(trace_batch(one, names)) for one in (trained, tested))
    return next_activity_accuracy(*logs, len(names))


def test_nothing_learnt_and_nothing_to_test() -> None:
    assert accuracy({}, {"x": "A B"}) == 0
    assert accuracy({"1": "A B"}, {}) is None


def test_about_a_fifth_is_tested_and_always_the_same() -> None:
    cases = {f"case {i}": "A B" if i % 2 else "B A" for i in range(2000)}
    first = variants_of_fifth(trace_batch(cases, "AB"))
    assert 320 < first.n_cases < 480
    again = variants_of_fifth(trace_batch(dict(reversed(cases.items())), "AB"))
    assert again.sequences.equals(first.sequences)
    assert again.counts.tolist() == first.counts.tolist()


@given(event_logs(max_events=60), event_logs(max_events=30))
def test_it_is_that_of_plain_python(trained: Any, tested: Any) -> None:
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    end = 3

    def steps(log: Any) -> list[tuple[tuple[int, int], int]]:
        found = []
        for case in cases_of(log).values():
            codes = [end, *("ABC".index(name) for name, _ in case), end]
            found += [((codes[i - 1], codes[i]), codes[i + 1]) for i in range(1, len(codes) - 1)]
        return found

    for context, following in steps(trained):
        for known in (context, context[1:], ()):
            counts[known][following] += 1
    hits = 0
    for context, following in steps(tested):
        for known in (context, context[1:], ()):
            if counts[known]:
                best = max(counts[known].values())
                hits += following == min(c for c, n in counts[known].items() if n == best)
                break
    expected = hits / len(steps(tested)) if steps(tested) else None
    assert accuracy(trained, tested) == (None if expected is None else pytest.approx(expected))
