"""Counters that several methods have alike: what they count does not depend on any decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.events.timeline import StartRange
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True)
class CountVariants:
    """Cases by variant."""

    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        """Counts a batch."""
        return VariantHistogram.from_traces(traces)


@dataclass(frozen=True)
class CollectNames:
    """The activities' names: what the codes of all that is counted mean."""

    kind: ClassVar[type[ActivityVocabulary]] = ActivityVocabulary

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ActivityVocabulary:
        """Returns the names of a batch, those of the whole run."""
        return traces.vocabulary


def variants_and_names() -> dict[str, contract.Counter]:
    """Returns the counters of queries that take the names from the log: variants, and the names."""
    return {"variants": CountVariants(), "names": CollectNames()}


@dataclass(frozen=True)
class RangeOfStarts:
    """The earliest and the latest start of a case."""

    kind: ClassVar[type[StartRange]] = StartRange

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> StartRange:
        """Returns the range of a batch."""
        return StartRange.of(traces.starts)
