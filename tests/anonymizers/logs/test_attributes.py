"""Attributes and handovers: naive counts, the right noise, and the law of what is drawn.

How far a case moves the sums is in `accounting/test_sensitivity.py`, and of all sums together in
`test_joint_sensitivity.py`. Each test of a law rejects at ALPHA and has a control that must be
rejected.
"""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest

from tests.anonymizers.logs.test_private_log import params_of as public_log
from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tests.support.logs import as_released
from tests.support.silence import MeasureRecorder
from tracecloak.anonymizers.logs import attributes
from tracecloak.anonymizers.logs.attributes import AttributeDecision, HandoverDecision
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.clips import ClipDecision
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.parts_method import Given
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, NO_CLASSES, CaseClasses
from tracecloak.anonymizers.times.step_durations import clip_in_effect, most_names_of_durations
from tracecloak.anonymizers.times.time_bins import MIN_BINS
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.declarations import (
    MAX_VALUES,
    Attribute,
    Declaration,
    HandoverDeclaration,
)
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants

OWN = Attribute("x", HandoverDeclaration(values=("v", "w"), handovers=True))
OF_EVENT = Attribute("x", Declaration(values=("v", "w")))
OF_CASE = Attribute("case:x", Declaration(values=("v", "w")))
NUMBER = Attribute("n", Declaration(bounds=(0, 10), n_bins=5))
VALUES = (None, "v", "w")

# A case is its (activity, value)s, and, of an attribute of cases, all have the same value.
Case = Sequence[tuple[str, str | None]]

NO_NOISE = SumNoise((1, 1000), 1, True)  # 0 but for a chance of e^-1000


def traces_of(cases: Sequence[Case], attribute: Attribute = OWN, names: str = "AB") -> TraceBatch:
    steps = list(itertools.chain(*cases))
    vocabulary = ActivityVocabulary.of(names)
    values = pa.array([value for _, value in steps], pa.string()).dictionary_encode()
    return TraceBatch(
        pa.array([f"c{i}" for i in range(len(cases))], pa.string()),
        np.cumsum([0, *map(len, cases)], dtype=np.int64),
        vocabulary.codes(pa.array([activity for activity, _ in steps], pa.string())),
        np.zeros(len(steps), np.int64),
        vocabulary,
        attributes={attribute.name: values},
    )


def decide_on(counted: Any, of: Attribute, names: str, noise: SumNoise, *others: Any) -> Any:
    keyed, known = (*others, {})[:2]
    given = Given({attributes.part_name(of): counted}, known, {}, keyed)
    params: Any = SimpleNamespace(words=ActivityVocabulary.of(names))
    return attributes.decide_attribute(given, noise, of, params)


def released(*variants: str) -> ReleasedVariants:
    """Variants in the order in which they are given, the first with the most cases."""
    return as_released({variant: len(variants) - i for i, variant in enumerate(variants)})


STEPS = list(itertools.product("AB", VALUES))
ALL_CASES = [case for n in (1, 2, 3) for case in itertools.product(STEPS, repeat=n)]
OF_ONE_VALUE = [[(a, value) for a, _ in case] for case in ALL_CASES[::3] for value in VALUES]


def value(text: str | None) -> int:
    return VALUES.index(text)


def by_activity(case: Case) -> Counter[int]:
    return Counter("AB".index(a) * 3 + value(v) for a, v in case)


def by_step(case: Case) -> Counter[int]:
    return Counter(
        ("AB".index(a) * 3 + value(u)) * 3 + value(v) for (_, u), (a, v) in itertools.pairwise(case)
    )


def by_class(variants: Sequence[str]) -> Any:
    """Of its class, that is its variant if that is one of the classes, else its last activity."""

    def naive(case: Case) -> Counter[int]:
        walk = "".join(activity for activity, _ in case)
        own = variants.index(walk) if walk in variants else len(variants) + "AB".index(walk[-1])
        return Counter([own * 3 + value(case[0][1])])

    return naive


@pytest.mark.parametrize(
    ("cells_of", "attribute", "cases", "naive", "variants"),
    [
        (attributes.cells_of_events, OF_EVENT, ALL_CASES, by_activity, ()),
        (attributes.cells_of_handovers, OWN, ALL_CASES, by_step, ()),
        *(
            (attributes.cells_of_cases, OF_CASE, OF_ONE_VALUE, by_class(variants), variants)
            for variants in ((), ("AB",), ("BBA", "A", "AB"))
        ),
    ],
)
def test_vectors_of_cases_are_those_of_a_loop(cells_of, attribute, cases, naive, variants):
    cells = cells_of(traces_of(cases, attribute), {"variants": released(*variants)}, attribute)
    found: list[Counter[int]] = [Counter() for _ in cases]
    for case, key, count in zip(cells.rows, cells.keys, cells.counts, strict=True):
        found[int(case)][int(key)] = int(count)
    assert found == [naive(case) for case in cases]
    assert max(map(max, filter(None, found))) < cells.n_keys


