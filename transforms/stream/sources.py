"""What a stream on one machine reads: the form of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracecloak.transforms.formats.messages import Message


@dataclass(frozen=True)
class Pulled:
    """Messages that were read together.

    Attributes:
        messages: The messages.
        publish: When each was published, microseconds since 1970 UTC.
        receipt: What the source needs to let go of them; None: nothing.
    """

    messages: Sequence[Message] = ()
    publish: Sequence[int] = ()
    receipt: Any = field(default=None, repr=False)


class Source(Protocol):
    """Messages of a service, each read at least once, and how far all of them have been read.

    How far is told by the service's clock alone, in its stamps and in its answers to messages of
    our own: a wrong clock of this machine moves no watermark. Where the two differ by more than
    `service_clock.CLOCK_SKEW_US`, nothing is told until they agree.

    All methods may raise RetryLater: the service is away, or clocks differ, and the same may be
    asked again.
    """

    @property
    def positions(self) -> Mapping[str, Any]:
        """Where to go on behind all that was pulled, as JSON has it; empty where the service knows.

        It is kept together with what was pulled.
        """
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
