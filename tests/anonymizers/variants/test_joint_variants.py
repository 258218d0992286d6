"""`joint-variants` and `auto-variants`: what is measured, what it costs, and what comes out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generators import answer_of, budget
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.drawing import Drawn, Recording
from tracecloak.anonymizers.rigorous.bought import changed_ranks, measured_ranks
from tracecloak.anonymizers.rigorous.clips import norm_grid, sums_sensitivity
from tracecloak.anonymizers.rigorous.params import LONGEST_CASE
from tracecloak.anonymizers.variants import joint_variants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import (
    REPEATED,
    SCATTERED,
    Division,
    JointVariants,
    balance,
)
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variant_flows import FlowCells, MarginalCells, VariantFlows
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
    rows = made.to_table().to_pylist()
    assert len({tuple(row["variant"]) for row in rows}) == len(rows)
    return Counter({tuple(row["variant"]): row["count"] for row in rows})


LOGS: dict[str, dict[Variant, int]] = {
    "empty": {},
    "one case": {("A",): 1},
    "other": {(OTHER, "A"): 30, (OTHER,): 20},
    "frequent": {("A", "B"): 500, ("A", "C", "B"): 200, ("B",): 2, ("B", "C"): 1},
    "many": {v: 1 + 7 * i % 5 for i, v in enumerate(itertools.product(NAMES, repeat=4))},
}


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


def _blocks(
    log: Mapping[Variant, int], clip: int, max_units: int
) -> list[tuple[np.ndarray, Fraction]]:
    """Each vector that gets noise, in occurrences, and the sensitivity that its noise is for."""
    variants = counted(log)
    cells = FlowCells.of(len(VOCABULARY), 5, 1000)
    flows = VariantFlows.of(variants, cells)
    marginals = MarginalCells(len(VOCABULARY), 5)
    row, cell = marginals.entries(variants)
    buckets = np.searchsorted(norm_grid(), flows.squares)
    cases = sum_groups(buckets, flows.cases, len(norm_grid()) + 1)
    units = 64
    every = sorted(v for n in range(1, 5) for v in itertools.product(NAMES, repeat=n))
    return [
        (
            flows.sums(cells, math.isqrt(clip * units**2), units),
            sums_sensitivity(clip, units, max_units).l2,
        ),
        (np.array([log.get(v, 0) for v in every]), of_one_cell(max_units).l2),
        (
            sum_groups(cell, variants.counts[row], marginals.size),
            Fraction(math.isqrt(marginals.n_of_case * max_units**2 * 10**12) + 1, 10**6),
        ),
        (measured_ranks(cases), changed_ranks(len(cases), max_units).l2),
        (np.array([balance(variants, 3)]), Fraction(max_units)),
    ]


@pytest.mark.parametrize("clip", [2, 5, 50])
@pytest.mark.parametrize("before", [{}, {("A", "B"): 2, ("C",): 1, ("A", "B", "A"): 3}])
def test_no_unit_changes_a_vector_by_more_than_its_noise_is_for(
    before: dict[Variant, int], clip: int
) -> None:
    """Every case of up to three events, once and twice."""
    exact = _blocks(before, clip, 1), _blocks(before, clip, 2)
    for n in range(1, 4):
        for variant in itertools.product(NAMES, repeat=n):
            for m in (1, 2):
                after = _blocks({**before, variant: before.get(variant, 0) + m}, clip, m)
                for (old, _), (new, sensitivity) in zip(exact[m - 1], after, strict=True):
                    assert ((new - old) ** 2).sum() <= sensitivity**2


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
        flows = VariantFlows.of(counted(log), cells)
        return flows.sums(cells, math.isqrt(clip * units**2), units)

    before: dict[Variant, int] = {("A", "B"): 2}
    change = sums({**before, unit: 1}, clip) - sums(before, clip)
    most = sums_sensitivity(clip, units, 1).l2 ** 2
    assert 0 < (change**2).sum() <= most
    if len(unit) == 500:
        unclipped = sums({**before, unit: 1}, 10**6) - sums(before, 10**6)
        assert (unclipped**2).sum() > 10 * most


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize(("log", "division"), [("frequent", REPEATED), ("many", SCATTERED)])
def test_the_noise_is_that_of_the_shares(log: str, division: Division, max_units: int) -> None:
    epsilon = Fraction(2)
    means = budget(JOINT, epsilon, DELTA, max_units, 5).means
    recording = Recording()
    variants = counted(
        {v: (3 if log == "many" else 10) * max_units * n for v, n in LOGS[log].items()}
    )
    JOINT.answer(variants, domain(max_units), means, randomness().with_noise(recording))
    drawn: dict[str, Drawn] = {d.purpose: d for d in recording.drawn}
    own, s = means[JOINT.name], float(means[JOINT.name].deviation or 0)

    def width(share: Fraction, l2: float) -> float:
        return s * l2 * max_units / math.sqrt(own.share * share)

    found = {name.removeprefix(f"{JOINT.name}/"): float(d.scale) for name, d in drawn.items()}
    assert found["variants/count"] / 1024 == pytest.approx(width(division.variants, 1), rel=1e-4)
    of_marginals = math.sqrt(MarginalCells(4, 5).n_of_case)
    assert found["marginals"] / 1024 == pytest.approx(
        width(division.marginals, of_marginals), rel=1e-4
    )
    clips = np.sqrt(norm_grid() + 1)
    ratio = found["chain"] / 1024 / width(division.chain, 1)
    assert np.abs(clips / ratio - 1).min() < 2e-3
    of_balance = means[f"{JOINT.name} balance"]
    assert found["balance"] / 1024 == pytest.approx(
        s * max_units / math.sqrt(of_balance.share), rel=1e-4
    )


def test_the_thresholds_delta_is_that_of_the_smaller_share() -> None:
    """A variant that nobody else has takes the smaller share with it: delta holds in both ways."""
    smaller = min(REPEATED.variants, SCATTERED.variants)
    own = budget(JOINT, 1, DELTA).means[JOINT.name]
    alone = budget(JOINT, 1, DELTA)
    assert joint_variants.SCATTERED.variants == smaller < REPEATED.variants
    assert 0 < own.delta < DELTA / 2  # of a share of a half nearly all of delta would be left
    assert alone.spends()[0].delta == DELTA
