"""Directly-follows queries as published: SaPa, and counts with Laplace noise.

Statistical tests prove their bounds with confidence 1 - 1e-9 and name their n and their control.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.keys import randomness
from tests.support.logs import Log, naive_pairs, trace_batch
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.contract.in_memory import bound
from tracecloak.anonymizers.noise.published import positive_excess
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.queries.pair_query import LaplaceDfg, PairCounts, PairQueryParams
from tracecloak.anonymizers.queries.sapa import (
    MAX_ARCS,
    Sapa,
    SapaParams,
    exponential_query,
    play_out,
    playable,
    walked_laplace,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.relations import KFollows
from tracecloak.schemas.statistics.variants import DirectlyFollows

Arc = tuple[str, str]
Case = tuple[str, ...]


def played(arcs: Mapping[Arc, int], number: int = 0, names: str = "ABCDEF") -> list[Case]:
    """The cases of a graph, by the names of their activities; ▶ and ■ are START and END."""
    vocabulary = ActivityVocabulary.of(names)
    code = {label: i for i, label in enumerate((*names, "▶", "■"))}
    places = {code[a] * len(code) + code[b]: n for (a, b), n in sorted(arcs.items())}
    domain, counts = (
        np.array(rows, np.int64) for rows in zip(*sorted(places.items()), strict=True)
    )
    ends = dict(zip(("sources", "targets"), np.divmod(domain, len(code)), strict=True))
    pairs: Any = SimpleNamespace(vocabulary=vocabulary, domain=domain, **ends)
    offsets, codes = play_out(pairs, counts, randomness(), f"play {number}")
    assert offsets.dtype == np.int64 and codes.dtype == np.int32
    assert offsets[0] == 0 and offsets[-1] == len(codes)
    return [
        tuple(names[c] for c in codes[first:last])
        for first, last in itertools.pairwise(offsets.tolist())
    ]


def exact_law(arcs: Mapping[Arc, int], goes_back: bool = True) -> dict[tuple[Case, ...], Fraction]:
    """The law of the cases, in any order, by following Algorithm 2 through every choice it has."""
    law: Counter[tuple[Case, ...]] = Counter()

    def step(left: dict[Arc, int], path: Case, made: tuple[Case, ...], chance: Fraction) -> None:
        last = path[-1]
        going = {arc: n for arc, n in left.items() if arc[0] == last and n > 0}
        total = sum(going.values())
        for arc, n in going.items():
            rest = {**left, arc: n - 1}
            if arc[1] == "■":
                step(rest, ("▶",), (*made, path[1:]), chance * n / total)
            else:
                step(rest, (*path, arc[1]), made, chance * n / total)
        if going:
            return
        if last == "▶":  # the empty trace, and START has nothing left
            law[tuple(sorted(made))] += chance
            return
        kept = {a: n for a, n in left.items() if a[1] != last}
        step(kept, path[:-1] if goes_back else ("▶",), made, chance)

    step(dict(arcs), ("▶",), (), Fraction(1))
    return dict(law)


GRAPHS: dict[str, dict[Arc, int]] = {
    "without dead ends": {
        ("▶", "A"): 2, ("▶", "B"): 1, ("A", "B"): 2, ("B", "A"): 1, ("A", "■"): 1, ("B", "■"): 2,
    },
    "with dead ends": {
        ("▶", "A"): 3, ("A", "B"): 2, ("A", "C"): 2, ("B", "■"): 1, ("B", "A"): 1, ("C", "■"): 1,
    },
    "with loops": {("▶", "A"): 2, ("A", "A"): 3, ("A", "B"): 1, ("A", "■"): 2, ("B", "B"): 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arc"),
    [
        ("without dead ends", ("▶", "A")),
        ("with dead ends", ("A", "C")),
        ("with loops", ("A", "A")),
    ],
)
def test_cases_have_the_law_of_the_algorithm(name: str, arc: Arc) -> None:
    """With n = 6000; controls: a count that is one larger, and cases given up in dead ends."""
    arcs = GRAPHS[name]
    law = exact_law(arcs)
    assert sum(law.values()) == 1
    assert len(law) >= 3
    sample: Counter[tuple[Case, ...]] = Counter(
        tuple(sorted(played(arcs, number))) for number in range(6000)
    )
    assert p_value_of_law(sample, {k: float(v) for k, v in law.items()}) > ALPHA
    more = exact_law({**arcs, arc: arcs[arc] + 1})
    assert p_value_of_law(sample, {k: float(v) for k, v in more.items()}) < ALPHA
    if name == "with dead ends":
        given_up = exact_law(arcs, goes_back=False)
        assert p_value_of_law(sample, {k: float(v) for k, v in given_up.items()}) < ALPHA


def test_the_papers_table_2_ends_in_two_variants_of_16_cases() -> None:
    """Surgery is left for release 16 times, so no more cases end; antibiotics is a dead end."""
    table_2 = {
        ("▶", "R"): 44, ("▶", "T"): 3, ("R", "T"): 52, ("T", "S"): 30, ("T", "A"): 15,
        ("S", "L"): 16, ("L", "■"): 51,
    }  # fmt: skip
    met = set()
    for number in range(50):
        cases = played(table_2, number, "ACLRST")
        assert len(cases) == 16
        assert set(cases) <= {tuple("RTSL"), tuple("TSL")}
        met |= set(cases)
    assert met == {tuple("RTSL"), tuple("TSL")}


def test_cases_of_millions_of_steps_are_walked_without_recursion() -> None:
    [case] = played({("▶", "A"): 1, ("A", "A"): 10**6, ("A", "B"): 1, ("B", "■"): 1})
    assert 2 <= len(case) <= 10**6 + 2


def test_too_many_arcs_are_refused_with_the_mend_and_without_their_number() -> None:
    with pytest.raises(UsageError, match=rf"more than {MAX_ARCS:,} .*raise epsilon") as raised:
        played({("▶", "A"): MAX_ARCS, ("A", "■"): 2})
    with pytest.raises(UsageError) as other:
        played({("▶", "A"): 2**62, ("A", "■"): 2**62})
    assert str(other.value) == str(raised.value)


def test_or_so_many_are_played_out_in_proportion() -> None:
    few = np.array([0, 3, MAX_ARCS - 3])
    assert playable(few) is few
    for many in ([MAX_ARCS, 2, 0], [2**62, 2**62, 2**61], [2**40] * 4096):
        counts = np.array(many)
        kept = playable(counts)
        assert kept.dtype == np.int64 and (kept >= 0).all()
        assert 0.99 * MAX_ARCS < kept.sum() <= MAX_ARCS
        shares = counts / counts.astype(float).sum()
        assert np.abs(kept - shares * MAX_ARCS).max() <= 2


METHOD = Sapa()
PUBLIC: dict[str, Any] = {"vocabulary": ("A", "B"), "max_trace_length": 3}
# Activities in a row, seldom out of it: most pairs are never neighbours.
LOG = {f"c{i}": "A B C D" if i % 5 else "A C B B D" for i in range(200)}


def params_of(epsilon: str = "1", **given: Any) -> SapaParams:
    return SapaParams(epsilon=epsilon, **given)


def counted(log: Log, params: SapaParams) -> tuple[PairCounts, KFollows]:
    [bounded] = bound([trace_batch(log)], METHOD, params, randomness())
    pairs = PairCounts(DirectlyFollows.from_traces(bounded), bounded.vocabulary, params)
    return pairs, KFollows.from_traces(bounded, params.k_follows)


def labelled(pairs: PairCounts, values: np.ndarray) -> dict[tuple[str, str], int]:
    labels = pairs.vocabulary.labels
    return {
        (labels[a], labels[b]): int(n)
        for a, b, n in zip(pairs.sources, pairs.targets, values, strict=True)
    }


PROFILES = pytest.mark.parametrize("profile", ["paper", "reference"])


def noisy_graphs(params: SapaParams, n: int) -> Iterator[dict[tuple[str, str], int]]:
    pairs, distances = counted(LOG, params)
    for i in range(n):
        yield labelled(pairs, exponential_query(pairs, distances, params, randomness(), f"g{i}"))


def near_pairs(k: int) -> set[tuple[str, str]]:
    """Pairs at most k steps apart in some case, but for START and END, place by place."""
    found = set()
    for text in LOG.values():
        path = ["▶", *text.split(), "■"]
        found |= {(a, b) for i, a in enumerate(path) for b in path[i + 1 : i + 1 + k]}
    return found - {("▶", "■")}


@PROFILES
@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_pairs_within_k_steps_are_kept_and_positive_and_few_others(k: int, profile: str) -> None:
    """At epsilon 1 about 1.54 of the others are let in; never so many on average as twice that."""
    params = params_of(k_follows=k, profile=profile)
    near = near_pairs(k)
    n_others = []
    for graph in noisy_graphs(params, 400):
        positive = {pair for pair, n in graph.items() if n > 0}
        assert min(graph.values()) == 0 or len(positive) == len(graph)
        assert near <= positive
        n_others.append(len(positive - near))
    n_far = len(graph) - len(near)
    # The mean of j with P(j) proportional to e^(-j/2), j = 0 … n_far.
    weights = np.exp(-np.arange(n_far + 1) / 2)
    mean = (weights * np.arange(n_far + 1)).sum() / weights.sum()
    assert mean <= 1.5415
    deviation = math.sqrt((weights * np.arange(n_far + 1) ** 2).sum() / weights.sum() - mean**2)
    assert abs(np.mean(n_others) - mean) <= 7 * deviation / math.sqrt(400) + 1e-12


def law_of_walk(count: int, a: float, largest: int) -> np.ndarray:
    """float64[largest], where a walk of truncated Laplace steps is when it is first above 0."""
    lowest = -200

    def step(j: np.ndarray) -> np.ndarray:
        return np.where(j == 0, 1 - a, (a ** np.abs(j) - a ** (np.abs(j) + 1)) / 2)

    def at_most(j: np.ndarray) -> np.ndarray:  # below 0
        return a**-j / 2

    inner, outer = np.arange(lowest, 1.0), np.arange(1.0, largest + 1)
    stays = step(inner - inner[:, None])
    stays[:, 0] += at_most(lowest - inner - 1)  # no lower than the lowest
    ends = np.linalg.solve(np.eye(len(inner)) - stays, step(outer - inner[:, None]))
    first = step(inner - count)
    first[0] += at_most(np.array(lowest - count - 1.0))
    return step(outer - count) + first @ ends


@pytest.mark.parametrize("scale", [(20, 1), (10, 3), (1, 1), (1, 3)])
def test_a_walked_count_has_its_law_and_what_it_costs(scale: tuple[int, int]) -> None:
    """Up to ln 2 beyond k epsilon for a change by k, and no less as counts grow."""
    epsilon, n = scale[1] / scale[0], 10_000
    a = math.exp(-epsilon)
    drawn = walked_laplace(randomness(), "w", cell_numbers(np.arange(n)), np.full(n, 2), scale)
    for count, is_so in ((2, True), (9, False)):  # the control
        law = dict(enumerate(law_of_walk(count, a, 500).tolist(), 1))
        assert (p_value_of_law(Counter(drawn.tolist()), law) > ALPHA) is is_so
    laws = [law_of_walk(count, a, 60)[:40] for count in range(8)]
    for k in (1, 2, 3):
        ratios = np.abs([np.log(laws[c] / laws[c + k]) for c in range(8 - k)])
        assert ratios.max() <= k * epsilon + math.log(2) + 1e-6
    if epsilon >= 1:  # where the count of 6 is hardly ever walked from
        assert np.abs(np.log(laws[6] / laws[7])).max() > epsilon + 0.9 * math.log(2)


def test_the_exponential_query_has_no_finite_epsilon_whatever_is_public() -> None:
    for given in ({}, PUBLIC, {**PUBLIC, "max_cases_per_individual": 2}):
        params = params_of(**given)
        said = METHOD.guarantee(params)
        assert (said.kind, said.epsilon, said.delta) == ("published", None, None)
        assert METHOD.spends(params) == ()
        assert said.reality.count("No finite epsilon") == 1
    reality = METHOD.guarantee(params_of(**PUBLIC, profile="paper")).reality
    assert f"{positive_excess(1.0):.3g} more" in reality and "ln 2" not in reality


def test_noise_that_cannot_be_drawn_or_played_out_is_refused_before_anything_is_counted() -> None:
    long = {**PUBLIC, "max_trace_length": 10**6}
    for method, params in (
        *((METHOD, params_of("1e-13", query=query)) for query in ("exponential", "laplace")),
        (LAPLACE_DFG, params_of_laplace("1e-13")),
        (LAPLACE_DFG, params_of_laplace("1e-9", **long, budget="honest")),
    ):
        with pytest.raises(UsageError, match="raise epsilon"):
            method.spends(params)
    # Eight pairs whose noise is 1e9 / 2 on average if it is positive, as half of it is.
    with pytest.raises(UsageError, match=r"more than 67,108,864 directly-follows"):
        METHOD.spends(params_of("1e-9", query="laplace", vocabulary=("A",)))


# --- Laplace noise on counts ----------------------------------------------------------------------


LAPLACE_DFG = LaplaceDfg()


def params_of_laplace(epsilon: str = "1", **given: Any) -> PairQueryParams:
    return PairQueryParams(epsilon=epsilon, **given)


def exact_counts(log: Log, params: PairQueryParams) -> PairCounts:
    """What noise is added to."""
    [bounded] = bound([trace_batch(log)], LAPLACE_DFG, params, randomness())
    return PairCounts(DirectlyFollows.from_traces(bounded), bounded.vocabulary, params)


LOG_OF_PAIRS = {"1": "A B", "2": "A", "3": "B B B B", "4": "X A"}


def test_counts_are_those_of_a_naive_count_in_a_domain_of_all_pairs() -> None:
    pairs = exact_counts(LOG_OF_PAIRS, params_of_laplace())
    labels = pairs.vocabulary.labels
    found = {
        (labels[a], labels[b]): int(n)
        for a, b, n in zip(pairs.sources, pairs.targets, pairs.counts, strict=True)
    }
    assert {pair: n for pair, n in found.items() if n} == dict(naive_pairs(LOG_OF_PAIRS))
    assert found.keys() == set(itertools.product("ABX", "ABX")) | {
        *(("▶", name) for name in "ABX"),
        *((name, "■") for name in "ABX"),
    }


def test_without_public_names_or_length_no_finite_epsilon_holds() -> None:
    for given in ({}, {"vocabulary": ("A",)}, {"max_trace_length": 3}):
        params = params_of_laplace(**given)
        said = LAPLACE_DFG.guarantee(params)
        assert said.kind == "published"
        assert said.epsilon is said.delta is None
        assert LAPLACE_DFG.spends(params) == ()
        assert params.scale == (1, 1)


def test_with_both_public_the_epsilons_of_a_case_and_of_the_truncation_add_up() -> None:
    """Three events are four pairs, so 4 epsilon and 4 ln 2; long cases repeat pairs."""
    params = params_of_laplace("0.5", **PUBLIC)
    said = LAPLACE_DFG.guarantee(params)
    assert said.kind == "published"
    assert said.epsilon == pytest.approx(4 * 0.5 + 4 * math.log(2), abs=1e-5)
    assert said.epsilon > 4 * 0.5 + 4 * math.log(2)  # rounded up
    assert total(LAPLACE_DFG.spends(params)) == (Fraction(str(said.epsilon)), 0)
    assert params.scale == (2, 1)
    # OTHER beside the one name: 2² pairs of names, one with START and one with END; and of two
    # cases two each. Three have no more.
    for m, n_distinct in ((1, 6), (2, 8), (3, 8)):
        long = params_of_laplace(vocabulary=("A",), max_trace_length=99, max_cases_per_individual=m)
        told = 100 + n_distinct * math.log(2)
        assert LAPLACE_DFG.guarantee(long).epsilon == pytest.approx(told, abs=1e-4)
    # Discrete Laplace noise has no truncation to pay for.
    paper = params_of_laplace("0.5", profile="paper", **PUBLIC)
    assert LAPLACE_DFG.guarantee(paper).epsilon == 2
    [part] = LAPLACE_DFG.spends(paper)
    assert (part.mechanism, part.scale, part.sensitivity) == ("discrete_laplace", (2, 1), 4)


def test_the_honest_form_divides_epsilon_by_the_pairs_of_a_case() -> None:
    params = params_of_laplace("2", **PUBLIC, budget="honest")
    said = LAPLACE_DFG.guarantee(params)
    assert said.kind == "rigorous"
    assert (said.epsilon, said.delta) == (2, 0)
    assert params.scale == (2, 1)
    [part] = LAPLACE_DFG.spends(params)
    assert part.mechanism == "discrete_laplace"
    assert (part.scale, part.sensitivity, part.epsilon) == ((2, 1), 4, 2)
    several = params_of_laplace("2", **PUBLIC, budget="honest", max_cases_per_individual=3)
    assert several.scale == (6, 1)
    assert LAPLACE_DFG.guarantee(several).unit == "individual"
    assert LAPLACE_DFG.guarantee(several).epsilon == 2
    for promise, numbers in ((said, (3, 4, 2)), (LAPLACE_DFG.guarantee(several), (3, 12, 6))):
        assert all(re.search(rf"\b{number}\b", promise.reality) for number in numbers)
