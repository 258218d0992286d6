"""Keys that releases and streams share, and their checks."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.calendar.durations import Duration
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.registry import FILE_KEYS, SourceFormat

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.schemas.events.columns import ColumnMapping
    from tracecloak.schemas.published.manifest import Guarantee
    from tracecloak.schemas.windows import Schedule


# --- What is checked of a configuration whose log is no files; it is loaded for these alone. ------


# Keys that say how bytes of files are read, and what they are called there.
_OF_FILES = {"input_format": "name", **dict(zip(FILE_KEYS, FILE_KEYS, strict=True))}


def check_query(config: ReleaseConfig) -> None:
    """Makes sure that there is a query and what answers it, and no log beside it.

    Raises:
        UsageError: There is neither log nor query, or both, or half of a query, or a key that is of
            files.
    """
    query, database, schedule = config.query, config.database, config.schedule
    if config.log:
        raise UsageError("log and query exclude each other; leave one out")
    if query is None and database is None:
        raise UsageError("log is missing: give it, or query and database")
    if query is None or database is None:
        there, missing = ("query", "database")[:: 1 if query else -1]
        raise UsageError(f"{there} needs {missing}, which is missing; give it")
    how, usual = config.source_format, SourceFormat()
    for name, of in _OF_FILES.items():
        if getattr(how, of) != getattr(usual, of):
            raise UsageError(f"{name} is of files, and there is a query; leave it out")
    if schedule is not None and schedule.partition is not None:
        raise UsageError("partition is of files, and there is a query; leave it out of schedule")
    from tracecloak.transforms.inputs.databases import check_database

    check_database(database)


def require_files(query: str | None) -> None:
    """Makes sure that the input are files, which can be read as often as somebody likes.

    Raises:
        UsageError: It is the result of a query, which is asked once.
    """
    if query is not None:
        raise UsageError(
            "this reads the log several times, and a query is asked once: export its result"
        )


# --- What a method and the keys next to it must agree on: starts of events, and schedules. --------


# --- What a release does with the starts of events that its configuration maps. -------------------


SERVICE_TIMES = "service_times"


def with_starts(method: str, params: Mapping[str, Any], mapping: ColumnMapping) -> dict[str, Any]:
    """Returns the parameters of a method with service times, if the mapping gives events starts.

    Raises:
        UsageError: It does, and the method releases none; or it does not, and they are asked for.
    """
    given = params.get(SERVICE_TIMES)
    if SERVICE_TIMES not in method_named(method).Params.model_fields:
        if not mapping.has_starts:
            return dict(params)
        raise UsageError(
            f"{method} does not release when events began: leave out start_timestamp, and of a "
            "lifecycle read one transition, by where lifecycle=complete; or take private-log"
        )
    if given is not None and str(given).lower() != str(mapping.has_starts).lower():
        raise UsageError("service_times follows from start_timestamp and lifecycle; leave it out")
    return {**params, SERVICE_TIMES: True} if mapping.has_starts else dict(params)


# --- What a schedule and the method beside it must agree on. --------------------------------------


def check_composes(method: str, guarantee: Guarantee) -> None:
    """Makes sure that a promise for each window also holds for all windows together.

    A case that is replaced may leave one window and enter another, and an event that is added may
    move its case. Then two windows change by one case each, which such a promise does not cover.

    Args:
        method: Name of the method, for the error.
        guarantee: What it promises of one window.

    Raises:
        UsageError: It has an epsilon for another change than a unit that is added or removed.
    """
    if guarantee.epsilon is None:
        return
    if guarantee.adjacency != "add_remove" or guarantee.unit == "event":
        change = "an event" if guarantee.unit == "event" else "a case that is replaced"
        raise UsageError(f"schedule: {method} protects {change}, which can change two windows")


def check_ends_are_read(schedule: ScheduleConfig, vocabulary: Sequence[str]) -> None:
    """Makes sure that every end activity is one of the declared activities, if these are closed.

    Raises:
        UsageError: One is not in a vocabulary that is declared to be closed.
    """
    unknown = sorted(set(schedule.end_activity) - set(vocabulary))
    if unknown:
        raise UsageError(
            f"schedule.end_activity: {unknown[0]!r} is not in the closed vocabulary, so it would "
            "end no case; add it to the vocabulary, or leave closed_vocabulary out"
        )


# --- Keys that configurations share: output, keys and account; and the section `schedule`. --------


# --- Where what is released goes, who pays, and where keys lie: keys of every configuration. ------


class Section(pydantic.BaseModel):
    """Keys of a configuration: no others are taken, and their docstrings are their help."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class AccountConfig(Section):
    """The keys that releases and streams have in common, none of which changes a released byte."""

    output: str = Field(min_length=1)
    """Folder of all releases, on any Beam file system; this one goes to run_id=<release_id> in
    it."""
    staging_area: str | None = None
    """Folder, on the file system of the output, in which files are built before they are seen;
    only their owner can read them there. By default beside the output."""
    dead_letter: str | None = None
    """Folder for the places of records that cannot be read, and why; by default one beside the
    keys, which only the operator reads."""
    key_store: str | None = None
    """Folder of keys and receipts, or for releases where no disk stays the URL of a PostgreSQL
    database of their own; by default TRACECLOAK_KEY_STORE or a folder in the home folder."""
    worker_keys: str | None = None
    """Folder on a file system that workers elsewhere can read, such as gs://BUCKET/keys, where they
    find the keys in use; DataflowRunner needs it. Whoever can read it can subtract noise,
    unless key_encryption_key is set. By default they find them in the key store."""
    key_encryption_key: str | None = None
    """Where the key of a key management service is that encrypts the keys in the key store and in
    worker_keys: file:PATH, env:NAME or command:WORDS, which prints it. Workers ask there too. By
    default TRACECLOAK_KEY_ENCRYPTION_KEY; without it the keys lie in clear."""
    ledger: str | None = None
    """SQLAlchemy URL of the ledger of privacy budgets, or env:NAME, file:PATH or command:WORDS,
    which lead to it; by default an SQLite file in the key store, which does for runs on this
    machine."""
    new_ledger: bool = False
    """Begin a ledger, in which nothing is spent, where there is none; for the first release."""
    account: str = "default"
    """Account of the ledger that pays for the release, or for the whole horizon of a stream before
    anything is read: one for each population of cases. By default that of the dataset, or
    `default`."""
    accounts: str | None = None
    """YAML file with caps of the accounts, which hold beside those that the ledger declares; by
    default only those do."""
    dataset: str | None = None
    """Name of the data set, noted in the ledger, where it has an account of its own or that to
    which the privacy officer binds it; by default none, and nothing is checked."""
    runner: str
    """What runs it."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_dataset(cls, given: Any) -> Any:
        """Has the account be that of the data set where none is named."""
        is_named = isinstance(given, dict) and given.get("dataset") is not None
        return {"account": given["dataset"], **given} if is_named else given


# --- The section `schedule` of a configuration: the windows in which a data lake is released. -----


# Loaded where a schedule is made; flags and their help need the keys alone.


def _as_text(value: Any) -> Any:
    """A date as YAML reads it without quotes, as the text that it was."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def as_list(value: Any) -> Any:
    """Returns a list of one text, where that is given alone."""
    return [value] if isinstance(value, str) else value


