"""Keyed identities for the names in a stream's messages, so that no text meets its state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import KeyedBlocks
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_ID,
    PUBLISH_TIME,
    SOURCE_ORDER,
    TIMESTAMP,
)
from tracecloak.schemas.events.traces import INDIVIDUAL_ID
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents

_KINDS = ("case", "individual", "case of individual", "event", "activity", "event without id")


class Identities:
    """Keyed identities of what the messages of a stream name."""

    def __init__(self, key: ReleaseKey) -> None:
        self._of = {
            kind: KeyedBlocks(key.derive(f"stream identity/{kind}".encode())) for kind in _KINDS
        }

    def keyed(self, events: pa.RecordBatch, rule: ClosingRule, by_individual: bool) -> CaseEvents:
        """Returns the events with keys for names.

        An event without an id is identified by its activity and time within its case.

        Args:
            events: Batch of `MessageFormat.schema`.
            rule: Whose vocabulary is public.
            by_individual: Whether a case is a pair of an individual and a case id.
        """
        case, ids = _coded(events, CASE_ID)
        keys, whose = self._of["case"].of_text(ids), np.zeros((len(ids), 0), np.uint64)
        if by_individual:
            individual, names = _coded(events, INDIVIDUAL_ID)
            pairs, case = np.unique(individual * len(ids) + case, return_inverse=True)
            whose = self._of["individual"].of_text(names)[pairs // len(ids)]
            # The words of the two kinds are independent, so two pairs agree with chance 2^-128.
            keys = self._of["case of individual"].encrypt(keys[pairs % len(ids)] ^ whose)
        activity, names = _coded(events, ACTIVITY)
        time, published = (np.asarray(events.column(n)) for n in (TIMESTAMP, PUBLISH_TIME))
        return CaseEvents.of(
            keys,
            whose,
            case,
            published,
            published if rule.by_publishing else time,
            np.asarray(events.column(SOURCE_ORDER)),
            self._event_ids(events.column(EVENT_ID), time, activity, names),
            rule.coded(names, activity, published),
        )

    def _event_ids(
        self, ids: pa.StringArray, time: np.ndarray, activity: np.ndarray, names: pa.StringArray
    ) -> np.ndarray:
        words = self._of["event"].of_text(pc.fill_null(ids, ""))[:, 0].copy()
        unnamed = np.flatnonzero(np.asarray(ids.is_null()))
        if len(unnamed):
            described = np.empty((len(unnamed), 2), np.uint64)
            described[:, 0] = time[unnamed].view(np.uint64)
            described[:, 1] = self._of["activity"].of_text(names)[activity[unnamed], 0]
            words[unnamed] = self._of["event without id"].encrypt(described)[:, 0]
        return words


def _coded(events: pa.RecordBatch, name: str) -> tuple[np.ndarray, pa.StringArray]:
    column = events.column(name)
    return np.asarray(column.indices).astype(np.int64), column.dictionary
