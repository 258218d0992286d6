"""`joint-variants` and `auto-variants`: what is measured and noted, what it costs, which way."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.coupled_noise import dearest_of_variants
from tests.support.generators import answer_of, budget
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, read_released
from tests.support.recording import Recording
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.composition import rough_gaussian_delta
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.samplers import Noise
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.budget import Choice, Instead, Sums, budget_of
from tracecloak.anonymizers.rigorous.clips import sums_sensitivity
from tracecloak.anonymizers.rigorous.params import LONGEST_CASE
from tracecloak.anonymizers.variants import joint_variants
from tracecloak.anonymizers.variants.auto import AutoVariants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import (
    REPEATED,
    SCATTERED,
    JointVariants,
    balance,
)
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.figures import ReleasedMeasures
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A", "B", "C")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
JOINT = JointVariants()


def counted(counts: Mapping[Variant, int]) -> VariantHistogram:
    return histogram(counts, VOCABULARY.names.to_pylist())


def domain(max_units: int = 1) -> Domain:
    return Domain(VOCABULARY, 5, max_units)


def variants_of(made: ReleasedVariants) -> Counter[Variant]:
    return Counter(read_released(made))


LOGS: dict[str, dict[Variant, int]] = {
    "frequent": {("A", "B"): 500, ("A", "C", "B"): 200, ("B",): 2, ("B", "C"): 1},
    "many": {v: 1 + 7 * i % 5 for i, v in enumerate(itertools.product(NAMES, repeat=4))},
}
FEW: dict[Variant, int] = {("A", "B"): 2, ("C",): 1, ("A", "B", "A"): 3}
MANY = {variant: 3 * n for variant, n in LOGS["many"].items()}


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map(tuple), st.integers(1, 60)
    )
)
def test_with_next_to_no_noise_it_is_the_log(counts: dict[Variant, int]) -> None:
    found = variants_of(
        answer_of(JOINT, counted(counts), domain(), Fraction(900), DELTA, randomness())
    )
    n, n_rare = sum(counts.values()), sum(count for count in counts.values() if count <= 2)
    distance = sum(abs(found[v] - counts.get(v, 0)) for v in {*found, *counts}) / 2
    # Those of rare variants are never seen together: a chain without positions proposes others.
    assert distance <= 1 + 0.05 * n + n_rare


@pytest.mark.parametrize(
    ("before", "clip", "max_units"),
    [({}, 2, 2), (FEW, 5, 1), (FEW, 50, 3), (MANY, 2, 2), (MANY, 5, 1)],
)
def test_no_unit_changes_a_vector_by_more_than_its_noise_is_for(
    before: dict[Variant, int], clip: int, max_units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case of up to three events, or so many of one; each has its share of the budget."""
    monkeypatch.setattr(joint_variants.clips, "choose_clip", lambda *_: clip)
    method: Any = method_named("joint-variants")
    of_unit = {"max_cases_per_individual": max_units} if max_units > 1 else {}
    params = method.Params(epsilon="1", vocabulary=NAMES, max_trace_length=5, **of_unit)
    units = ((v,) * max_units for n in (1, 2, 3) for v in itertools.product(NAMES, repeat=n))
    most, largest = dearest_of_variants(method, params, before, units, NAMES)
    assert len(largest) == 5 and min(largest.values()) > 0
    found = method.budget(params)
    whole = found.means["joint-variants"].share / found.deviation**2
    division = SCATTERED if before is MANY else REPEATED
    of_variants, marginals = (largest[f"{JOINT.name}/{w}"] for w in ("variants/count", "marginals"))
    assert float(of_variants / whole) == pytest.approx(division.variants)
    assert float(marginals / whole) == pytest.approx(division.marginals)
    covered = (1 - found.means["joint-variants ranks"].share) / found.deviation**2
    assert (0.7 if clip == 50 else 0.999) * covered < most <= covered


@pytest.mark.parametrize("unit", [("A",) * 500, ("A", "B", "C", "B") * 125, NAMES])
@pytest.mark.parametrize("has_positions", [True, False])
def test_a_case_of_any_length_changes_the_chain_by_no_more_than_its_noise_is_for(
    unit: Variant, has_positions: bool
) -> None:
    """Where no length is declared; without the clip a case of 500 events changes it by far more."""
    make = (
        FlowCells.of if has_positions else lambda n, most, _: FlowCells.without_positions(n, most)
    )
    cells = make(len(VOCABULARY), LONGEST_CASE, 100_000)
    units, clip = 64, 20

    def sums(log: dict[Variant, int], clip: int) -> np.ndarray:
        flows = VariantFlows.from_variants(counted(log), cells)
        return flows.sums(cells, math.isqrt(clip * units**2), units)

    before: dict[Variant, int] = {("A", "B"): 2}
    change = sums({**before, unit: 1}, clip) - sums(before, clip)
    most = sums_sensitivity(clip, units, 1).l2 ** 2
    assert 0 < (change**2).sum() <= most
    if len(unit) == 500:
        unclipped = sums({**before, unit: 1}, 10**6) - sums(before, 10**6)
        assert (unclipped**2).sum() > 10 * most


