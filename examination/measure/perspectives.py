"""The three perspectives on events: activities, resources, and both together.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 3.2:
a trace is projected on its activities, on its resources, or on pairs of the two. Projected traces
are traces whose activities are the elements of the perspective, so everything that is counted or
measured of activities is counted and measured of the others too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.background_knowledge import NO_ELEMENT, Perspective

# The name that the resource has in released logs, after the XES extension for organisations.
RESOURCE = "org:resource"
PERSPECTIVES: tuple[Perspective, ...] = ("activity", "resource", "activity_resource")


@dataclass(frozen=True, eq=False)
class Elements:
    """How the elements of the events of some logs are coded, the same in all of them.

    Attributes:
        perspective: What an element is.
        activities: Names of the activities of all logs.
        resources: Names of their resources; empty where the perspective has none.
    """

    perspective: Perspective
    activities: ActivityVocabulary
    resources: ActivityVocabulary

    @classmethod
    def of(cls, logs: Sequence[TraceBatch], perspective: Perspective) -> Elements:
        """Finds the names of some logs."""
        activities = ActivityVocabulary.merge([log.vocabulary for log in logs])
        names = [pa.array([], pa.string())]
        if perspective != "activity":
            names += [pc.drop_null(pc.unique(resource_names(log))) for log in logs]
        return cls(perspective, activities, ActivityVocabulary.of(pa.concat_arrays(names)))

    @property
    def n_resources(self) -> int:
        """Number of resources, and one for none."""
        return len(self.resources) + 1

    def codes(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_events], the code of each event's element, from 1 on.

        NO_ELEMENT stands for an event without a resource where only that counts; a pair of an
        activity and no resource is an element like others.
        """
        if self.perspective == "resource":
            return self._cells(traces)
        code_of = self.activities.codes(traces.vocabulary.names)
        activities = code_of[traces.activities].astype(np.int64) if traces.n_events else _NO_CODES
        if self.perspective == "activity":
            return activities + 1
        return activities * self.n_resources + self._cells(traces) + 1

    def activity_codes(self, codes: np.ndarray) -> np.ndarray:
        """Returns int64[n], what codes of pairs are as codes of activities."""
        return (codes - 1) // self.n_resources + 1

    def _cells(self, traces: TraceBatch) -> np.ndarray:
        rows = pc.index_in(resource_names(traces), value_set=self.resources.names)
        return np.asarray(pc.fill_null(rows, -1), np.int64) + 1


_NO_CODES = np.zeros(0, np.int64)


def resource_names(traces: TraceBatch) -> pa.Array:
    """Returns string[n_events], the resources; null for none, and where traces have no such."""
    values = traces.attributes.get(RESOURCE)
    return pa.nulls(traces.n_events, pa.string()) if values is None else values.cast(pa.string())


def has_resources(traces: TraceBatch) -> bool:
    """Whether some event has a resource."""
    values = traces.attributes.get(RESOURCE)
    return values is not None and len(values) > resource_names(traces).null_count


def projected(logs: Sequence[TraceBatch], perspective: Perspective) -> list[TraceBatch]:
    """Projects logs on a perspective, the elements as activities of one vocabulary.

    Events without an element are left out, and so are cases of which nothing is left. Attributes
    are not carried. The names of the new activities tell them apart and are not for people.

    Args:
        logs: The logs, whose vocabularies may differ.
        perspective: What an element is.
    """
    elements = Elements.of(logs, perspective)
    codes = [elements.codes(log) for log in logs]
    used = np.unique(np.concatenate([_NO_CODES, *codes]))
    used = used[used != NO_ELEMENT]
    # Names of one length, so that their order is that of the codes.
    vocabulary = ActivityVocabulary(pa.array([f"{code:020}" for code in used], pa.string()))
    return [
        _reduced(log, of_log != NO_ELEMENT, np.searchsorted(used, of_log), vocabulary)
        for log, of_log in zip(logs, codes, strict=True)
    ]


def only_common(original: TraceBatch, released: TraceBatch) -> TraceBatch:
    """Returns the original without the events whose activities the released log does not have.

    Both are of one vocabulary. Cases of which nothing is left are left out; attributes are not
    carried.
    """
    has = np.zeros(len(original.vocabulary), bool)
    has[released.activities] = True
    return _reduced(original, has[original.activities], original.activities, original.vocabulary)


def _reduced(
    log: TraceBatch, is_kept: np.ndarray, codes: np.ndarray, vocabulary: ActivityVocabulary
) -> TraceBatch:
    """The cases with the events that are kept, under new codes."""
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(np.int64)
    lengths = np.diff(before[log.offsets])
    filled = lengths > 0
    return TraceBatch(
        log.case_ids.filter(pa.array(filled)),
        offsets_of(lengths[filled]),
        codes[is_kept].astype(np.int32),
        log.times[is_kept],
        vocabulary,
    )
