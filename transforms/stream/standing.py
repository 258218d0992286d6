"""How a stream on one machine stands: what its loop says of itself, for those that watch it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Standing:
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
