"""PublishToTopic: the releases of a stream as messages of a topic, which may come more than once.

Beam publishes at least once, and the message service delivers at least once. Equal releases are
equal bytes and have equal attributes, so a consumer keeps the first message of each key and drops
what repeats it; `FirstOfEach` does. Two messages with one key and different bytes are two releases
for the price of one: that is an error, never a repetition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, WriteToPubSub

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.step import Step

# What a consumer needs to drop a repetition without reading the data; together they are the key.
KEY_ATTRIBUTES = ("release_id", "epoch", "product", "view", "step")

# A message has room for 10,000,000 bytes, and an attribute for 1,024.
_MOST_BYTES = 10_000_000
_LONGEST_ATTRIBUTE = 1024

Key = tuple[str, str, str, str, int]


def to_message(release: Step) -> PubsubMessage:
    """Returns a release as a message: its JSON, with KEY_ATTRIBUTES as attributes.

    A made-up log has only what it is of as its data: the cases are in the files.

    Raises:
        UsageError: The release is larger than a message, or a part of its key than an attribute.
    """
    data = release.to_json()
    attributes = attributes_of(release)
    if len(data) > _MOST_BYTES - 2 * len(KEY_ATTRIBUTES) * _LONGEST_ATTRIBUTE:
        raise UsageError(
            f"the release of a step has {len(data)} bytes, more than a message of Pub/Sub holds; "
            "publish it to files"
        )
    for name, value in attributes.items():
        if len(value.encode()) > _LONGEST_ATTRIBUTE:
            raise UsageError(f"{name} must have at most {_LONGEST_ATTRIBUTE} bytes")
    return PubsubMessage(data, attributes)


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


class PublishToTopic(beam.PTransform):
    """Publishes releases to a topic; takes a PCollection of `Step`.

    The messages of a bundle are published together, and a bundle is done when the service has
    taken them all: what fails is published again, with the same bytes. Beam's connector has no
    attribute of its own for that on local runners, which refuse `id_label`.
    """

    def __init__(self, topic: str) -> None:
        """Keeps the name.

        Args:
            topic: projects/PROJECT/topics/NAME.

        Raises:
            UsageError: It is no such name.
        """
        super().__init__()
        try:
            self._writer = WriteToPubSub(topic, with_attributes=True)
        except ValueError:
            raise UsageError(f"a topic is projects/PROJECT/topics/NAME, got {topic!r}") from None

    def expand(self, releases: beam.PCollection[Step]) -> beam.PCollection[None]:
        """Makes messages and publishes them."""
        messages = releases | "ToMessage" >> beam.Map(to_message).with_output_types(PubsubMessage)
        return messages | "Publish" >> self._writer


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
