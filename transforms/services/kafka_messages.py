"""Messages of a topic of Kafka: one by itself, and many as columns, as a client fetched them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import methodcaller
from typing import Any, overload

import numpy as np

# As many digits as int64 surely holds.
_ORDERS = 10**18


@dataclass(frozen=True)
class KafkaMessage:
    """A message as it was read; a `transforms.formats.messages.Message`.

    Attributes:
        data: Its value; empty where it has none.
        attributes: Its headers that are text.
        message_id: Its offset, which is its place among the messages of its partition.
        partition: Of the topic.
        offset: In the partition.
        published_us: When the broker appended it, microseconds since 1970 UTC.
        is_tombstone: Whether it has no value, by which a compacted topic forgets its key.
    """

    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    message_id: str = ""
    partition: int = 0
    offset: int = 0
    published_us: int = 0
    is_tombstone: bool = False


class KafkaMessages(Sequence[KafkaMessage]):
    """Messages as columns; a `transforms.formats.messages.MessageColumns`.

    A message by itself is made when it is asked for: to make one of each takes longer than to read
    what they hold.

    Attributes:
        data: [n], as `KafkaMessage` has it.
        partitions: int64[n].
        offsets: int64[n].
        published_us: int64[n].
        is_stamped: bool[n], whether a broker set the time; if not, it is the sender's.
    """

    def __init__(self, fetched: Sequence[Any], append_time: int) -> None:
        """Takes over what the library gave.

        Args:
            fetched: Its messages, none of which is an error.
            append_time: The library's number for a time that a broker has set.
        """
        n = len(fetched)
        stamps = np.fromiter(chain.from_iterable(map(_TIMESTAMP, fetched)), np.int64, 2 * n)
        self.partitions = np.fromiter(map(_PARTITION, fetched), np.int64, n)
        self.offsets = np.fromiter(map(_OFFSET, fetched), np.int64, n)
        self.published_us = np.maximum(stamps[1::2], 0) * 1_000
        self.is_stamped = stamps[::2] == append_time
        self._values: list[bytes | None] = list(map(_VALUE, fetched))
        self._headers: list[Iterable[tuple[str, bytes | None]] | None] = list(
            map(_HEADERS, fetched)
        )
        self.data = [value or b"" for value in self._values]

    @property
    def orders(self) -> np.ndarray:
        """int64[n], the place of each among what its partition got at the same moment."""
        return self.offsets % _ORDERS

    def are_plain(self, names: Collection[str]) -> np.ndarray:
        """Returns bool[n], which messages have none of the named headers."""
        is_plain = np.ones(len(self), bool)
        for row, headers in enumerate(self._headers):
            if headers and any(name in names for name, _ in headers):
                is_plain[row] = False
        return is_plain

    def __len__(self) -> int:
        return len(self.data)

    @overload
    def __getitem__(self, row: int) -> KafkaMessage: ...
    @overload
    def __getitem__(self, row: slice) -> list[KafkaMessage]: ...
    def __getitem__(self, row: int | slice) -> KafkaMessage | list[KafkaMessage]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        offset = int(self.offsets[row])
        return KafkaMessage(
            self.data[row],
            _texts(self._headers[row] or ()),
            str(offset),
            int(self.partitions[row]),
            offset,
            int(self.published_us[row]),
            self._values[row] is None,
        )


_PARTITION, _OFFSET, _TIMESTAMP, _VALUE, _HEADERS = map(
    methodcaller, ("partition", "offset", "timestamp", "value", "headers")
)


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    texts = {}
    for name, value in headers:
        try:
            texts[name] = (value or b"").decode()
        except UnicodeDecodeError:  # no attribute that anything here asks for
            continue
    return texts
