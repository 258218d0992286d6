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
from scipy import stats

from tests.support.chi_square import ALPHA, p_value, p_value_of_law
from tests.support.generators import answer_of, budget, explanation_of, spends_of
from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, trace_batch, variant_counts
from tests.support.privacy_loss import ONE
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.gaussian_loss import continuous_deviation
from tracecloak.anonymizers.accounting.joint import joint_deviation
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
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
from tracecloak.schemas.errors import UsageError
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
    made = answer_of(PrefixTree(), histogram(counts, of), of, epsilon, delta, randomness(number))
    return read(made)


def noise_of(of: Domain, epsilon: Fraction | int, delta: Fraction) -> TreeNoise:
    return tree_noise(of, budget(PrefixTree(), epsilon, delta, of.max_units, of.max_length).means)


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
    noise = noise_of(of, epsilon, delta)
    whole = joint_deviation(epsilon, delta) if delta else ZERO
    lost = ZERO
    for kind, changed in zip((noise.prefix, noise.end), nodes(change, of.max_length), strict=True):
        scale, units = Fraction(*kind.noise.scale), kind.noise.units
        for n in changed.values():
            if kind.noise.is_laplace:
                lost += n * units / scale / epsilon
            else:
                lost += (n * units * whole / continuous_deviation(scale)) ** 2
    return lost


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[:2])
@pytest.mark.parametrize("max_length", [1, 2, 4, 60])
def test_the_longest_case_spends_the_budget_and_none_spends_more(
    max_length: int, epsilon: Fraction, delta: Fraction
) -> None:
    of = domain("AB", max_length)
    lost = {length: loss({("A",) * length: 1}, of, epsilon, delta) for length in (1, max_length)}
    near = Fraction(1, 10**5) if delta and max_length > 4 else ZERO
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
    noise = noise_of(domain("AB", 30, 3), 1, MILLIONTH)
    alone = noise_of(domain("AB", 30, 1), 1, MILLIONTH)
    for three, one in ((noise.prefix, alone.prefix), (noise.end, alone.end)):
        assert not three.noise.is_laplace
        assert variance_of(three.noise) == pytest.approx(9 * variance_of(one.noise), rel=1e-5)


def test_gaussian_noise_is_taken_where_it_is_less() -> None:
    """By hand, at 25 levels: 24 / .9 sqrt(2) = 37.7 against 4.225 sqrt(24 / .9) = 21.8."""
    noise = noise_of(domain("AB", 25), 1, MILLIONTH)
    assert not noise.prefix.noise.is_laplace and not noise.end.noise.is_laplace
    assert math.sqrt(variance_of(noise.prefix.noise)) == pytest.approx(21.9, abs=0.1)
    assert math.sqrt(variance_of(noise.end.noise)) == pytest.approx(13.4, abs=0.1)
    pure = noise_of(domain("AB", 25), 1, ZERO)
    assert pure.prefix.noise.is_laplace and pure.end.noise.is_laplace
    assert pure.prefix.noise.scale == (80, 3) and pure.end.noise.scale == (10, 1)
    short = noise_of(domain("AB", 2), 1, MILLIONTH)
    assert short.prefix.noise.is_laplace and short.end.noise.is_laplace


def test_a_bought_length_has_no_less_noise_than_its_share() -> None:
    """Whatever length is chosen: one unit changes as much of the Gaussian budget as before."""
    means = budget(PrefixTree(), 1, MILLIONTH, 2, None).means
    [spend] = spends_of(PrefixTree(), 1, MILLIONTH, 2, None)
    recorded = {block.what: block.squared_loss for block in spend.blocks}
    assert recorded.keys() == {"prefixes", "ends"}
    for length in (1, 2, 3, 30, 10_000):
        noise = tree_noise(domain("AB", length, 2), means)
        prefixes = 4 * (length - 1) * noise.prefix.noise.units**2
        real = prefixes / continuous_deviation(Fraction(*noise.prefix.noise.scale)) ** 2
        # The root of the sensitivity is rounded up, by a millionth at most.
        assert real <= recorded["prefixes"] <= max(real, 1e-9) * Fraction(1_000_005, 1_000_000) or (
            length == 1
        )
        ends = 4 * noise.end.noise.units**2
        assert (
            ends / continuous_deviation(Fraction(*noise.end.noise.scale)) ** 2 == recorded["ends"]
        )


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("n_names", [1, 27, 400])
def test_half_a_node_without_cases_is_kept(
    n_names: int, epsilon: Fraction, delta: Fraction
) -> None:
    """Of |A| + 1 prefixes, or max_length ends if that is more; up to the steps of the noise."""
    of = domain([f"name {i}" for i in range(n_names)], 12)
    noise = noise_of(of, epsilon, delta)
    for kind, n_nodes in ((noise.prefix, n_names + 2), (noise.end, max(n_names + 2, 12))):
        scale = Fraction(*kind.noise.scale)

        def passing(least: int, noise: SumNoise = kind.noise, scale: Fraction = scale) -> float:
            if not noise.is_laplace:  # on a lattice so fine that half a step is all there is
                return float(stats.norm.sf((least - 0.5) / float(scale)))
            chances = laplace_law(scale, int(30 * scale)).chances
            return sum(high for n, (_, high) in chances.items() if n >= least) / ONE

        assert passing(kind.least) * n_nodes <= 0.5 * (1 + 2 / scale)
        assert passing(kind.least - 1) * n_nodes > 0.5 * (1 - 2 / scale)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_parts_are_the_budget(epsilon: Fraction, delta: Fraction) -> None:
    for max_length in (None, 1, 2, 40):
        if delta or max_length:
            parts = spends_of(PrefixTree(), epsilon, delta, 2, max_length)
            assert total(parts) == (epsilon, delta)
            said = explanation_of(PrefixTree(), epsilon, delta, 2, max_length)
            assert "noisy counts" in said
            assert ("Gaussian" in said) == (parts[0].mechanism in ("joint", "discrete_gaussian"))


