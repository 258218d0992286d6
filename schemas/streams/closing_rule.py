"""When a case of a stream is over, and which of its messages belong to it.

Both are functions of the case's own messages and of public numbers. Of a message only the time of
its publishing decides, which the message service stamps, and whether it is an end activity: the
time of the event is whatever a sender's clock says.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, ActivityVocabulary

if TYPE_CHECKING:
    from tracecloak.schemas.streams.stream_caps import CaseCap

DEFAULT_RELEASE_DELAY_US = 60_000_000

_NEVER = np.iinfo(np.int64).max
# Sums of a stamp and a few durations stay far from the ends of int64.
_MAX_DURATION_US = MAX_TIME_US


@dataclass(frozen=True)
class ClosingRule:
    """The public numbers that say when a case of a stream ends, and which step it belongs to.

    All durations are in microseconds. A case closes `max_disorder_us` after the earliest of: its
    first end activity; `inactivity_gap_us` after its last message; `max_lifetime_us` after its
    first one; all by their times of publishing. Messages published before that moment belong to the
    case, those from it on are dropped. Its step is the number of the period with that moment.

    Attributes:
        vocabulary: The public activities; all others become OTHER.
        period_us: Length of a step.
        inactivity_gap_us: Silence after which a case is over.
        max_lifetime_us: Age at which a case is over, whatever still comes of it.
        max_disorder_us: How much later than its successors a message may be published. A longer one
            loses fewer stragglers, and every step is complete that much later.
        max_trace_length: Events of a case; those published after so many are dropped.
        tombstone_us: How long after its last message a closed case is remembered, so that what
            still comes of it is dropped; at least as long as the subscription can redeliver. A case
            that is silent for longer and then goes on counts again, as another case. None: it is
            remembered for as long as the stream runs.
        end_activities: Public activities that end a case.
        release_delay_us: How long after its end a step still takes cases of which messages are
            late. What comes later than that is not counted.
        origin_us: Where step 0 begins, since 1970 UTC; steps before it have negative numbers.
        closed: Whether there are no others; messages of others are rejects.
        since: (name, step) of names that came to the vocabulary later: a message that was published
            before the step begins is of none of them, but of OTHER.
        by_publishing: Whether the time of its publishing is taken for the time of an event, for
            senders whose clocks cannot be relied on.
        cap: How many cases of an individual count, who is the unit then: all cases of one meet in
            one place, and a case is the pair of an individual and a case id. None: the unit is the
            case.

    Raises:
        UsageError: A number is out of range, or an end activity is not in the vocabulary.
    """

    vocabulary: tuple[str, ...]
    period_us: int
    inactivity_gap_us: int
    max_lifetime_us: int
    max_disorder_us: int
    max_trace_length: int
    tombstone_us: int | None
    end_activities: tuple[str, ...] = ()
    release_delay_us: int = DEFAULT_RELEASE_DELAY_US
    origin_us: int = 0
    by_publishing: bool = False
    closed: bool = False
    since: tuple[tuple[str, int], ...] = ()
    cap: CaseCap | None = None

    def __post_init__(self) -> None:
        least = {"max_disorder_us": 0, "release_delay_us": 0, "origin_us": MIN_TIME_US}
        durations = (field.name for field in fields(self) if field.name.endswith("_us"))
        for name in (*durations, "max_trace_length"):
            value, low = getattr(self, name), least.get(name, 1)
            if value is not None and not low <= value <= _MAX_DURATION_US:
                raise UsageError(
                    f"{name} must be between {low} and {_MAX_DURATION_US}, got {value}"
                )
        unknown = sorted(set(self.end_activities) - set(self.vocabulary))
        if unknown:
            raise UsageError(f"end_activities must be in the vocabulary, got {unknown}")

    @cached_property
    def codes(self) -> ActivityVocabulary:
        """The public vocabulary, with OTHER unless it is closed."""
        return ActivityVocabulary.public(self.vocabulary, self.closed)

    def coded(self, names: pa.Array, activity: np.ndarray, publish_us: np.ndarray) -> np.ndarray:
        """Returns int32[n], the codes of activities; -1 is that of none, where they are closed.

        Args:
            names: string[n_names].
            activity: int64[n], the place of each in `names`.
            publish_us: int64[n], when each was published.
        """
        codes = self.codes.codes_or_other(names)[activity]
        if self.since:
            begins = np.full(len(self.codes), MIN_TIME_US)
            for name, step in self.since:
                begins[self.codes.codes(pa.array([name]))] = self.step_start(step)
            no_name = pa.nulls(1, pa.string())
            codes[publish_us < begins[codes]] = self.codes.codes_or_other(no_name)[0]
        return codes

    @cached_property
    def ends(self) -> np.ndarray:
        """bool[n_activities], which codes end a case."""
        return np.isin(self.codes.names.to_pylist(), self.end_activities)

    @property
    def longest_us(self) -> int:
        """How long after its first message a case can change what is published."""
        life_us = self.max_lifetime_us + self.max_disorder_us
        return life_us + self.period_us + self.release_delay_us

    def step_of(self, time_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], the number of the step with each moment int64[n]."""
        return (time_us - self.origin_us) // self.period_us

    def step_start(self, step: int) -> int:
        """Returns the first microsecond of a step."""
        return self.origin_us + step * self.period_us

    def step_end(self, time_us: int) -> int:
        """Returns where the step with a moment ends: the first microsecond of the next step."""
        return self.step_start((time_us - self.origin_us) // self.period_us + 1)

    def release_time(self, step: int) -> int:
        """Returns when a step takes no more cases."""
        return self.step_start(step + 1) + self.release_delay_us

    def forgotten_until(self, first_step: int) -> int:
        """Returns a moment: what was closed until then, and no longer, is forgotten.

        A message of it would be so late that a case of its own would close in a released step.

        Args:
            first_step: Earlier steps are released.
        """
        slack_us = self.inactivity_gap_us + self.max_disorder_us
        return self.step_start(first_step) - slack_us

    def most_counts(self, horizon: int) -> tuple[int, int]:
        """Returns (how often a case counts at most, steps from one time to the next at least).

        More often than once only where closed cases are remembered for less than the horizon.

        Args:
            horizon: Steps of the stream.
        """
        if self.tombstone_us is None:
            return 1, horizon
        # A case closes where a step ends, with all that came before: once a step at most.
        gap = max(self.tombstone_us // self.period_us, 1)
        return 1 + (horizon - 1) // gap, gap

    def earliest_end(self, publish_us: int) -> int:
        """Returns where a step ends: no message from then on has its case close in one before."""
        return self.step_end(publish_us + self.max_disorder_us)

    def closing(
        self, offsets: np.ndarray, publish: np.ndarray, is_end: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns when cases close, and which of their messages belong to them; see `closing`."""
        durations = self.inactivity_gap_us, self.max_lifetime_us, self.max_disorder_us
        return closing(offsets, publish, is_end, *durations)


def closing(
    offsets: np.ndarray,
    publish: np.ndarray,
    is_end: np.ndarray,
    gap_us: int,
    lifetime_us: int,
    disorder_us: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Computes when cases close, and which of their messages belong to them.

    Args:
        offsets: int64[n_cases+1], of cases with at least one message.
        publish: int64[n_events], not decreasing within a case.
        is_end: bool[n_events], whether it is an end activity.
        gap_us: Silence after which a case is over.
        lifetime_us: Age at which a case is over.
        disorder_us: How long after that it closes.

    Returns:
        (int64[n_cases] moments, bool[n_events]): a message belongs to its case if it was published
        before the moment at which the case would close without it and all that follow it.
    """
    n = len(publish)
    if n == 0:
        return np.zeros(0, np.int64), np.zeros(0, bool)
    heads, lengths = offsets[:-1], np.diff(offsets)
    row = np.arange(n)
    end_row = np.minimum.reduceat(np.where(is_end, row, n), heads)
    end_time = np.append(publish, _NEVER - disorder_us)[end_row]
    lifetime = publish[heads] + lifetime_us
    deadline = np.empty(n, np.int64)
    deadline[1:] = publish[:-1] + gap_us
    np.minimum(deadline, np.repeat(lifetime, lengths), out=deadline)
    after_end = row > np.repeat(end_row, lengths)
    deadline = np.where(after_end, np.minimum(deadline, np.repeat(end_time, lengths)), deadline)
    breaks = publish >= deadline + disorder_us
    breaks[heads] = False
    stop = np.minimum(np.minimum.reduceat(np.where(breaks, row, n), heads), offsets[1:])
    closes = np.minimum(lifetime, publish[stop - 1] + gap_us)
    closes = np.minimum(closes, end_time)  # one that was dropped is later than the others
    return closes + disorder_us, row < np.repeat(stop, lengths)
