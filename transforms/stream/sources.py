"""The sources of a stream on one machine: their common form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tracecloak.transforms.formats.messages import Message

DIGEST_PURPOSE = b"last message read"
"""Of `ReleaseKey.derive`, for the key of digests by which a source recognises its log."""


@dataclass(frozen=True)
class Pulled:
    """Messages that were read together.

    Attributes:
        messages: The messages.
        publish: When each was published, microseconds since 1970 UTC.
        receipt: What the source needs to acknowledge them; None: nothing.
        place: Of the input whose messages they are, among several.
    """

    messages: Sequence[Message] = ()
    publish: Sequence[int] | np.ndarray = ()
    receipt: Any = field(default=None, repr=False)
    place: int = 0


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


class SeveralSources:
    """A `Source` of several ones, each with a name; it is read as far as the one read least far.

    A batch of messages is of one of them, and each has its turn.
    """

    def __init__(
        self,
        openings: Mapping[str, Callable[[Mapping[str, Any], bytes], Source]],
        positions: Mapping[str, Any],
        key: bytes,
    ) -> None:
        """Opens them.

        Args:
            openings: By name, in the order of places, what opens each behind its positions.
            positions: As `positions` gave them, by name; empty before the first message.
            key: Of the digests that a source keeps of messages.
        """
        self._next = 0
        with ExitStack() as opened:
            self._sources: dict[str, Source] = {}
            for name, opening in openings.items():
                self._sources[name] = opening(positions.get(name, {}), key)
                opened.callback(self._sources[name].close)
            self._opened = opened.pop_all()

    @property
    def positions(self) -> Mapping[str, Any]:
        """Those of each by its name."""
        return {name: source.positions for name, source in self._sources.items()}

    @property
    def clock_offset_us(self) -> int | None:
        """That of the first: they have one clock."""
        return next(iter(self._sources.values())).clock_offset_us

    def pull(self, max_messages: int, timeout_seconds: float) -> Pulled:
        """See `Source`; waits for each in turn until one has something."""
        sources = list(self._sources.values())
        for _ in sources:
            place, self._next = self._next, (self._next + 1) % len(sources)
            pulled = sources[place].pull(max_messages, timeout_seconds / len(sources))
            if pulled.messages:
                return replace(pulled, place=place)
        return Pulled()

    def let_go(self, pulled: Pulled) -> None:
        """See `Source`."""
        list(self._sources.values())[pulled.place].let_go(pulled)

    def watermark_us(self) -> int:
        """See `Source`."""
        return min(source.watermark_us() for source in self._sources.values())

    def close(self) -> None:
        """See `Source`."""
        self._opened.close()