def or_kinds(*kinds: str) -> pydantic.GetPydanticSchema:
    """Annotates a value that a file may also give as one of some kinds of JSON Schema."""
    others = [{"type": kind} for kind in kinds]
    return pydantic.GetPydanticSchema(None, lambda schema, of: {"anyOf": [of(schema), *others]})


LIST_OR_TEXT = or_kinds("string")
"""Of a list that as text is separated by commas, or has one member."""


class ScheduleConfig(Section):
    """Windows of time in which a data lake is released, one after the other.

    A case, or an individual, counts in one of them only. In a file alone; these are no flags.
    """

    dataset: str | None = None
    """Name of the data set; by default the key dataset beside the schedule."""
    origin: Annotated[
        str, pydantic.BeforeValidator(_as_text), pydantic.WithJsonSchema({"type": "string"})
    ]
    """Where window 0 begins: a date such as 2026-01-01, at midnight; of windows of hours also a
    time with its offset such as 2026-01-01T06:00Z."""
    period: str
    """Length of a window, from an hour to a year: hour, 6 hours, day, week, month, quarter, year.
    Days and longer follow the calendar, hours are elapsed time."""
    time_zone: str = "UTC"
    """IANA time zone by whose clock days and longer begin."""
    by: Literal["close", "first_event"] = "close"
    """What puts a case into a window. close: the moment at which it is over. first_event: its first
    event; then every window waits for max_lifetime before it is released."""
    max_lifetime: Duration
    """Age at which a case is over, such as 90d; events from then on do not count."""
    gap: Duration | None = None
    """Silence after which a case is over, such as 30d; by default no silence ends one. With by:
    close."""
    end_activity: Annotated[tuple[str, ...], pydantic.BeforeValidator(as_list), LIST_OR_TEXT] = ()
    """Public activity that ends a case, as the input names it, or a list of some; by default none
    does. With by: close."""
    release_delay: Duration = Field(default="1d", validate_default=True)
    """How long after the last of its events a window is due, for events that arrive late."""
    horizon: int
    """Number of windows, public; nothing is released after the last."""
    partition: str | None = None
    """Partition column, as in day=2026-11-23, with the day or the hour of the events: files outside
    of what a window reads are not opened. By default all files are."""
    partition_spread: Duration = Field(default="1d", validate_default=True)
    """By how much the time of an event can differ from its partition, such as 3d where files are
    partitioned by the day on which they were loaded."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> ScheduleConfig:
        if self.partition is None and "partition_spread" in self.model_fields_set:
            raise ValueError("partition_spread needs partition, the column that it is about")
        return self

    def made(self, dataset: str | None) -> Schedule:
        """Returns the schedule.

        Args:
            dataset: Name of the data set, as the key beside the schedule has it.

        Raises:
            UsageError: A number is out of range, or there is no name, or there are two.
        """
        from tracecloak.schemas.windows import Schedule

        if self.dataset is not None and dataset is not None and self.dataset != dataset:
            raise UsageError(
                f"schedule.dataset is {self.dataset!r}, and dataset is {dataset!r}; give one"
            )
        named = self.dataset or dataset
        if not named:
            raise UsageError(
                "schedule.dataset: required, there or as the key dataset next to the schedule"
            )
        try:
            return Schedule(
                named, self.origin, self.period, self.time_zone, self.by, self.max_lifetime,
                self.gap, self.end_activity, self.release_delay, self.horizon,
            )  # fmt: skip
        except UsageError as error:
            raise UsageError(f"schedule.{error}") from None
