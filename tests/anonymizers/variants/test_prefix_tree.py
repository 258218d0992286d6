"""The prefix tree: what one unit changes, the noise that covers it, pruning, and least squares.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, trace_batch, variant_counts
from tests.support.privacy_loss import ONE
from tests.support.privacy_loss import discrete_gaussian as gaussian_law
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.calibration import gaussian_scale
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.drawing import draw_gaussian, draw_laplace
from tracecloak.anonymizers.variants import prefix_tree as prefix_tree_variants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.method import VariantLog, VariantLogParams
from tracecloak.anonymizers.variants.prefix_tree import (
    Level,
    NodeNoise,
    PrefixTree,
    TreeNoise,
    _grow,
    consistent,
    max_expanded,
    tree_noise,
)
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

ZERO, MILLIONTH = Fraction(0), Fraction(1, 10**6)
BUDGETS = [(Fraction(1), ZERO), (Fraction(1), MILLIONTH), (Fraction(3, 10), Fraction(1, 1000))]


def domain(names: Iterable[str] = "AB", max_length: int = 4, max_units: int = 1) -> Domain:
    return Domain(ActivityVocabulary.public(names), max_length, max_units)


def histogram(counts: Mapping[Variant, int], of: Domain) -> VariantHistogram:
    names = of.vocabulary.names.to_pylist()
    offsets = np.cumsum([0, *map(len, counts)], dtype=np.int64)
    codes = np.array([names.index(name) for variant in counts for name in variant], np.int32)
    return VariantHistogram.from_sequences(
        encode_sequences(offsets, codes), np.array(list(counts.values()), np.int64)
    )


def released(
    counts: Mapping[Variant, int],
    of: Domain,
    epsilon: Fraction | int = 1,
    delta: Fraction = ZERO,
    number: int = 0,
) -> dict[Variant, int]:
    """What the key of that number releases; checks its shape on the way."""
    return read(
        PrefixTree().answer(histogram(counts, of), of, Fraction(epsilon), delta, randomness(number))
    )


def read(variants: ReleasedVariants) -> dict[Variant, int]:
    assert variants.offsets.dtype == variants.counts.dtype == np.int64
    assert variants.codes.dtype == np.int32
    assert (variants.counts > 0).all() and (np.diff(variants.counts) <= 0).all()
    rows = variants.to_table().to_pylist()
    found = {tuple(row["variant"]): row["count"] for row in rows}
    assert len(found) == len(rows)
    return found


# --- what one unit changes, and the noise ---------------------------------------------------------


def nodes(counts: Mapping[Variant, int], max_length: int) -> tuple[Counter[Any], Counter[Any]]:
    """Cases of each prefix that may grow and of each end."""
    prefixes: Counter[Any] = Counter()
    ends: Counter[Any] = Counter()
    for variant, n in counts.items():
        for k in range(1, min(len(variant), max_length - 1) + 1):
            prefixes[variant[:k]] += n
        ends[variant] += n
    return prefixes, ends


def loss(change: Mapping[Variant, int], of: Domain, epsilon: Fraction, delta: Fraction) -> Fraction:
    """What cases added at once cost of the budget: L1 over scales, or squared L2 over squares."""
    noise = tree_noise(of, epsilon, delta)
    assert noise is not None
    lost = ZERO
    for kind, changed in zip((noise.prefix, noise.end), nodes(change, of.max_length), strict=True):
        for n in changed.values():
            if kind.draw is draw_laplace:
                lost += n / Fraction(*kind.scale) / epsilon
            else:  # at least this sensitivity has this scale
                lost += Fraction(n) ** 2 / sensitivity(kind.scale, epsilon, delta) ** 2
    return lost


def sensitivity(scale: tuple[int, int], epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest L2 sensitivity that Gaussian noise of a scale covers, up to 1e-6."""
    low, high = ZERO, Fraction(1000)
    while high - low > MILLIONTH / 2:
        middle = (low + high) / 2
        fits = Fraction(*gaussian_scale(epsilon, delta, of_count(middle))) <= Fraction(*scale)
        low, high = (middle, high) if fits else (low, middle)
    return high


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[:2])
@pytest.mark.parametrize("max_length", [1, 2, 4, 60])
def test_the_longest_case_spends_the_budget_and_none_spends_more(
    max_length: int, epsilon: Fraction, delta: Fraction
) -> None:
    of = domain("AB", max_length)
    lost = {length: loss({("A",) * length: 1}, of, epsilon, delta) for length in (1, max_length)}
    near = Fraction(1, 10**5) if delta else ZERO
    assert lost[max_length] <= 1
    assert lost[max_length] > 1 - near - Fraction(1, 10**9)
    assert lost[1] <= lost[max_length]


