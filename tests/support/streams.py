"""Pipelines that read a topic until they are stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.pubsub import VARIABLE, Service


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


@contextmanager
def streaming(service: Service, build: Callable[[beam.Pipeline], None]) -> Iterator[Any]:
    """Runs a pipeline beside the test on the local streaming runner, and cancels it at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, service.address)
        options = PipelineOptions(["--streaming"])
        pipeline = beam.Pipeline("BundleBasedDirectRunner", options=options)
        build(pipeline)
        result = pipeline.run()
        try:
            yield result
        finally:
            result.cancel()
