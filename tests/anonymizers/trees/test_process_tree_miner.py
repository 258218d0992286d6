"""Process trees from noisy pairs: the rigorous miner, and DPIM as published."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.coupled_noise import dearest_of_variants
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, trace_batch
from tests.support.silence import Silence
from tests.support.trees import language, mined_tree
from tracecloak.anonymizers.accounting.sensitivity import of_shares
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.anonymizers.rigorous.parts_method import Given
from tracecloak.anonymizers.trees import dpim
from tracecloak.anonymizers.trees.cuts import Relation
from tracecloak.anonymizers.trees.dpim import Dpim, DpimParams
from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum
from tracecloak.anonymizers.trees.process_tree import (
    EndsEstimator,
    ProcessTreeMiner,
    ProcessTreeParams,
    noisy_fitness,
)
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.models import flower, normalise, parse_tree
from tracecloak.schemas.published.graph import ReleasedTree
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


def mined(counts: dict[Variant, int], params: ProcessTreeParams, keyed: Randomness) -> ReleasedTree:
    """The tree of a log in the public vocabulary of the parameters."""
    return mined_tree(histogram(counts, params.words.labels), params, keyed)


def fitness_noise(params: ProcessTreeParams) -> Any:
    changed = of_shares(UNITS, params.max_units)
    return params.spending.means["fitness"].noise(changed, UNITS)


def test_the_interval_of_a_fitness_holds_what_there_is_and_half_of_it_seldom() -> None:
    """Over 300 keys, of 300 cases of which about half fit."""
    names = ["A", "B", OTHER]
    variants = histogram({("A", "B"): 150, ("B",): 150}, names)
    params = params_of(epsilon="0.5", vocabulary=("A", "B"), max_pairs=3)
    truth = fitness_sum(TREE, names, variants) / (300 * UNITS)
    within, narrow = [], []
    for number in range(300):
        given = Given({"variants": variants}, {"selection": TREE}, {}, randomness(number))
        fitness, low, high = noisy_fitness(given, fitness_noise(params), params)
        within.append(low <= truth <= high)
        narrow.append((fitness + low) / 2 <= truth <= (fitness + high) / 2)
    assert 0.1 < truth < 0.9
    assert np.mean(within) > 0.92 > 0.8 > np.mean(narrow)


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
    params, noise = params_of("2", max_pairs=5, ends_share="0", **given), Silence()
    mined({tuple("ABC"): 50, tuple("ACB"): 50}, params, randomness().with_noise(noise))
    [(kind, n_cells, _), (last, n_sums, _)] = noise.draws
    assert n_cells == (len(ALL) + 1) ** 2 and (last, n_sums) == (kind, 2)
    assert kind == ("laplace" if params.is_pure else "gaussian")
    assert METHOD.guarantee(params).reality.count(f"discrete {kind.title()} noise") == 1
    [(scores, chosen_with, sensitivity, monotone)] = noise.chosen
    assert chosen_with == Fraction(1, 5)
    assert sensitivity == UNITS * units and monotone and len(scores) > 3


TREE = parse_tree("->( 'A', 'B' )")


@pytest.mark.parametrize("max_units", [{}, {"max_cases_per_individual": 2}])
@pytest.mark.parametrize("given", [{}, {"selection_share": "0.5"}, {"delta": "0"}])
def test_a_unit_moves_pairs_and_fitness_together_no_further_than_the_budget_covers(
    given: dict[str, Any], max_units: dict[str, int]
) -> None:
    """All variants of up to 3 events, and one of more pairs than count; equal cases of a unit."""
    given = {"vocabulary": ("A", "B"), "max_pairs": 3, "ends_share": "0", **given, **max_units}
    params, others = params_of(**given), {("A", "B"): 3, ("B", "B"): 1}
    variants = [v for n in (1, 2, 3) for v in itertools.product("ABX", repeat=n)]
    units = ((v,) * params.max_units for v in [*variants, tuple("ABBAAXBX")])
    most, largest = dearest_of_variants(METHOD, params, others, units, "ABX")
    assert largest.keys() == {"process-tree/pairs", "process-tree/fitness"}
    deviation = params.spending.deviation
    covered = 1 - Fraction(params.selection_share) if deviation is None else 1 / deviation**2
    assert Fraction(999, 1000) * covered < most <= covered


@pytest.mark.parametrize("given", [{}, {"delta": "0"}])
def test_no_log_decides_which_noise_is_drawn(given: dict[str, Any]) -> None:
    """But for what begins and ends parts, which is asked out of one budget."""
    params, seen = params_of("2", **given), []
    words = language(parse_tree("->( 'A', +( 'B', ->( 'C', 'D' ) ), X( 'E', 'F' ) )"), 6)
    for counts in ({}, {tuple("AB"): 1}, dict.fromkeys(words, 50)):
        noise = Silence()
        mined(counts, params, randomness().with_noise(noise))
        [(_, *choice, monotone)] = noise.chosen
        seen.append((noise.draws[0], noise.draws[-1], *choice, monotone))
    assert seen[0] == seen[1] == seen[2]


def test_four_cuts_beside_each_other_stay_within_one_budget() -> None:
    """Each question costs 2 a part over its scale; as published they would cost twice the share."""
    counts = siblings()
    names = sorted({name for variant in counts for name in variant})
    params = params_of("400", vocabulary=tuple(names), ends_share="0.1", max_size="8", n_sizes=30)
    noise = Silence()
    tree = mined(counts, params, randomness().with_noise(noise))
    assert language(tree.tree, 3) == set(counts)
    share = params.spending.means["ends"].epsilon
    assert share == 40
    asked = [scale for kind, n, scale in noise.draws if (kind, n) == ("laplace", 2)]
    costs = [1 / scale for scale in asked]  # of starts or of ends, each of one part of two
    assert len(costs) >= 8 and sum(costs) < share
    assert sum(costs) == share * (1 - Fraction(1, 2 ** (len(costs) // 2)))
    # The control: halving along each path gives all four questions half of the share.
    assert 4 * share / 2 > share


def test_ends_of_a_part_are_those_that_are_clear_or_else_those_of_the_relation() -> None:
    holds = np.zeros((5, 5), bool)
    holds[4, [0, 1, 2]] = holds[[0, 1, 3], 4] = True  # A, B and C may begin, A, B and D may end
    asked = EndsEstimator(histogram({("A", "B"): 100}, "ABCD"), Fraction(99), 1, randomness())
    starts, ends = asked.of(Relation(holds * 50, holds))([(0, 1), (2, 3)])
    assert starts.tolist() == [True, False, True, False]
    assert ends.tolist() == [False, True, False, True]


def released(counts: dict[Variant, int], params: ProcessTreeParams, number: int = 0) -> Any:
    return mined(counts, params, randomness(number))


def test_with_a_lot_of_epsilon_the_tree_is_that_of_the_log() -> None:
    words = language(parse_tree("->( 'A', +( 'B', 'C' ), X( 'D', 'E' ) )"), 5)
    counts = dict.fromkeys(words, 300)
    for given in ({}, {"delta": "0"}, {"ends_share": "0"}):
        params = params_of("500", max_size="6", n_sizes=40, **given)
        found = [released(counts, params, number) for number in range(5)]
        # Four of five releases have it; others fit as well, such as with a loop around B or C.
        [(tree, _)] = Counter(str(one.tree) for one in found).most_common(1)
        assert tree == "->( 'A', +( 'B', 'C' ), X( 'D', 'E' ) )"
        assert all(one.is_found and one.fitness == pytest.approx(1, abs=0.01) for one in found)


def test_sizes_are_those_of_the_public_grid() -> None:
    params = params_of(min_size="1", max_size="2", n_sizes=3)
    assert params.sizes(10) == [10, 15, 20]
    assert params.sizes(1) == [1, 2]
    assert params_of(min_size="0.01", max_size="900", n_sizes=2).sizes(5) == [1, 35]


# --- DPIM as published ----------------------------------------------------------------------------


DPIM = Dpim()
PAPER = {tuple("RHMD"): 63, tuple("RHSD"): 25, tuple("RHD"): 12}


def dpim_params(epsilon: str = "1.25", **given: Any) -> DpimParams:
    return DpimParams(**{"epsilon": epsilon, **given})


def dpim_mined(
    counts: dict[Variant, int], params: DpimParams, noise: Noise = EXACT, number: int = 0
) -> Any:
    names = sorted({name for variant in counts for name in variant} or {"A"})
    keyed, vocabulary = randomness(number).with_noise(noise), ActivityVocabulary.of(names)
    counted = {"variants": histogram(counts, names), "names": vocabulary}
    decided: Any = DPIM.decide("tree", counted, {}, params, keyed)
    return decided.tree


def test_budgets_and_rounds_of_the_paper() -> None:
    params = dpim_params()
    assert float(params.round_epsilon) == pytest.approx(0.62)
    shares = (params.pairs_share, params.ends_share, params.fitness_share)
    assert [round(float(params.round_epsilon * Fraction(s)), 3) for s in shares] == [
        0.403,
        0.155,
        0.062,
    ]
    assert params.n_rounds == 530  # max(ln(2 / 0.01) / 0.01 = 529.8, 1 + 1 / 0.01e = 37.8)
    assert Fraction(*params.pairs_scale(40)) == Fraction(80) / Fraction("0.403")
    assert Fraction(*params.ends_scale(1)) == 4 / (Fraction("0.155") / 2)
    assert Fraction(*params.ends_scale(3)) == 4 / (Fraction("0.155") / 8)
    assert Fraction(*params.fitness_scale) == UNITS / Fraction("0.062")


def test_bounds_of_the_papers_experiments() -> None:
    """On CoSeLoG, of 27 activities and 114 pairs, 100 and 130; and within the activities."""
    params = dpim_params(bounds_from_log=True)
    assert params.sizes(27, 114) == (100, 130)
    assert params.sizes(16, 135) == (120, 150)
    assert params.sizes(5, 8) == (5, 24)  # not below the activities, and below their square
    assert dpim_params().sizes(27, 114) == (27, 108)


def pmf(width: Fraction, reach: int) -> np.ndarray:
    """Discrete Laplace on -reach … reach."""
    decay = math.exp(-1 / width)
    return (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-reach, reach + 1))


@pytest.mark.parametrize("e", [0.1, 0.5])
def test_choosing_several_by_noise_that_is_drawn_once_costs_no_more_than_twice_for_each(
    e: float,
) -> None:
    """The exact chance that the first n of some counts are chosen, and of neighbours' counts."""
    reach = int(80 / e)
    law = pmf(Fraction(1 / e), reach)
    below = np.concatenate([[0], np.cumsum(law)])  # below[i + reach]: of less than i
    at_least = np.concatenate([np.cumsum(law[::-1])[::-1], [0]])

    def chance(chosen: int, n_chosen: int, n_others: int) -> float:
        """That n noisy counts reach the largest of others, whose counts are 0 before noise."""
        levels = np.arange(-reach, reach + 1)
        largest = below[1:] ** n_others - below[:-1] ** n_others
        reached = at_least[np.clip(levels - chosen + reach, 0, 2 * reach + 1)]
        return float((largest * reached**n_chosen).sum())

    for n_chosen in (1, 2, 3):
        worst = max(
            math.log(chance(1 - gap, n_chosen, n_others) / chance(-1 - gap, n_chosen, n_others))
            for n_others in (1, 4)
            for gap in range(0, int(20 / e), max(1, int(2 / e)))
        )
        assert 1.3 * n_chosen * e < worst <= 2 * n_chosen * e * (1 + 1e-6)


