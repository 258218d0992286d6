"""What the parts that are about time need to know of a method's parameters."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from tracecloak.anonymizers.times.case_classes import Detail
from tracecloak.anonymizers.times.time_range import LogTime
from tracecloak.schemas.events.vocabulary import ActivityVocabulary


class TimedParams(Protocol):
    """Public parameters of a method that releases a log with times."""

    @property
    def delta(self) -> Decimal:
        """0 where noise is Laplace noise only."""

    @property
    def max_units(self) -> int:
        """Cases of one unit."""

    @property
    def max_trace_length(self) -> int | None:
        """Events of a case; None where it is bought."""

    @property
    def words(self) -> ActivityVocabulary | None:
        """The public activities; None where they are bought."""

    @property
    def n_duration_bins(self) -> int | None:
        """Bins of the time between two events; None for as many as the log's size asks for."""

    @property
    def public_clip_units(self) -> int | None:
        """The public clip, in lattice steps; None where there is none."""

    @property
    def detail(self) -> Detail:
        """By what times are counted."""

    @property
    def log_time(self) -> LogTime:
        """When the log takes place."""

    @property
    def calendar_time_zone(self) -> str:
        """IANA time zone of dates."""
