"""PRIPEL: matching and enrichment by its paper, and from a log to its release."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linear_sum_assignment

from tests.anonymizers.variants.test_distance import naive_edits
from tests.support.keys import randomness, release_key
from tests.support.logs import (
    MINUTE,
    Variant,
    event_logs,
    histogram,
    read_variants,
    trace_batch,
    variant_counts,
)
from tests.support.paper_log import traces_of
from tests.support.rounds import rows_of
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.queries import pripel, pripel_enrichment
from tracecloak.anonymizers.queries.pripel import Pripel, PripelParams
from tracecloak.anonymizers.queries.pripel_enrichment import bounded_laplace, perturbed_cells
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import StartRange
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = "ABCD"
WHO = Attribute("org:resource", Declaration(values=tuple("rstuv")))
AGE = Attribute("case:age", Declaration(bounds=(0, 9), n_bins=10, whole=True))


def duration_table(times: Mapping[str, list[int]]) -> DurationTable:
    """Times in minutes by pair of activities, such as AB."""
    rows = [
        (NAMES.index(pair[0]), NAMES.index(pair[1]), t) for pair, ts in times.items() for t in ts
    ]
    before, after, minutes = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return DurationTable.from_events(
        pripel_enrichment.pair_groups(before, after, len(NAMES)), minutes * MINUTE
    )


def made(
    raw: TraceBatch,
    released: Mapping[str, str],
    durations: Mapping[str, list[int]],
    keyed: Randomness,
    values: Mapping[str, DurationTable] | None = None,
    replica: int = 0,
) -> pripel_enrichment.Enriched:
    """The cases of `released`, each sequence made from the case of that name, by text."""
    cases = list(released)
    codes = [NAMES.index(name) for case in cases for name in released[case]]
    offsets = np.cumsum([0, *(len(released[case]) for case in cases)])
    nothing = np.zeros(0, np.int64)
    matched = VariantHistogram.merge(())
    starts = StartRange.of(raw.starts)
    query = pripel_enrichment.QueryDecision(
        offsets, np.array(codes, np.int32), matched, nothing, nothing, nothing, starts
    )
    contents = pripel_enrichment.ContentsDecision(
        case_bytes(keyed.identify("case", pa.array(cases, pa.string()))),
        np.arange(len(cases)),
        np.full(len(cases), replica),
        duration_table(durations),
        dict(values or {}),
    )
    return pripel_enrichment.Enriched(raw, query, contents, keyed)


def minutes(times: np.ndarray) -> list[int]:
    assert not (times % MINUTE).any()
    return (times // MINUTE).tolist()


def test_the_kth_event_of_an_activity_takes_the_kth_of_the_case() -> None:
    raw = trace_batch({"1": "A B A C", "2": "B B"}, NAMES)
    released = trace_batch({"1": "A C A A B D", "2": "A B B B"}, NAMES)
    assert pripel_enrichment.matched_events(raw, released).tolist() == [
        *(0, 3, 2, -1, 1, -1, -1, 4, 5, -1)
    ]


def test_cases_are_taken_in_the_order_of_their_ranks_each_once_before_any_again() -> None:
    identities = np.array([[k, 7] for k in (5, 1, 3, 9)], np.uint64)
    ranks = CaseRanks.of(np.array([0, 0, 0, 1]), case_bytes(identities))
    nothing = np.zeros(0, np.int64)
    query = pripel_enrichment.QueryDecision(
        nothing, nothing, VariantHistogram.merge(()),
        raw=np.array([0, 0, 1]), released=np.array([4, 6, 5]), cases=np.array([2, 3, 1]),
        starts=StartRange(0, 0),
    )  # fmt: skip
    sources, released, replica = pripel_enrichment.assigned(ranks, query)
    expected = [ranks.cases[k].as_py() for k in (0, 1, 2, 0, 1, 3)]
    assert sources.to_pylist() == expected
    assert released.tolist() == [4, 4, 6, 6, 6, 5]
    assert replica.tolist() == [0, 0, 0, 1, 1, 0]


# What each pair takes in the log: one time only, so that a draw of it is certain.
TIMES = {"AB": [10], "BA": [20], "CB": [3], "AC": [10], "BD": [40]}


@pytest.mark.parametrize(
    ("released", "starts", "durations"),
    [
        ("ABAC", 5, [0, 10, 20, 10]),  # the case's own times
        ("AC", 5, [0, 40]),  # the stamps of A and C
        # B was before C, so it comes 3 after it, as in the log; and then A is 20 after B.
        ("ACBA", 5, [0, 40, 3, 20]),
        # The case has no second B: it comes 3 after C, and A's stamp was long before.
        ("ABCBA", 5, [0, 10, 30, 3, 20]),
        ("BA", 15, [0, 20]),  # the case begins when the matched event did
        ("DA", 5, [0, 0]),  # or when the case of the log did
        # No D comes after C in the log, so it takes a time before any D; and no C after a D, so one
        # before any C.
        ("ACDC", 5, [0, 40, 40, 10]),
        # No A comes after A: 20 is the time before any A.
        ("AAA", 5, [0, 30, 20]),
    ],
)
def test_times_are_those_of_the_case_or_else_of_the_log(
    released: str, starts: int, durations: list[int]
) -> None:
    raw = trace_batch({"1": "A@5 B@15 A@35 C@45"}, NAMES)
    case = made(raw, {"1": released}, TIMES, randomness())
    found_starts, found = case.times(randomness())
    assert minutes(found_starts) == [starts]
    assert minutes(found) == durations


@pytest.mark.parametrize("by_pair", [True, False])
def test_released_times_are_others_within_the_bounds_in_the_same_order(by_pair: bool) -> None:
    """Noise of the size of the bounds: one of 3,600 times in µs stays with chance 1e-5."""
    began = {f"{i}": i % 300 for i in range(1200)}
    raw = trace_batch({i: f"A@{n} B@{n + 10 + n % 8} C@{n + 77}" for i, n in began.items()}, NAMES)
    times = {"AB": [*range(10, 18)], "BC": [*range(60, 68)]}
    case = made(raw, dict.fromkeys(began, "ABC"), times, randomness())
    exact_starts, exact = case.times(randomness())
    retimed = replace(case.released, times=case.retimed(1.0, by_pair, randomness()))
    step = ~retimed.is_first
    low, high = case.duration_bounds(by_pair)
    assert (retimed.durations[step] >= low[step]).all()
    assert (retimed.durations[step] <= high[step]).all()
    assert (retimed.starts >= raw.starts.min()).all()
    assert (retimed.starts <= raw.starts.max()).all()
    assert not (retimed.durations[step] == exact[step]).any()
    assert not (retimed.starts == exact_starts).any()
    # Noise is drawn around the case's own time: late cases stay later, on the whole. By 150 keys
    # 0.20, with a deviation of 0.029; what depends on nothing has 0 and as much.
    assert np.corrcoef(exact_starts, retimed.starts)[0, 1] > 0.1
    nearly = replace(case.released, times=case.retimed(1e4, by_pair, randomness()))
    assert np.abs(nearly.durations - exact).max() < 2 * MINUTE
    assert not np.array_equal(nearly.durations, exact)


def with_values(raw: TraceBatch, who: list[str | None], age: list[str | None]) -> TraceBatch:
    columns = {WHO.name: who, AGE.name: age}
    encoded = {name: pa.array(v, pa.string()).dictionary_encode() for name, v in columns.items()}
    return replace(raw, attributes=encoded)


def test_released_values_lie_in_the_declared_domain_and_differ() -> None:
    n = 400
    raw = trace_batch({str(i): "A B" for i in range(n)}, NAMES)
    raw = with_values(raw, ["r", "undeclared"] * n, ["3", None] * n)
    table = DurationTable.from_events(np.array([0, 1]), np.array([1, 2]))
    case = made(raw, {str(i): "ABA" for i in range(n)}, TIMES, randomness(), {WHO.name: table})
    who = case.value(WHO, 1.0, randomness()).to_pylist()
    assert set(who) == {*"rstuv", None}
    assert {who[i] for i in range(1, 3 * n, 3)} == {None}  # not declared, so it is no value
    share = who[0::3].count("r") / n
    assert share == pytest.approx(np.e / (np.e + 4), abs=6 * 0.025)
    ages = np.array(case.value(AGE, 1.0, randomness()).to_pylist()).reshape(n, 3)
    assert (ages == ages[:, :1]).all()  # of the case
    assert set(ages[:, 0].tolist()) == set(range(10))


MATCHING_NAMES = "ABC"


def smallest_cost(released: Mapping[Variant, int], raw: Mapping[Variant, int]) -> int:
    """By a matrix of all sequences by all cases, as PRIPEL's authors do it."""
    uses = -(-sum(released.values()) // sum(raw.values()))
    rows = [v for v, n in released.items() for _ in range(n)]
    columns = [v for v, n in raw.items() for _ in range(n * uses)]
    matrix = np.array([[naive_edits(a, b) for b in columns] for a in rows])
    return int(matrix[linear_sum_assignment(matrix)].sum())


def cost_of(
    found: pripel.Pairs, released: Mapping[Variant, int], raw: Mapping[Variant, int]
) -> int:
    """The sum of edits; every sequence is matched once, and no case too often."""
    ours, theirs = (
        list(read_variants(histogram(side), MATCHING_NAMES)) for side in (released, raw)
    )
    uses = -(-sum(released.values()) // sum(raw.values()))
    sent: Counter[Variant] = Counter()
    taken: Counter[Variant] = Counter()
    cost = 0
    for j, i, n in zip(*found, strict=True):
        assert n > 0
        sent[ours[i]] += int(n)
        taken[theirs[j]] += int(n)
        cost += int(n) * naive_edits(ours[i], theirs[j])
    assert dict(sent) == dict(released)
    assert all(n <= uses * raw[variant] for variant, n in taken.items())
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    return cost


@given(
    variant_counts(max_length=6).filter(lambda counts: 0 < sum(counts.values()) < 40),
    variant_counts(max_length=6).filter(lambda counts: 0 < sum(counts.values()) < 30),
)
def test_the_sum_of_edits_is_that_of_an_optimal_assignment_of_cases(
    released: dict[Variant, int], raw: dict[Variant, int]
) -> None:
    found = pripel.match_variants(histogram(released), histogram(raw))
    assert cost_of(found, released, raw) == smallest_cost(released, raw)


@pytest.mark.parametrize("limit", ["MAX_PAIRS", "MAX_DISTANCES"])
def test_too_many_pairs_are_refused_without_a_number_of_the_log(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    released = {("A",) * n: 1 for n in range(1, 8)}
    raw = {("B",) * n: 1 for n in range(1, 8)}
    monkeypatch.setattr(pripel, limit, 7 * 7)
    pripel.match_variants(histogram(released), histogram(raw))
    monkeypatch.setattr(pripel, limit, 3)
    with pytest.raises(UsageError, match=r"raise p_harmful or epsilon, or lower") as raised:
        pripel.match_variants(histogram(released), histogram(raw))
    assert "49" not in str(raised.value)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_transport_is_optimal_for_any_costs(seed: int) -> None:
    """Costs that are no distances, and few columns to spare, so that prices must move."""
    draw = np.random.default_rng(seed)
    n, m = draw.integers(1, 9, 2)
    supply = draw.integers(1, 6, n)
    capacity = draw.integers(1, 6, m)
    capacity[0] += max(int(supply.sum() - capacity.sum()) + int(draw.integers(0, 3)), 0)
    costs = draw.integers(0, 50, (n, m))
    rows, columns = np.divmod(np.arange(n * m), m)
    sent = pripel.transport((rows, columns, costs.ravel()), supply, capacity)
    flows = sent.reshape(n, m)
    assert (flows >= 0).all()
    assert (flows.sum(axis=1) == supply).all()
    assert (flows.sum(axis=0) <= capacity).all()
    matrix = np.repeat(np.repeat(costs, supply, axis=0), capacity, axis=1)
    assert (flows * costs).sum() == matrix[linear_sum_assignment(matrix)].sum()


# Words at the middles of so many equal parts of their range: the draws are the law's quantiles.
N = 1 << 14
QUANTILES = (np.arange(N) + 0.5) / N
WORDS = (np.arange(N, dtype=np.uint64) << np.uint64(50)) + np.uint64(1 << 49)
WIDTH = 10**9


def quantiles(value: int, epsilon: float, width: int = WIDTH) -> np.ndarray:
    """Of the Laplace law around a value on condition that it lies in 0 … width, by scipy."""
    law = stats.laplace(value, width / epsilon)
    low, high = law.cdf(0), law.cdf(width)
    return law.ppf(low + QUANTILES * (high - low))


def drawn(value: int, epsilon: float, low: int = 0, high: int = WIDTH) -> np.ndarray:
    full = np.full(N, 1, np.int64)
    return bounded_laplace(WORDS, value * full, low * full, high * full, epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("value", [0, WIDTH // 3, WIDTH])
def test_bounded_laplace_has_the_quantiles_of_its_law(value: int, epsilon: float) -> None:
    """Control: the quantiles at nine tenths of the scale are others."""
    found = drawn(value, epsilon)
    assert np.abs(found - quantiles(value, epsilon)).max() < 2e-6 * WIDTH
    if epsilon >= 1:
        assert np.abs(found - quantiles(value, epsilon / 0.9)).max() > 2e-3 * WIDTH


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 100.0])
def test_bounded_laplace_stays_within_its_bounds(epsilon: float) -> None:
    for value, (low, high) in itertools.product((-50, 0, 7, 10**15), ((0, 10), (-5, -5), (3, 4))):
        found = drawn(value, epsilon, low, high)
        assert found.dtype == np.int64
        assert low <= found.min() and found.max() <= high
    ends = np.array([0, 2**64 - 1], np.uint64)
    for value in (0, 10**18):
        at = np.array([value, value])
        found = bounded_laplace(ends, at, np.zeros(2, np.int64), at * 0 + 10**18, epsilon)
        assert (0 <= found).all() and (found <= 10**18).all()


TEXT = Attribute("org:resource", Declaration(values=("a", "b", "c", "d")))
NUMBER = Attribute("amount", Declaration(bounds=(0, 1), n_bins=5))
TRUTH = Attribute("urgent", Declaration(values=("false", "true")))
ONE_TEXT = Attribute("constant", Declaration(values=("only",)))
ONE_BIN = Attribute("one bin", Declaration(bounds=(0, 1), n_bins=1))


def law(attribute: Attribute, cell: int, epsilon: float) -> np.ndarray:
    """Shares of the cells that a cell becomes, over a grid of the two words."""
    words = np.stack([WORDS, WORDS], axis=1)
    if attribute.declaration.values is not None:  # both words decide
        some = WORDS[N // 256 :: N // 128]
        words = np.stack([np.repeat(some, 128), np.tile(some, 128)], axis=1)
    found = perturbed_cells(attribute, np.full(len(words), cell), words, epsilon)
    return np.bincount(found, minlength=attribute.n_cells) / len(found)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("attribute", [TEXT, TRUTH])
def test_texts_are_answered_by_randomised_response(attribute: Attribute, epsilon: float) -> None:
    n = attribute.n_cells - 1
    for cell in range(1, n + 1):
        expected = np.full(n + 1, 1 / (math.exp(epsilon) + n - 1))
        expected[0], expected[cell] = 0, math.exp(epsilon) / (math.exp(epsilon) + n - 1)
        assert law(attribute, cell, epsilon) == pytest.approx(expected, abs=0.01)
        assert law(attribute, cell, epsilon + 0.5) != pytest.approx(expected, abs=0.01)  # control


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_numbers_move_by_bounded_discrete_laplace_noise(epsilon: float) -> None:
    laws = []
    for cell in range(1, 6):
        weights = np.exp(-epsilon * np.abs(np.arange(1, 6) - cell) / 4)
        laws.append(weights / weights.sum())
        assert law(NUMBER, cell, epsilon)[1:] == pytest.approx(laws[-1], abs=1e-3)
    # Any result is at most e^epsilon times as likely from one bin as from another.
    ratios = np.max(np.array(laws), axis=0) / np.min(np.array(laws), axis=0)
    assert ratios.max() == pytest.approx(math.exp(epsilon))


@pytest.mark.parametrize("attribute", [TEXT, NUMBER, TRUTH, ONE_TEXT, ONE_BIN])
def test_no_value_stays_none_and_no_other_becomes_none(attribute: Attribute) -> None:
    cells = np.arange(N) % attribute.n_cells
    words = np.stack([WORDS, WORDS[::-1]], axis=1)
    found = perturbed_cells(attribute, cells, words, 0.01)
    assert ((found == 0) == (cells == 0)).all()
    assert found.max() < attribute.n_cells
    assert len(perturbed_cells(attribute, cells[:0], words[:0], 1.0)) == 0


# --- From a log to its release --------------------------------------------------------------------


PRIPEL = Pripel()
USUAL: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 3}


def release(traces: list[TraceBatch], number: int = 0, **params: Any) -> TraceBatch:
    given = PripelParams(**{**USUAL, **params})
    [made] = anonymise(traces, PRIPEL, given, release_key(number), "r", "c").traces
    return made


def hospital(n: int = 60) -> TraceBatch:
    """Three variants; all stamps and times between them differ."""
    texts = ("A@{0} B@{1} C@{2}", "A@{0} C@{1}", "A@{0} B@{1} B@{2} C@{3}")
    return trace_batch(
        {
            f"case {i}": texts[i % 3].format(
                1000 * i, 1000 * i + 7 + 3 * i, 1400 * i + 200, 1400 * i + 777
            )
            for i in range(1, n + 1)
        }
    )


def test_no_time_of_the_log_comes_out() -> None:
    """1200 times in microseconds within hours: that one is met by chance has probability 1e-6."""
    raw = hospital(300)
    made = release([raw])
    assert made.n_cases > 200
    durations, released = (set(log.durations[~log.is_first].tolist()) for log in (raw, made))
    assert not (durations - {0}) & released
    assert not set(raw.times.tolist()) & set(made.times.tolist())
    assert not set(raw.case_ids.to_pylist()) & set(made.case_ids.to_pylist())


ATTRIBUTES = {
    "org:resource": {"values": ["R1", "R2", "R3"]},
    "case:age": {"bounds": [10, 90], "n_bins": 4, "whole": True},
    "amount": {"bounds": [0.5, 2.5]},
}


@settings(max_examples=40)
@given(event_logs(max_events=40, activities="ABCD", minutes=9))
def test_every_log_is_released_in_order_and_within_its_domains(
    log: list[tuple[str, str, int]],
) -> None:
    if not log:
        return
    [raw] = traces_of(log, 1)
    for bounds in ("pair", "log"):
        made = release(
            [raw], epsilon="0.5", p_harmful=1, max_prefix_length=3, duration_bounds=bounds,
            attributes=ATTRIBUTES,
        )  # fmt: skip
        made.to_rows().validate(full=True)
        assert (made.durations >= 0).all()
        assert (made.lengths <= 3).all()
        longest = raw.durations.max()
        assert (made.durations <= longest).all()
        assert (made.starts >= raw.starts.min()).all() and (made.starts <= raw.starts.max()).all()
        assert set(made.vocabulary.names.to_pylist()) <= set("ABCD")
        assert list(made.attribute_types.items()) == [
            ("org:resource", pa.string()), ("case:age", pa.int64()), ("amount", pa.float64())
        ]  # fmt: skip
        # The log has none of them, so there is no value to fill in.
        assert all(values.null_count == made.n_events for values in made.attributes.values())


def test_the_sacofa_query_releases_no_behaviour_that_breaks_the_rules_of_the_log() -> None:
    """At epsilon 20 about 5e-5 harmful prefixes a level are let in."""
    raw = hospital(90)
    made = release([raw], epsilon="20", query="sacofa", p_harmful=3, p_harmless=1)
    assert made.n_cases > 60
    raw_pairs, pairs = (
        {(a, b) for _, events in rows_of([traces]) for (a, _), (b, _) in itertools.pairwise(events)}
        for traces in (raw, made)
    )
    assert pairs <= raw_pairs


def test_a_query_that_asks_for_too_many_cases_is_refused() -> None:
    with pytest.raises(UsageError, match=r"more than 10,000,000 cases: raise"):
        release([hospital(6)], epsilon="1e-7", p_harmful=1, max_prefix_length=1)