def test_the_epsilon_that_holds() -> None:
    """1.325 (epsilon - epsilon_0) + epsilon_0, however many activities there are."""
    few = Fraction("1.325") * Fraction("1.24") + Fraction("0.01")
    named = dpim_params("1.25", vocabulary=("A", "B"))
    guarantee = DPIM.guarantee(named)
    assert guarantee.kind == "published" and guarantee.adjacency == "replace_one"
    assert guarantee.epsilon == float(few) and guarantee.delta == 0
    assert [spend.epsilon for spend in DPIM.spends(named)] == [few]


def test_leaks_are_named_and_leave_no_epsilon() -> None:
    for given, leak in (
        ({}, "names are the input's own"),
        ({"vocabulary": ("A",), "bounds_from_log": True}, "exact number of pairs"),
        ({"vocabulary": ("A",), "fitness_measure": "tokens"}, "can change by any amount"),
    ):
        guarantee = DPIM.guarantee(dpim_params(**given))
        assert guarantee.epsilon is None and DPIM.spends(dpim_params(**given)) == ()
        assert any(leak in sentence for sentence in guarantee.not_covered)
        assert "no finite one holds" in DPIM.explain(dpim_params(**given))[0]


def test_cuts_beside_each_other_stay_within_the_share() -> None:
    """Of four cuts beside each other, each has half of what the last one had."""
    counts, noise = siblings(), Silence()
    params = dpim_params("100", size_bounds=(36, 36))  # all that occur
    found = dpim_mined(counts, params, noise)
    assert language(found.tree, 3) >= set(counts)
    asked = [scale for _, n, scale in noise.draws if n == 3]
    share = params.round_epsilon * Fraction(params.ends_share)
    spent = sum(2 / scale for scale in asked)  # starts and ends, two counts each
    assert len(asked) == 8 and asked == sorted(asked)
    assert spent == share * (1 - Fraction(1, 2**4))