def test_the_thresholds_delta_is_that_of_the_smaller_share() -> None:
    """A variant that nobody else has takes the smaller share with it: delta holds in both ways."""
    smaller = min(REPEATED.variants, SCATTERED.variants)
    own = budget(JOINT, 1, DELTA).means[JOINT.name]
    alone = budget(JOINT, 1, DELTA)
    assert joint_variants.SCATTERED.variants == smaller < REPEATED.variants
    assert 0 < own.delta < DELTA / 2  # of a share of a half nearly all of delta would be left
    assert alone.spends()[0].delta == DELTA


AUTO_NAMES = tuple("ABCDEFGH")
AUTO_VOCABULARY = ActivityVocabulary.public(AUTO_NAMES)
AUTO = AutoVariants()
ONE = of_one_cell().times(1024)


def ways_of(
    log: Mapping[Variant, int], epsilon: Any, max_length: int = 8, n_keys: int = 12
) -> Counter[str]:
    """Which way was taken, by the noise that was drawn."""
    exact = histogram(log, AUTO_VOCABULARY.names.to_pylist())
    domain = Domain(AUTO_VOCABULARY, max_length, 1)
    means = budget(AUTO, epsilon, DELTA, 1, max_length).means
    found: Counter[str] = Counter()
    for number in range(n_keys):
        recording = Recording()
        AUTO.answer(exact, domain, means, randomness(number).with_noise(recording))
        purposes = {drawn.purpose for drawn in recording.drawn}
        own = {
            "joint": f"{AUTO.name}/chain" in purposes,
            "histogram": f"{AUTO.name}/histogram/count" in purposes,
        }
        [way] = [name for name, is_own in own.items() if is_own] or ["tree"]
        found[way] += 1
    return found


def _scattered(n_cases: int, n_names: int) -> dict[Variant, int]:
    generator = np.random.default_rng(3)
    log: Counter[Variant] = Counter()
    for _ in range(n_cases):
        log[tuple(generator.permutation(list(AUTO_NAMES[:n_names])).tolist())] += 1
    return dict(log)


STRAIGHT: dict[Variant, int] = {tuple("ABCD"): 1900, tuple("ABD"): 95, tuple("AD"): 5}


@pytest.mark.parametrize(
    ("log", "epsilon", "way"),
    [(STRAIGHT, 1, "histogram"), (STRAIGHT, 4, "histogram"), (_scattered(1500, 5), 1, "joint")],
    ids=["line", "line, 4", "scattered"],
)
def test_the_way_follows_from_how_many_cases_a_histogram_would_show(
    log: dict[Variant, int], epsilon: Any, way: str
) -> None:
    taken = ways_of(log, epsilon)
    assert taken[way] >= 9, taken


def _mixed(
    deviation: float, chosen: float, epsilon: float, of_histogram: float, ways: tuple[bool, bool]
) -> float:
    """Delta at epsilon of a randomised response, then of one way after each of its answers."""
    lost = math.exp(chosen) / (1 + math.exp(chosen))
    return sum(
        chance * (of_histogram if in_place else rough_gaussian_delta(deviation, epsilon - loss))
        for chance, loss, in_place in zip((lost, 1 - lost), (chosen, -chosen), ways, strict=True)
    )


@pytest.mark.parametrize("share", [Fraction(1, 4), Fraction(9, 10)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)])
def test_whatever_way_follows_an_answer_delta_holds(epsilon: Fraction, share: Fraction) -> None:
    """And all of it is used; what is in place of the sums costs them something if it has much."""
    sums = Sums("sums", Fraction(1), ONE, 1024, is_l2=True)
    choice = Choice("choice", Fraction(4, 100))
    place = Instead("x", "x", Fraction(1), ("sums",), delta_share=share)

    def worst(needs: tuple[Any, ...], of_place: Fraction) -> float:
        found = budget_of(epsilon, DELTA, needs)
        assert found.deviation is not None
        own = float(epsilon * choice.share)
        return max(
            _mixed(float(found.deviation), own, float(epsilon), float(of_place), ways)
            for ways in itertools.product((False, True), repeat=2)
        )

    shared = budget_of(epsilon, DELTA, (choice, sums, place))
    assert shared.means["x"].delta == share * DELTA
    assert 0.9999 < worst((choice, sums, place), share * DELTA) / float(DELTA) <= 1
    alone = budget_of(epsilon, DELTA, (choice, sums))
    assert shared.deviation is not None and alone.deviation is not None
    assert (shared.deviation > alone.deviation) == (share > Fraction(1, 2))
    assert worst((choice, sums), DELTA) > 1.05 * float(DELTA)  # the control


