"""Pipelines that read a topic until they are stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam


class Keep(beam.DoFn):
    """Gives every element, its window and its pane to a function of an importable module."""

    def __init__(self, into: Callable[[Any, Any, Any], None]) -> None:
        self._into = into

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        self._into(element, window, pane)
