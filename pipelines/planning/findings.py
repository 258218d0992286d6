"""What the operator reads of the records: counts, causes, first places and remedies.

These lines are for the operator's terminal and folder, which are private, and contain no value of
the data. No release is refused because of its records: one with a true epsilon can be refused for
public numbers alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.in_memory import whole_log
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.schemas.calendar.working_time import GRID_US, Granularity
from tracecloak.schemas.errors import InputSchemaError, OtherFormat
from tracecloak.schemas.events import tally as reasons
from tracecloak.schemas.events.events import CASE_PREFIX
from tracecloak.schemas.events.tally import Finding, Noted, ReadTally, Reject, SetAside
from tracecloak.schemas.events.traces import DROPPED, TraceBatch, is_duplicate
from tracecloak.schemas.texts import escaped
from tracecloak.transforms.sources import EventSource, FirstRecords

if TYPE_CHECKING:
    from tracecloak.transforms.batch.job import DeadLetter


# --- The names of findings in records, and their remedies; never a value of the data. -------------


# What the operator is told where a release was paid for, and nothing of its input could be read.
NOTHING_READ = (
    "NOT ONE RECORD of the input could be read. What is released is noise, and it is paid for all "
    "the same. Correct what the lines above say, until `tracecloak plan` with the same "
    "configuration says that the first records can be read; take this release back with "
    "`tracecloak ledger withdraw`; and release under another release_id, which is another spend"
)


def finding_lines(
    tally: ReadTally, source: EventSource, findings: list[Finding] | None = None
) -> Iterator[str]:
    """Yields a line for each finding: records of how many, why, the first place, the remedy.

    Args:
        tally: Of the records.
        source: Where they were read.
        findings: Some of those of the tally; None: all.
    """
    by_what = {finding.what: finding for finding in tally.found()}
    n_all = tally.n_records + sum(tally.set_aside().values())
    for finding in by_what.values() if findings is None else findings:
        if finding.what == Noted.WHOLE_KEY:
            continue  # told with those of the other form
        if finding.what == SetAside.DUPLICATE:
            yield DROPPED % finding.n_records
            continue
        what, remedy = _words(finding, by_what, source)
        if finding.what in _OF_FILES:
            remedy = str(source.why_unread(finding.file) or remedy)
        place = source.place_of(finding.file, finding.record)
        of = n_all if finding.what in tally.set_aside() else tally.n_records
        yield f"{finding.n_records:,} of {of:,}: {what}, first at {place}; {remedy}"


def refuse_unread(
    findings: Iterable[Finding],
    source: EventSource,
    kinds: type[InputSchemaError] = InputSchemaError,
) -> None:
    """Raises the error that explains why no record is an event, if there is one; for the operator.

    Args:
        findings: What was found of the records.
        source: Where they were read.
        kinds: The errors that are raised.
    """
    for rank in dict.fromkeys(one.file for one in findings if one.what in _OF_FILES):
        error = source.why_unread(rank)
        if isinstance(error, kinds):
            raise type(error)(f"{source.files[rank].path}: {error}")


def cause_of(tally: ReadTally, source: EventSource) -> str:
    """Returns why most of the lost records are lost, and the remedy; without a number.

    Args:
        tally: Of the records, some of which are lost.
        source: Where they were read.
    """
    lost = [finding for finding in tally.found() if finding.is_lost]
    most = max(lost, key=lambda finding: finding.n_records)
    what, remedy = _words(most, {}, source)
    error = None if tally.n_used else source.why_unread(most.file)
    if most.what in _OF_FILES and isinstance(error, OtherFormat):  # which has no name of the data
        return str(error)
    return f"{what}; {remedy}"


def share_text(tally: ReadTally) -> str:
    """Returns the share of the records that count, why others are lost, and what is set aside."""
    share = f" ({100 * tally.share:.3g} %)" if tally.n_records else ""  # none has no share
    text = f"{tally.n_used:,} of {tally.n_records:,} records are used{share}"
    parts = {"lost": tally.causes(), "set aside": tally.set_aside()}
    for name, counts in parts.items():
        if counts:
            text += f"; {name}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items())
    return text


# What also befalls all records of a file that is not what it was taken for.
_OF_FILES = Reject.NO_CASE, Reject.NO_ACTIVITY, reasons.EMPTY_TIME, Reject.NO_RECORD
# What is wrong with records, and the remedy, by the name of the finding.
_WORDS: Mapping[str, Sequence[str]] = json.loads(
    (resources.files(__package__) / "findings.json").read_text("utf-8")
)


def _words(finding: Finding, by_what: dict[str, Finding], source: EventSource) -> tuple[str, str]:
    """Returns what is wrong with the records, and the remedy."""
    mapping, file = source.mapping, source.files[finding.file]
    given = {name: getattr(mapping, name) for name in ("timestamp_format", "timestamp_unit")}
    key: str = finding.what
    if key == Reject.NO_TIME:
        key = next((name for name, value in given.items() if value is not None), key)
    what, remedy = _WORDS[key]
    is_trace = (mapping.case_id or CASE_PREFIX).startswith(CASE_PREFIX) and file.seen is None
    if finding.what == Reject.NO_CASE and is_trace and source.format.has_xes_names(file.path):
        remedy = f"{remedy}, or set unnamed_traces to digest if traces have no name"
    whole = by_what.get(Noted.WHOLE_KEY)
    n_whole = 0 if whole is None else whole.n_records
    return what.format(zone=mapping.time_zone, n_whole=n_whole, **given), remedy


# --- What the operator is told of the records that were read: counts, first places, remedies. ----
# These lines are for the operator's terminal and folder, which are private, and hold no value of
# the data. A plan says before a release what the first records mean for it; the release says it
# on a terminal and in the operator's record. No release is refused because of its records: one
# with a true epsilon can be refused for public numbers alone.


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
# Of events that something else than their time orders, above this share a column should do it.
_MANY_TIED = 0.05
# Below the one a release is not worth it, and below the other its operator is warned.
_LEAST_SHARE, _GOOD_SHARE = 0.5, 0.95
_LISTED_TRANSITIONS, _SHOWN_CHARACTERS = 20, 60


def log_findings(source: EventSource, dead_letter: DeadLetter) -> None:
    """Tells the operator what a run noted of its records, a line each; never fails for it."""
    try:
        tally = dead_letter.told()
    except Exception as error:  # whatever a file system does: the run's own end counts
        from tracecloak.pipelines.runners.failures import reason_of

        _LOG.warning("%s cannot be read: %s", dead_letter.folder, reason_of(error))
        return
    if tally is None:
        return
    is_nothing_read = tally.is_all_set_aside or (tally.n_records and not tally.n_used)
    is_nothing_read = is_nothing_read or not (tally.n_events or source.may_be_empty)
    if not tally.found() and not is_nothing_read:
        return

    is_usual = all(finding.what in tally.set_aside() for finding in tally.found())
    for line in finding_lines(tally, source):
        _OPERATOR.log(logging.INFO if is_usual else logging.WARNING, "%s", line)
    _OPERATOR.info("%s", share_text(tally))
    if tally.n_rejects:
        _OPERATOR.warning(
            "malformed records are left out; %s says where each one is", dead_letter.folder
        )
    if is_nothing_read and dead_letter.max_error_ratio == 1:
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
    def at(cls, plan: ReleasePlan, source: EventSource) -> FirstLook:
        """Reads the first records.

        Raises:
            InputSchemaError: A file cannot be read.
        """
        records = source.first_records(_TRIED_RECORDS, _TRIED_FILES)
        if source.drops_duplicates:
            n_duplicates = int(is_duplicate(whole_log(records.events)).sum())
            records = replace(records, tally=records.tally.with_duplicates(n_duplicates))
        return cls(
            source,
            records,
            plan.bounds.vocabulary,
            getattr(plan.params, "granularity", None)
            if plan.method.time_caveats(plan.params)
            else None,
        )

    @property
    def days(self) -> np.ndarray:
        """The days of the first and the last time."""
        times = self.traces.times
        return np.array([times.min(), times.max()], "datetime64[us]").astype("datetime64[D]")

    @property
    def has_open_order(self) -> bool:
        """Whether many events are ordered by something else than their time and no column."""
        share = self.traces.is_tied.mean()
        return bool(share > _MANY_TIED) and self.source.mapping.order is None

    @cached_property
    def traces(self) -> TraceBatch:
        """The first events as cases."""
        return whole_log(self.records.events, drops_duplicates=self.source.drops_duplicates)

    def transition_lines(self) -> Iterator[str]:
        """Yields how often each lifecycle transition occurs, and what it is read as."""
        counts, mapping = self.records.transitions.most_common(), self.source.mapping
        if not counts:
            return
        from tracecloak.schemas.events.tally import TRANSITIONS, kinds_of_transitions

        declared = mapping.start_transitions, mapping.complete_transitions
        kinds = kinds_of_transitions(pa.array([text for text, _ in counts], pa.string()), *declared)
        yield "lifecycle transitions of the first records, those that are set aside among them:"
        for (text, n), kind in list(zip(counts, kinds, strict=True))[:_LISTED_TRANSITIONS]:
            name = "none" if text is None else f"'{escaped(text[:_SHOWN_CHARACTERS])}'"
            yield f"  {name}: {n:,} ({TRANSITIONS[kind]})"
        if len(counts) > _LISTED_TRANSITIONS:
            yield f"  and {len(counts) - _LISTED_TRANSITIONS:,} more"

    @property
    def has_findings(self) -> bool:
        """Whether there is something to say of them beside when they are: no record is as it is."""
        tally = self.records.tally
        return not tally.n_records or any(f.what not in tally.set_aside() for f in tally.found())

    @property
    def unread(self) -> str:
        """Why most of these records do not count; empty if at least half of them do.

        A sentence with the remedy and the numbers of the records, and without a value of the data.
        """
        tally, source = self.records.tally, self.source
        n_without_files = 0 if source.files or source.span_us else source.n_passed_over
        if tally.is_all_set_aside or n_without_files:
            aside = ", ".join(f"{n:,} {what}" for what, n in tally.set_aside().items())
            aside = aside or f"{n_without_files:,} files whose folders do not pass"
            return f"none of the first records passes: {aside} (correct where or lifecycle)"
        return "" if tally.share >= _LEAST_SHARE else self._lost

    @property
    def doubt(self) -> str:
        """Likewise, why so many of them are lost that the operator is warned; else empty."""
        return self._lost if _LEAST_SHARE <= self.records.tally.share < _GOOD_SHARE else ""

    @property
    def _lost(self) -> str:

        tally = self.records.tally
        cause = cause_of(tally, self.source)
        if not tally.n_used:
            return f"none of the first records can be read ({cause})"
        share = f"{tally.n_lost:,} of the first {tally.n_records:,} records"
        return f"{share} ({100 - 100 * tally.share:.3g} %) cannot be read ({cause})"

    @property
    def obstacle(self) -> str:
        """Why a release is worth nothing if all records are like these; empty: nothing is known.

        A sentence with its remedy and without a value of the data.
        """
        tally = self.records.tally
        if self.unread or not tally.n_events:
            return self.unread
        names = self.traces.vocabulary.names.to_pylist()
        if self.declared is not None and not set(names) & set(self.declared):
            return (
                "none of the first records has a declared activity (map another column as "
                "activity, or correct vocabulary)"
            )
        if len(names) >= max(_MANY_NAMES, _DIFFERENT * self.traces.n_events):
            return (
                "nearly all of the first records have an activity of their own, as ids, times or "
                "free texts are (map another column as activity)"
            )
        return ""

    @property
    def lost_steps(self) -> str:
        """Says that many steps are too short for the stamps that are released; else empty."""
        if self.granularity is None:
            return ""
        steps = self.traces.durations[~self.traces.is_first]
        is_short = (steps > 0) & (steps < GRID_US[self.granularity])
        if not len(steps) or is_short.mean() < _MANY_SHORT:
            return ""
        return (
            f"many steps of the first records are shorter than a {self.granularity}, to which "
            "stamps are released: their durations are not kept; declare a finer granularity"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that the operator must know of it."""
        return tuple(filter(None, (self.obstacle, self.doubt, self.lost_steps)))
