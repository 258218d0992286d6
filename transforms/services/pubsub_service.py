"""Google's client of Pub/Sub: how it is found, its stamps, and which subscription one is."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from tracecloak.schemas.errors import RetryLater, SourceChanged, UsageError, of_extra

NEVER_US = -(1 << 63)
LABEL = "tracecloak-read-by"
_DELETED_TOPIC = "_deleted-topic_"
_LEAST_RETENTION_HOURS = 24.0


def pubsub() -> Any:
    """Returns the client library.

    Raises:
        UsageError: It is not installed.
    """
    return of_extra("google.cloud.pubsub_v1", "Pub/Sub", "google-cloud-pubsub", "pubsub")


def stamp_us(message: Any) -> int:
    """Returns when the service published a message, microseconds since 1970 UTC."""
    stamp = message.publish_time
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1_000


def check_subscription(known: Mapping[str, Any], found: Any, is_begun: bool) -> None:
    """Makes sure that a subscription is the one that was read, and still gets messages.

    A seek is not seen: it changes nothing of a subscription.

    Args:
        known: Its `topic`, its `filter` and its `label` when it was first read; what is not there
            is not compared.
        found: The subscription, as the service describes it.
        is_begun: See `subscription_error`.

    Raises:
        SourceChanged: It is another one, or gets no messages.
        UsageError: Likewise, of an epoch that has not begun.
    """
    for differs, why in (
        (found.detached, "it is detached from its topic"),
        (found.topic == _DELETED_TOPIC, "its topic was deleted"),
        (known.get("topic", found.topic) != found.topic, "it is of another topic"),
        (known.get("filter", found.filter) != found.filter, "it has another filter"),
        (
            "label" in known and known["label"] != found.labels.get(LABEL),
            f"its label {LABEL} differs: it was made anew, or another stream reads it",
        ),
    ):
        if differs:
            raise subscription_error(found.name, why, is_begun)


def subscription_error(name: str, why: str, is_begun: bool) -> SourceChanged | UsageError:
    """Returns the error of a subscription that is not the one to read.

    Args:
        name: Of the subscription.
        why: What is wrong, as a clause about it.
        is_begun: Whether the epoch has begun, so that messages may be lost.
    """
    if not is_begun:
        return UsageError(f"{name} cannot be read: {why}; name another, or make it anew")
    return SourceChanged(
        f"{name} is not the subscription that this epoch has read: {why}. Messages may be lost: "
        "restore what was changed, or begin another epoch, which is another spend"
    )


@contextlib.contextmanager
def asking(name: str, is_begun: bool) -> Iterator[None]:
    """Raises our own error in place of one of the client, which the block asks.

    Args:
        name: Of the subscription.
        is_begun: See `subscription_error`.

    Raises:
        SourceChanged: See `subscription_error`.
        UsageError: Likewise; or the service refuses.
        RetryLater: It does not answer now.
    """
    errors = importlib.import_module("google.api_core.exceptions")
    try:
        yield
    except errors.NotFound as error:
        raise subscription_error(name, error.message, is_begun) from None
    except (
        errors.InvalidArgument, errors.FailedPrecondition, errors.Forbidden, errors.Unauthenticated,
    ) as error:  # fmt: skip
        raise UsageError(f"{name} cannot be read: {error.message}") from None
    except (
        errors.ServerError, errors.TooManyRequests, errors.Aborted, errors.RetryError,
    ) as error:  # fmt: skip
        raise RetryLater(f"{name} cannot be asked: {error}") from None


def short_retention(found: Any) -> str | None:
    """Returns a clause on a subscription that keeps unread messages for less than a day; or None.

    Args:
        found: The subscription, as the service describes it.
    """
    hours = found._pb.message_retention_duration.seconds / 3600
    if not 0 < hours < _LEAST_RETENTION_HOURS:  # some emulators do not give it
        return None
    return (
        f"keeps unread messages for {hours:.1f} hours, so those of a longer pause are lost: set "
        "its message_retention_duration to a day or more"
    )