N_KEYS, N_NAMES = 80, 74  # and OTHER


@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
@pytest.mark.parametrize("is_end", [True, False])
def test_the_noise_has_its_law(delta: Fraction, is_end: bool) -> None:
    """75 sequences or prefixes of one event, under 80 keys. Control: a scale of 0.8 of it.

    Thresholds far below all counts, so that nothing but the noise decides what comes out.
    """
    names = [f"name {i:02}" for i in range(N_NAMES)]
    noise = noise_of(domain(names, 25), 1, delta)
    noise = TreeNoise(replace(noise.prefix, least=-(1 << 40)), replace(noise.end, least=-(1 << 40)))
    of = domain(names, 1 if is_end else 2)
    sample: Counter[Any] = Counter()
    for number in range(N_KEYS):
        levels, _ = _grow(VariantHistogram.merge(()), of, noise, randomness(number))
        assert levels[0].grows.all() != is_end
        steps = levels[0].counts * noise.end.noise.units
        assert (steps == np.rint(steps)).all()
        sample.update(steps.astype(int).tolist())
    assert sample.total() == N_KEYS * (N_NAMES + 1)
    kind = noise.end.noise if is_end else noise.prefix.noise
    assert kind.is_laplace == (delta == 0)

    def fits(scale: Fraction) -> float:
        if kind.is_laplace:
            chances = laplace_law(scale, int(40 * scale)).chances
            return p_value_of_law(sample, {n: high / ONE for n, (_, high) in chances.items()})
        borders = stats.norm.ppf(np.arange(1, 50) / 50, scale=float(scale))  # far beyond a step
        bins = np.searchsorted(borders, np.array(list(sample.elements())))
        return p_value(np.bincount(bins, minlength=50), np.full(50, sample.total() / 50))

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


def smallest_epsilon(of: Domain, delta: Fraction) -> Fraction:
    """The smallest power of ten that is not refused before anything is read."""
    epsilon = Fraction(1)
    while True:
        try:
            spends_of(PrefixTree(), epsilon / 10, delta, of.max_units, of.max_length)
        except UsageError:
            return epsilon
        epsilon /= 10


@pytest.mark.parametrize("epsilon", [None, Fraction(1, 1000), 100])
@pytest.mark.parametrize("max_length", [1, 5, at_night(2), at_night(3000)])
@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
def test_every_histogram_and_epsilon_is_answered(
    max_length: int, epsilon: Fraction | int | None, delta: Fraction
) -> None:
    of = domain(max_length=max_length, max_units=3)
    if epsilon is None:
        epsilon = smallest_epsilon(of, delta)
        assert epsilon < Fraction(1, 10**6)
    for counts in ({}, {("A",): 1}, {("B",) * max_length: 10**12}):
        made = released(counts, of, epsilon, delta)
        assert len(made) <= 10
        if epsilon == 100 and max(counts.values(), default=0) > 1:
            assert max(made, key=lambda variant: made[variant]) in counts


@pytest.mark.parametrize("delta", [ZERO, MILLIONTH])
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_read(delta: Fraction) -> None:
    """And where a length is bought, if that of the longest could not."""
    for max_length in (10**6, None):
        with pytest.raises(UsageError, match=r"raise epsilon|must be at least 1e-9"):
            spends_of(PrefixTree(), Fraction(1, 10**12), delta, 1, max_length)


def test_trees_without_cases_stay_small() -> None:
    """Fewer than one false prefix an expanded one: 60 empty logs have 3 to 60 noisy levels."""
    of = domain([f"name {i}" for i in range(50)], 30)
    noise = noise_of(of, 1, ZERO)
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
    noise = noise_of(of, 1, ZERO)
    levels, _ = _grow(histogram(counts, of), of, noise, randomness())
    assert [len(level.pruned) for level in levels] == [1, 2, 2]


def test_the_noise_of_a_node_is_its_own() -> None:
    """One more case under A moves only what lies on its path or hangs on it by least squares."""
    of = domain("AB", 2)
    noise = TreeNoise(
        NodeNoise(SumNoise((1, 1), 1, True), -(10**6)),
        NodeNoise(SumNoise((2, 1), 1, True), -(10**6)),
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
