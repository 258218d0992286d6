"""The rigorous process tree: what noise it adds to what, what it asks, and what comes out."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pydantic
import pytest

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, histogram, trace_batch
from tests.support.silence import Silence
from tests.support.trees import language
from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.trees.counts import PAIR_UNITS
from tracecloak.anonymizers.trees.cuts import Relation
from tracecloak.anonymizers.trees.fitness import UNITS
from tracecloak.anonymizers.trees.process_tree_miner import ProcessTreeMiner, TreeDecision
from tracecloak.anonymizers.trees.process_tree_params import ProcessTreeParams
from tracecloak.anonymizers.trees.questions import HalvedBudget, noisy_ends, scale_of
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.models.process_tree import flower, normalise, parse_tree
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

METHOD = ProcessTreeMiner()
NAMES = "ABCDEFGH"
VOCABULARY = ActivityVocabulary.public(NAMES)
ALL = VOCABULARY.names.to_pylist()


def params_of(epsilon: str = "1", **given: Any) -> ProcessTreeParams:
    return ProcessTreeParams(**{"epsilon": epsilon, "vocabulary": tuple(NAMES), **given})


def siblings() -> dict[Variant, int]:
    """Four parallel cuts beside each other, each of a sequence of two activities and one more."""
    names = "ABCDEFGHIJKL"
    words = language(
        parse_tree(
            "X( "
            + ", ".join(
                f"+( ->( '{names[3 * i]}', '{names[3 * i + 1]}' ), '{names[3 * i + 2]}' )"
                for i in range(4)
            )
            + " )"
        ),
        3,
    )
    return dict.fromkeys(words, 500)


class Recording(ProcessTreeMiner):
    """Notes every draw and the choice; adds no noise and takes the best."""

    def __init__(self) -> None:
        self.noise = Silence()

    def mined(
        self,
        variants: VariantHistogram,
        vocabulary: ActivityVocabulary,
        params: ProcessTreeParams,
        randomness: Randomness,
    ) -> ReleasedTree:
        return super().mined(variants, vocabulary, params, randomness.with_noise(self.noise))


# --- what is spent --------------------------------------------------------------------------------


@pytest.mark.parametrize("example", METHOD.examples)
def test_the_parts_add_up_to_epsilon_and_delta(example: dict[str, Any]) -> None:
    params = ProcessTreeParams(**example)
    assert total(METHOD.spends(params)) == params.budget
    guarantee = METHOD.guarantee(params)
    assert (guarantee.epsilon, guarantee.delta) == (float(params.epsilon), float(params.delta))
    assert [said.split(":")[0] for said in METHOD.explain(params)] == list(params.shares)


@pytest.mark.parametrize(
    ("given", "units"),
    [
        ({}, 1),
        ({"delta": "0"}, 1),
        ({"max_cases_per_individual": 3}, 3),
        ({"delta": "0", "max_cases_per_individual": 3}, 3),
    ],
)
def test_every_draw_has_the_noise_of_what_one_unit_changes(
    given: dict[str, Any], units: int
) -> None:
    params, method = params_of("2", max_pairs=5, ends_share="0", **given), Recording()
    variants = histogram({tuple("ABC"): 50, tuple("ACB"): 50}, ALL)
    method.mined(variants, VOCABULARY, params, randomness())
    [(kind, n_cells, scale), (last, n_sums, fitness_scale)] = method.noise.draws
    assert n_cells == (len(ALL) + 1) ** 2 and (last, n_sums) == ("laplace", 2)
    epsilon, delta = params.shares["pairs"]
    if params.is_pure:  # L1 norm 5 of the pairs of one case
        assert kind == "laplace"
        assert scale == Fraction(*laplace_scale(epsilon, of_count(5 * PAIR_UNITS * units)))
    else:
        least = Fraction(math.isqrt(5 * PAIR_UNITS**2 * units**2))
        assert kind == "gaussian" and delta == params.budget[1]
        assert scale >= Fraction(*gaussian_scale(epsilon, delta, of_count(least)))
        assert scale <= Fraction(*gaussian_scale(epsilon, delta, of_count(least + 1)))
    # What fits and what does not: one case adds 1 to both together.
    assert fitness_scale == UNITS * units / params.shares["fitness"][0]
    [(scores, chosen_with, sensitivity, monotone)] = method.noise.chosen
    assert chosen_with == params.shares["selection"][0]
    assert sensitivity == UNITS * units and monotone and len(scores) > 3


def test_four_cuts_beside_each_other_stay_within_one_budget() -> None:
    """Each question costs 2 a part over its scale; as published they would cost twice the share."""
    counts = siblings()
    names = sorted({name for variant in counts for name in variant})
    params = params_of("400", vocabulary=tuple(names), ends_share="0.1", max_size="8", n_sizes=30)
    method, vocabulary = Recording(), ActivityVocabulary.public(names)
    tree = method.mined(
        histogram(counts, vocabulary.names.to_pylist()), vocabulary, params, randomness()
    )
    assert language(tree.tree, 3) == set(counts)
    share = params.shares["ends"][0]
    asked = [scale for kind, n, scale in method.noise.draws if (kind, n) == ("laplace", 2)][:-1]
    costs = [1 / scale for scale in asked]  # of starts or of ends, each of one part of two
    assert len(costs) >= 8 and sum(costs) < share
    assert sum(costs) == share * (1 - Fraction(1, 2 ** (len(costs) // 2)))
    # The control: halving along each path gives all four questions half of the share.
    assert 4 * share / 2 > share


def test_a_halved_budget_is_never_used_up() -> None:
    budget = HalvedBudget(Fraction(3, 7))
    for _ in range(200):
        assert budget.peek() == budget.draw()
    assert sum(budget.drawn) < budget.total and budget.drawn[0] == Fraction(3, 14)


def test_noise_on_ends_has_its_law() -> None:
    """20,000 draws at scale 8 (2 parts at epsilon 1/2); the control is the scale of one part."""
    n, log = 1000, histogram({tuple("AB"): 7}, "AB")
    scale = scale_of(Fraction(1, 2), 2, 1)
    assert scale == (8, 1)
    parts = [tuple(range(2, 500)), tuple(range(500, 1000))]  # of which the case has none
    found = [noisy_ends(log, n, parts, scale, randomness(i), "ends") for i in range(10)]
    values = np.concatenate([np.concatenate([f.starts[2:], f.ends[2:]]) for f in found])
    assert not any(f.starts[:2].any() for f in found)

    def p_of(width: int) -> float:
        decay = math.exp(-1 / width)
        chances = (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-120, 121))
        inside = values[np.abs(values) <= 120]
        observed = np.bincount(inside + 120, minlength=241)
        return p_value(observed, chances / chances.sum() * len(inside))

    assert p_of(8) > ALPHA > p_of(4)


# --- what comes out -------------------------------------------------------------------------------


def released(counts: dict[Variant, int], params: ProcessTreeParams, number: int = 0) -> Any:
    variants = histogram(counts, ALL)
    return METHOD.mined(variants, VOCABULARY, params, randomness(number))


def test_with_a_lot_of_epsilon_the_tree_is_that_of_the_log() -> None:
    words = language(parse_tree("->( 'A', +( 'B', 'C' ), X( 'D', 'E' ) )"), 5)
    counts = dict.fromkeys(words, 300)
    for given in ({}, {"delta": "0"}, {"ends_share": "0"}):
        found = released(counts, params_of("500", max_size="6", n_sizes=40, **given))
        assert str(found.tree) == "->( 'A', +( 'B', 'C' ), X( 'D', 'E' ) )"
        assert found.is_found and found.fitness == pytest.approx(1, abs=0.01)


def test_the_flower_does_not_win_on_a_log_with_structure() -> None:
    counts = dict.fromkeys(language(parse_tree("->( 'A', X( 'B', 'C' ), 'D', 'E' )"), 5), 400)
    everything = normalise(flower(ALL))
    for number in range(8):
        tree = released(counts, params_of("1"), number).tree
        assert tree != everything
        assert {tuple("ABDE"), tuple("ACDE")} <= language(tree, 4)


def test_equal_keys_give_equal_trees_and_others_do_not() -> None:
    counts = {tuple("ABC"): 30, tuple("ACB"): 20, tuple("AD"): 9}
    found = [str(released(counts, params_of("0.5"), number).tree) for number in range(8)]
    assert found[3] == str(released(counts, params_of("0.5"), 3).tree)
    assert len(set(found)) > 2


def test_an_empty_log_is_a_log() -> None:
    """Nothing is refused, and nothing tells that there was no case but the noise."""
    for number in range(5):
        found = released({}, params_of("1"), number)
        assert set(found.tree.labels) <= set(ALL)


@pytest.mark.parametrize("example", METHOD.examples)
def test_every_example_runs_from_traces(example: dict[str, Any]) -> None:
    log = {f"c{i}": ("A B C", "A C", "A X B")[i % 3] for i in range(60)}
    params = ProcessTreeParams(**example)
    people = {case: f"p{case}" for case in log}
    traces = [trace_batch(log, individuals=people)]
    made = anonymise(traces, METHOD, params, release_key(), "release", "configuration")
    [tree] = made.products.by_name.values()
    assert not made.traces and tuple(made.products.by_name) == METHOD.writes(params)
    assert set(tree.tree.labels) <= {*tree.names.to_pylist()}
    assert decode(encode(TreeDecision(tree))).tree == tree


def test_names_beyond_the_vocabulary_are_one() -> None:
    log = {f"c{i}": "A secret B" for i in range(500)}
    params = params_of("50", vocabulary=("A", "B"))
    made = anonymise([trace_batch(log)], METHOD, params, release_key(), "release", "configuration")
    assert str(made.products.by_name["tree"].tree) == f"->( 'A', '{OTHER}', 'B' )"


def test_after_the_count_there_are_only_variants() -> None:
    """Neither case ids nor times reach the decision."""
    assert set(METHOD.requires("tree", params_of())) == {"variants"}
    assert METHOD.requires("tree", params_of())["variants"].kind is VariantHistogram


def test_sizes_are_those_of_the_public_grid() -> None:
    params = params_of(min_size="1", max_size="2", n_sizes=3)
    assert params.sizes(10) == [10, 15, 20]
    assert params.sizes(1) == [1, 2]
    assert params_of(min_size="0.01", max_size="900", n_sizes=2).sizes(5) == [1, 35]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vocabulary": None, "delta": "0"}, "delta 0 needs a public vocabulary"),
        ({"min_size": "3", "max_size": "2"}, "min_size must be at most max_size"),
        ({"epsilon": "0"}, "greater than 0"),
        ({"delta": "0.1"}, "delta must be at most"),
    ],
)
def test_parameters_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        ProcessTreeParams(**{"epsilon": "1", "vocabulary": ("A",), **given})


def test_noise_on_pairs_is_that_of_the_sampler() -> None:
    """The relation has the exact counts plus the sampler's values of these cells, rounded down."""
    params = params_of("3", delta="0")
    variants = histogram({tuple("AB"): 100}, ALL)
    relation: Relation = METHOD.noisy_relation(variants, len(ALL), params, randomness(1))
    assert not relation.holds[-1, -1] and relation.holds.sum() == relation.holds.size - 1
    silent = randomness(1).with_noise(Silence())
    exact = METHOD.noisy_relation(variants, len(ALL), params, silent).counts
    assert sorted(exact[exact > 0].tolist()) == [100, 100, 100]
    error = relation.counts - exact
    assert 3 < np.std(error) < 3 * params.pairs_deviation
