"""What the manifest of a stream says is not covered, whatever its product is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stream_runs import stream_config
from tracecloak.anonymizers.streams.steps import NOT_COVERED_BY_STREAMS


@pytest.mark.parametrize("product", ["dfg", "variants", "log"])
def test_every_stream_says_that_times_of_publishing_are_not_hidden(
    product: str, tmp_path: Path
) -> None:
    said = stream_config(tmp_path, product=product).made_product().guarantee().not_covered
    assert set(NOT_COVERED_BY_STREAMS) < set(said)
    assert any("When a step appears" in sentence for sentence in said)
    assert len(set(said)) == len(said)
