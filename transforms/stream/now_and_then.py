"""NowAndThen: something that stays true for hours is logged once a minute at most."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class NowAndThen:
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
