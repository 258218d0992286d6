"""How a function becomes a counter, and the counters that several methods have alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import Mergeable
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.log_times import StartRange
from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True)
class Batch:
    """What a batch is counted by.

    Attributes:
        traces: Complete cases, within the public caps.
        decisions: What was decided before.
        randomness: What may be drawn from where a count samples.
    """

    traces: TraceBatch
    decisions: contract.Decisions
    randomness: Randomness


@dataclass(frozen=True)
class Counted:
    """The counter that calls a function on each batch.

    Attributes:
        kind: The type that the function returns.
        function: Of a module, so that it pickles: of a `Batch`, and of what is given.
        given: Further arguments, which hold no data.
    """

    kind: type[Mergeable]
    function: Callable[..., Mergeable]
    given: tuple[Any, ...] = ()

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> Mergeable:
        """Counts a batch."""
        return self.function(Batch(traces, decisions, randomness), *self.given)


def _of_traces(batch: Batch, of: Callable[..., Mergeable], *given: Any) -> Mergeable:
    return of(batch.traces, *given)


def from_traces(kind: Any, *given: Any) -> Counted:
    """Returns the counter that makes a statistic of traces by its `from_traces`."""
    return Counted(kind, _of_traces, (kind.from_traces, *given))


def _names(batch: Batch) -> ActivityVocabulary:
    return batch.traces.vocabulary


CountVariants = partial(from_traces, VariantHistogram)
"""Returns the counter of cases by variant."""

CollectNames = partial(Counted, ActivityVocabulary, _names)
"""Returns the counter of the activities' names: what the codes of all that is counted mean."""


def variants_and_names() -> dict[str, contract.Counter]:
    """Returns the counters of queries that take the names from the log: variants, and the names."""
    return {"variants": CountVariants(), "names": CollectNames()}


def _range_of_starts(batch: Batch) -> StartRange:
    return StartRange.of(batch.traces.starts)


RANGE_OF_STARTS = Counted(StartRange, _range_of_starts)
"""The earliest and the latest start of a case."""
