"""The vocabulary and the length that a method chose on the log, as later rounds count by them.

How they are chosen is in `bought_vocabulary` and `bought_length`; the clip is one more (`clips`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram

if TYPE_CHECKING:
    from tracecloak.anonymizers.rigorous.bought_length import LengthDecision
    from tracecloak.anonymizers.rigorous.bought_vocabulary import VocabularyDecision


def in_vocabulary(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces in the vocabulary that was bought, if one was; else as they are."""
    if "vocabulary" not in decisions:
        return traces
    return traces.recode_public(decisions["vocabulary"].vocabulary)


def known_vocabulary(
    public: ActivityVocabulary | None, decisions: contract.Decisions
) -> ActivityVocabulary:
    """Returns the activities, public or bought."""
    if public is not None:
        return public
    bought: VocabularyDecision = decisions["vocabulary"]
    return bought.vocabulary


def known_length(public: int | None, decisions: contract.Decisions) -> int:
    """Returns how many events of a case count at most, public or bought.

    Args:
        public: The public number; None: it is bought.
        decisions: What was decided before.
    """
    if public is not None:
        return public
    bought: LengthDecision = decisions["length"]
    return bought.max_trace_length


def within_length(traces: TraceBatch, decisions: contract.Decisions) -> TraceBatch:
    """Returns the traces cut at the length that was bought, if one was; else as they are."""
    if "length" not in decisions:
        return traces
    return traces.truncate(decisions["length"].max_trace_length)


def _variants_within(batch: Batch) -> VariantHistogram:
    traces = in_vocabulary(batch.traces, batch.decisions)
    return VariantHistogram.from_traces(within_length(traces, batch.decisions))


VARIANTS_WITHIN = Counted(VariantHistogram, _variants_within)
"""Cases by variant, over the vocabulary and within the length that were bought, if any were."""
