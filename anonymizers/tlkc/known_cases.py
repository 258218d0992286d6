"""What the k-anonymity family does with traces: counts them as known, and releases what is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, hex_ids
from tracecloak.anonymizers.tlkc.params import KnowledgeParams
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.attributes import Attribute, declared
from tracecloak.schemas.events.events import MAX_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.guarantee import Kind as GuaranteeKind
from tracecloak.schemas.published.manifest import SUPPRESSED_STARTS, Operation
from tracecloak.schemas.statistics.background_knowledge import (
    UNIT_US,
    Kind,
    Knowledge,
    KnownCases,
    cells_of,
)


@dataclass(frozen=True)
class KnownCaseCounter:
    """Counts the distinct cases as they can be known.

    Attributes:
        knowledge: What is seen of the events.
        sensitive: The attributes of cases whose cells are counted with them.
    """

    knowledge: Knowledge
    sensitive: tuple[Attribute, ...] = ()
    kind: ClassVar[type[KnownCases]] = KnownCases

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> KnownCases:
        """Counts a batch."""
        first = traces.offsets[:-1]
        cells = [cells_of(traces, attribute)[first] for attribute in self.sensitive]
        return KnownCases.from_cases(
            traces.offsets,
            self.knowledge.words(traces),
            np.stack(cells, axis=1) if cells else np.zeros((traces.n_cases, 0), np.int32),
        )


class Suppressing(contract.Anonymizer):
    """What the methods of the family share: in one round it is decided which events go."""

    guarantee_kind: ClassVar[GuaranteeKind] = "syntactic"
    log: ClassVar[Literal["transformed"]] = "transformed"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("suppression", "event", "event"),
        Operation("suppression", "case", "case"),
        Operation("generalization", "event", "time:timestamp"),
        Operation("substitution", "event", "time:timestamp"),
        SUPPRESSED_STARTS,
    )
    exact_noise: ClassVar[bool] = True
    verifies: ClassVar[bool] = True

    def rounds(self, params: Any) -> tuple[str, ...]:
        """Returns the one round, in which everything is decided."""
        return ("suppression",)


def syntactic(
    claim: str, not_covered: tuple[str, ...], params: KnowledgeParams, kind: Kind
) -> Guarantee:
    """Returns the guarantee of a method of the family.

    Args:
        claim: The property of the released log.
        not_covered: What this method leaves open beside what all of them do.
        params: What may be known of events.
        kind: How it is put together.
    """
    also = []
    if kind != "relative":
        also.append(
            f"Times since the first event are released to the {params.time_unit[:-1]}, and nothing "
            "holds for who knows them."
        )
    if params.perspective == "resource":
        also.append("The activities are released, and nothing holds for who knows them.")
    return Guarantee(
        kind="syntactic",
        unit="case",
        adjacency="add_remove",
        epsilon=None,
        delta=None,
        claim=claim,
        reality=(
            "The property is one of the released log alone. No finite epsilon holds: what is "
            "suppressed depends on every case, and nothing is noised."
        ),
        not_covered=(
            *not_covered,
            *also,
            "All k cases that are alike can be those of one individual.",
            "Two releases of the same or of overlapping logs, seen together, can break it.",
            "The names of activities are the input's own, and what is absent was rare.",
        ),
    )


def released(
    traces: TraceBatch,
    is_kept: np.ndarray,
    params: KnowledgeParams,
    sensitive: tuple[Attribute, ...],
    randomness: Randomness,
) -> TraceBatch:
    """Returns the cases with the events that are kept, without those that have none.

    Ids are new. Times are cut to the unit and count from the first event kept, which is at the
    initial time. Of the attributes there are the resource and then the sensitive ones, each
    value as its declaration has it: of a bin of numbers its lower end.

    Args:
        traces: Of the source.
        is_kept: bool[n_events].
        params: What is known of events, and the released accuracy.
        sensitive: Attributes of the case.
        randomness: The release's.

    Raises:
        GuaranteeError: A case lasts longer than there is time after the initial one.
    """
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(np.int64)
    lengths = np.diff(before[traces.offsets])
    filled = np.flatnonzero(lengths)
    lengths, events = lengths[filled], np.flatnonzero(is_kept)
    offsets = offsets_of(lengths)
    units = traces.times[events] // UNIT_US[params.time_unit]
    since = units - np.repeat(units[offsets[:-1]], lengths)
    initial = (params.initial_time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if len(since) and int(since.max()) > (MAX_TIME_US - initial) // UNIT_US[params.time_unit]:
        raise GuaranteeError(
            f"initial_time={params.initial_time.isoformat()} puts released times beyond the year "
            "9999, which no file can hold; take an earlier one"
        )
    ids = randomness.identify("case", traces.case_ids.take(pa.array(filled)))
    attributes = {}
    for attribute in (*declared(params.resources), *sensitive):
        cells = cells_of(traces, attribute)[events]
        attributes[attribute.name] = attribute.values_of(cells, np.zeros(len(cells)))
    return TraceBatch(
        hex_ids(randomness.words("k-anonymity/case-id", ids)),
        offsets,
        traces.activities[events],
        initial + since * UNIT_US[params.time_unit],
        traces.vocabulary,
        attributes=attributes,
    )