LOG: dict[Variant, int] = {("A", "B"): 500, ("A", "C", "B"): 200, ("A", "B", "B"): 100, ("C",): 1}


def noted(
    noise: Noise, number: int = 1, log: Mapping[Variant, int] = LOG
) -> tuple[ReleasedVariants, ReleasedMeasures]:
    noting = MeasureRecorder(noise)
    exact = histogram(log, VOCABULARY.names.to_pylist())
    listened = randomness(number).with_noise(noting)
    where = Domain(VOCABULARY, 5, 1)
    made = answer_of(JOINT, exact, where, Fraction(2), DELTA, listened)
    return made, noting.measures


def arcs_of(log: dict[Variant, int]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for variant, n in log.items():
        for ends in zip(("▶", *variant), (*variant, "■"), strict=True):
            found[ends] += n
    return found


def test_without_noise_the_sums_are_those_of_the_log() -> None:
    """The clip takes a little of the arcs, and of nothing else."""
    made, sums = noted(Silence())
    assert {row.value for row in sums.rows(figures.CASES)} == {801.0}
    released = read_released(made)
    arcs, expected = {row.of: row.value for row in sums.rows(figures.ARC)}, arcs_of(LOG)
    assert set(arcs) == set(arcs_of(released))
    assert all(0.5 * expected[ends] <= value <= expected[ends] for ends, value in arcs.items())
    seen = {row.of: row.value for row in sums.rows(figures.VARIANT)}
    assert seen == {variant: n for variant, n in LOG.items() if n > 1}
    times = {row.of: row.value for row in sums.rows(figures.OCCURRENCES) if row.value}
    assert times["B", "1", "1"] == 700 and times["B", "2", "2"] == 100
    assert times["A", "1", "1"] == 800
    totals = {row.of: row.value for row in sums.rows(figures.ACTIVITY)}
    assert 0.5 * 900 <= totals["B",] <= 900 and totals["__other__",] == 0
    [events], [least] = sums.rows(figures.EVENTS), sums.rows(figures.LEAST_OF_VARIANT)
    assert 0.5 * 1901 <= events.value <= 1901
    assert least.value > 1 and least.deviation == 0


@pytest.mark.parametrize("log", [LOG, LOGS["many"]], ids=["repeated", "scattered"])
def test_the_noise_has_the_deviation_that_is_noted(log: dict[Variant, int]) -> None:
    """Of sums without noise and with it: their differences, in deviations, are standard normal."""
    exact = {(row.what, row.of): row.value for row in noted(Silence(), 0, log)[1].rows()}
    drawn: dict[str, list[float]] = defaultdict(list)
    for number in range(20):
        for row in noted(Noise(), number, log)[1].rows():
            if row.deviation and row.what != figures.ARC_NOT_SHOWN and (row.what, row.of) in exact:
                drawn[row.what].append((row.value - exact[row.what, row.of]) / row.deviation)
    assert {figures.CASES, figures.OCCURRENCES, figures.EVENTS, figures.ARC} <= drawn.keys()
    for kind, values in drawn.items():
        error = 4 / math.sqrt(2 * len(values))
        assert np.sqrt(np.mean(np.square(values))) == pytest.approx(1, abs=error), kind


@pytest.mark.parametrize("threshold", [1, 3])
def test_a_case_changes_the_balance_by_one(threshold: int) -> None:
    """Up where its variant comes to the threshold or is above it, and else down."""
    for n in range(1, 6):
        fewer, more = (counted({("A",): m, ("B",): 7}) for m in (n, n + 1))
        change = balance(more, threshold) - balance(fewer, threshold)
        assert change == (1 if n + 1 >= threshold else -1)


def test_cases_of_long_loops_begin_and_end_as_they_do() -> None:
    """A hundred rounds drown the two arcs that a case has once; partitions know them.

    Most releases have nearly all beginnings and ends and their length, and one in ten few of them,
    so medians are of nine.
    """
    names = ("S", "W", "X", "E")
    vocabulary = ActivityVocabulary.public(names)
    log: dict[Variant, int] = {("S", *("W", "X") * n, "E"): 10 for n in range(40, 100)}
    exact = histogram(log, vocabulary.names.to_pylist())
    shares = []
    for number in range(9):
        where = Domain(vocabulary, 210, 1)
        made = answer_of(JOINT, exact, where, Fraction(1), DELTA, randomness(number))
        found = variants_of(made)
        n = found.total()
        assert n == pytest.approx(600, abs=120)  # five deviations
        begins = sum(k for v, k in found.items() if v[0] == "S") / n
        ends = sum(k for v, k in found.items() if v[-1] == "E") / n
        shares.append((begins, ends, sum(len(v) * k for v, k in found.items()) / n))
    begins, ends, length = np.median(shares, axis=0)
    assert begins > 0.6 and ends > 0.6 and length == pytest.approx(140, rel=0.25)
