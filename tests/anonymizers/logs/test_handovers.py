"""Handovers: exact sensitivity, a naive count, the law of what is drawn, and what a release keeps.

Each test of a law rejects at ALPHA and has a control that must be rejected.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tracecloak.anonymizers.logs.attributes import (
    AttributeDecision,
)
from tracecloak.anonymizers.logs.handovers import (
    HandoverCounter,
    HandoverCounts,
    HandoverDecision,
    changed_handovers,
    count_handovers,
    decide_handovers,
    handed_over,
    handover_cells,
)
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.clips import ClipDecision
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.declarations import Attribute, HandoverDeclaration
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

OWN = Attribute("x", HandoverDeclaration(values=("v", "w"), handovers=True))
VALUES = (None, "v", "w")
N_CELLS = 2 * 3 * 3

# A case is its (activity, value)s.
Case = Sequence[tuple[str, str | None]]

NO_NOISE = SumNoise((1, 1000), 1, True)  # 0 but for a chance of e^-1000


def traces_of(cases: Sequence[Case], names: str = "AB") -> TraceBatch:
    steps = list(itertools.chain(*cases))
    vocabulary = ActivityVocabulary.of(names)
    return TraceBatch(
        pa.array([f"c{i}" for i in range(len(cases))], pa.string()),
        np.cumsum([0, *map(len, cases)], dtype=np.int64),
        vocabulary.codes(pa.array([activity for activity, _ in steps], pa.string())),
        np.zeros(len(steps), np.int64),
        vocabulary,
        attributes={OWN.name: pa.array([v for _, v in steps], pa.string()).dictionary_encode()},
    )


def sums_of(cases: Sequence[Case], clip: int, *, is_pure: bool) -> np.ndarray:
    cells = handover_cells(traces_of(cases), OWN, clip, is_pure=is_pure)
    return cells.dense(np.arange(N_CELLS))


def naive(case: Case) -> np.ndarray:
    """int64[N_CELLS], the steps of a case by activity, value before and value."""
    found = np.zeros((2, 3, 3), np.int64)
    for (_, before), (activity, value) in itertools.pairwise(case):
        found["AB".index(activity), VALUES.index(before), VALUES.index(value)] += 1
    return found.ravel()


STEPS = list(itertools.product("AB", VALUES))
ALL_CASES = [case for n in (1, 2, 3) for case in itertools.product(STEPS, repeat=n)]
ALL_CASES += [[("A", "v")] * 5, [("B", None)] * 6]
OTHERS: list[Case] = [[("A", "v"), ("B", None)], [("A", "v")] * 3]


def changes(clip: int, *, is_pure: bool) -> list[np.ndarray]:
    """What each case changes in the sums, added to an empty log and to one of two cases."""
    found = []
    for log in ([], OTHERS):
        before = sums_of(log, clip, is_pure=is_pure)
        found += [sums_of([*log, case], clip, is_pure=is_pure) - before for case in ALL_CASES]
    return found


@pytest.mark.parametrize("clip", [1, 700, UNITS, 1500, 2500, 3 * UNITS])
def test_no_case_moves_the_sums_further_than_the_clip_and_one_moves_them_as_far(clip: int) -> None:
    most = max(int((change**2).sum()) for change in changes(clip, is_pure=False))
    changed, units = changed_handovers(clip, 1, is_pure=False)
    assert most == clip**2 == changed.l2_squared and units == UNITS


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_with_delta_0_a_case_adds_its_steps_up_to_the_longest(longest: int) -> None:
    found = changes(longest, is_pure=True)
    for case, change in zip(ALL_CASES * 2, found, strict=True):
        assert change.tolist() == naive(case[:longest]).tolist()
    most = max(int(np.abs(change).sum()) for change in found)
    changed, units = changed_handovers(longest, 1, is_pure=True)
    assert most == longest - 1 and changed.l1 == max(most, 1) and units is None


def test_an_individual_moves_the_sums_by_its_cases_together() -> None:
    pairs = itertools.combinations_with_replacement(ALL_CASES[6:60], 2)
    found = max(int((sums_of(pair, 700, is_pure=False) ** 2).sum()) for pair in pairs)
    assert found == (2 * 700) ** 2 == changed_handovers(700, 2, is_pure=False)[0].l2_squared
    assert changed_handovers(4, 2, is_pure=True)[0].l1 == 6


def test_a_counter_looks_at_what_was_bought() -> None:
    """Other activities are one, cases are cut, and the clip is the bought one by the root of 2."""
    decisions: Any = {
        "vocabulary": VocabularyDecision(ActivityVocabulary.public(["B"])),
        "length": LengthDecision(3),
        "clip": ClipDecision(3 * UNITS),
    }
    counter = pickle.loads(pickle.dumps(HandoverCounter(OWN, False, None)))  # noqa: S301
    log = [[("A", "v"), ("B", "w"), ("A", None), ("B", "v")]]
    counted = counter.count(traces_of(log), decisions, randomness().of_units)
    # B is 0: (B, v, w) is 5; all others are 1: (other, w, none) is 9 + 6.
    assert counted.keys.tolist() == [5, 15]
    assert counted.values.tolist() == [UNITS, UNITS]
    repeats = [[("A", "v")] * 4]
    counted = counter.count(traces_of(repeats), decisions, randomness().of_units)
    # Two steps are less than 3 by the root of 2, and more than 2 by it.
    assert counted.values.tolist() == [2 * UNITS]
    repeats = [[("A", "v")] * 4] * 2
    short = {**decisions, "clip": ClipDecision(2 * UNITS)}
    counted = counter.count(traces_of(repeats), short, randomness().of_units)
    assert counted.values.tolist() == [2 * 1448]


def decided(
    cases: Sequence[Case], marginal: np.ndarray, noise: SumNoise, number: int = 0
) -> np.ndarray:
    """float64[2, 3, 3]: by activity and value before, the shares of the values."""
    cells = handover_cells(traces_of(cases), OWN, 100, is_pure=True)
    counts = count_handovers(OWN, cells, 2, noise, randomness(number))
    made = decide_handovers(decode(encode(counts)), AttributeDecision(marginal))
    assert made.shares.shape == (6, 3) and np.allclose(made.shares.sum(axis=1), 1)
    assert (made.shares >= 0).all()
    return decode(encode(made)).shares.reshape(2, 3, 3)


MARGINAL = np.array([[0.2, 0.3, 0.5], [0.0, 0.6, 0.4]])


def test_without_noise_a_row_has_its_own_shares_and_an_unseen_one_its_activity_s() -> None:
    log = [[("B", "v"), ("A", "w")]] * 3 + [[("B", "v"), ("A", None)]]
    shares = decided(log, MARGINAL, NO_NOISE)
    assert np.allclose(shares[0, 1], [0.25, 0, 0.75], atol=1e-3)
    assert np.allclose(shares[0, [0, 2]], MARGINAL[0])
    assert np.allclose(shares[1], MARGINAL[1])


def test_a_count_is_drawn_towards_its_activity_by_as_much_as_it_may_be_noise() -> None:
    """Of a row of 100 the activity lets one expect 20, 30 and 50; and of one below 0, nothing."""
    counts = np.array([[[10.0, 20.0, 70.0], [-4.0, 1.0, 2.0], [0.0, 0.0, 0.0]]])
    made = decide_handovers(HandoverCounts(counts, 40.0), AttributeDecision(MARGINAL[:1])).shares
    expected = np.array([20.0, 30.0, 50.0])
    found = expected + expected**2 / (expected**2 + 40**2) * (counts[0, 0] - expected)
    assert np.allclose(made[0], found / found.sum())
    assert np.allclose(made[1:], MARGINAL[0])


LAWS = np.array([
    [[0.1, 0.6, 0.3], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]],
    [[0.3, 0.3, 0.4], [0.2, 0.7, 0.1], [1.0, 0.0, 0.0]],
])  # fmt: skip


def drawn(traces: TraceBatch, cases: np.ndarray, laws: np.ndarray = LAWS) -> np.ndarray:
    decision = HandoverDecision(laws.reshape(6, 3))
    values = handed_over(decision, AttributeDecision(MARGINAL), OWN, traces, cases, randomness())
    assert values.type == OWN.arrow_type and len(values) == traces.n_events
    return OWN.cells(values)


def test_values_follow_the_value_before() -> None:
    """Of 60,000 cases; control: laws that differ by 0.04."""
    n, walk = 60_000, "ABAB"
    traces = traces_of([[(a, None) for a in walk]] * n)
    cells = drawn(traces, np.arange(n)).reshape(n, 4)
    control = LAWS.copy()
    control[1, 1] += (0.04, -0.04, 0)
    first = np.bincount(cells[:, 0], minlength=3)
    assert p_value(first, n * MARGINAL[0]) > ALPHA
    others = drawn(traces, np.arange(n), control).reshape(n, 4)
    for position in (1, 2, 3):
        laws = LAWS["AB".index(walk[position])]
        for before in range(3):
            own = cells[cells[:, position - 1] == before, position]
            found, expected = np.bincount(own, minlength=3), len(own) * laws[before]
            assert (found[expected == 0] == 0).all()
            if (seen := expected > 0).sum() > 1:
                assert p_value(found[seen], expected[seen]) > ALPHA
    off = np.bincount(others[others[:, 0] == 1, 1], minlength=3)
    assert p_value(off, off.sum() * LAWS[1, 1]) < ALPHA


METHOD = PrivateLog()
PUBLIC: dict[str, Any] = {
    "epsilon": "1",
    "vocabulary": ("A", "B", "C"),
    "max_trace_length": 6,
    "first_date": "2024-01-01",
    "last_date": "2024-12-31",
    "l2_clip": "4",
    "attributes": {"org:resource": {"values": ["R1", "R2"], "handovers": True}},
}


def params_of(**changes: Any) -> PrivateLogParams:
    return METHOD.Params(**{**PUBLIC, **changes})


def with_values(n: int) -> dict[str, Any]:
    values = [f"R{i}" for i in range(n)]
    return {"attributes": {"org:resource": {"values": values, "handovers": True}}}


def test_more_cells_than_noise_is_drawn_for_are_refused_with_the_mend() -> None:
    names = tuple(f"n{i}" for i in range(79))  # with OTHER, 80
    largest = int((MAX_CELLS / 80) ** 0.5) - 1
    assert params_of(vocabulary=names, **with_values(largest)).most_names == 80
    with pytest.raises(pydantic.ValidationError) as error:
        params_of(vocabulary=names, **with_values(largest + 1))
    said = str(error.value)
    assert "handovers of org:resource" in said and "79 activities at most" in said
    assert "declare fewer values, give a smaller vocabulary" in said
    # Without handovers there is no such limit.
    declared = with_values(largest + 1)["attributes"]["org:resource"] | {"handovers": False}
    assert params_of(vocabulary=names, attributes={"org:resource": declared})
