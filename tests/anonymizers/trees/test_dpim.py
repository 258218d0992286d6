"""DPIM as published: its budgets, what its parts really cost, and what comes out."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.anonymizers.trees.test_process_tree_miner import siblings
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, trace_batch
from tests.support.silence import Silence
from tests.support.trees import language
from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.anonymizers.trees import dpim
from tracecloak.anonymizers.trees.dpim import Dpim, DpimParams
from tracecloak.anonymizers.trees.fitness import UNITS
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.models import flower, normalise
from tracecloak.schemas.statistics.variants import VariantHistogram

METHOD = Dpim()
PAPER = {tuple("RHMD"): 63, tuple("RHSD"): 25, tuple("RHD"): 12}


def params_of(epsilon: str = "1.25", **given: Any) -> DpimParams:
    return DpimParams(**{"epsilon": epsilon, **given})


def mined(
    counts: dict[Variant, int], params: DpimParams, noise: Noise = EXACT, number: int = 0
) -> Any:
    names = sorted({name for variant in counts for name in variant} or {"A"})
    keyed, vocabulary = randomness(number).with_noise(noise), ActivityVocabulary.of(names)
    counted = {"variants": histogram(counts, names), "names": vocabulary}
    decided: Any = METHOD.decide("tree", counted, {}, params, keyed)
    return decided.tree


def test_budgets_and_rounds_of_the_paper() -> None:
    params = params_of()
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
    params = params_of(bounds_from_log=True)
    assert params.sizes(27, 114) == (100, 130)
    assert params.sizes(16, 135) == (120, 150)
    assert params.sizes(5, 8) == (5, 24)  # not below the activities, and below their square
    assert params_of().sizes(27, 114) == (27, 108)


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
    named = params_of("1.25", vocabulary=("A", "B"))
    guarantee = METHOD.guarantee(named)
    assert guarantee.kind == "published" and guarantee.adjacency == "replace_one"
    assert guarantee.epsilon == float(few) and guarantee.delta == 0
    assert [spend.epsilon for spend in METHOD.spends(named)] == [few]


def test_leaks_are_named_and_leave_no_epsilon() -> None:
    for given, leak in (
        ({}, "names are the input's own"),
        ({"vocabulary": ("A",), "bounds_from_log": True}, "exact number of pairs"),
        ({"vocabulary": ("A",), "fitness_measure": "tokens"}, "can change by any amount"),
    ):
        guarantee = METHOD.guarantee(params_of(**given))
        assert guarantee.epsilon is None and METHOD.spends(params_of(**given)) == ()
        assert any(leak in sentence for sentence in guarantee.not_covered)
        assert "no finite one holds" in METHOD.explain(params_of(**given))[0]


def test_cuts_beside_each_other_stay_within_the_share() -> None:
    """Of four cuts beside each other, each has half of what the last one had."""
    counts, noise = siblings(), Silence()
    params = params_of("100", size_bounds=(36, 36))  # all that occur
    found = mined(counts, params, noise)
    assert language(found.tree, 3) >= set(counts)
    asked = [scale for _, n, scale in noise.draws if n == 3]
    share = params.round_epsilon * Fraction(params.ends_share)
    spent = sum(2 / scale for scale in asked)  # starts and ends, two counts each
    assert len(asked) == 8 and asked == sorted(asked)
    assert spent == share * (1 - Fraction(1, 2**4))


def test_noise_of_a_round_is_drawn_once_on_every_pair_and_anew_on_those_chosen() -> None:
    noise, params = Silence(), params_of("100", size_bounds=(8, 8))
    found = mined(PAPER, params, noise)
    selection, fresh, fitness = (noise.draws[i][1:] for i in (0, 1, -1))
    assert selection == (36, Fraction(*params.pairs_scale(8))) and fresh == (8, selection[1])
    assert fitness == (1, Fraction(*params.fitness_scale))
    assert str(found.tree) == "->( 'R', 'H', X( tau, 'M', 'S' ), 'D' )"
    assert found.is_found and found.fitness == 1


def test_the_chosen_are_the_first_of_the_largest_noisy_counts() -> None:
    """Beside a stable sort; half of the counts are equal."""
    counts = np.random.default_rng(4).integers(0, 4, (6, 6))
    own = dpim._Round(
        histogram({}), "ABCDE", params_of(), randomness().with_noise(Silence()), number=0
    )
    for n_pairs in (1, 7, 20, 36):
        found = own.selected(counts, n_pairs)
        expected = sorted(range(36), key=lambda cell: (-counts.ravel()[cell], cell))[:n_pairs]
        assert set(np.flatnonzero(found.holds).tolist()) == set(expected)
        assert (found.counts == np.where(found.holds, counts, 0)).all()


def test_where_no_tree_is_good_enough_the_flower_of_all_names_comes_out() -> None:
    """At a threshold of 1 and little epsilon; the coin ends it early, and nothing is said."""
    params = params_of("100", size_bounds=(1, 1), fitness_threshold="1", stop_probability="1")
    found = mined(PAPER, params)
    assert not found.is_found and found.fitness is None
    assert found.tree == normalise(flower("DHMRS"))
    assert not mined({}, params_of()).is_found


def test_a_round_may_be_the_last_with_the_probability_to_stop() -> None:
    """Rounds until the coin stops are geometric: of 100 runs 1 / 0.2, within 6 errors."""
    params = params_of("100000", size_bounds=(1, 1), fitness_threshold="1", stop_probability="0.2")
    n_rounds = []
    for number in range(100):
        noise = Silence()
        assert not mined({tuple("ABCDEF"): 3}, params, noise, number).is_found
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
