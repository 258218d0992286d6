"""Two faults of Beam 2.77's local streaming runner that end a long stream, and their mends.

Every read of a subscription leaves an empty bundle with the runner's watermarks, which look through
all of them each time: after some million reads the stream does nothing else. And where a topic is
silent for as long as four reads, half a minute each, the runner takes the service's answer for a
failure and gives up.

The mends change Beam's classes in this process, once, and nothing but these two things. They are
for BundleBasedDirectRunner; other runners do not use the classes.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from apache_beam.runners.direct import transform_evaluator, watermark_manager

_MENDED = "_tracecloak_mended"


def mend_local_streaming() -> None:
    """Mends both faults in this process; a second call changes nothing.

    Raises:
        AttributeError: Beam has no such classes; setup.py pins the version that has them.
    """
    watermarks = watermark_manager._TransformWatermarks
    reader = transform_evaluator._PubSubReadEvaluator
    if getattr(watermarks, _MENDED, False):
        return
    watermarks.add_pending = _without_empty(watermarks.add_pending)
    reader._read_from_pubsub = _empty_when_silent(reader._read_from_pubsub)
    setattr(watermarks, _MENDED, True)


def _without_empty(add_pending: Any) -> Any:
    """An empty bundle holds no watermark, and is never removed: it need not be added."""

    @functools.wraps(add_pending)
    def add(self: Any, pending: Any) -> None:
        if pending.has_elements():
            add_pending(self, pending)

    return add


def _empty_when_silent(read: Any) -> Any:
    """A read that the service keeps open until its deadline has found nothing."""
    try:
        silence = importlib.import_module("google.api_core.exceptions").DeadlineExceeded
    except ImportError:  # without the library that this comes with nothing is read
        return read

    @functools.wraps(read)
    def read_or_nothing(self: Any, timestamp_attribute: Any) -> Any:
        try:
            return read(self, timestamp_attribute)
        except silence:
            return []

    return read_or_nothing
