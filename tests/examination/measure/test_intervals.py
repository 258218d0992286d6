"""Whether intervals hold what they say: by hand, and what a manifest tells of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.measure.intervals import (
    interval_coverage,
    interval_width,
    noise_half_width,
)


def test_coverage_and_width_by_hand() -> None:
    truth, lows, highs = np.array([5, 0, 9, 3]), np.array([4, 1, 9, 0]), np.array([6, 4, 9, 2])
    assert interval_coverage(truth, lows, highs) == 0.5
    assert interval_width(lows, highs, 1.0) == pytest.approx((2 + 3 + 0 + 2) / 4 / 2)
    nothing = np.zeros(0, np.int64)
    assert interval_coverage(nothing, nothing, nothing) is None
    assert interval_width(nothing, nothing, 1.0) is None


@pytest.mark.parametrize(
    ("given_params", "width_of"),
    [
        ({"epsilon": "1", "l2_clip": "4"}, 4 * 1024),
        ({"epsilon": "1", "l2_clip": "4", "max_cases_per_individual": 3}, 4 * 1024),
        ({"epsilon": "2", "delta": "0", "max_trace_length": 3}, 4),
        ({"epsilon": "1"}, None),  # the clip is bought
    ],
)
def test_the_manifest_tells_the_noise_where_the_clip_is_public(
    given_params: dict[str, Any], width_of: int | None
) -> None:
    """As wide as the method itself says, which rounds up to whole occurrences."""
    method = method_named("private-dfg")
    params = method.Params(vocabulary=("A", "B"), **given_params)
    spends = [spend.to_json() for spend in method.spends(params)]
    found = noise_half_width({"params": params.resolved(), "spends": spends})
    if width_of is None:
        assert found is None
        return
    assert found is not None
    own = params.noise(width_of).half_width
    assert own - 1 <= found <= own


def test_a_manifest_without_such_noise_tells_nothing() -> None:
    assert noise_half_width({}) is None
    assert noise_half_width({"params": {}, "spends": [{"what": "variants", "scale": "3"}]}) is None
    # Parts within a part are looked at.
    inner = {"what": "edges", "mechanism": "discrete_gaussian", "scale": "20", "sensitivity": "10"}
    nested = {"params": {"l2_clip": "3"}, "spends": [{"what": "all", "blocks": [inner]}]}
    assert noise_half_width(nested) == pytest.approx(1.96 * 6)
