"""The releases of a stream as messages of a topic, which may come more than once.

Steps are sent at least once, and the message service delivers at least once. Equal releases are
equal bytes and have equal attributes, so a consumer keeps the first message of each key and drops
what repeats it; `FirstOfEach` does. Two messages with one key and different bytes are two releases
for the price of one: that is an error, never a repetition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.step import Step

# What a consumer needs to drop a repetition without reading the data; together they are the key.
KEY_ATTRIBUTES = ("release_id", "epoch", "product", "view", "step")

Key = tuple[str, str, str, str, int]


def attributes_of(release: Step) -> dict[str, str]:
    """Returns KEY_ATTRIBUTES of a release as texts."""
    return {n: str(part) for n, part in zip(KEY_ATTRIBUTES, release.key, strict=True)}


def key_of(attributes: Mapping[str, str]) -> Key:
    """Returns the key of the release that a message with these attributes holds.

    Raises:
        UsageError: An attribute is missing, or the step is no number.
    """
    try:
        release_id, epoch, product, view, step = (attributes[name] for name in KEY_ATTRIBUTES)
        return release_id, epoch, product, view, int(step)
    except (KeyError, ValueError):
        raise UsageError(
            f"a message of a stream's topic has the attributes {', '.join(KEY_ATTRIBUTES)}; "
            "this topic or subscription has others"
        ) from None


class SendSteps(beam.DoFn):
    """Sends releases by a sink, and gives each once it is there."""

    def __init__(self, sink: Any) -> None:
        """Keeps the sink, a `local_stream.Sink` that pickles."""
        self._sink = sink

    def process(self, release: Step) -> Iterable[Step]:
        """Sends a release; one that is tried again is sent again, with the same bytes."""
        self._sink.send(release)
        yield release


class FirstOfEach:
    """A consumer's memory: which releases it has, each under its key.

    It remembers a digest a key and never forgets, which is a hundred bytes a release.
    """

    def __init__(self) -> None:
        self._digests: dict[Key, bytes] = {}

    def take(self, data: bytes, attributes: Mapping[str, str]) -> bool:
        """Returns whether a message is the first with its key; otherwise it is to be dropped.

        Args:
            data: Of the message.
            attributes: Of the message.

        Raises:
            UsageError: It is no message of a stream.
            TracecloakError: It contradicts its attributes, or an earlier message with its key.
        """
        key = key_of(attributes)
        if _named_in(data) != key:
            raise TracecloakError("a message of the stream's topic is not what its attributes say")
        digest = hashlib.sha256(data).digest()
        known = self._digests.setdefault(key, digest)
        if known is digest:
            return True
        if known != digest:
            raise TracecloakError(
                f"step {key[4]} of release {key[0]} was published twice with different counts; "
                "use neither, and have the stream's budget charged again"
            )
        return False


def _named_in(data: bytes) -> Key | None:
    try:
        body = json.loads(data)
        release_id, epoch, product, view, step = (body[name] for name in KEY_ATTRIBUTES)
    except (ValueError, KeyError, TypeError):
        return None
    return release_id, epoch, product, view, step
