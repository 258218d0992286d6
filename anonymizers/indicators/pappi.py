"""`pappi`: performance indicators by the release mechanisms that were published for them.

Kabierski, Fahrenkrog-Petersen and Weidlich, "Privacy-Aware Process Performance Indicators:
Framework and Release Mechanisms" (CAiSE 2021), and their library PaPPI. Every indicator is an
aggregate of one number of each case: a count, a sum or an average between bounds. Each is released
by itself, with its part of epsilon:

* `laplace`: the aggregate plus Laplace noise; of a sum with the upper bound as sensitivity, of an
  average with the distance of the bounds divided by the number of cases;
* `interval`: the range of the result is divided into intervals as wide as that sensitivity, around
  the exact result; one is chosen by the exponential mechanism, by how many intervals it is away,
  and a number within it is drawn evenly.

A result beyond its bounds becomes the bound. The number of cases is taken to be public, and is used
as it is. Bounds are declared here, as the paper allows; its library takes them from the log unless
it is told otherwise, for which nothing holds. `private-indicators` answers the same questions with
one budget for all, and no number taken to be known.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.indicators import declared
from tracecloak.anonymizers.indicators.params import Known, RequestedParams
from tracecloak.anonymizers.indicators.summands import (
    RANGE,
    CellSums,
    bounds_of,
    numbers_added,
)
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.rigorous.params import Exact, drawable, published_guarantee
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.published.figures import MEASURED, IndicatorRow, ReleasedIndicators
from tracecloak.schemas.published.manifest import Guarantee

_SECOND_US = 1_000_000


class PappiParams(RequestedParams):
    """Parameters of `pappi`."""

    delta: Exact = Field(default=Decimal(0), ge=0, le=0)
    """It is as if, with this probability, the release told everything; 0, as the paper has none."""
    mechanism: Literal["laplace", "interval"] = "laplace"
    """laplace: noise on each result. interval: an interval about the result is chosen, and a number
    within it drawn."""

    @pydantic.model_validator(mode="after")
    def _check_aggregates(self) -> PappiParams:
        if self.max_cases_per_individual is not None:
            raise ValueError("max_cases_per_individual: the paper protects cases, leave it out")
        for place, indicator in enumerate(self.indicators):
            at = f"indicators.{place}: "
            is_time = isinstance(indicator, declared.Throughput) and indicator.of in ("mean", "sum")
            if not is_time and (indicator.attributes or isinstance(indicator, declared.Measured)):
                raise ValueError(f"{at}pappi has counts, sums and averages of all cases alone")
            if indicator.where is not None or indicator.by is not None:
                raise ValueError(f"{at}where and by are not of the paper, leave them out")
            if isinstance(indicator, declared.Timed) and indicator.at_most is None:
                raise ValueError(f"{at}at_most must be declared")
        return self

    @property
    def epsilon_each(self) -> Fraction:
        """What each indicator spends."""
        return Fraction(self.epsilon) / len(self.indicators)


def count_aggregates(batch: Batch, params: PappiParams) -> CellSums:
    """Adds up cases, and each indicator's numbers above their lower bound.

    Args:
        batch: Complete cases, and what was decided before.
        params: What is asked for.
    """
    traces = batch.traces
    known, sums = Known(params, {}), [traces.n_cases]
    for indicator in params.indicators:
        if isinstance(indicator, declared.Cases):
            sums.append(traces.n_cases * RANGE)
            continue
        numbers = numbers_added(indicator, known.steps(indicator), traces)
        sums.append(int(bounds_of(indicator).places(numbers.values).sum()))
    return CellSums(np.array(sums, np.int64))


class AggregatesDecision(contract.Decision, wire_name="pappi-aggregates"):
    """The results.

    Attributes:
        n_cases: The exact number of cases.
        values: float64[n], each indicator's result with noise, in ranges.
    """

    n_cases: int
    values: np.ndarray


class Pappi(contract.Anonymizer, name="pappi"):
    """The method; see the module."""

    Params: ClassVar[type[PappiParams]] = PappiParams

    def spends(self, params: PappiParams) -> tuple[Spend, ...]:
        """Returns the one part, of a case that is replaced by another."""
        return (Spend("indicators", "pure", Fraction(params.epsilon), Fraction(0)),)

    def guarantee(self, params: PappiParams) -> Guarantee:
        """Returns the published claim and what is true of it."""
        return published_guarantee(self.name, params, Fraction(params.epsilon), "replace_one")

    def parts(self, params: PappiParams) -> tuple[Part, ...]:
        """Returns the one part, which counts all sums and adds the noise."""
        counters = {"sums": Counted(CellSums, count_aggregates, (params,))}

        def decide(given: Given) -> AggregatesDecision:
            n_cases, *sums = given.statistics["sums"].cells(len(params.indicators) + 1).tolist()
            places = np.arange(len(sums))
            stream = CellStream(given.randomness, "pappi", cell_numbers(places))
            changed = of_count(RANGE if params.mechanism == "laplace" else 2)
            noise = draw_laplace(stream, *drawable(laplace_scale(params.epsilon_each, changed)))
            if params.mechanism == "laplace":
                return AggregatesDecision(n_cases, (np.array(sums) + noise) / RANGE)
            within = _uniform(given.randomness, places) - 0.5
            return AggregatesDecision(n_cases, np.array(sums) / RANGE + noise + within)

        does = told(self.name, "indicators", params)
        return (Part("indicators", (), does, decide, counters, "aggregates"),)

    def products(self, decisions: contract.Decisions, params: PappiParams) -> contract.Products:
        """Returns the indicators, within their bounds."""
        decision: AggregatesDecision = decisions["aggregates"]
        rows = [
            _row(indicator, float(value), decision.n_cases, params)
            for indicator, value in zip(params.indicators, decision.values, strict=True)
        ]
        return contract.Products({"indicators": ReleasedIndicators.of(rows)})


def _uniform(randomness: Randomness, places: np.ndarray) -> np.ndarray:
    """float64[n] in [0, 1), keyed by their places."""
    words = randomness.words("pappi/within", cell_numbers(places))
    return (words[:, 0] >> np.uint64(11)).astype(np.float64) / 2**53


def _row(
    indicator: declared.Indicator, value: float, n_cases: int, params: PappiParams
) -> IndicatorRow:
    """The row of a result in ranges, with the interval that its noise has."""
    scale = float(1 / params.epsilon_each) * (1 if params.mechanism == "laplace" else 2)
    half = math.log(20) * scale
    unit = indicator.unit  # 0 is the least number of a case
    high = bounds_of(indicator).high / (_SECOND_US if unit == "s" else 1)
    n = 1 if unit in ("cases", "occurrences") else max(n_cases, 1)
    if isinstance(indicator, declared.Throughput) and indicator.of == "sum":
        n = 1
    most = high if n > 1 or not n_cases else high * n_cases

    def number(ranges: float) -> float:
        return float(f"{min(max(ranges * high / n, 0.0), most):.9g}")

    ends = number(value - half), number(value + half)
    return IndicatorRow(indicator.title, None, number(value), *ends, unit, MEASURED)
