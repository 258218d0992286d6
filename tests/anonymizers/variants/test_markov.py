"""`markov-log`: what a case adds, its noise and chain; what all generators have in common."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from scipy.optimize import minimize

from tests.support.coupled_noise import dearest_of_variants
from tests.support.logs import Variant, histogram, variant_counts
from tracecloak.anonymizers.accounting.composition import Spend, gaussian_delta, total
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.variants import markov
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.markov import MarkovVariants, MarkovVariantsPure, chain_of
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.anonymizers.variants.reweight import agreeing_weights
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A", "B", "C")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
MARKOV, PURE = MarkovVariants(), MarkovVariantsPure()
cells_of = MARKOV.cells_of


def domain(max_length: int = 5, max_units: int = 1) -> Domain:
    return Domain(VOCABULARY, max_length, max_units)


def counted(counts: Mapping[Variant, int]) -> VariantHistogram:
    """The exact histogram over the codes of the vocabulary."""
    return histogram(counts, VOCABULARY.names.to_pylist())


def naive_vector(variant: Variant, cells: FlowCells) -> Counter[int]:
    """The cells of one case, arc by arc."""
    code = {name: i for i, name in enumerate(VOCABULARY.names.to_pylist())}
    path = [cells.n_names, *(code[name] for name in variant), cells.n_names]
    vector = Counter({cells.cases: 1})
    for position, (source, target) in enumerate(itertools.pairwise(path)):
        pair = source * cells.side + target
        vector[int(cells.blocks[position]) * cells.side**2 + pair] += 1
        if position and cells.has_whole:
            vector[pair] += 1
    return vector


def test_what_lacks_of_occurrences_is_added_where_activities_are_come_to_unseen() -> None:
    """A is begun with more often than it occurs; of 60 B and 40 C half come, and leave, unseen."""
    starts, whole = np.array([50.0, 0, 0]), np.zeros((3, 4))
    whole[0, 1], whole[0, 2], whole[1, 3] = 30, 20, 30
    known = markov.KnownEnds(starts, whole, np.array([40.0, 60, 40]), 70.0)
    begun, arcs = markov._completed(starts, whole, known)
    come = np.array([0, 30, 20, 40])
    assert begun == pytest.approx([50, 20 * 30 / 50, 20 * 20 / 50])
    expected = np.maximum(whole, np.outer([0, 30, 40], come / come.sum()))
    assert arcs == pytest.approx(expected)


@pytest.mark.parametrize("generator", [MARKOV, PURE], ids=lambda g: g.name)
@given(counts=variant_counts())
def test_sums_are_those_of_the_cases_one_by_one(
    generator: MarkovVariants, counts: dict[Variant, int]
) -> None:
    cells = generator.cells_of(domain())
    expected: Counter[int] = Counter()
    for variant, n in counts.items():
        for key, value in naive_vector(variant, cells).items():
            expected[key] += n * value
    flows = VariantFlows.from_variants(counted(counts), cells)
    sums = flows.unclipped_sums(cells)
    assert dict(zip(cells.possible.tolist(), sums.tolist(), strict=True)) == {
        key: expected[key] for key in cells.possible.tolist()
    }
    assert set(expected) <= set(cells.possible.tolist())
    # A clip that nothing reaches leaves whole occurrences.
    assert (flows.sums(cells, 1 << 19, 8) == 8 * sums).all()


def all_variants(length: int) -> list[Variant]:
    return [v for n in range(1, length + 1) for v in itertools.product(NAMES, repeat=n)]


@pytest.mark.parametrize(("clip", "units"), [(2, 1), (2048, 1024), (3000, 1024), (9999, 1024)])
def test_no_case_adds_more_than_the_clip(clip: int, units: int) -> None:
    """All 363 variants up to length 5; the vector of a neighbour is what its case adds."""
    cells = cells_of(domain())
    before = counted({("A", "B"): 3, ("C",): 1})
    base = VariantFlows.from_variants(before, cells).sums(cells, clip, units)
    reached = 0
    for variant in all_variants(5):
        after = VariantHistogram.merge([before, counted({variant: 1})])
        added = VariantFlows.from_variants(after, cells).sums(cells, clip, units) - base
        square = int((added**2).sum())
        assert square <= clip**2 + units**2
        reached = max(reached, square)
        plain = PURE.cells_of(domain())
        whole = VariantFlows.from_variants(counted({variant: 1}), plain).unclipped_sums(plain)
        assert whole.sum() == len(variant) + 2 <= 5 + 2
    if units > 1:
        longest = max(sum(n**2 for n in naive_vector(v, cells).values()) for v in all_variants(5))
        # The longest vector has its share of 1 for the case beside the clip.
        assert reached > 0.99 * min(clip**2 + units**2, units**2 * longest)


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.1", "2"])
def test_the_noise_keeps_epsilon_and_delta_at_the_clip(
    monkeypatch: pytest.MonkeyPatch, epsilon: str, max_units: int
) -> None:
    """What m cases move of the chain, and what the ranks of the clip have, by their exact delta."""
    monkeypatch.setattr(markov.clips, "choose_clip", lambda *_: 9)
    method: Any = METHODS["markov-log"]
    of_unit = {"max_cases_per_individual": max_units} if max_units > 1 else {}
    params = method.Params(epsilon=epsilon, vocabulary=NAMES, max_trace_length=5, **of_unit)
    units = ((variant,) * max_units for variant in all_variants(5)[::7])
    most, largest = dearest_of_variants(method, params, {("A",): 3}, units, NAMES)
    [(sums, _)] = largest.items()
    assert sums == "markov-log/sum"
    of_sums = 1 - method.budget(params).means["markov-log clip"].share
    deviation = Fraction(math.sqrt(of_sums / most))  # of all, if the sums have their share
    for share, is_enough in ((1, True), (Fraction(99, 100), False)):
        assert gaussian_delta(deviation * share, Fraction(epsilon)).is_at_most(DELTA) is is_enough


def test_without_noise_the_chain_is_that_of_the_log_by_position() -> None:
    counts: dict[Variant, int] = {("A", "B"): 3, ("A", "B", "A"): 1, ("C", "A", "B", "C"): 2}
    cells = cells_of(domain())
    noise = SumNoise((1, 10**9), 1, False)
    sums = VariantFlows.from_variants(counted(counts), cells).unclipped_sums(cells)
    chain = chain_of(sums, cells, noise)
    assert chain is not None
    codes = dict(zip(VOCABULARY.names.to_pylist(), range(4), strict=True))
    a, b, c, end = codes["A"], codes["B"], codes["C"], cells.n_names
    assert chain.starts[[a, b, c]] == pytest.approx([4 / 6, 0, 2 / 6])
    assert chain.steps[1, b, [a, end]] == pytest.approx([1 / 4, 3 / 4])  # after two events
    assert chain.steps[2, b, [c, end]] == pytest.approx([1, 0])  # after three
    assert chain.steps[0, c, a] == pytest.approx(1)
    assert chain.steps.sum(axis=2) == pytest.approx(1)


@pytest.mark.parametrize("generator", [MARKOV, PURE], ids=lambda generator: generator.name)
def test_so_many_names_can_be_counted_by_as_noise_can_be_drawn_for(
    generator: MarkovVariants,
) -> None:
    most = generator.most_names
    assert most is not None
    for length in (1, 5, 1000):
        sizes = []
        for n_names in (most, most + 1):
            words = ActivityVocabulary.public(map(str, range(n_names)), closed=True)
            sizes.append(generator.cells_of(Domain(words, length, 1)).n_possible)
        assert sizes[0] <= MAX_CELLS < sizes[1]


METHODS_OF_VARIANTS = [method for method in METHODS.values() if isinstance(method, VariantLog)]


def thresholds_of(spends: tuple[Spend, ...]) -> dict[str, Fraction]:
    """The deltas of thresholds, by what is spent or by block."""
    found = {spend.what: spend.delta for spend in spends if not spend.blocks}
    return found | {b.what: b.delta for spend in spends for b in spend.blocks}


@pytest.mark.parametrize("method", METHODS_OF_VARIANTS, ids=lambda method: method.name)
def test_a_pure_generator_leaves_its_delta_to_the_names_that_are_bought(method: VariantLog) -> None:
    """They have all sums of the Gaussian budget; what is spent adds up to what was asked."""
    asked = Fraction("20"), Fraction("1e-5")
    given: dict[str, Any] = {"epsilon": "20", "delta": "1e-5"}
    bought = method.Params(**given, buy_vocabulary=True)
    assert total(method.spends(bought)) == asked
    means = method.budget(bought).means
    names = means["vocabulary"]
    if method._generator.is_pure:
        assert names.share + means["length"].share == 1
    else:
        assert names.share == VOCABULARY_SHARE
    assert thresholds_of(method.spends(bought))["vocabulary"] == names.delta > 0
    assert names.noise(of_one_cell()).width == pytest.approx(
        float(names.deviation or 0) / math.sqrt(names.share) * UNITS, rel=1e-4
    )
    # Where nothing else can use it, it is spent for nothing: what was asked is what is charged.
    public = method.Params(**given, vocabulary=("A",), max_trace_length=3)
    assert total(method.spends(public)) == asked
    assert sum(thresholds_of(method.spends(public)).values()) <= asked[1]


def cost(
    weights: np.ndarray,
    rows: np.ndarray,
    measured: np.ndarray,
    deviations: np.ndarray,
    prior: np.ndarray,
    n_cases: float,
) -> float:
    rest = (n_cases * (weights @ rows) - measured) / deviations
    distance = (weights * np.log(weights / prior)).sum()
    return float(0.1 * n_cases * distance + (rest**2).sum() / 2)


@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_a_solver_of_the_primal_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n, m, n_cases = 6, 4, 100.0
    rows = generator.integers(0, 3, (n, m)).astype(float)
    prior = generator.dirichlet(np.ones(n))
    measured = n_cases * (generator.dirichlet(np.ones(n)) @ rows)
    given = rows, measured, generator.uniform(3, 20, m), prior, n_cases
    found = agreeing_weights(sparse.csr_matrix(rows), *given[1:])
    assert found.sum() == pytest.approx(1) and (found > 0).all()

    def of_logs(logs: np.ndarray) -> float:
        weights = np.exp(logs - logs.max())
        return cost(weights / weights.sum(), *given)

    other = minimize(of_logs, np.log(prior), method="Nelder-Mead", options={"maxiter": 20_000})
    assert cost(found, *given) <= other.fun + 1e-3
    for _ in range(50):  # and nowhere nearby is better
        nearby = found * np.exp(generator.normal(0, 0.05, n))
        assert cost(nearby / nearby.sum(), *given) >= cost(found, *given) - 1e-6


def test_the_bits_are_these_on_every_machine() -> None:
    """With a library's sums these weights differed in the fourth digit between two processors."""
    generator = np.random.default_rng(0)
    rows = sparse.csr_matrix((generator.random((40, 30)) < 0.3).astype(float))
    measured, deviations = generator.random(30) * 300, 1 + generator.random(30) * 5
    found = agreeing_weights(rows, measured, deviations, generator.random(40), 1000.0)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == "6ead9af675a74d1d"
