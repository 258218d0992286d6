"""The rigorous method of indicators, and PAPPI as published."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.examples import examples_of
from tests.support.keys import release_key
from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.indicators.errors import PrivateIndicators, figure_errors, least_epsilon
from tracecloak.anonymizers.indicators.pappi import Pappi, PappiParams, count_aggregates
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.anonymizers.indicators.summands import RANGE, CellSums
from tracecloak.schemas.published.figures import IndicatorRow

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


# --- PAPPI ----------------------------------------------------------------------------------------


ASKED = ("cases", "rework", "frequency activity=A at_most=2", "rule template=last activity=B")


def pappi_params(**changes: Any) -> PappiParams:
    return PappiParams(**{"epsilon": "2", "indicators": ASKED, **changes})


def rows(asked: PappiParams, key: int = 0, *cases: str) -> list[IndicatorRow]:
    made = anonymise([batch_of(*cases)], Pappi(), asked, release_key(key), "p", "d" * 8)
    released: list[IndicatorRow] = made.products.by_name["indicators"].rows()
    return released


@pytest.mark.parametrize("mechanism", ["laplace", "interval"])
def test_with_hardly_any_noise_they_are_those_of_the_cases(mechanism: str) -> None:
    cases = ["AAB"] * 30 + ["AB"] * 60 + ["B"] * 10
    found = rows(pappi_params(epsilon="1000", mechanism=mechanism), 0, *cases)
    step = {"laplace": 0.1, "interval": 1.0}[mechanism]
    for row, truth, unit in zip(found, (100, 0.3, 120, 1.0), (1, 100, 0.5, 100), strict=True):
        assert abs(row.value - truth) * unit <= step
        assert row.low <= row.value <= row.high


@pytest.mark.parametrize("mechanism", ["laplace", "interval"])
def test_the_noise_is_as_wide_as_the_paper_says(mechanism: str) -> None:
    """Of a share in the middle of its bounds: a quarter of epsilon, divided by the cases."""
    cases = ["AA"] * 500 + ["AB"] * 500
    asked = pappi_params(mechanism=mechanism)
    off = np.array([rows(asked, key, *cases)[1].value - 0.5 for key in range(120)]) * 1000
    scale = 2.0 * (1 if mechanism == "laplace" else 2)
    assert abs(np.mean(off)) < scale / 2
    assert np.mean(np.abs(off)) == pytest.approx(scale, rel=0.35)


@pytest.mark.parametrize(("mechanism", "factor"), [("laplace", 1), ("interval", 2)])
def test_an_interval_has_the_number_with_a_probability_of_95_percent(
    mechanism: str, factor: int
) -> None:
    """Of noise with the scale b, |noise| < b ln 20 with a probability of 1 - 1 / 20."""
    cases = ["AAB"] * 5_000 + ["AB"] * 5_000
    share = rows(pappi_params(mechanism=mechanism), 0, *cases)[1]
    half = math.log(20) * 2 * factor / len(cases)
    assert (share.low, share.high) == pytest.approx((share.value - half, share.value + half))


def test_a_case_in_place_of_another_moves_no_sum_by_more_than_its_range() -> None:
    counter = Counted(CellSums, count_aggregates, (pappi_params(),))
    words = ["".join(w) for n in (1, 2, 3) for w in itertools.product("AB", repeat=n)]
    sums = {w: counter.count(batch_of(w), {}, None).values for w in words}  # type: ignore[arg-type]
    most = max(np.abs(a - b).max() for a, b in itertools.product(sums.values(), repeat=2))
    assert most == RANGE
    assert len({int(values[0]) for values in sums.values()}) == 1  # the number of cases stays