@given(
    st.lists(st.lists(st.sampled_from("AB"), min_size=1, max_size=4).map(tuple), min_size=3)
    .map(lambda variants: variants[:3])
    .map(Counter)
)
@settings(max_examples=50, deadline=None)
def test_a_unit_of_three_cases_spends_no_more_than_the_budget(change: Counter[Variant]) -> None:
    of = domain("AB", 4, 3)
    assert loss(change, of, Fraction(1), ZERO) <= 1
    prefixes, ends = nodes(change, 4)
    for k in (1, 2, 3):
        assert sum(n**2 for prefix, n in prefixes.items() if len(prefix) == k) <= 9
    assert sum(n**2 for n in ends.values()) <= 9


def test_gaussian_noise_grows_with_the_cases_of_a_unit() -> None:
    noise = tree_noise(domain("AB", 30, 3), Fraction(1), MILLIONTH)
    alone = tree_noise(domain("AB", 30, 1), Fraction(1), MILLIONTH)
    assert noise is not None and alone is not None
    # Three times the sensitivity; the variance of rounding, 4, is not multiplied.
    for three, one in ((noise.prefix, alone.prefix), (noise.end, alone.end)):
        assert three.variance - 4 == pytest.approx(9 * (one.variance - 4), rel=1e-5)


def test_gaussian_noise_is_taken_where_it_is_less() -> None:
    """By hand, at 25 levels: 24 / .9 sqrt(2) = 37.7 against 4.225 sqrt(24 / .9) = 21.8."""
    noise = tree_noise(domain("AB", 25), Fraction(1), MILLIONTH)
    assert noise is not None and noise.prefix.draw is noise.end.draw is draw_gaussian
    assert math.sqrt(noise.prefix.variance) == pytest.approx(21.9, abs=0.1)
    pure = tree_noise(domain("AB", 25), Fraction(1), ZERO)
    assert pure is not None and pure.prefix.draw is pure.end.draw is draw_laplace
    assert pure.prefix.scale == (80, 3) and pure.end.scale == (10, 1)
    short = tree_noise(domain("AB", 2), Fraction(1), MILLIONTH)
    assert short is not None and short.prefix.draw is draw_laplace


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("n_names", [1, 27, 400])
def test_half_a_node_without_cases_is_kept(
    n_names: int, epsilon: Fraction, delta: Fraction
) -> None:
    """Of |A| + 1 prefixes, or max_length ends if that is more; up to the steps of the noise."""
    of = domain([f"name {i}" for i in range(n_names)], 12)
    noise = tree_noise(of, epsilon, delta)
    assert noise is not None
    for kind, n_nodes in ((noise.prefix, n_names + 2), (noise.end, max(n_names + 2, 12))):
        law = laplace_law if kind.draw is draw_laplace else gaussian_law
        scale = Fraction(*kind.scale)
        chances = law(scale, int(30 * scale) if delta == 0 else int(9 * scale)).chances

        def passing(least: int, chances: Mapping[Any, tuple[int, int]] = chances) -> float:
            return sum(high for n, (_, high) in chances.items() if n >= least) / ONE

        assert passing(kind.least) * n_nodes <= 0.5 * (1 + 2 / scale)
        assert passing(kind.least - 1) * n_nodes > 0.5 * (1 - 2 / scale)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_parts_are_the_budget(epsilon: Fraction, delta: Fraction) -> None:
    parts = PrefixTree().spends(epsilon, delta, 2)
    assert total(parts) == (epsilon, delta)
    assert "noisy counts" in PrefixTree().explain(epsilon, delta, 2)


N_KEYS, N_NAMES = 80, 74  # and OTHER


@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
@pytest.mark.parametrize("is_end", [True, False])
def test_the_noise_has_its_law(delta: Fraction, is_end: bool) -> None:
    """75 sequences or prefixes of one event, under 80 keys. Control: a scale of 0.8 of it.

    Thresholds far below all counts, so that nothing but the noise decides what comes out.
    """
    names = [f"name {i:02}" for i in range(N_NAMES)]
    noise = tree_noise(domain(names, 25), Fraction(1), delta)
    assert noise is not None
    noise = TreeNoise(replace(noise.prefix, least=-(10**9)), replace(noise.end, least=-(10**9)))
    of = domain(names, 1 if is_end else 2)
    sample: Counter[Any] = Counter()
    for number in range(N_KEYS):
        levels, _ = _grow(VariantHistogram.merge(()), of, noise, randomness(number))
        assert levels[0].grows.all() != is_end
        sample.update(levels[0].counts.astype(int).tolist())
    assert sample.total() == N_KEYS * (N_NAMES + 1)
    kind = noise.end if is_end else noise.prefix
    law, reach = (laplace_law, 40) if kind.draw is draw_laplace else (gaussian_law, 12)
    assert law is (gaussian_law if delta else laplace_law)

    def fits(scale: Fraction) -> float:
        chances = law(scale, int(reach * scale)).chances
        return p_value_of_law(sample, {n: high / ONE for n, (_, high) in chances.items()})

    assert fits(Fraction(*kind.scale)) > ALPHA
    assert fits(Fraction(*kind.scale) * Fraction(4, 5)) < ALPHA


