"""What Amun's guarantee says about itself, each sentence beside a log that shows it."""

from __future__ import annotations

import pytest

from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, MINUTE_US, table_1, traces_of
from tests.support.rounds import rows_of, run_rounds
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.schemas.published.manifest import Guarantee

AMUN = Amun()


def guarantee(**params: object) -> Guarantee:
    return AMUN.guarantee(AmunParams(**params))


# --- the support leaks: universal impossibility ---------------------------------------------------


def released_variants(rows: list[tuple[str, str, int]], number: int, mode: str) -> set[str]:
    params = AmunParams(mode=mode, guessing_advantage=0.3)
    made = anonymise(traces_of(rows), AMUN, params, release_key(number), "r", "c")
    return {"".join(name for name, _ in events) for _, events in rows_of(made.traces)}


@pytest.mark.parametrize("mode", ["sampling", "oversampling"])
def test_a_released_variant_of_one_case_proves_that_case(mode: str) -> None:
    """With the one case AXB its variant is released more often than not; without it never is.

    So delta is at least that share, whatever epsilon.
    """
    others = [(str(i), name, i) for i in range(20) for name in "AB"]
    one = [("one", name, 5) for name in "AXB"]
    n = 40
    with_it = sum("AXB" in released_variants([*others, *one], k, mode) for k in range(n))
    without = sum("AXB" in released_variants(others, k, mode) for k in range(n))
    assert with_it > n / 2
    assert without == 0
    assert "proves that case's presence" in guarantee(mode=mode).reality


# --- the filter -----------------------------------------------------------------------------------


def eleven_durations(*more: int) -> list[tuple[str, str, int]]:
    """Cases AB three weeks apart, eight of which take 60 minutes."""
    minutes = [*[60] * 8, 5, 7_000, 9_000, *more]
    return [
        (str(i), name, 21 * i * DAY_US + (minutes[i] * MINUTE_US if name == "B" else 0))
        for i in range(len(minutes))
        for name in "AB"
    ]


def n_kept(rows: list[tuple[str, str, int]]) -> int:
    params = AmunParams(mode="filtering", guessing_advantage=0.3, profile="paper")
    run = run_rounds(traces_of(rows), AMUN, params, release_key())
    return run.statistics["sampling"]["variants"].n_cases


def test_one_case_more_brings_eight_dropped_ones_back() -> None:
    """8 of 11: P + g = 1.027, so eight cases go; one far case more, and it is .967: none goes."""
    assert n_kept(eleven_durations()) == 3
    assert n_kept(eleven_durations(11_000)) == 12
    said = "Which cases the filter drops depends on the other cases."
    assert said in guarantee(mode="filtering").reality
    assert said not in guarantee(mode="sampling").reality


# --- the other sentences --------------------------------------------------------------------------


def test_a_group_of_equal_times_has_no_noise_and_that_is_said() -> None:
    """Table 1's A after D takes 120 minutes twice, and so it does in every release."""
    [said] = [s for s in guarantee().not_covered if "without noise" in s]
    assert "times are all equal" in said
    found = set()
    for number in range(10):
        params = AmunParams(mode="oversampling", compression="starts")
        made = anonymise(table_1(), AMUN, params, release_key(number), "r", "c")
        for _, events in rows_of(made.traces):
            if events[0][0] == "D":
                found.add(events[1][1] - events[0][1])
    assert found == {120 * MINUTE_US}
