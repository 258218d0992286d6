"""The section `schedule` of a configuration: the windows in which a data lake is released."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from pydantic import Field

from tracecloak.schemas.calendar.time_texts import Duration
from tracecloak.schemas.errors import UsageError

# Loaded where a schedule is made; flags and their help need the keys alone.
if TYPE_CHECKING:
    from tracecloak.schemas.windows.schedule import Schedule


def _as_text(value: Any) -> Any:
    """A date as YAML reads it without quotes, as the text that it was."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_NAMES = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}


class ScheduleConfig(pydantic.BaseModel):
    """Windows of time in which a data lake is released, one after the other.

    A case, or an individual, counts in one of them only. In a file alone; these are no flags.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

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
    end_activity: Annotated[
        tuple[str, ...], pydantic.BeforeValidator(_as_list), pydantic.WithJsonSchema(_NAMES)
    ] = ()
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
        from tracecloak.schemas.windows.schedule import Schedule

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
                named,
                self.origin,
                self.period,
                self.time_zone,
                self.by,
                self.max_lifetime,
                self.gap,
                self.end_activity,
                self.release_delay,
                self.horizon,
            )
        except UsageError as error:
            raise UsageError(f"schedule.{error}") from None
