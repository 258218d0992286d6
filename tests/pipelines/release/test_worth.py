"""What a plan says of a release's worth, and whether it comes true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.tiers import few_examples
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.pipelines.planning.utility import (
    USUAL,
    _cases_by_rank,
    ends_at,
    estimate_utility,
    estimate_utility_of_log,
    processes,
    synthetic_log,
)
from tracecloak.schemas.published.rows import traces_of_rows
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = tuple(f"step {i}" for i in range(15))


@given(
    n_cases=st.integers(1, 3_000),
    n_variants=st.integers(1, 3_000),
    n_names=st.integers(1, 30),
    max_length=st.integers(1, 30),
)
@few_examples(deadline=None)
def test_a_synthetic_log_has_about_as_many_variants_as_are_declared(
    n_cases: int, n_variants: int, n_names: int, max_length: int
) -> None:
    """Zipf's law: each has at most as many cases as the one before; as many as there can be."""
    [process] = processes(n_variants, n_cases)
    counts = _cases_by_rank(process.exponent, n_cases, process.n_variants)
    assert counts.sum() == n_cases and (np.diff(counts) <= 1).all()
    if process.exponent < 2 and n_variants <= 0.9 * n_cases:
        assert len(counts) == pytest.approx(n_variants, rel=0.1, abs=3)
    assert len(counts) <= 1.1 * n_variants + 3
    names = tuple(f"step {i}" for i in range(n_names))
    log = synthetic_log.__wrapped__(names, max_length, n_cases, True, process)
    assert log.n_cases == n_cases and log.lengths.min() >= 1
    assert log.individuals is not None and len(set(log.individuals.to_pylist())) == n_cases
    variants = VariantHistogram.from_traces(log)
    assert variants.n_variants <= len(counts)
    # Where there is room for others, few are still known after all their edits.
    if n_names > 5 and max_length > 5:
        assert variants.n_variants >= 0.95 * len(counts) - 1


def test_the_error_of_a_graph_is_in_the_range() -> None:
    """On the synthetic hospital, which is another process, with its number of variants declared."""
    [rows] = hospital_log(2000)
    log = traces_of_rows(rows)
    method: Any = METHODS["private-dfg"]
    params = method.Params(epsilon="1", vocabulary=tuple(sorted(ACTIVITIES)))
    n_variants = VariantHistogram.from_traces(log).n_variants
    errors = [
        estimate_utility_of_log(method, params, log, run).graph_error for run in range(100, 105)
    ]
    best, worst = ends_at(method, params, 2000, n_variants)
    low, high = best.graph_error, worst.graph_error
    assert low is not None and high is not None and high <= 3.001 * low
    assert low <= np.median(np.array(errors, float)) <= high
    widest = [worth.graph_error or 0.0 for worth in ends_at(method, params, 2000, None)]
    assert widest[0] < low and widest[1] > 5 * widest[0]


def test_a_plan_says_it_for_the_cases_that_are_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    common = [
        "plan", "--log", csv_log(tmp_path / "log.csv", small_rows()), "--output", tmp_path / "o",
        "--method", "variant-histogram", "--epsilon", "0.01", "--vocabulary", names,
    ]  # fmt: skip
    assert tracecloak(*common, "--full", "--expected_cases", "70") == 9
    assert "  70 cases: nothing usable: 0 of 2 activities" in capsys.readouterr().out
    assert tracecloak(*common, "--full", "--expected_cases", "60000") == 0
    assert "  60,000 cases: 2 of 2 activities" in capsys.readouterr().out
    assert tracecloak(*common, "--full") == 0  # nothing is refused where no number is declared
    assert "  1,000 cases: " in capsys.readouterr().out
    assert not (tmp_path / "o").exists()
    assert tracecloak(*common, "--expected_cases", "0") == 2
    assert "expected_cases" in capsys.readouterr().err


def test_a_run_that_ends_at_the_variants_says_what_the_whole_log_does() -> None:
    """Of the rounds after them nothing is looked at."""
    params = METHODS["private-log"].Params(epsilon="1", vocabulary=NAMES, max_trace_length=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.pipelines.planning.utility._UntilVariants", lambda: None)
        whole = estimate_utility(METHODS["private-log"], params, 1000, 0, USUAL)
    short = estimate_utility(METHODS["private-log"], params, 1000, 0, USUAL)
    assert (short.graph_error, short.case_share) == (whole.graph_error, whole.case_share)
    assert short.held.n_activities == whole.held.n_activities
    assert whole.graph_error is not None and 0 < whole.graph_error < 0.9
