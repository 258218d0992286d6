"""The method as a whole: its parts, its promise, and that batches and shards change nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.support.examples import examples_of
from tracecloak.anonymizers.indicators.errors import PrivateIndicators
from tracecloak.anonymizers.indicators.params import weighed_terms

METHOD = PrivateIndicators()
HOUR, FIRST_US = 3_600_000_000, 1_577_836_800_000_000  # 2020-01-01
EXAMPLES = range(len(examples_of(METHOD)))


def params_of(place: int) -> Any:
    return METHOD.Params(**examples_of(METHOD)[place])


def test_the_examples_take_every_round_and_kind_of_noise() -> None:
    rounds = {METHOD.rounds(params_of(place)) for place in EXAMPLES}
    assert rounds >= {("sums",), ("bought", "sums")}
    budgets = [METHOD.budget(params_of(place)) for place in EXAMPLES]
    assert {budget.deviation is None for budget in budgets} == {True, False}
    indicators = [one for place in EXAMPLES for one in params_of(place).indicators]
    kinds = {one.indicator for one in indicators}
    assert kinds == {
        "cases", "throughput", "within", "rework", "frequency", "rule", "waiting", "amount",
        "workload",
    }  # fmt: skip


# By an indicator: what one case changes of its sums, and what that is in lattice steps of one.
CHANGES: dict[str, dict[str, tuple[str, int | Fraction]]] = {
    "cases": {"number of cases": ("each number of cases by 1", 1)},
    "within limit=1d": {
        "number of cases": ("each number of cases by 1", 1),
        "share within 1 day, sum": ("each sum by half of the distance", Fraction(1, 2)),
    },
    "throughput of=histogram at_most=1d": {
        "histogram of throughput time, bins": ("one bin of each histogram by 1", 1),
    },
    "workload groups=R1|R2 at_most=3": {
        "events, up to 3 a case by org:resource, events": ("numbers of events by 3 in all", 3),
    },
}


@pytest.mark.parametrize("indicator", CHANGES)
def test_the_promise_says_of_the_terms_that_are_there_what_a_case_changes(indicator: str) -> None:
    params = METHOD.Params(epsilon="1", delta="0", indicators=[indicator])
    terms = {term.name: term for term in weighed_terms(params)}
    assert terms.keys() == CHANGES[indicator].keys()
    reality = METHOD.guarantee(params).reality
    for name, (words, change) in CHANGES[indicator].items():
        assert words in reality
        assert terms[name].changed.l1 == change * terms[name].units
    for words in {w for said in CHANGES.values() for w, _ in said.values()}:
        is_there = any(words == w for w, _ in CHANGES[indicator].values())
        assert (words in reality) == is_there, words


def test_a_histogram_alone_has_all_of_epsilon() -> None:
    """Its bins are all cases, so a number of cases beside them would only take of their epsilon."""
    params = METHOD.Params(epsilon="1", delta="0", indicators=["throughput of=histogram"])
    [bins] = [spend for spend in METHOD.spends(params) if "bins" in spend.what]
    bought = sum((s.epsilon for s in METHOD.spends(params)), Fraction(0)) - bins.epsilon
    assert bins.epsilon == Fraction(params.epsilon) - bought > Fraction(9, 10)
    alone = METHOD.Params(epsilon="1", delta="0", indicators=["throughput of=histogram at_most=1d"])
    [bins] = METHOD.spends(alone)
    scale, changed = Fraction(*bins.scale), bins.sensitivity
    assert (bins.epsilon, scale) == (1, changed)


def test_staff_is_told_to_be_without_protection_once_for_each_attribute() -> None:
    params = METHOD.Params(epsilon="1", indicators=["workload", "workload name=w at_most=1"])
    said = [text for text in METHOD.not_covered(params) if "org:resource" in text]
    assert len(said) == 1
    assert not [text for text in METHOD.not_covered(params_of(0)) if "org:" in text]


def test_more_priority_has_less_noise_and_takes_it_from_the_others() -> None:
    def share(priority: str) -> float:
        params = METHOD.Params(
            epsilon="1", delta="0", indicators=[f"rework priority={priority}", "within limit=1d"]
        )
        means = METHOD.budget(params).means
        return float(means["share with rework, sum"].epsilon)

    assert share("0.1") < share("1") < share("10") < 1


def test_starts_are_read_only_where_work_is_asked_for() -> None:
    asked = METHOD.Params(epsilon="1", service_times=True, indicators=["working activity=A"])
    assert METHOD.releases_starts(asked)
    assert not METHOD.releases_starts(params_of(0))
    assert METHOD.writes(asked) == ("indicators",)
