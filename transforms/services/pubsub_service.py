"""Google's client of Pub/Sub: how it is found, and what its stamps are."""

from __future__ import annotations

import importlib
from typing import Any

from tracecloak.schemas.errors import missing_extra

NEVER_US = -(1 << 63)


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
