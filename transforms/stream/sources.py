"""The sources of a stream on one machine: their common form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tracecloak.transforms.formats.messages import Message


@dataclass(frozen=True)
class Pulled:
    """Messages that were read together.

    Attributes:
        messages: The messages.
        publish: When each was published, microseconds since 1970 UTC.
        receipt: What the source needs to acknowledge them; None: nothing.
    """

    messages: Sequence[Message] = ()
    publish: Sequence[int] | np.ndarray = ()
    receipt: Any = field(default=None, repr=False)


class Source(Protocol):
    """Messages of a service, each read at least once, and how far all of them have been read.

    Only the service's clock says how far, by its stamps and its answers to messages of our own, so
    a wrong clock of this machine moves no watermark. If the two clocks differ by more than
    `service_clock.CLOCK_SKEW_US`, the watermark stays where it is until they agree.

    All methods may raise RetryLater: the service does not answer, or the clocks differ, and the
    call may be tried again.
    """

    @property
    def positions(self) -> Mapping[str, Any]:
        """Where to go on behind the pulled messages, as JSON; empty if the service remembers it.

        It is kept together with these messages.
        """
        ...

    @property
    def clock_offset_us(self) -> int | None:
        """How far this machine's clock is ahead of the service's; None: it was not asked yet."""
        ...

    def pull(self, max_messages: int, timeout_seconds: float) -> Pulled:
        """Returns what has come, at most so many; none where nothing came in time."""
        ...

    def let_go(self, pulled: Pulled) -> None:
        """Notes that messages are kept durably, so that the service need not send them again."""
        ...

    def watermark_us(self) -> int:
        """Returns a moment before which all messages have been pulled; the smallest integer: none.

        What is pulled later and was published before it is late.
        """
        ...

    def close(self) -> None:
        """Ends reading."""
        ...
