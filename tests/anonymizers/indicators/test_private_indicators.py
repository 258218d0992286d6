"""The method as a whole: its parts, its promise, and that batches and shards change nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.support.examples import examples_of
from tracecloak.anonymizers.indicators.errors import PrivateIndicators

METHOD = PrivateIndicators()
HOUR, FIRST_US = 3_600_000_000, 1_577_836_800_000_000  # 2020-01-01


def params_of(place: int) -> Any:
    return METHOD.Params(**examples_of(METHOD)[place])


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
