"""Google's client of Pub/Sub: how it is found, its stamps, and which subscription one is."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tracecloak.schemas.errors import SourceChanged, missing_extra

NEVER_US = -(1 << 63)
LABEL = "tracecloak-read-by"
_DELETED_TOPIC = "_deleted-topic_"
_LEAST_RETENTION_HOURS = 24.0


def pubsub() -> Any:
    """Returns the client library.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return importlib.import_module("google.cloud.pubsub_v1")
    except ImportError:
        raise missing_extra("Pub/Sub", "google-cloud-pubsub", "pubsub") from None


def stamp_us(message: Any) -> int:
    """Returns when the service published a message, microseconds since 1970 UTC."""
    stamp = message.publish_time
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1_000


def subscription_difference(known: Mapping[str, Any], found: Any) -> str | None:
    """Returns why a subscription is not the one that was read, as a clause; None: nothing says so.

    A seek is not seen: it changes nothing of a subscription.

    Args:
        known: Its `topic`, its `filter` and its `label` when it was first read; without one, or
            with None, that is not compared.
        found: The subscription, as the service describes it.
    """
    if found.detached:
        return "it is detached from its topic"
    if found.topic == _DELETED_TOPIC:
        return "its topic was deleted"
    if known.get("topic", found.topic) != found.topic:
        return "it is of another topic"
    if known.get("filter", found.filter) != found.filter:
        return "it has another filter"
    if known.get("label") not in (None, found.labels.get(LABEL)):
        return f"its label {LABEL} differs: it was made anew, or another stream reads it"
    return None


def short_retention(found: Any) -> str | None:
    """Returns a clause on a subscription that keeps unread messages for less than a day; or None.

    Args:
        found: The subscription, as the service describes it.
    """
    hours = found._pb.message_retention_duration.seconds / 3600
    if not 0 < hours < _LEAST_RETENTION_HOURS:  # some emulators do not give it
        return None
    return (
        f"keeps unread messages for {hours:.1f} hours: those are lost if the stream is down for "
        "longer. Set its message_retention_duration to a day or more, such as the usual 7 days"
    )


def other_subscription(name: str, why: str) -> SourceChanged:
    """Returns the error of a subscription that is not the one that was read.

    Args:
        name: Of the subscription.
        why: What differs, as a clause about it.
    """
    return SourceChanged(
        f"{name} is not the subscription that this epoch has read: {why}. Messages may be lost: "
        "restore what was changed, or begin another epoch, which is another spend"
    )
