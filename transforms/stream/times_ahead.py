"""Warnings of events whose senders' clocks run ahead of the message service's."""

from __future__ import annotations

import logging

import numpy as np

from tracecloak.transforms.stream.now_and_then import NowAndThen

_OPERATOR = logging.getLogger("tracecloak.operator")
# A difference below the grain of a message service's clock is rounding, and causes no warning.
_GRAIN_US = 1_000
# There is one for the process, as a runner may have made many stages that ask it.
_WARNING = NowAndThen()


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
