"""What findings in records are called, and what mends them; never a value of the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracecloak.schemas.errors import InputSchemaError, OtherFormat
from tracecloak.schemas.events import tally as reasons
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.duplicates import DROPPED
from tracecloak.schemas.events.events import CASE_PREFIX
from tracecloak.schemas.events.tally import Finding, ReadTally
from tracecloak.transforms.sources import EventSource

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
    """Yields a line for each finding: how many records of how many, why, the first place, the mend.

    Args:
        tally: Of the records.
        source: Where they were read.
        findings: Some of those of the tally; None: all.
    """
    by_what = {finding.what: finding for finding in tally.found()}
    n_all = tally.n_records + sum(tally.set_aside().values())
    for finding in by_what.values() if findings is None else findings:
        if finding.what == reasons.WHOLE_KEY:
            continue  # told with those of the other form
        if finding.what == reasons.DUPLICATE:
            yield DROPPED % finding.n_records
            continue
        what, mend = _words(finding, by_what, source)
        if finding.what in _OF_FILES:
            mend = str(source.why_unread(finding.file) or mend)
        place = source.place_of(finding.file, finding.record)
        of = n_all if finding.what in tally.set_aside() else tally.n_records
        yield f"{finding.n_records:,} of {of:,}: {what}, first at {place}; {mend}"


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
    """Returns why most of the lost records are lost, and the mend; without a number.

    Args:
        tally: Of the records, some of which are lost.
        source: Where they were read.
    """
    lost = [finding for finding in tally.found() if finding.is_lost]
    most = max(lost, key=lambda finding: finding.n_records)
    what, mend = _words(most, {}, source)
    error = None if tally.n_used else source.why_unread(most.file)
    if most.what in _OF_FILES and isinstance(error, OtherFormat):  # which has no name of the data
        return str(error)
    return f"{what}; {mend}"


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
_OF_FILES = reasons.NO_CASE, reasons.NO_ACTIVITY, reasons.EMPTY_TIME, reasons.NO_RECORD
_SOURCE = "mend the source"
_OFFSETS = "if that is wrong, write stamps with their offset, or correct --time_zone"
_FRACTION = (
    "that is a number with a fraction, or a floating-point number too large to be exact (above "
    "2^53, or 2^24 of 32 bits)"
)
_WORDS = {
    reasons.NO_CASE: ("no case id", f"{_SOURCE}, or map another column with --case_id"),
    reasons.NO_ACTIVITY: ("no activity", f"{_SOURCE}, or map another column with --activity"),
    reasons.EMPTY_TIME: ("no timestamp", f"{_SOURCE}, or map another column with --timestamp"),
    reasons.NO_RECORD: (
        "no whole record, as it has too many or too few fields, is too long, or is not written as "
        "its format and --encoding say",
        f"{_SOURCE}, or of CSV set --encoding, such as cp1252, --delimiter, --quote_char or "
        "--escape_char",
    ),
    reasons.NO_SCALAR: (
        "a value that is no text, no number and no time, such as a list, a mapping or a period",
        "convert it, or map another column",
    ),
    reasons.OTHER_ACTIVITY: (
        reasons.OTHER_ACTIVITY,
        "add it to the file of --vocabulary if it is public, or set --closed_vocabulary false",
    ),
    reasons.NO_INDIVIDUAL: (
        "no individual",
        f"{_SOURCE}, or map another column with --individual_id",
    ),
    reasons.FRACTION_CASE: (
        f"case id {_FRACTION}",
        "write case ids as text or whole numbers, or map another column with --case_id",
    ),
    reasons.FRACTION_INDIVIDUAL: (
        f"individual {_FRACTION}",
        "write individuals as text or whole numbers, or map another column with --individual_id",
    ),
    reasons.NO_START: (
        "start time not readable",
        f"{_SOURCE}: starts are written as timestamps are; or map another --start_timestamp",
    ),
    reasons.LATE_START: (
        "start after the timestamp, which is that of the completion",
        f"{_SOURCE}, or exchange --start_timestamp and --timestamp",
    ),
    reasons.UNKNOWN_TRANSITION: (
        "lifecycle transition that is not known to be a start or a completion",
        "declare it with --start_transitions or --complete_transitions, or filter it out",
    ),
    reasons.OTHER_TRANSITION: (
        "lifecycle transition other than start and complete, which is no event",
        "say with --where lifecycle=... which transition is one, if that is wrong",
    ),
    reasons.FILTERED: ("dropped by a filter", "correct --where if that is wrong"),
    reasons.OUTSIDE: ("time outside the window", "other windows read them"),
    reasons.SKIPPED_HOUR: (
        "timestamp in an hour that the clocks of {zone} skip, read as its end",
        _OFFSETS,
    ),
    reasons.REPEATED_HOUR: (
        "timestamp in an hour that the clocks of {zone} show twice, read as the first",
        _OFFSETS,
    ),
    reasons.POINT_KEY: (
        "case id written like 5.0, while {n_whole:,} are written like 5",
        "these are different cases; say --whole_numbers case_id if they are the same",
    ),
    reasons.SAME_NAME: (
        "trace with the name of an earlier one of its file",
        "their events are read as one case; give each trace a name of its own if they are several",
    ),
}


def _words(finding: Finding, by_what: dict[str, Finding], source: EventSource) -> tuple[str, str]:
    """Returns what is wrong with the records, and what mends it."""
    mapping, file = source.mapping, source.files[finding.file]
    if finding.what == reasons.NO_TIME:
        return _time(mapping)
    what, mend = _WORDS[finding.what]
    is_trace = (mapping.case_id or CASE_PREFIX).startswith(CASE_PREFIX) and file.seen is None
    if finding.what == reasons.NO_CASE and is_trace and source.format.has_xes_names(file.path):
        mend = f"{mend}, or set --unnamed_traces digest if traces have no name"
    whole = by_what.get(reasons.WHOLE_KEY)
    n_whole = 0 if whole is None else whole.n_records
    return what.format(zone=mapping.time_zone, n_whole=n_whole), mend


def _time(mapping: ColumnMapping) -> tuple[str, str]:
    if mapping.timestamp_format is not None:
        return (
            f"timestamp not readable as --timestamp_format {mapping.timestamp_format!r} says",
            "correct --timestamp_format",
        )
    if mapping.timestamp_unit is not None:
        return (
            f"timestamp not readable as {mapping.timestamp_unit} since 1970 nor as ISO 8601",
            "correct --timestamp_unit, or set --timestamp_format",
        )
    return (
        "timestamp not readable as ISO 8601",
        "set --timestamp_format, or --timestamp_unit if it is a number since 1970",
    )