def params_of(**changes: Any) -> PrivateLogParams:
    return public_log(**{"attributes": {"x": {"values": ["v", "w"], "handovers": True}}, **changes})


def test_counters_look_at_what_was_bought() -> None:
    """Other activities are one, cases are cut, and the clip is the bought one by the root of 2."""
    bought = {"vocabulary": None, "buy_vocabulary": True, "max_trace_length": None, "l2_clip": None}
    params = params_of(**bought, variants="privtree")
    counters = {
        name: pickle.loads(pickle.dumps(counter))  # noqa: S301
        for part in params.parts
        for name, counter in part.counters.items()
    }
    decisions: Any = {
        "vocabulary": VocabularyDecision(ActivityVocabulary.public(["B"])),
        "length": LengthDecision(3),
        "clip": ClipDecision(3 * UNITS),
    }

    def counted(name: str, log: Sequence[Case], **changed: Any) -> tuple[list[int], list[int]]:
        found = counters[name].count(traces_of(log), {**decisions, **changed}, randomness())
        return found.keys.tolist(), found.values.tolist()

    log = [[("A", "v"), ("B", "w"), ("A", None), ("B", "v")]]
    # B is 0 and all others are 1, three cells each; (B, v, w) is 5, and (other, w, none) 9 + 6.
    assert counted("attribute x", log) == ([2, 3, 4], [UNITS] * 3)
    assert counted("handovers x", log) == ([5, 15], [UNITS] * 2)
    repeats = [[("A", "v")] * 4] * 2
    # Two steps are less than 3 by the root of 2, and more than 2 by it.
    assert counted("handovers x", repeats)[1] == [2 * 2 * UNITS]
    assert counted("handovers x", repeats, clip=ClipDecision(2 * UNITS))[1] == [2 * 1448]
    cells = attributes.cells_of_cases(
        traces_of([[("A", "v"), ("B", "v")], [("B", "w"), ("B", "w")]], OF_CASE).recode_public(
            decisions["vocabulary"].vocabulary
        ),
        {"variants": as_released({(OTHER, "B"): 5})},
        OF_CASE,
    )
    # The first is of the only variant, class 0; the second ends with B.
    assert cells.keys.tolist() == [1, 5]


@pytest.mark.parametrize(
    ("bought", "occurrences"), [(1448, 1024), (2 * UNITS, 1448), (1449, 1024), (100 * UNITS, 72407)]
)
def test_of_a_bought_clip_values_have_one_by_the_root_of_2(bought: int, occurrences: int) -> None:
    known = {"clip": ClipDecision(bought)}
    assert clip_in_effect(None, known, attributes.SQUARE) == occurrences
    assert clip_in_effect(700, known, attributes.SQUARE) == 700


@pytest.mark.parametrize("units", [1, UNITS])
def test_an_attribute_of_cases_is_counted_whole_on_the_lattice_of_the_noise(units: int) -> None:
    noise = SumNoise((8, 1), units, units == 1)
    log = [[("A", "v")], [("B", None)], [("A", "v"), ("B", "v")]]
    decisions = {"variants": released()}
    cells = attributes.cells_of_cases(traces_of(log, OF_CASE), decisions, OF_CASE)
    counted = attributes.ClippedCells.from_cases(cells, 1, 1)
    noting = MeasureRecorder()
    decide_on(counted, OF_CASE, "AB", noise, randomness().with_noise(noting), decisions)
    [(purpose, sums, told)] = noting.told
    assert (purpose, told) == ("attribute/case:x", noise)
    assert sums.tolist() == [0, units, 0, units, units, 0]


def test_without_noise_an_activity_has_its_own_shares_and_an_unseen_one_the_log_s() -> None:
    log = [[("A", "v"), ("A", "w"), ("A", "w"), ("A", None)], [("B", "w"), ("B", "w")]]
    cells = attributes.cells_of_events(traces_of(log, OF_EVENT, "ABC"), {}, OF_EVENT)
    counted = attributes.ClippedCells.from_cases(cells, 100, 1)
    made = decide_on(counted, OF_EVENT, "ABC", NO_NOISE, randomness())
    shares = decode(encode(made)).shares
    assert np.allclose(shares[:2], [[0.25, 0.25, 0.5], [0, 0, 1]], atol=1e-3)
    assert np.allclose(shares[2], [1 / 6, 1 / 6, 4 / 6], atol=1e-3)


MARGINAL = np.array([[0.2, 0.3, 0.5], [0.0, 0.6, 0.4]])


def test_without_noise_a_row_has_its_own_shares_and_an_unseen_one_its_activity_s() -> None:
    counts = np.zeros((2, 3, 3))
    counts[0, 1] = 1, 0, 3
    made = attributes.decide_handovers(counts, 1e-3, MARGINAL)
    shares = decode(encode(made)).shares.reshape(2, 3, 3)
    assert np.allclose(shares[0, 1], [0.25, 0, 0.75], atol=1e-3)
    assert np.allclose(shares[0, [0, 2]], MARGINAL[0])
    assert np.allclose(shares[1], MARGINAL[1])


