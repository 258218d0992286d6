"""What one unit changes of all sums of a timed log at once, by enumeration, where noise is added.

One Gaussian budget covers all blocks of a release together. So what counts is not how far each
block moves, but the squares of all their movements, each divided by its own deviation, together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from tests.support.coupled_noise import dearest
from tests.support.keys import release_key
from tests.support.logs import MINUTE, trace_batch
from tests.support.recording import Recording
from tests.support.rounds import run_rounds
from tests.support.tiers import at_night
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.schemas.events.traces import TraceBatch

METHOD = PrivateLog()
DAY = 24 * 60 * MINUTE
# 1970-03-01, which lies in the range that `Fixed` chooses where one is bought.
FIRST_US = 59 * DAY
GAPS = (0, MINUTE, 40 * DAY)
ATTRIBUTES = {
    "org:resource": {"values": ["R1", "R2"], "handovers": True},
    "case:kind": {"values": ["k1", "k2"]},
}
PUBLIC: dict[str, Any] = {
    "epsilon": "1", "vocabulary": ("A", "B"), "max_trace_length": 6, "first_date": "1970-01-01",
    "last_date": "1970-12-31", "l2_clip": "2", "n_duration_bins": 4, "attributes": ATTRIBUTES,
    "variants": "markov-log", "service_times": True,
}  # fmt: skip
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "public": {},
    "bought": {
        "vocabulary": None, "buy_vocabulary": True, "max_trace_length": None, "l2_clip": None,
        "max_activities": 2, "first_date": None, "last_date": None,
    },
    "individuals": {"max_cases_per_individual": 2},
    "other weights": {"budget_split": {"starts": "2", "attributes": "0.01"}},
    "pure": {"delta": "0", "l2_clip": None, "variants": "markov-log-pure"},
}  # fmt: skip


def params_of(name: str) -> Any:
    return METHOD.Params(**{**PUBLIC, **CONFIGURATIONS[name]})


@dataclass(frozen=True)
class Case:
    """A case whose events all have one value of each attribute."""

    events: tuple[tuple[str, int], ...]
    resource: str = "R1"
    kind: str | None = "k1"


def log_of(cases: Mapping[str, Case], owners: Mapping[str, str]) -> TraceBatch:
    events = [
        (name, activity, FIRST_US + time)
        for name, case in cases.items()
        for activity, time in case.events
    ]
    traces = trace_batch(events, "ABX", individuals=owners)
    of_events = [cases[case] for case in traces.case_ids.to_pylist() for _ in cases[case].events]
    values = {
        "org:resource": pa.array([case.resource for case in of_events]).dictionary_encode(),
        "case:kind": pa.array([case.kind for case in of_events], pa.string()).dictionary_encode(),
    }
    # Every second event takes half an hour, or what there is of it; others have no known start.
    starts = [None if i % 2 else time - 30 * MINUTE for i, time in enumerate(traces.times.tolist())]
    return replace(traces, attributes={"start_timestamp": pa.array(starts, pa.int64()), **values})


OTHERS = {
    "o": Case((("A", 0), ("B", 5))),
    "p": Case((("B", DAY), ("B", DAY), ("X", DAY + MINUTE)), "R2", None),
    "q": Case((("X", 3 * DAY), ("A", 5 * DAY)), "other", "k2"),
}
# Of one activity and pace: as many counts as there can be are in one cell.
LONG = Case(tuple(("A", MINUTE * i) for i in range(6)))
# The same with as much time as there can be on one pair.
SLOW = Case(tuple(("A", 40 * DAY * i) for i in range(6)))


# As many cells as there can be, of two each.
MIXED = Case(tuple((name, MINUTE * i) for i, name in enumerate("ABXABX")))


def units_of(max_cases: int) -> Iterator[list[Case]]:
    """All cases of up to 2 events and three long ones; or pairs of some of them."""
    cases = [LONG, SLOW, MIXED]
    for n in (1, 2):
        for names in itertools.product("ABX", repeat=n):
            for gaps in itertools.product(GAPS, repeat=n - 1):
                times = itertools.accumulate((7 * DAY, *gaps))
                cases.append(Case(tuple(zip(names, times, strict=True)), "R2", "k2"))
    if max_cases == 1:
        yield from ([case] for case in cases)
    else:
        some = [LONG, SLOW, *cases[2::5]]
        yield from (list(two) for two in itertools.combinations_with_replacement(some, 2))


@pytest.mark.parametrize(
    "name", [at_night(name) if name == "other weights" else name for name in CONFIGURATIONS]
)
def test_a_unit_moves_all_sums_together_no_further_than_the_budget_covers(
    name: str,
) -> None:
    """The bound is nearly attained, so that less noise on any block would be found out."""
    params = params_of(name)
    budget, max_cases = params.spending, params.max_units
    owners = {case: case for case in OTHERS}
    others = log_of(OTHERS, owners)
    logs = []
    for unit in units_of(max_cases):
        new = {f"new {i}": case for i, case in enumerate(unit)}
        logs.append(log_of({**OTHERS, **new}, owners | dict.fromkeys(new, "k")))
    most, largest = dearest(METHOD, params, others, logs)
    covered = budget.epsilon if budget.deviation is None else 1 / budget.deviation**2
    assert Fraction(9, 10) * covered < most <= covered
    # Starts are two histograms, and the range of time is chosen without noise on sums.
    assert len(largest) == len(budget.means.keys() - {"time_range"}) + 1
    assert min(largest.values()) > 0  # no block is idle


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_log_decides_which_noise_is_drawn(name: str) -> None:
    """Law, lattice and ratio of scale to sensitivity are those of the plan, for any log."""
    params, seen = params_of(name), []
    many = {
        f"c{i}": LONG if i % 3 else Case((("A", i * MINUTE), ("B", i * DAY))) for i in range(99)
    }
    for cases in ({}, OTHERS, many):
        recording = Recording()
        log = [log_of(cases, {case: case for case in cases})] if cases else []
        run_rounds(log, METHOD, params, release_key(), noise=recording)
        seen.append(
            {
                one.purpose: (one.law, float(one.sensitivity / one.scale))
                for one in recording.drawn
                if one.sensitivity is not None
            }
        )
    first, *others = seen
    assert len(first) >= 6
    for other in others:
        assert other.keys() == first.keys()
        for purpose, (law, ratio) in other.items():
            assert (law, ratio) == (first[purpose][0], pytest.approx(first[purpose][1], rel=1e-6))
