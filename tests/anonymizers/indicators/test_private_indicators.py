"""The method as a whole: its parts and its promise, and the errors that a plan foretells."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.support.examples import examples_of
from tracecloak.anonymizers.indicators.errors import PrivateIndicators, figure_errors, least_epsilon
from tracecloak.anonymizers.indicators.params import IndicatorParams

METHOD = PrivateIndicators()


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


WANTED = (
    "cases",
    "within limit=7d wanted_error=0.01",
    "rework wanted_error=0.02",
    "throughput of=median at_most=30d wanted_error=40",
)


def params(epsilon: str, *indicators: str) -> IndicatorParams:
    given: dict[str, Any] = {"epsilon": epsilon, "indicators": indicators}
    return IndicatorParams.model_validate(given)


def test_of_one_number_the_error_is_that_of_laplace_noise() -> None:
    """Ln 20 / epsilon cases, whatever their number; of a share it falls as they grow."""
    [cases] = figure_errors(params("0.5", "cases"), 1_000)
    assert (cases.unit, cases.half_width) == ("cases", pytest.approx(5.991, abs=0.01))
    few, many = (figure_errors(params("1", "cases", "rework"), n)[1] for n in (100, 10_000))
    assert few.half_width == pytest.approx(100 * many.half_width)
    assert (few.grade, many.grade) == ("good", "good")
    assert figure_errors(params("0.01", "cases", "rework"), 100)[1].grade == "noise"


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
def test_the_least_epsilon_is_enough_and_less_is_not(epsilon: str) -> None:
    least = least_epsilon(params(epsilon, *WANTED), 2_000)
    assert least is not None
    asked = [f"{t} priority={p}" for t, p in zip(WANTED, least[1], strict=True)]

    def are_met(at: float) -> bool:
        errors = figure_errors(params(f"{at:.6g}", *asked), 2_000)
        return all(e.wanted is None or e.half_width <= e.wanted for e in errors)

    assert are_met(float(least[0]))
    assert not are_met(0.9 * float(least[0]))


def test_some_errors_no_epsilon_gives() -> None:
    assert least_epsilon(params("1", "cases wanted_error=0.0001"), 100) is None