# --- least squares --------------------------------------------------------------------------------


def least_squares(levels: list[Level]) -> list[np.ndarray]:
    """The same by a dense system: unknowns are the leaves, of which every count is a sum."""
    leaves: list[tuple[int, int]] = []  # (level, child), or (level, -1 - node) for what was pruned

    def below(depth: int, node: int) -> list[tuple[int, int]]:
        level = levels[depth]
        found = [(depth, -1 - node)] if level.pruned_variances[node] else []
        for child in np.flatnonzero(level.parents == node).tolist():
            found += under(depth, child)
        return found

    def under(depth: int, child: int) -> list[tuple[int, int]]:
        level = levels[depth]
        if not level.grows[child]:
            return [(depth, child)]
        return below(depth + 1, int(level.grows[:child].sum()))

    leaves = below(0, 0)
    rows, values, variances = [], [], []
    for depth, level in enumerate(levels):
        for child in range(len(level.counts)):
            rows.append([leaf in under(depth, child) for leaf in leaves])
            values.append(level.counts[child])
            variances.append(level.variances[child])
        for node, variance in enumerate(level.pruned_variances):
            if variance:
                rows.append([leaf == (depth, -1 - node) for leaf in leaves])
                values.append(level.pruned[node])
                variances.append(variance)
    weights = 1 / np.sqrt(np.array(variances))
    fitted = np.linalg.lstsq(np.array(rows) * weights[:, None], values * weights, rcond=None)[0]
    found = dict(zip(leaves, fitted, strict=True))
    return [
        np.array([found[depth, child] for child in np.flatnonzero(~level.grows).tolist()])
        for depth, level in enumerate(levels)
    ]


def random_levels(rng: np.random.Generator) -> list[Level]:
    levels, n_expanded = [], 1
    while n_expanded:
        parents = np.sort(rng.integers(0, n_expanded, rng.integers(n_expanded, 3 * n_expanded + 1)))
        grows = rng.random(len(parents)) < (0.5 if len(levels) < 3 else 0)
        alone = np.bincount(parents, minlength=n_expanded) == 0
        variances = (alone | (rng.random(n_expanded) < 0.7)) * rng.uniform(1, 50, n_expanded)
        levels.append(
            Level(
                parents,
                rng.normal(100, 50, len(parents)),
                rng.uniform(0.5, 9, len(parents)),
                grows,
                np.where(variances > 0, rng.normal(0, 20, n_expanded), 0),
                variances,
            )
        )
        n_expanded = int(grows.sum())
    return levels


@pytest.mark.parametrize("number", range(12))
def test_the_counts_are_those_of_least_squares(number: int) -> None:
    levels = random_levels(np.random.default_rng(number))
    for fast, dense in zip(consistent(levels), least_squares(levels), strict=True):
        np.testing.assert_allclose(fast, dense, rtol=1e-8, atol=1e-8)


def test_pruned_mass_is_not_given_to_siblings() -> None:
    """A parent of 100 with one kept end of 40 and a residual of 50 with a large variance."""
    ones = np.ones(1)
    levels = [
        Level(np.zeros(1, int), 100 * ones, ones, np.array([True]), np.zeros(1), np.zeros(1)),
        Level(np.zeros(1, int), 40 * ones, ones, np.array([False]), 50 * ones, 98 * ones),
    ]
    # 10 are missing, and variances of 1, 1 and 98 share them: a hundredth for the end.
    assert consistent(levels)[1] == pytest.approx(40.1)


# --- growing --------------------------------------------------------------------------------------


def test_a_large_log_is_released_nearly_as_it_is() -> None:
    counts = {("A",): 5000, ("A", "B"): 3000, ("B",) * 4: 4000, (OTHER, "A", "A"): 2000}
    for delta in (ZERO, MILLIONTH):
        made = released(counts, domain(), 1, delta)
        assert made.keys() >= counts.keys()
        for variant in made.keys() - counts.keys():
            assert made[variant] < 200
        for variant, count in counts.items():
            assert abs(made[variant] - count) < 200


