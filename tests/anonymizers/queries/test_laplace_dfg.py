"""The published directly-follows query: its laws, what they cost, and its honest form.

Statistical tests prove their bounds with confidence 1 - 1e-9 and name their n and their control.
"""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import pytest

from tests.support.keys import randomness
from tests.support.logs import Log, naive_pairs, trace_batch
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.contract.in_memory import bound
from tracecloak.anonymizers.queries.pair_query import LaplaceDfg, PairCounts, PairQueryParams
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import DirectlyFollows

METHOD = LaplaceDfg()
PUBLIC: dict[str, Any] = {"vocabulary": ("A", "B"), "max_trace_length": 3}


def params_of(epsilon: str = "1", **given: Any) -> PairQueryParams:
    return PairQueryParams(epsilon=epsilon, **given)


def exact_counts(log: Log, params: PairQueryParams) -> PairCounts:
    """What noise is added to."""
    [bounded] = bound([trace_batch(log)], METHOD, params, randomness())
    return PairCounts(DirectlyFollows.from_traces(bounded), bounded.vocabulary, params)


LOG = {"1": "A B", "2": "A", "3": "B B B B", "4": "X A"}


def test_counts_are_those_of_a_naive_count_in_a_domain_of_all_pairs() -> None:
    pairs = exact_counts(LOG, params_of())
    labels = pairs.vocabulary.labels
    found = {
        (labels[a], labels[b]): int(n)
        for a, b, n in zip(pairs.sources, pairs.targets, pairs.counts, strict=True)
    }
    assert {pair: n for pair, n in found.items() if n} == dict(naive_pairs(LOG))
    assert found.keys() == set(itertools.product("ABX", "ABX")) | {
        *(("▶", name) for name in "ABX"),
        *((name, "■") for name in "ABX"),
    }


def test_without_public_names_or_length_no_finite_epsilon_holds() -> None:
    for given in ({}, {"vocabulary": ("A",)}, {"max_trace_length": 3}):
        params = params_of(**given)
        said = METHOD.guarantee(params)
        assert said.kind == "published"
        assert said.epsilon is said.delta is None
        assert METHOD.spends(params) == ()
        assert params.scale == (1, 1)


def test_with_both_public_the_epsilons_of_a_case_and_of_the_truncation_add_up() -> None:
    """Three events are four pairs, so 4 epsilon and 4 ln 2; long cases repeat pairs."""
    params = params_of("0.5", **PUBLIC)
    said = METHOD.guarantee(params)
    assert said.kind == "published"
    assert said.epsilon == pytest.approx(4 * 0.5 + 4 * math.log(2), abs=1e-5)
    assert said.epsilon > 4 * 0.5 + 4 * math.log(2)  # rounded up
    assert total(METHOD.spends(params)) == (Fraction(str(said.epsilon)), 0)
    assert params.scale == (2, 1)
    # OTHER beside the one name: 2² pairs of names, one with START and one with END; and of two
    # cases two each. Three have no more.
    for m, n_distinct in ((1, 6), (2, 8), (3, 8)):
        long = params_of(vocabulary=("A",), max_trace_length=99, max_cases_per_individual=m)
        told = 100 + n_distinct * math.log(2)
        assert METHOD.guarantee(long).epsilon == pytest.approx(told, abs=1e-4)
    # Discrete Laplace noise has no truncation to pay for.
    paper = params_of("0.5", profile="paper", **PUBLIC)
    assert METHOD.guarantee(paper).epsilon == 2
    [part] = METHOD.spends(paper)
    assert (part.mechanism, part.scale, part.sensitivity) == ("discrete_laplace", (2, 1), 4)


def test_the_honest_form_divides_epsilon_by_the_pairs_of_a_case() -> None:
    params = params_of("2", **PUBLIC, budget="honest")
    said = METHOD.guarantee(params)
    assert said.kind == "rigorous"
    assert (said.epsilon, said.delta) == (2, 0)
    assert params.scale == (2, 1)
    [part] = METHOD.spends(params)
    assert part.mechanism == "discrete_laplace"
    assert (part.scale, part.sensitivity, part.epsilon) == ((2, 1), 4, 2)
    several = params_of("2", **PUBLIC, budget="honest", max_cases_per_individual=3)
    assert several.scale == (6, 1)
    assert METHOD.guarantee(several).unit == "individual"
    assert METHOD.guarantee(several).epsilon == 2
    for promise, numbers in ((said, (3, 4, 2)), (METHOD.guarantee(several), (3, 12, 6))):
        assert all(re.search(rf"\b{number}\b", promise.reality) for number in numbers)


def test_noise_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError, match="raise epsilon"):  # before anything is counted
        METHOD.spends(params_of("1e-13"))
    with pytest.raises(UsageError, match="raise epsilon"):
        METHOD.spends(params_of("1e-9", **{**PUBLIC, "max_trace_length": 10**6}, budget="honest"))
