"""What a stream says that it does not cover, and how often a case counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.stream_runs import stream_config
from tracecloak.anonymizers.streams.steps import NOT_COVERED_BY_STREAMS
from tracecloak.pipelines.stream.epoch import counted_again, explained, manifest_of


@pytest.mark.parametrize("product", ["dfg", "variants", "log"])
def test_every_stream_says_that_times_of_publishing_are_not_hidden(
    product: str, tmp_path: Path
) -> None:
    said = stream_config(tmp_path, product=product).made_product().guarantee().not_covered
    assert set(NOT_COVERED_BY_STREAMS) < set(said)
    assert any("When a step appears" in sentence for sentence in said)
    assert len(set(said)) == len(said)


WEEKLY = {"period": "1d", "horizon": 365, "gap": "1d", "max_lifetime": "5d", "tombstone": "7d"}


@pytest.mark.parametrize(
    ("changes", "epsilon"),
    [
        ({}, 9.2),  # the root of 53 times the norm, at the same delta
        ({"view": "total"}, 55.0),
        ({"product": "variants"}, 53),
        ({"product": "log"}, 53),
    ],
)
def test_a_memory_that_ends_before_the_horizon_says_what_that_costs(
    changes: dict[str, str], epsilon: float, tmp_path: Path
) -> None:
    config = stream_config(tmp_path, **{**WEEKLY, **changes})
    product = config.made_product()
    [said] = counted_again(config, product)
    assert "in up to 53 steps" in said and "remembered for 7 days" in said
    found = re.search(r"epsilon ([\d.]+) with delta ([\d.e-]+) holds", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(epsilon, rel=0.02)
    assert float(found[2]) >= float(config.delta)
    assert explained(config, product)[-1] == said
    assert said in manifest_of(config, product, "0" * 64).guarantee.not_covered


def test_a_shorter_memory_costs_an_individual_nothing(tmp_path: Path) -> None:
    config = stream_config(tmp_path, **WEEKLY, individual_id="person")
    [said] = counted_again(config, config.made_product())
    assert "no more cases count" in said and "epsilon" not in said
