"""The parameters of `pretsa` and `pretsa-case`."""

from __future__ import annotations

from typing import Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.variants.distance import PenaltyDirection
from tracecloak.schemas.events.attributes import Attribute, declared
from tracecloak.schemas.events.declarations import Declarations


class PretsaCaseParams(contract.Params):
    """Parameters of `pretsa-case`, and of `pretsa` but for t."""

    k: int = Field(default=4, ge=1, le=10**9)
    """Fewest cases of each prefix of the released log, and of each variant where the ends are
    protected. Larger merges more variants."""

    distance: Literal["levenshtein", "embedding"] = "levenshtein"
    """How the nearest variant is found: levenshtein counts edits, embedding compares the contexts
    of activities place by place, which keeps longer variants and needs the package gensim."""

    protect_ends: bool = True
    """Whether each released variant has at least k cases. Without it, as published, only each
    prefix has, and a variant that others continue can be that of a single case."""

    penalty_direction: PenaltyDirection = "text"
    """With distance embedding, how lengths count: text prefers to merge into longer variants,
    paper_formula is the formula as printed, which prefers shorter ones, and authors_code squares
    the difference of lengths."""

    rho_addition: float = Field(default=2.0, gt=1, le=100)
    """With distance embedding, the penalty of an event that is added, above 1; two activities are
    at most 2 apart, so above 2 a length always counts more than an activity."""

    rho_removal: float = Field(default=3.0, gt=1, le=100)
    """With distance embedding, the penalty of an event that is removed, above rho_addition."""

    epochs: int | None = Field(default=None, ge=1, le=10**6)
    """With distance embedding, how often Word2Vec goes through the log; by default 1000 times for
    small logs and less often for large ones, at least 5 times."""

    starts: Literal["dropped", "kept"] = "dropped"
    """Whether each case begins at the start of 1970, as in the paper's release, which has durations
    alone, or when it did. A start that is kept is exact, and can tell whose case it is."""

    duration: Declarations = Field(default_factory=dict)
    """What is taken for an event's duration; by default the time since its predecessor. Else one
    attribute of events, declared by bounds, which is released with new numbers. Fewer bins are
    coarser. The released events then have numbers in place of times, unless starts are kept."""

    @property
    def duration_attribute(self) -> Attribute | None:
        """The attribute that is the duration, if it is one."""
        return next(iter(declared(self.duration)), None)

    @pydantic.model_validator(mode="after")
    def _duration_is_one_number_of_events(self) -> PretsaCaseParams:
        named = self.duration_attribute
        if named and (
            len(self.duration) > 1 or named.is_of_case or named.declaration.bounds is None
        ):
            raise ValueError("duration must be one attribute of events, declared by bounds")
        return self

    @pydantic.model_validator(mode="after")
    def _removal_costs_more(self) -> PretsaCaseParams:
        if not self.rho_removal > self.rho_addition:
            raise ValueError(
                f"rho_removal must be above rho_addition, got {self.rho_removal:g} and "
                f"{self.rho_addition:g}"
            )
        return self


class PretsaParams(PretsaCaseParams):
    """Parameters of `pretsa`."""

    t: float = Field(default=0.5, gt=0, le=1)
    """How far the durations at each prefix may be from those of all events of its activity, from
    above 0 to 1: every distance stays below t times the range of the latter. 1 allows all; smaller
    merges more variants."""

    closeness: Literal["released", "input"] = "released"
    """Whose durations t is about. released: those of the released log, which can be verified and is
    what t-closeness means; input, as the algorithm is published: those that the cases which stay at
    a prefix have in the input, among all of the input, and what is drawn for others counts
    nowhere. It releases some small logs that the other refuses."""
