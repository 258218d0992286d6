"""What Amun's guarantee says about itself, each sentence beside a log that shows it."""

from __future__ import annotations

import pytest

from tests.support.keys import release_key
from tests.support.paper_log import traces_of
from tests.support.rounds import rows_of
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.schemas.published.manifest import Guarantee

AMUN = Amun()


def guarantee(**params: object) -> Guarantee:
    return AMUN.guarantee(AmunParams(**params))


def released_variants(rows: list[tuple[str, str, int]], number: int, mode: str) -> set[str]:
    params = AmunParams(mode=mode, guessing_advantage=0.3)
    made = anonymise(traces_of(rows), AMUN, params, release_key(number), "r", "c")
    return {"".join(name for name, _ in events) for _, events in rows_of(made.traces)}


@pytest.mark.parametrize("mode", ["sampling", "oversampling"])
def test_a_released_variant_of_one_case_proves_that_case(mode: str) -> None:
    """With the one case AXB its variant is released more often than not; without it never is."""
    others = [(str(i), name, i) for i in range(20) for name in "AB"]
    one = [("one", name, 5) for name in "AXB"]
    n = 40
    with_it = sum("AXB" in released_variants([*others, *one], k, mode) for k in range(n))
    without = sum("AXB" in released_variants(others, k, mode) for k in range(n))
    assert with_it > n / 2
    assert without == 0
    assert "proves that case's presence" in guarantee(mode=mode).reality