@given(variant_counts(max_length=4), st.integers(0, 10), st.sampled_from([ZERO, MILLIONTH]))
@settings(max_examples=30, deadline=None)
def test_only_sequences_of_the_domain_are_released(
    counts: dict[Variant, int], number: int, delta: Fraction
) -> None:
    of = domain("ABC", 4)
    made = released(counts, of, 3, delta, number)
    for variant in made:
        assert 1 <= len(variant) <= 4
        assert set(variant) <= {*"ABC", OTHER}
    again = released(dict(reversed(counts.items())), of, 3, delta, number)
    assert list(made.items()) == list(again.items())


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**12), Fraction(1, 1000), 100])
@pytest.mark.parametrize("max_length", [1, 5, at_night(2), at_night(3000)])
@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
def test_every_histogram_and_epsilon_is_answered(
    max_length: int, epsilon: Fraction | int, delta: Fraction
) -> None:
    of = domain(max_length=max_length, max_units=3)
    for counts in ({}, {("A",): 1}, {("B",) * max_length: 10**12}):
        made = released(counts, of, epsilon, delta)
        assert len(made) <= 10
        if epsilon == 100 and max(counts.values(), default=0) > 1:
            assert max(made, key=lambda variant: made[variant]) in counts


@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
def test_noise_that_cannot_be_drawn_releases_nothing(delta: Fraction) -> None:
    of = domain(max_length=10**6)
    assert tree_noise(of, Fraction(1, 10**12), delta) is None
    assert released({("A",): 10**15}, of, Fraction(1, 10**12), delta) == {}


def test_trees_without_cases_stay_small() -> None:
    """Fewer than one false prefix an expanded one: 60 empty logs have 3 to 60 noisy levels."""
    of = domain([f"name {i}" for i in range(50)], 30)
    noise = tree_noise(of, Fraction(1), ZERO)
    assert noise is not None
    empty = VariantHistogram.merge(())
    depths = [len(_grow(empty, of, noise, randomness(number))[0]) for number in range(60)]
    assert min(depths) == 1 < max(depths) < 30
    assert np.mean(depths) < 3


def test_no_more_nodes_than_the_public_bound_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    of = domain("ABC", 3)
    counts = {pair: 10_000 + i for i, pair in enumerate(itertools.product("ABC", repeat=3))}
    assert released(counts, of).keys() >= counts.keys()
    monkeypatch.setattr(prefix_tree_variants, "MAX_CELLS", 2 * 3 * 5)
    assert max_expanded(of) == 2
    made = [variant for variant, n in released(counts, of).items() if n > 5000]
    assert len({variant[:2] for variant in made}) == 2 and len(made) == 6
    noise = tree_noise(of, Fraction(1), ZERO)
    assert noise is not None
    levels, _ = _grow(histogram(counts, of), of, noise, randomness())
    assert [len(level.pruned) for level in levels] == [1, 2, 2]


def test_the_noise_of_a_node_is_its_own() -> None:
    """One more case under A moves only what lies on its path or hangs on it by least squares."""
    of = domain("AB", 2)
    noise = TreeNoise(
        NodeNoise(draw_laplace, (1, 1), -(10**6)), NodeNoise(draw_laplace, (2, 1), -(10**6))
    )
    before = {("A", "B"): 500, ("B", "A"): 600}
    after = {**before, ("A",): 7}
    levels = [
        _grow(histogram(counts, of), of, noise, randomness())[0] for counts in (before, after)
    ]
    changes = [
        {i: n for i, n in enumerate((new.counts - old.counts).tolist()) if n}
        for old, new in zip(*levels, strict=True)
    ]
    assert changes == [{0: 7.0}, {3: 7.0}]  # A, and of its children A, B, OTHER, END the last


# --- as a method ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_as_a_method_it_releases_the_log_of_its_variants(delta: str) -> None:
    log = {f"case {i}": "A B" if i % 3 else "A X" for i in range(3000)}
    params = VariantLogParams(epsilon="1", delta=delta, vocabulary=("A", "B"), max_trace_length=3)
    method = VariantLog(PrefixTree())
    made = anonymise([trace_batch(log)], method, params, release_key(), "release", "config")
    variants = read(made.products.by_name["variants"])
    assert variants.keys() >= {("A", "B"), ("A", OTHER)}
    assert abs(variants["A", "B"] - 2000) < 200
    assert made.traces[0].n_cases == sum(variants.values())
    guarantee = method.guarantee(params)
    assert (guarantee.epsilon, guarantee.delta) == (1.0, float(delta))
    assert method.explain(params)[0].startswith("variants: grows prefixes")
