"""How a stream stands, and how often it says what holds it up."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

# --- RateLimiter: something that stays true for hours is logged once a minute at most. -----------


class RateLimiter:
    """Says whether it is time to log something again."""

    def __init__(
        self, every_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_seconds = every_seconds
        self._clock = clock
        self._said = -math.inf

    def is_due(self) -> bool:
        """Returns whether the last time that this was true is long enough ago."""
        now = self._clock()
        if now - self._said < self._every_seconds:
            return False
        self._said = now
        return True


# --- Warnings of events whose senders' clocks run ahead of the message service's. -----------------


_OPERATOR = logging.getLogger("tracecloak.operator")
# A difference below the grain of a message service's clock is rounding, and causes no warning.
_GRAIN_US = 1_000
# There is one for the process, as a runner may have made many stages that ask it.
_WARNING = RateLimiter()


def warn_of_times_ahead(ahead_us: np.ndarray) -> None:
    """Warns, once a minute at most, if events are timed after their publishing.

    Args:
        ahead_us: int64[n], by how much each event of a batch is.
    """
    if int(ahead_us.max(initial=0)) < _GRAIN_US or not _WARNING.is_due():
        return
    _OPERATOR.warning(
        "events are timed after their publishing: their order within a case is kept, and a time "
        "that is released is cut to the publishing. Where senders' clocks cannot be relied on, set "
        "clock to publishing"
    )


# --- How a stream on one machine stands: what its loop says of itself, for those that watch it. ---


@dataclass
class StreamStatus:
    """Written by the thread of the loop, and read by others at any moment.

    Attributes:
        turned_seconds: When the loop last went round, by `time.monotonic`.
        step: The first step that is not published everywhere; None: the state is not loaded yet.
        source_away: Why the source cannot be asked now, or its clock is not believed; None: it
            can.
        sink_away: Why ledger, files or topic do not take a step now; None: they do.
        clock_offset_us: How far this machine's clock is ahead of the service's; None: not known.
        complete_us: Before this all messages were read, microseconds since 1970; None: not known.
            This and what follows are numbers of the data.
        newest_us: When the newest message that was read was published; None: none was read.
        n_open_cases: Cases that are open.
        n_messages: Messages that were read by this process.
        n_rejects: Those among them that cannot be read, by reason.
    """

    turned_seconds: float = field(default_factory=time.monotonic)
    step: int | None = None
    source_away: str | None = None
    sink_away: str | None = None
    clock_offset_us: int | None = None
    complete_us: int | None = None
    newest_us: int | None = None
    n_open_cases: int = 0
    n_messages: int = 0
    n_rejects: Counter[str] = field(default_factory=Counter)

    def turn(self) -> None:
        """Notes that the loop goes round."""
        self.turned_seconds = time.monotonic()
