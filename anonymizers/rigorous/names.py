"""Parameters of the rigorous methods that work on a list of activities, public or bought."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pydantic
from pydantic import Field

from tracecloak.anonymizers.rigorous.budget import Budget
from tracecloak.anonymizers.rigorous.params import RigorousParams
from tracecloak.schemas.errors import UsageError


class ListedParams(RigorousParams, ABC):
    """Parameters of a method that needs to know the activities before it counts anything.

    Neither declared nor asked to be bought, they are an error: a list that was bought unasked may
    be empty, and the release with it, at the full price.
    """

    buy_vocabulary: bool = False
    """Choose the activities on the log, for a share of epsilon and delta: those that enough cases
    have; any other counts as __other__. For logs whose names cannot be declared."""
    max_activities: int = Field(default=16, ge=1, le=1000)
    """Distinct activities of a case that count where the vocabulary is bought; those of a case with
    fewer weigh more."""

    @pydantic.model_validator(mode="after")
    def _check_listed(self) -> ListedParams:
        if self.buy_vocabulary and self.vocabulary is not None:
            raise ValueError(
                "buy_vocabulary and vocabulary exclude each other: leave one of them out"
            )
        if self.delta == 0 and self.vocabulary is None:
            raise ValueError("delta 0 needs a public vocabulary: names are bought with delta")
        return self

    @property
    @abstractmethod
    def spending(self) -> Budget:
        """What each need may spend, with that of the vocabulary where it is bought."""

    def check_names(self) -> None:
        """Makes sure that the activities are known or bought.

        Raises:
            ValueError: They are neither; says what buying would find.
        """
        if self.vocabulary is not None or self.buy_vocabulary:
            return
        from tracecloak.anonymizers.rigorous.bought_vocabulary import likely_names

        try:
            allowance = self.spending.means["vocabulary"]
            outcome = f"finds {likely_names(allowance, self.max_activities, self.max_units)}"
        except UsageError:  # the noise would be wider than any that is drawn
            outcome = "finds no activity at this epsilon and delta"
        raise ValueError(
            "vocabulary is not declared, and this method counts by activities that are known "
            "beforehand. Declare a public list of them with vocabulary; `tracecloak vocabulary` "
            "writes the names of a log for you to read and strike out. Or set buy_vocabulary: it "
            f"{outcome}, and counts all others as __other__. It finds rarer ones with a larger "
            "epsilon, or with a smaller max_activities"
        )
