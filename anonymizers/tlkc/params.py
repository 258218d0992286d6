"""The parameters of the k-anonymity family: what may be known, and how often it must match."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal

import pydantic
from pydantic import AwareDatetime, Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.statistics import background_knowledge

# Times count from here in every case: the microseconds of this instant.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KnowledgeParams(contract.Params):
    """What every method of the family takes."""

    k: int = Field(default=20, ge=1, le=10**9)
    """K: how many released cases match whatever is known of one of them. More costs more events."""

    perspective: background_knowledge.Perspective = "activity"
    """What is known of events: activity, resource, or activity_resource, both together."""

    time_unit: background_knowledge.TimeUnit = "hours"
    """T: the accuracy of released times, which are counted from each case's first event; a finer
    one costs far more events where times are known."""

    resources: Declarations = Field(default_factory=dict)
    """One attribute of events with its values: the resource, which is released with them. It is
    needed where the perspective has it, and by default there is none; any other value is released
    as none."""

    initial_time: AwareDatetime = _EPOCH
    """When every released case begins: a public instant."""

    @pydantic.model_validator(mode="after")
    def _resource_goes_with_perspective(self) -> KnowledgeParams:
        named = declared(self.resources)
        if (self.perspective == "activity") != (not named):
            raise ValueError(
                "resources go with the perspectives resource and activity_resource, and they "
                f"need them; perspective is {self.perspective}"
            )
        if named and (len(named) > 1 or named[0].is_of_case or named[0].declaration.values is None):
            raise ValueError("resources must be one attribute of events, declared by its values")
        return self

    @property
    def sensitive_attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes in the order of their declaration; by default there is none."""
        return ()

    def knowledge(self, kind: background_knowledge.Kind) -> background_knowledge.Knowledge:
        """Returns what may be known, of a kind."""
        resource = next(iter(declared(self.resources)), None)
        return background_knowledge.Knowledge(kind, self.perspective, self.time_unit, resource)


class KAnonymousParams(KnowledgeParams):
    """Parameters of the two baselines."""

    knowledge_kind: Literal["sequence", "relative"] = "sequence"
    """What makes cases alike: the sequence of their events' elements, or relative: that and all
    times since the first event, to the time_unit."""


class TlkcParams(KnowledgeParams):
    """Parameters of TLKC privacy."""

    length: int = Field(default=2, ge=1, le=20)
    """L: how many elements may be known of a case. More costs more events and more time."""

    confidence: float = Field(default=0.5, gt=0, le=1)
    """C: the largest share of a sensitive value among the cases that match what is known; above
    0.5 a case may be as good as alone with its value. Lower costs more events."""

    knowledge_kind: background_knowledge.Kind = "relative"
    """How the known elements are put together: set, multiset, sequence, or relative: a sequence
    with all times since the case's first event, to the time_unit."""

    sensitive: Declarations = Field(default_factory=dict)
    """Sensitive attributes of the case, released with it: texts with their values, numbers with
    bounds, of which the quartiles of the log make low, middle and high. What is not declared is
    released as no value and counts as none. By default there is none, and only k holds."""

    algorithm: Literal["n_score", "frequent_traces"] = "n_score"
    """What suppression is to cost least: n_score, cases with the element (Algorithm 2), or
    frequent_traces, maximal frequent traces (Algorithm 1)."""

    profile: Literal["sparing", "paper"] = "sparing"
    """How events are chosen that go: sparing gives back what need not go, and decides equal scores
    by what costs least; paper draws one of equal scores, gives nothing back, and of a multiset
    suppresses all events of an element. Both keep the same promise."""

    alpha: float = Field(default=0.5, ge=0, le=1)
    """Of n_score: weight of the violations that a suppression removes, from 0 to 1; the cases that
    lose an event have the rest."""

    theta: float = Field(default=0.5, gt=0, le=1)
    """Of frequent_traces: the share of all cases from which on a subtrace is frequent, above 0 and
    at most 1. Where a small one makes very many frequent, only the shorter ones of them count."""

    @pydantic.model_validator(mode="after")
    def _sensitive_are_of_cases(self) -> TlkcParams:
        if not all(attribute.is_of_case for attribute in declared(self.sensitive)):
            raise ValueError("sensitive must be attributes of the case, named case:NAME")
        return self

    @property
    def sensitive_attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes in the order of their declaration."""
        return declared(self.sensitive)

    @property
    def exact_confidence(self) -> Fraction:
        """The confidence as it is written in decimals."""
        return Fraction(str(self.confidence))
