"""By what times are counted: the rule by public numbers, and what one case then changes."""

from __future__ import annotations

from fractions import Fraction

import pydantic
import pytest

from tests.anonymizers.times.test_pair_times import (
    public,
)
from tests.support.timed_logs import variants_of
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, Detail, times_by

OF_ALL = Detail("case")
ONE_EACH = (Fraction(1), Fraction(1, 10**6))


def by(n_names: int, n_cases: int | None, epsilon: str = "1") -> str:
    return times_by(n_names, n_cases, None, (Fraction(epsilon), Fraction(1, 10**6)), 1)


def test_a_wide_log_of_few_cases_is_counted_by_case_and_a_narrow_one_by_activity():
    assert by(400, 1_000) == by(200, 937) == by(100, 1_000) == "case"
    assert by(20, 1_000) == by(27, 1_434) == by(400, 100_000) == "activity"


def test_more_cases_and_more_epsilon_count_for_activities_and_more_names_against_them():
    order = ("case", "activity")
    for n_names in (10, 50, 200, 800):
        of_cases = [order.index(by(n_names, n)) for n in (10, 10**3, 10**5, 10**7)]
        of_epsilon = [order.index(by(n_names, 3_000, e)) for e in ("0.01", "0.1", "1", "10", "90")]
        assert of_cases == sorted(of_cases) and of_epsilon == sorted(of_epsilon)
    of_names = [order.index(by(n, 10_000)) for n in (5, 50, 500, 5_000)]
    assert of_names == sorted(of_names, reverse=True)


def test_where_no_number_is_declared_only_hundreds_of_names_count_against_activities():
    assert by(100, None, "0.01") == by(20, None) == "activity"
    assert by(400, None) == "case"


def params(n_names: int, **given: object) -> PrivateLogParams:
    names = tuple(f"a{i}" for i in range(n_names))
    return PrivateLogParams.model_validate({"epsilon": "1", "vocabulary": names, **given})


def test_the_rule_needs_declared_names_and_delta_and_what_is_asked_for_goes_first():
    assert params(399).detail == OF_ALL
    assert params(399, times_by="activity").detail == params(20).detail == BY_ACTIVITY
    assert params(3, times_by="case").detail == OF_ALL
    pure = params(150, delta="0", max_trace_length=9, n_duration_bins=4)
    assert pure.detail == BY_ACTIVITY
    bought = PrivateLogParams.model_validate({"epsilon": "1", "buy_vocabulary": True})
    assert bought.detail == BY_ACTIVITY


def test_a_declared_number_of_cases_is_a_parameter_only_where_it_changes_the_answer():
    assert params(20).expecting(1_000) == params(20)
    assert params(90).expecting(1_000).given()["times_by"] == "case"
    assert params(399).expecting(10**6).given()["times_by"] == "activity"
    assert params(150, times_by="activity").expecting(1_000).detail == BY_ACTIVITY


def test_a_number_of_cases_that_asks_for_more_names_than_can_be_counted_is_refused():
    """By the same check as where it is asked for; otherwise it would fail after it was paid for."""
    with pytest.raises(pydantic.ValidationError, match="smaller vocabulary or fewer bins"):
        params(3_000).expecting(10**9)


def test_of_all_cases_alike_the_variants_have_most_and_the_parts_add_up():
    few, many = (params(n).spending for n in (20, 399))
    assert many.means["joint-variants"].share > few.means["joint-variants"].share * Fraction(3, 2)
    assert "tables" in few.means and "tables" not in many.means
    for budget in (few, many):
        assert sum(allowance.share for allowance in budget.means.values()) == 1


def test_cases_look_alike_and_keep_their_times():
    traces = public({"c": "A B@9 X A", "d": "B"})
    alike = OF_ALL.cases(traces)
    assert len(alike.vocabulary) == 1 and not alike.activities.any()
    assert alike.times.tolist() == traces.times.tolist()
    assert BY_ACTIVITY.cases(traces) is traces
    classes = OF_ALL.classes(variants_of(traces), traces.vocabulary)
    assert classes.sizes.tolist() == [2] and classes.of_cases(alike).tolist() == [0, 0]