def test_a_count_is_drawn_towards_its_activity_by_as_much_as_it_may_be_noise() -> None:
    """Of a row of 100 the activity lets one expect 20, 30 and 50; and of one below 0, nothing."""
    counts = np.array([[[10.0, 20.0, 70.0], [-4.0, 1.0, 2.0], [0.0, 0.0, 0.0]]])
    made = attributes.decide_handovers(counts, 40.0, MARGINAL[:1]).shares
    expected = np.array([20.0, 30.0, 50.0])
    found = expected + expected**2 / (expected**2 + 40**2) * (counts[0, 0] - expected)
    assert np.allclose(made[0], found / found.sum())
    assert np.allclose(made[1:], MARGINAL[0])


def test_a_log_with_times_has_so_few_names_that_noise_is_drawn_for_every_attribute() -> None:
    many = Attribute("case:m", Declaration(bounds=(0, 1), n_bins=MAX_VALUES))
    assert many.n_cells * (most_names_of_durations(MIN_BINS) + MOST_VARIANTS) <= MAX_CELLS


def drawn(
    attribute: Attribute, traces: TraceBatch, shares: np.ndarray, following: Any = None
) -> np.ndarray:
    """int[n_events], the cells that are drawn."""
    decided = {f"attribute {attribute.name}": AttributeDecision(shares)}
    if following is not None:
        decided[f"handovers {attribute.name}"] = HandoverDecision(following)
    cases = np.arange(traces.n_cases)
    values = attributes.generated_values(
        attribute, decided, traces, NO_CLASSES, cases, randomness()
    )
    assert values.type == attribute.arrow_type and len(values) == traces.n_events
    return attribute.cells(values.cast(pa.string()))


SHARES = np.array([[0.1, 0.2, 0.3, 0.0, 0.4, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
                   [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]])  # fmt: skip


def test_values_follow_the_shares_of_their_activity() -> None:
    """Of 180,000 draws; control: shares that differ by 0.02."""
    traces = traces_of([[("A", None), ("B", None), ("C", None)] * 2] * 30_000, names="ABC")
    off = SHARES.copy()
    off[2, :2] += (0.02, -0.02)
    found, control = (
        np.stack([np.bincount(cells[traces.activities == a], minlength=6) for a in range(3)])
        for cells in (drawn(NUMBER, traces, shares) for shares in (SHARES, off))
    )
    assert (found[SHARES == 0] == 0).all()
    for row in (0, 2):
        assert p_value(found[row], found[row].sum() * SHARES[row]) > ALPHA
    assert p_value(control[2], control[2].sum() * SHARES[2]) < ALPHA


def test_of_a_case_there_is_one_value_by_its_class() -> None:
    traces = traces_of([[("A", None), ("B", None)], [("B", None)] * 3] * 50, OF_CASE)
    classes = CaseClasses.of(released("AB"), traces.vocabulary)
    decided = {"attribute case:x": AttributeDecision(np.eye(3)[[1, 0, 2]])}
    values = attributes.generated_values(
        OF_CASE, decided, traces, classes, np.arange(100), randomness()
    )
    assert values.to_pylist() == ["v", "v", "w", "w", "w"] * 50


LAWS = np.array([
    [[0.1, 0.6, 0.3], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]],
    [[0.3, 0.3, 0.4], [0.2, 0.7, 0.1], [1.0, 0.0, 0.0]],
])  # fmt: skip


def test_values_follow_the_value_before() -> None:
    """Of 60,000 cases; control: laws that differ by 0.04."""
    n, walk = 60_000, "ABAB"
    traces = traces_of([[(a, None) for a in walk]] * n)
    control = LAWS.copy()
    control[1, 1] += (0.04, -0.04, 0)
    cells, others = (
        drawn(OWN, traces, MARGINAL, laws.reshape(6, 3)).reshape(n, 4) for laws in (LAWS, control)
    )
    first = np.bincount(cells[:, 0], minlength=3)
    assert p_value(first, n * MARGINAL[0]) > ALPHA
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


def test_more_cells_than_noise_is_drawn_for_are_refused_with_the_remedy() -> None:
    names = tuple(f"n{i}" for i in range(79))  # with OTHER, 80
    largest = int((MAX_CELLS / 80) ** 0.5) - 1

    def declared(n: int, handovers: bool = True) -> PrivateLogParams:
        of = {"values": [f"R{i}" for i in range(n)], "handovers": handovers}
        return params_of(vocabulary=names, attributes={"org:resource": of})

    assert declared(largest).most_names == 80
    with pytest.raises(pydantic.ValidationError, match=r"org:resource.*79 activities at most"):
        declared(largest + 1)
    assert declared(largest + 1, False)  # there is no such limit
