"""The bootstrap of a log: its cases, drawn with replacement, always the same ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.stats import chisquare, poisson

from tests.support.logs import trace_batch
from tracecloak.examination.measure.intervals import bootstrap, public_words


def test_as_many_cases_of_the_log_and_the_same_for_everybody() -> None:
    traces = trace_batch({f"c{i}": "A B" if i % 2 else "A" for i in range(300)}, "AB")
    drawn = bootstrap(traces)
    assert drawn.n_cases == 300
    assert set(drawn.case_ids.to_pylist()) < set(traces.case_ids.to_pylist())
    assert drawn.case_ids.equals(bootstrap(traces).case_ids)
    assert not drawn.case_ids.equals(bootstrap(traces, 1).case_ids)
    assert bootstrap(trace_batch({}, "A")).n_cases == 0


def test_every_case_is_drawn_as_often_as_chance_has_it() -> None:
    """20,000 cases come 0, 1, … times as Poisson has it; alpha 1e-3, and a control that fails."""
    n = 20_000
    expected = n * np.array([*poisson.pmf(range(5), 1), poisson.sf(4, 1)])

    def seen(drawn: np.ndarray) -> np.ndarray:
        times = Counter(np.bincount(drawn, minlength=n).tolist())
        return np.array([*(times[k] for k in range(5)), sum(times[k] for k in times if k > 4)])

    for draw in range(3):
        found = seen((public_words(n, draw) % np.uint64(n)).astype(np.int64))
        assert chisquare(found, expected).pvalue > 1e-3
    assert chisquare(seen(np.arange(n)), expected).pvalue < 1e-3
