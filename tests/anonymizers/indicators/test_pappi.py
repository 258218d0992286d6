"""The published mechanisms for indicators: what they add, and what holds of it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.indicators.pappi import Pappi, PappiParams, count_aggregates
from tracecloak.anonymizers.indicators.summands import RANGE, CellSums
from tracecloak.schemas.published.figures import IndicatorRow

ASKED = ("cases", "rework", "frequency activity=A at_most=2", "rule template=last activity=B")


def params(**changes: Any) -> PappiParams:
    return PappiParams(**{"epsilon": "2", "indicators": ASKED, **changes})


def rows(asked: PappiParams, key: int = 0, *cases: str) -> list[IndicatorRow]:
    made = anonymise([batch_of(*cases)], Pappi(), asked, release_key(key), "p", "d" * 8)
    released: list[IndicatorRow] = made.products.by_name["indicators"].rows()
    return released


@pytest.mark.parametrize("mechanism", ["laplace", "interval"])
def test_with_hardly_any_noise_they_are_those_of_the_cases(mechanism: str) -> None:
    cases = ["AAB"] * 30 + ["AB"] * 60 + ["B"] * 10
    found = rows(params(epsilon="1000", mechanism=mechanism), 0, *cases)
    step = {"laplace": 0.1, "interval": 1.0}[mechanism]
    for row, truth, unit in zip(found, (100, 0.3, 120, 1.0), (1, 100, 0.5, 100), strict=True):
        assert abs(row.value - truth) * unit <= step
        assert row.low <= row.value <= row.high


@pytest.mark.parametrize("mechanism", ["laplace", "interval"])
def test_the_noise_is_as_wide_as_the_paper_says(mechanism: str) -> None:
    """Of a share in the middle of its bounds: a quarter of epsilon, divided by the cases."""
    cases = ["AA"] * 500 + ["AB"] * 500
    asked = params(mechanism=mechanism)
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
    share = rows(params(mechanism=mechanism), 0, *cases)[1]
    half = math.log(20) * 2 * factor / len(cases)
    assert (share.low, share.high) == pytest.approx((share.value - half, share.value + half))


def test_a_case_in_place_of_another_moves_no_sum_by_more_than_its_range() -> None:
    counter = Counted(CellSums, count_aggregates, (params(),))
    words = ["".join(w) for n in (1, 2, 3) for w in itertools.product("AB", repeat=n)]
    sums = {w: counter.count(batch_of(w), {}, None).values for w in words}  # type: ignore[arg-type]
    most = max(np.abs(a - b).max() for a, b in itertools.product(sums.values(), repeat=2))
    assert most == RANGE
    assert len({int(values[0]) for values in sums.values()}) == 1  # the number of cases stays
