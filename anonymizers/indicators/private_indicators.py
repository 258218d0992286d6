"""`private-indicators`: declared figures of a process, (epsilon, delta) for all of them together.

What is asked for is a list: cases, times, shares in time, rework, rules, amounts, each with its
public bounds (`declared`). Every figure is a count, a sum or a mean of bounded numbers of cases
(`summands`), or a quantile of them; the sums of all are one vector, of which one case changes each
part by a known amount (`terms`), and get Laplace or Gaussian noise, whichever errs less. No figure
is computed from a log that was released or drawn.

Kabierski, Fahrenkrog-Petersen and Weidlich ("Privacy-Aware Process Performance Indicators:
Framework and Release Mechanisms", CAiSE 2021) for the question; means of centred sums and
permute-and-flip for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.indicators.declared import Working, Workload
from tracecloak.anonymizers.indicators.figures import parts_of, unfolded
from tracecloak.anonymizers.indicators.params import IndicatorParams, Known
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsDecision, PartsMethod
from tracecloak.schemas.published.manifest import CONDENSED, Operation

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.figure_error import FigureError
    from tracecloak.schemas.events.attributes import Attribute


class PrivateIndicators(PartsMethod):
    """The method; see the module."""

    name: ClassVar[str] = "private-indicators"
    version: ClassVar[int] = 3
    summary: ClassVar[str] = "performance indicators and rules, each with its error"
    Params: ClassVar[type[IndicatorParams]] = IndicatorParams
    operations: ClassVar[tuple[Operation, ...]] = (CONDENSED,)
    has_error_bars: ClassVar[bool] = True
    sums: ClassVar = "cells"
    between_chosen: ClassVar[str] = ", "
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "epsilon": "1",
            "indicators": (
                "cases",
                "throughput of=mean at_most=30d",
                "throughput of=median at_most=30d",
                "within limit=7d",
                "rework",
                "frequency activity=A",
            ),
        },
    )

    def parts(self, params: IndicatorParams) -> tuple[Part, ...]:
        """Returns the parts."""
        return parts_of(params)

    def attributes(self, params: IndicatorParams) -> tuple[Attribute, ...]:
        """Returns the attributes that indicators read."""
        return params.declared_attributes

    def releases_starts(self, params: IndicatorParams) -> bool:
        """Returns whether an indicator reads when events began."""
        return any(isinstance(indicator, Working) for indicator in params.indicators)

    def moves_by_case(self, params: IndicatorParams) -> bool:
        """Returns that they do: all are sums over cases, or chosen by ranks of cases."""
        return True

    def not_covered(self, params: IndicatorParams) -> tuple[str, ...]:
        """Returns what the release shows or allows beyond the promise."""
        staff = tuple(
            f"Who is counted by {by} is not protected: the promise is for those whose cases they "
            "are."
            for by in dict.fromkeys(i.by for i in params.indicators if isinstance(i, Workload))
        )
        return (*super().not_covered(params), *staff)

    def figure_errors(self, params: IndicatorParams, n_cases: int) -> tuple[FigureError, ...]:
        """Returns the error of each indicator."""
        from tracecloak.anonymizers.indicators.errors import figure_errors

        return figure_errors(params, n_cases)

    def costs(self, params: IndicatorParams) -> tuple[str, ...]:
        """Returns the least epsilon for the errors that are wanted, if any are."""
        if all(indicator.wanted_error is None for indicator in params.indicators):
            return ()
        from tracecloak.anonymizers.indicators.errors import wanted_sentences

        return wanted_sentences(params)

    def known(self, decisions: contract.Decisions) -> Mapping[str, Any]:
        """Returns what the parts of the rounds before decided, by their names."""
        return unfolded(decisions)

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: IndicatorParams
    ) -> PartsDecision:
        """Returns what the parts of a round decided."""
        return PartsDecision(decided)

    def writes(self, params: IndicatorParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return ("indicators",)

    def products(self, decisions: contract.Decisions, params: IndicatorParams) -> contract.Products:
        """Returns the indicators."""
        from tracecloak.anonymizers.indicators.figures import (
            measurements_of,
            released_indicators,
        )

        decided = unfolded(decisions)
        measured = measurements_of(params, decided, self.budget(params).means)
        released = released_indicators(Known(params, decided), measured)
        return contract.Products({"indicators": released})
