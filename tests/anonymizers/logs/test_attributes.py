"""Attributes from noisy marginals: exact sensitivity, the right noise, the law of what is drawn.

Each test of a law rejects at ALPHA and has a control that must be rejected.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tests.support.silence import MeasureRecorder
from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.logs.attributes import (
    AttributeCounter,
    AttributeDecision,
    cells_of_cases,
    cells_of_events,
    changed_values,
    clip_of_values,
    decide_attribute,
    n_rows_of,
    sample_attribute,
)
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowance
from tracecloak.anonymizers.rigorous.clips import ClipDecision
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, NO_CLASSES, CaseClasses
from tracecloak.anonymizers.times.step_durations import most_names_of_durations
from tracecloak.anonymizers.times.time_bins import MIN_BINS
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import MAX_VALUES, Attribute, Declaration
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

OF_EVENT = Attribute("x", Declaration(values=("v", "w")))
OF_CASE = Attribute("case:x", Declaration(values=("v", "w")))
NUMBER = Attribute("n", Declaration(bounds=(0, 10), n_bins=5))

# A case is its (activity, value)s, and, of an attribute of cases, all have the same value.
Case = Sequence[tuple[str, str | None]]

NO_NOISE = SumNoise((1, 1000), 1, True)  # 0 but for a chance of e^-1000


def traces_of(cases: Sequence[Case], attribute: Attribute, names: str = "AB") -> TraceBatch:
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


def sums_of(cases: Sequence[Case], attribute: Attribute, is_pure: bool, clip: int) -> np.ndarray:
    traces = traces_of(cases, attribute)
    cells = cells_of_events(traces, attribute, clip, is_pure=is_pure)
    return cells.dense(np.arange(2 * attribute.n_cells))


def released(*variants: str, names: str = "AB") -> ReleasedVariants:
    """Variants in the order in which they are given, the first with the most cases."""
    vocabulary = ActivityVocabulary.of(names)
    offsets = np.cumsum([0, *map(len, variants)], dtype=np.int64)
    codes = vocabulary.codes(pa.array(list("".join(variants)), pa.string()))
    counts = np.arange(len(variants), 0, -1)
    return most_frequent_first(vocabulary.names, offsets, codes, counts)


def classes_of(*variants: str, names: str = "AB") -> CaseClasses:
    return CaseClasses.of(released(*variants, names=names), ActivityVocabulary.of(names))


STEPS = list(itertools.product("AB", (None, "v", "w")))
ALL_CASES = [case for n in (1, 2, 3) for case in itertools.product(STEPS, repeat=n)]
OTHERS: list[Case] = [[("A", "v"), ("B", None)], [("A", "v")] * 3]


def changes(
    attribute: Attribute, is_pure: bool, clip: int, cases: Sequence[Case] = ALL_CASES
) -> list[np.ndarray]:
    """What each case changes in the sums, added to an empty log and to one of two cases."""
    found = []
    for log in ([], OTHERS):
        before = sums_of(log, attribute, is_pure, clip)
        found += [sums_of([*log, case], attribute, is_pure, clip) - before for case in cases]
    return found


@pytest.mark.parametrize("clip", [1, 700, UNITS, 1500, 2500, 3 * UNITS])
def test_no_case_moves_the_sums_further_than_the_clip_and_one_moves_them_as_far(clip: int) -> None:
    assert max(int((change**2).sum()) for change in changes(OF_EVENT, False, clip)) == clip**2


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_with_delta_0_a_case_adds_its_events_up_to_the_longest(longest: int) -> None:
    found = changes(OF_EVENT, True, longest)
    assert max(int(np.abs(change).sum()) for change in found) == longest
    for case, change in zip(ALL_CASES * 2, found, strict=True):
        assert change.min() >= 0 and change.sum() == min(len(case), longest)


OF_ONE_VALUE = [
    [(a, value) for a, _ in case] for case in ALL_CASES[::3] for value in (None, "v", "w")
]


@pytest.mark.parametrize("variants", [(), ("AB",), ("BBA", "A", "AB")])
def test_a_case_is_in_one_cell_of_an_attribute_of_cases(variants: tuple[str, ...]) -> None:
    """Of its class, that is its variant if that is one of the classes, else its last activity."""
    classes = classes_of(*variants)
    n_cells = n_rows_of(OF_CASE, classes, 2) * 3
    assert n_cells == (len(variants) + 2) * 3
    for log in ([], OF_ONE_VALUE[:5]):
        for case in OF_ONE_VALUE:
            before, after = (
                cells_of_cases(traces_of(cases, OF_CASE), OF_CASE, classes).dense(
                    np.arange(n_cells)
                )
                for cases in (log, [*log, case])
            )
            walk = "".join(activity for activity, _ in case)
            own = variants.index(walk) if walk in variants else len(variants) + "AB".index(walk[-1])
            expected = np.zeros((len(variants) + 2, 3), np.int64)
            expected[own, (None, "v", "w").index(case[0][1])] = 1
            assert (after - before).tolist() == expected.ravel().tolist()


def test_an_individual_moves_the_sums_by_its_cases_together() -> None:
    pairs = itertools.combinations_with_replacement(ALL_CASES[:42], 2)
    found = [sums_of(pair, OF_EVENT, False, 1500) for pair in pairs]
    assert max(int((change**2).sum()) for change in found) == (2 * 1500) ** 2


def test_a_counter_looks_at_what_was_bought() -> None:
    log = [[("A", "v"), ("B", "w"), ("B", "v")]]
    decisions: Any = {
        "vocabulary": VocabularyDecision(ActivityVocabulary.public(["B"])),
        "length": LengthDecision(2),
        "clip": ClipDecision(5 * UNITS),
    }
    counter = pickle.loads(pickle.dumps(AttributeCounter(OF_EVENT, False, None)))  # noqa: S301
    counted = counter.count(traces_of(log, OF_EVENT), decisions, randomness().of_units)
    # B is 0 and all others are 1, three cells each.
    assert counted.keys.tolist() == [2, 4]
    assert counted.values.tolist() == [UNITS, UNITS]
    of_case = AttributeCounter(OF_CASE, False, None)
    same = [[("A", "v"), ("B", "v")], [("B", "w"), ("B", "w"), ("A", "w")]]
    other_b = np.array([1, 0])
    variants = most_frequent_first(pa.array(["B", OTHER]), np.array([0, 2]), other_b, np.array([5]))
    counted = of_case.count(
        traces_of(same, OF_CASE), {**decisions, "variants": variants}, randomness().of_units
    )
    # The first is of the only variant, class 0; the second is cut at two events and ends with B.
    assert counted == ClippedCells(np.array([1, 5]), np.array([1, 1]))


@pytest.mark.parametrize(
    ("bought", "occurrences"),
    [(1448, 1024), (2 * UNITS, 1448), (1449, 1024), (100 * UNITS, 72407)],
)
def test_of_a_bought_clip_values_have_one_by_the_root_of_2(bought: int, occurrences: int) -> None:
    assert clip_of_values(None, {"clip": ClipDecision(bought)}) == occurrences
    assert clip_of_values(700, {"clip": ClipDecision(bought)}) == 700


def test_an_attribute_of_events_needs_a_clip() -> None:
    with pytest.raises(UsageError, match="needs clip_units"):
        changed_values(OF_EVENT, None, 1, is_pure=True)
    with pytest.raises(UsageError, match="needs clip_units"):
        changed_values(OF_EVENT, None, 1, is_pure=False)


HALF, DELTA = Fraction(1, 2), Fraction(1, 10**6)


@pytest.mark.parametrize("is_pure", [False, True])
def test_an_attribute_of_cases_is_counted_whole_on_the_lattice_of_the_noise(is_pure: bool) -> None:
    """With its own epsilon, Laplace noise on counts; with a share of a Gaussian budget, UNITS."""
    changed, units = changed_values(OF_CASE, None, 2, is_pure=is_pure)
    assert (changed.l1, changed.l2_squared, units) == (2, 4, None)
    laplace = Allowance(HALF).noise(changed, units)
    assert laplace == SumNoise(laplace_scale(HALF, of_count(2)), 1, True)
    gaussian = Allowance(Fraction(0), share=HALF, deviation=Fraction(4)).noise(changed, units)
    assert (gaussian.units, gaussian.is_laplace, gaussian.sensitivity) == (UNITS, False, 2 * UNITS)
    log = [[("A", "v")], [("B", None)], [("A", "v"), ("B", "v")]]
    counted = cells_of_cases(traces_of(log, OF_CASE), OF_CASE, NO_CLASSES)
    for noise in (laplace, gaussian):
        noting = MeasureRecorder()
        decide_attribute(OF_CASE, counted, 2, noise, randomness().with_noise(noting))
        [(purpose, sums, told)] = noting.told
        assert (purpose, told) == ("attribute/case:x", noise)
        assert sums.tolist() == [0, noise.units, 0, noise.units, noise.units, 0]


def decided(
    log: Sequence[Case], attribute: Attribute, noise: SumNoise, names: str = "ABC", number: int = 0
) -> np.ndarray:
    cells = cells_of_events(traces_of(log, attribute, names), attribute, 100, is_pure=True)
    made = decide_attribute(attribute, cells, len(names), noise, randomness(number))
    assert made.shares.shape == (len(names), attribute.n_cells)
    assert (made.shares >= 0).all()
    assert np.allclose(made.shares.sum(axis=1), 1)
    return decode(encode(made)).shares


def test_without_noise_an_activity_has_its_own_shares_and_an_unseen_one_the_log_s() -> None:
    log = [[("A", "v"), ("A", "w"), ("A", "w"), ("A", None)], [("B", "w"), ("B", "w")]]
    shares = decided(log, OF_EVENT, NO_NOISE)
    assert np.allclose(shares[:2], [[0.25, 0.25, 0.5], [0, 0, 1]], atol=1e-3)
    assert np.allclose(shares[2], [1 / 6, 1 / 6, 4 / 6], atol=1e-3)


def test_a_log_with_times_has_so_few_names_that_noise_is_drawn_for_every_attribute() -> None:
    many = Attribute("case:m", Declaration(bounds=(0, 1), n_bins=MAX_VALUES))
    assert many.n_cells * (most_names_of_durations(MIN_BINS) + MOST_VARIANTS) <= MAX_CELLS


SHARES = np.array([[0.1, 0.2, 0.3, 0.0, 0.4, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
                   [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]])  # fmt: skip
N = 200_000


def drawn(shares: np.ndarray, number: int = 0) -> np.ndarray:
    """int[3, 6]: how often each cell of NUMBER was drawn for each activity."""
    activities = (np.arange(N) % 3).astype(np.int32)
    values = sample_attribute(
        AttributeDecision(shares), NUMBER, activities, np.arange(N) // 5, np.arange(N) % 5,
        randomness(number),
    )  # fmt: skip
    cells = NUMBER.cells(values.cast(pa.string()))
    return np.stack([np.bincount(cells[activities == a], minlength=6) for a in range(3)])


def test_values_follow_the_shares_of_their_activity() -> None:
    """Of 200,000 draws; control: shares that differ by 0.02."""
    found = drawn(SHARES)
    assert (found[SHARES == 0] == 0).all()
    for row in (0, 2):
        assert p_value(found[row], found[row].sum() * SHARES[row]) > ALPHA
    off = SHARES.copy()
    off[2, :2] += (0.02, -0.02)
    control = drawn(off, 1)
    assert p_value(control[2], control[2].sum() * SHARES[2]) < ALPHA