def test_noise_of_a_round_is_drawn_once_on_every_pair_and_anew_on_those_chosen() -> None:
    noise, params = Silence(), dpim_params("100", size_bounds=(8, 8))
    found = dpim_mined(PAPER, params, noise)
    selection, fresh, fitness = (noise.draws[i][1:] for i in (0, 1, -1))
    assert selection == (36, Fraction(*params.pairs_scale(8))) and fresh == (8, selection[1])
    assert fitness == (1, Fraction(*params.fitness_scale))
    assert str(found.tree) == "->( 'R', 'H', X( tau, 'M', 'S' ), 'D' )"
    assert found.is_found and found.fitness == 1


def test_the_chosen_are_the_first_of_the_largest_noisy_counts() -> None:
    """Beside a stable sort; half of the counts are equal."""
    counts = np.random.default_rng(4).integers(0, 4, (6, 6))
    own = dpim._Round(
        histogram({}), "ABCDE", dpim_params(), randomness().with_noise(Silence()), number=0
    )
    for n_pairs in (1, 7, 20, 36):
        found = own.selected(counts, n_pairs)
        expected = sorted(range(36), key=lambda cell: (-counts.ravel()[cell], cell))[:n_pairs]
        assert set(np.flatnonzero(found.holds).tolist()) == set(expected)
        assert (found.counts == np.where(found.holds, counts, 0)).all()


