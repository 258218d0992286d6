"""What the operator is told of the records that were read: counts, first places, mends.

These lines are for the operator's terminal and folder, which are private, and hold no value of the
data. A plan says before a release what the first records mean for it; the release says it on a
terminal and in the operator's record. No release is refused because of its records: one with a true
epsilon can be refused for public numbers alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.schemas.calendar.time_grid import GRID_US, Granularity
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID, TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.sources import EventSource, FirstRecords

if TYPE_CHECKING:  # `plan` tells findings, too, and needs no Beam
    from tracecloak.transforms.batch.dead_letter import DeadLetter

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
# How many records are tried, and how many files are opened for that, at most.
_TRIED_RECORDS = 1_000
_TRIED_FILES = 5
# Activities repeat. A column that has at least this many different values, as many as this share of
# the records, holds ids, times or free texts.
_MANY_NAMES, _DIFFERENT = 50, 0.9
# A log of whole minutes loses steps that are shorter; where they are at least this share of all
# steps, the operator is told.
_MANY_SHORT = 0.1
# Of events that something else than their time orders, above this share the operator is told first.
_MANY_TIED = 0.05
_TIED = "they have case and timestamp in common with an event of another activity"


def log_findings(source: EventSource, dead_letter: DeadLetter) -> None:
    """Tells the operator what a run noted of its records, a line each; never fails for it."""
    try:
        n_records, findings = dead_letter.told()
    except Exception as error:  # whatever a file system does: the run's own end counts
        from tracecloak.pipelines.runners.failures import reason_of

        _LOG.warning("%s cannot be read: %s", dead_letter.folder, reason_of(error))
        return
    if not findings:
        return
    from tracecloak.pipelines.planning.finding_words import NOTHING_READ, finding_lines

    for line in finding_lines(n_records, findings, source):
        _OPERATOR.warning("%s", line)
    if any(finding.is_malformed for finding in findings):
        _OPERATOR.warning(
            "malformed records are left out; %s says where each one is", dead_letter.folder
        )
    n_malformed = sum(finding.n_records for finding in findings if finding.is_malformed)
    if n_records and n_malformed == n_records and dead_letter.max_error_ratio == 1:
        _OPERATOR.warning("%s", NOTHING_READ)


@dataclass(frozen=True)
class FirstLook:
    """The first records of an input, beside the configuration that they are to be released by.

    Attributes:
        source: Where they were read.
        records: What was read.
        declared: The declared activities; None: none are.
        granularity: What released stamps are declared to be whole multiples of; None: nothing is,
            or none are released.
    """

    source: EventSource
    records: FirstRecords
    declared: tuple[str, ...] | None
    granularity: Granularity | None

    @classmethod
    def at(cls, config: ReleaseConfig, source: EventSource) -> FirstLook:
        """Reads the first records.

        Raises:
            InputSchemaError: A file cannot be read.
        """
        method, params = method_named(config.method), config.method_params
        return cls(
            source,
            source.first_records(_TRIED_RECORDS, _TRIED_FILES),
            method.bounds(params).vocabulary,
            getattr(params, "granularity", None) if method.time_caveats(params) else None,
        )

    def lines(self) -> Iterator[str]:
        """Yields how many records can be read, why others cannot, and when they are; numbers."""
        tally, n_records = self.records.tally, self.records.tally.n_records
        if not n_records:
            if self.source.files:
                yield "no record was tried: there is none, or none of the first passes the filters"
            return
        yield (
            f"of the first {n_records:,} records, which were tried, {tally.n_events:,} can be read"
        )
        from tracecloak.pipelines.planning.finding_words import finding_lines

        for line in finding_lines(n_records, tally.found(), self.source):
            yield f"  {line}"
        if tally.n_events:
            ends = np.array([self._times.min(), self._times.max()], "datetime64[us]")
            first, last = ends.astype("datetime64[D]")
            yield f"  their times lie from {first} to {last}"
            is_tied = self.traces.is_tied
            yield (
                f"  {is_tied.sum():,} of {len(is_tied):,} events are tied, as {_TIED}; "
                f"{self.source.rule} order them"
            )

    @property
    def tied_caveat(self) -> str:
        """Says that many events are tied and no column orders them; else empty."""
        is_tied, source = self.traces.is_tied, self.source
        if not is_tied.any() or is_tied.mean() <= _MANY_TIED or source.mapping.order is not None:
            return ""
        from tracecloak.pipelines.planning.worth import percent

        return (
            f"Watch out: {percent(is_tied.mean())} of the first events are tied, as {_TIED}, and "
            f"{source.rule} order them: if a column says which comes first, name it with --order."
        )

    @cached_property
    def traces(self) -> TraceBatch:
        """The first events as cases."""
        is_once = self.source.drops_duplicates
        batches = group_into_traces(self.records.events, drops_duplicates=is_once)
        return batches[0] if batches else TraceBatch.from_events([])

    @property
    def has_findings(self) -> bool:
        """Whether there is something to say of them beside when they are: no record is as it is."""
        return not self.records.tally.n_records or bool(self.records.tally.found())

    @property
    def obstacle(self) -> str:
        """Why a release is worth nothing if all records are like these; empty: nothing is known.

        A sentence with its mend and without a number or a value of the data.
        """
        tally = self.records.tally
        if not tally.n_records:
            return ""
        if not tally.n_events:
            from tracecloak.pipelines.planning.finding_words import cause_of

            cause = cause_of(tally.found(), self.source.mapping)
            return f"none of the first records can be read ({cause})"
        if self.declared is not None and not set(self._names) & set(self.declared):
            return (
                "none of the first records has a declared activity (map another column with "
                "--activity, or correct the file of --vocabulary)"
            )
        if len(self._names) >= max(_MANY_NAMES, _DIFFERENT * tally.n_events):
            return (
                "nearly all of the first records have an activity of their own, as ids, times or "
                "free texts are (map another column with --activity)"
            )
        return ""

    @property
    def lost_steps(self) -> str:
        """Says that many steps are too short for the stamps that are released; else empty."""
        if self.granularity is None or self._short_share(self.granularity) < _MANY_SHORT:
            return ""
        return (
            f"many of the first records follow within a {self.granularity} on the one before in "
            f"their case, and stamps are released as whole {self.granularity}s: the durations of "
            "such steps are not kept, and can be many times too long; declare a finer --granularity"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that the operator must know of it."""
        return tuple(warning for warning in (self.obstacle, self.lost_steps) if warning)

    @cached_property
    def _names(self) -> list[str]:
        return pc.unique(self._column(ACTIVITY)).to_pylist()

    @cached_property
    def _times(self) -> np.ndarray:
        return np.asarray(self._column(TIMESTAMP), np.int64)

    def _short_share(self, granularity: Granularity) -> float:
        """Of the steps within a case, the share that take less than that but some time."""
        if not len(self._times):
            return 0.0
        cases = np.asarray(pc.rank(self._column(CASE_ID), tiebreaker="dense"))
        order = np.lexsort((self._times, cases))
        steps = np.diff(self._times[order])[np.diff(cases[order]) == 0]
        is_short = (steps > 0) & (steps < GRID_US[granularity])
        return float(is_short.mean()) if len(steps) else 0.0

    def _column(self, name: str) -> pa.Array:
        columns = [batch.column(name) for batch in self.records.events]
        kind = pa.int64() if name == TIMESTAMP else pa.string()
        return pa.chunked_array([c.cast(kind) for c in columns], kind).combine_chunks()