def test_where_no_tree_is_good_enough_the_flower_of_all_names_comes_out() -> None:
    """At a threshold of 1 and little epsilon; the coin ends it early, and nothing is said."""
    params = dpim_params("100", size_bounds=(1, 1), fitness_threshold="1", stop_probability="1")
    found = dpim_mined(PAPER, params)
    assert not found.is_found and found.fitness is None
    assert found.tree == normalise(flower("DHMRS"))
    assert not dpim_mined({}, dpim_params()).is_found


def test_a_round_may_be_the_last_with_the_probability_to_stop() -> None:
    """Rounds until the coin stops are geometric: of 100 runs 1 / 0.2, within 6 errors."""
    params = dpim_params(
        "100000", size_bounds=(1, 1), fitness_threshold="1", stop_probability="0.2"
    )
    n_rounds = []
    for number in range(100):
        noise = Silence()
        assert not dpim_mined({tuple("ABCDEF"): 3}, params, noise, number).is_found
        of_fitness = Fraction(*params.fitness_scale)
        n_rounds.append(sum(scale == of_fitness for *_, scale in noise.draws))
    error = math.sqrt(0.8) / 0.2 / math.sqrt(100)
    assert abs(np.mean(n_rounds) - 5) < 6 * error
    assert abs(np.mean(n_rounds) - 10) > 6 * error  # the control: half the probability


def test_a_list_without_a_name_is_no_reason_to_take_the_logs_names() -> None:
    params = DpimParams(epsilon="2", vocabulary=(), closed_vocabulary=True, size_bounds=(1, 1))
    statistics = {
        "variants": VariantHistogram.from_traces(trace_batch({})),
        "names": ActivityVocabulary.of(["secret"]),
    }
    decision = Dpim().decide("tree", statistics, {}, params, randomness())
    assert "secret" not in decision.tree.names.to_pylist()
