"""The private directly-follows graph: sensitivity by enumeration, its noise, what is published."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE, Event, Log, event_batch, naive_pairs, trace_batch
from tests.support.rounds import Recording, run_rounds
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract.in_memory import anonymise, bound, group_into_traces
from tracecloak.anonymizers.graphs.private_dfg import (
    UNITS,
    PrivateDfg,
    PrivateDfgParams,
    clip_of,
)
from tracecloak.anonymizers.noise import drawing
from tracecloak.anonymizers.noise.drawing import Noise
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.rigorous.bought import ClipDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.cells import excess_of_pairs, possible_pairs
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.activity_counts import ActivityCounts

METHOD = PrivateDfg()


def params_of(epsilon: str = "1", **given_: Any) -> PrivateDfgParams:
    """Parameters by which the vocabulary is bought, unless one is given."""
    buys = given_.get("vocabulary") is None
    return PrivateDfgParams(epsilon=epsilon, buy_vocabulary=buys, **given_)


def released(log: Log, params: PrivateDfgParams, number: int = 0) -> dict[str, Any]:
    made = anonymise([trace_batch(log)], METHOD, params, release_key(number), "release", "config")
    assert not made.traces
    return made.products.by_name


def edges_of(graph: Any) -> dict[tuple[str, str], int]:
    rows = graph.to_table().to_pylist()
    found = {(row["source"], row["target"]): row["count"] for row in rows}
    assert len(found) == len(rows) == graph.weight
    return found


class Noting(Silence):
    """Keeps the sums that it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[np.ndarray] = []

    def made(self, purpose: str, domain: np.ndarray, noisy: np.ndarray, *_: Any) -> None:
        self.sums.append(noisy)


class Telling(Noise):
    """Draws as ever, and keeps the sums that it is told of."""

    def __init__(self) -> None:
        self.sums: list[np.ndarray] = []

    made = Noting.made


class Silent(PrivateDfg):
    """Draws zeros, and notes the sums and the scales: what noise would be added to."""

    def __init__(self) -> None:
        self.noise = Noting()

    @property
    def scales(self) -> list[tuple[int, int]]:
        """Of every draw."""
        return [scale.as_integer_ratio() for _, _, scale in self.noise.draws]

    def sums(
        self, traces: TraceBatch, params: PrivateDfgParams, decisions: Mapping[str, Any]
    ) -> np.ndarray:
        """What the edges' round counts and decides, on the bounded traces."""
        [bounded] = bound([traces], self, params, randomness())
        [(name, counter)] = self.requires("edges", params).items()
        statistics = {name: counter.kind.merge([counter.count(bounded, decisions, randomness())])}
        self.decide("edges", statistics, decisions, params, randomness().with_noise(self.noise))
        return self.noise.sums[-1]


# --- sensitivity, by enumeration ------------------------------------------------------------------

# Times apart such that each step falls into a bin of its own of the four: below a second, up to
# about 18 hours, up to ten years, beyond.
GAPS = (0, MINUTE, 400 * 24 * 60 * MINUTE)


def small_cases(max_length: int, with_times: bool) -> Iterator[list[tuple[str, int]]]:
    """All cases over three activities, with all gaps between their events if times matter."""
    for n in range(1, max_length + 1):
        for names in itertools.product("ABX", repeat=n):
            for gaps in itertools.product(GAPS if with_times else (MINUTE,), repeat=n - 1):
                yield list(zip(names, itertools.accumulate((0, *gaps)), strict=True))


def small_log(*cases: list[tuple[str, int]]) -> list[Event]:
    return [(f"c{i}", name, time) for i, case in enumerate(cases) for name, time in case]


LONG = [("A", MINUTE * i) for i in range(40)]  # one pair 39 times: the norm is 39.05
ROUND = [("ABX"[i % 3], MINUTE * i) for i in range(40)]

CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "public": ({"vocabulary": ("A", "B"), "l2_clip": "2.5"}, {}),
    "loose clip": ({"vocabulary": ("A", "B"), "l2_clip": "50"}, {}),
    "odd clip": ({"vocabulary": ("A", "B"), "l2_clip": "1.7320508"}, {}),
    "bins": (
        {"vocabulary": ("A", "B"), "l2_clip": "2", "durations": True, "n_duration_bins": 4},
        {},
    ),
    "bought": (
        {},
        {
            "vocabulary": VocabularyDecision(ActivityVocabulary.public("A")),
            "clip": ClipDecision(1800),
        },
    ),
    "truncated": ({"vocabulary": ("A", "B"), "l2_clip": "4", "max_trace_length": 3}, {}),
    "pure": ({"vocabulary": ("A", "B"), "delta": "0", "max_trace_length": 3}, {}),
    "pure bins": (
        {
            "vocabulary": ("A", "B"),
            "delta": "0",
            "max_trace_length": 3,
            "durations": True,
            "n_duration_bins": 4,
        },
        {},
    ),
}


def units_of(params: PrivateDfgParams) -> list[list[tuple[str, int]]]:
    return [*small_cases(3, params.durations), LONG, ROUND]


def calibrated(params: PrivateDfgParams, norm: int) -> tuple[int, int]:
    """The scale for a norm of one unit."""
    epsilon, delta = params.shares["edges"]
    if params.is_pure:
        return laplace_scale(epsilon, of_count(norm))
    return gaussian_scale(epsilon, delta, of_count(norm))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_one_case_moves_the_sums_by_no_more_than_the_noise_was_made_for(name: str) -> None:
    """Every case of up to 3 events over 3 activities, and two long ones, beside two other cases.

    The difference is measured where noise is added, and compared with the scale that was drawn.
    The bound is nearly attained, so a smaller clip would be found out.
    """
    given_, decisions = CONFIGURATIONS[name]
    params = params_of(**given_)
    method = Silent()
    others = small_log([("A", 0), ("B", 5)], [("B", 0), ("B", 0), ("X", MINUTE)])
    before = method.sums(trace_batch(others, "ABX"), params, decisions)
    [scale] = set(method.scales)
    clip = clip_of(decisions, params)
    assert scale == calibrated(params, clip)
    largest = 0
    for case in units_of(params):
        log = [*others, *(("new", activity, time) for activity, time in case)]
        moved = [int(x) for x in method.sums(trace_batch(log, "ABX"), params, decisions) - before]
        assert min(moved) >= 0
        norm = sum(moved) if params.is_pure else math.isqrt(sum(x * x for x in moved) - 1) + 1
        assert norm <= clip
        largest = max(largest, norm)
    assert set(method.scales) == {scale}
    if params.is_pure:
        assert largest == clip
    elif name in ("public", "odd clip", "bins", "bought"):
        assert largest >= clip - 3  # floored
    if name == "loose clip":
        assert largest < clip * 0.79


@pytest.mark.parametrize("name", ["public", "bins", "bought", "pure"])
def test_one_individual_moves_the_sums_by_no_more_than_the_noise_was_made_for(name: str) -> None:
    """Individuals of 1 to 3 cases, of which 2 count; two equal ones attain twice the clip."""
    given_, decisions = CONFIGURATIONS[name]
    params = params_of(**given_, max_cases_per_individual=2)
    method = Silent()
    clip = clip_of(decisions, params)
    cases = [
        [("A", 0)],
        [("A", 0), ("B", MINUTE)],
        [("B", 0), ("B", 0), ("X", 0)],
        [("A", 0), ("A", MINUTE), ("A", 2 * MINUTE)],
        LONG,
    ]
    others = small_log([("A", 0), ("B", 5)], [("B", 0)], [("X", 0)])
    largest = 0
    whose = {"c0": "i", "c1": "i", "c2": "j"}
    before = method.sums(owned(others, whose), params, decisions)
    [scale] = set(method.scales)
    assert scale == calibrated(params, 2 * clip)
    assert scale != calibrated(params, clip)
    for n in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(cases, n):
            log = [
                *others,
                *((f"new {i}", a, time) for i, case in enumerate(chosen) for a, time in case),
            ]
            owners = whose | {f"new {i}": "k" for i in range(n)}
            moved = [int(x) for x in method.sums(owned(log, owners), params, decisions) - before]
            norm = sum(moved) if params.is_pure else math.isqrt(sum(x * x for x in moved) - 1) + 1
            assert norm <= 2 * clip
            largest = max(largest, norm)
    assert largest >= 2 * clip - (0 if params.is_pure else 6)


def owned(log: list[Event], owners: Mapping[str, str]) -> TraceBatch:
    batch = event_batch(log, individuals=[owners[case] for case, _, _ in log])
    [traces] = group_into_traces([batch], 1, by_individual=True)
    names = ActivityVocabulary.of("ABX")
    return traces.recode(names)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("ABCX"), st.integers(0, 9)), min_size=1, max_size=60),
    st.sampled_from(["1", "1.001", "3", "7.77", "100000"]),
    st.booleans(),
)
def test_a_random_case_moves_the_sums_by_no_more_than_the_clip(
    steps: list[tuple[str, int]], clip: str, durations: bool
) -> None:
    params = params_of(vocabulary=("A", "B", "C"), l2_clip=clip, durations=durations)
    log = [("c", activity, time * MINUTE) for activity, time in steps]
    moved = Silent().sums(trace_batch(log, "ABCX"), params, {})
    limit = int(Fraction(clip) * UNITS)
    assert sum(int(x) ** 2 for x in moved) <= limit**2
    assert moved.any() or clip in ("1", "1.001")


# --- the noise ------------------------------------------------------------------------------------

LOG = {f"c{i}": text for i, text in enumerate(["A B C", "A C", "A B B C", "B"] * 150)}

NOISY: dict[str, dict[str, Any]] = {
    "public": {"vocabulary": ("A", "B", "C", "D"), "l2_clip": "3"},
    "bins": {"vocabulary": ("A", "B"), "l2_clip": "3", "durations": True, "n_duration_bins": 5},
    "pure": {"vocabulary": ("A", "B", "C"), "delta": "0", "max_trace_length": 4},
    "individuals": {"vocabulary": ("A", "B", "C"), "max_cases_per_individual": 2},
    "bought": {},
    "bought with bins": {"durations": True, "n_duration_bins": 4},
    "bought vocabulary": {"l2_clip": "3"},
}


@pytest.mark.parametrize("name", NOISY)
def test_every_possible_cell_gets_noise_seen_or_not(name: str) -> None:
    """The words that the keyed stream is asked for are those of all cells, from the first on."""
    params = params_of("8", **NOISY[name])
    rounds = run_rounds([trace_batch(LOG)], METHOD, params, release_key(), kind=Recording)
    graph = rounds.decisions["edges"].graph
    domain = possible_pairs(
        ActivityVocabulary(graph.names), params.n_duration_bins if params.durations else 1
    )
    asked = {(a, b) for a, b, counter in rounds.randomness.asked["edge sum"] if counter == 0}
    assert asked == {(a, b) for a, b in cell_numbers(domain).tolist()}
    assert len(rounds.statistics["edges"]["flows"].keys) < len(domain)  # some were never seen


@pytest.mark.parametrize("name", NOISY)
def test_the_noise_drawn_has_the_scale_of_the_edges_share(name: str) -> None:
    params = params_of("8", **NOISY[name])
    recording = drawing.Recording()
    rounds = run_rounds([trace_batch(LOG)], METHOD, params, release_key(), noise=recording)
    drawn = [one for one in recording.drawn if one.law != "selection"]
    n_cells, scale = drawn[-1].n, drawn[-1].scale.as_integer_ratio()
    clip = clip_of(rounds.decisions, params)
    epsilon, delta = params.shares["edges"]
    if params.is_pure:
        assert scale == laplace_scale(epsilon, of_count(params.max_trace_length + 1))
    else:
        assert scale == gaussian_scale(epsilon, delta, of_count(clip * params.max_units))
    graph = rounds.decisions["edges"].graph
    n_bins = params.n_duration_bins if params.durations else 1
    n = len(graph.names)
    assert n_cells == n * n * n_bins + 2 * n  # inner pairs in bins, START and END once each
    assert len(drawn) == 1 + ("vocabulary" in params.shares)


def test_different_cells_and_keys_draw_different_noise() -> None:
    noises = []
    for number in (0, 1):
        params, noise = params_of(vocabulary=("A", "B", "C"), l2_clip="3"), Telling()
        run_rounds([], METHOD, params, release_key(number), noise=noise)
        noises += noise.sums
    assert len(set(noises[0].tolist())) == len(noises[0])  # sigma is 13,000
    assert not set(noises[0].tolist()) & set(noises[1].tolist())


# --- what is published ----------------------------------------------------------------------------


def imbalance(graph: Any) -> dict[int, int]:
    """Inflow less outflow of each activity, and what leaves START less what enters END."""
    found = dict.fromkeys(range(graph.start), 0)
    ends = 0
    for source, target, count in zip(
        graph.sources.tolist(), graph.targets.tolist(), graph.counts.tolist(), strict=True
    ):
        for node, sign in ((target, 1), (source, -1)):
            if node < graph.start:
                found[node] += sign * count
            else:
                ends += count if node == graph.start else -count
    return {**found, -1: ends}


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(NOISY)),
    st.sampled_from(["0.3", "2", "20"]),
    st.integers(0, 1000),
)
def test_a_released_graph_conserves_flow_and_durations_sum_to_it(
    name: str, epsilon: str, number: int
) -> None:
    given_ = {"vocabulary": ("A", "B", "C"), "l2_clip": "3"} | NOISY[name]
    if "max_trace_length" in given_ and given_.get("delta") == "0":
        given_.pop("l2_clip")
    params = params_of(epsilon, **given_)
    traces = trace_batch(LOG)
    rounds = run_rounds([traces], METHOD, params, release_key(number))
    products = METHOD.products(rounds.decisions, params).by_name
    graph = products["dfg"]
    assert not any(imbalance(graph).values())
    assert (graph.counts > 0).all()
    assert (graph.lows >= 0).all()
    assert (graph.lows <= graph.counts).all()
    assert (graph.counts < graph.highs).all()
    assert OTHER in graph.names.to_pylist()
    json.dumps(graph.to_json(), allow_nan=False)
    assert ("durations" in products) == params.durations
    if not params.durations:
        return
    durations = products["durations"]
    assert (durations.counts > 0).all()
    summed: dict[tuple[int, int], int] = {}
    for s, t, c in zip(durations.sources, durations.targets, durations.counts, strict=True):
        summed[int(s), int(t)] = summed.get((int(s), int(t)), 0) + int(c)
    inner = {
        (int(s), int(t)): int(c)
        for s, t, c in zip(graph.sources, graph.targets, graph.counts, strict=True)
        if s < graph.start and t < graph.start
    }
    assert summed == inner
    json.dumps(durations.to_json(), allow_nan=False)


def test_with_little_noise_the_graph_is_the_logs() -> None:
    """Epsilon 1000 and no case beyond the clip: every count within its interval, no edge more."""
    params = params_of("1000", vocabulary=("A", "B", "C"), l2_clip="4")
    graph = released(LOG, params)["dfg"]
    true = naive_pairs(LOG)
    found = edges_of(graph)
    assert set(found) == set(true)
    for pair, count in found.items():
        assert abs(count - true[pair]) <= 1
    for row in graph.to_table().to_pylist():
        assert row["low"] <= true[row["source"], row["target"]] <= row["high"]


def test_an_unknown_activity_counts_as_other() -> None:
    log = {f"c{i}": "A Q" for i in range(500)}
    found = edges_of(released(log, params_of("1", vocabulary=("A",), l2_clip="2"))["dfg"])
    assert found.keys() >= {("▶", "A"), ("A", OTHER), (OTHER, "■")}
    assert not [pair for pair in found if "Q" in pair]


def test_names_that_were_not_bought_are_in_no_byte() -> None:
    canary = "canary-activity-7f3a"
    log = {f"c{i}": "A B" for i in range(800)} | {"x": f"A {canary} B"}
    params = params_of("8")
    rounds = run_rounds([trace_batch(log)], METHOD, params, release_key())
    assert canary.encode() in encode(rounds.statistics["vocabulary"]["activities"])
    products = METHOD.products(rounds.decisions, params)
    published = [*rounds.decisions.values(), products]
    assert not [part for part in published if canary.encode() in encode(part)]
    assert rounds.decisions["vocabulary"].vocabulary.names.to_pylist() == ["A", "B", OTHER]
    assert canary not in json.dumps(products.by_name["dfg"].to_json())


@pytest.mark.parametrize("name", NOISY)
def test_any_number_of_shards_gives_the_same_bytes(name: str) -> None:
    params = params_of("2", **NOISY[name])
    events = [
        (case, activity, MINUTE * (100 * i + place))
        for i, (case, text) in enumerate(LOG.items())
        for place, activity in enumerate(text.split())
    ]
    individuals = [f"i{int(case[1:]) // 3}" for case, _, _ in events]
    by_individual = params.max_cases_per_individual is not None
    batch = event_batch(events, individuals=individuals if by_individual else None)
    made = [
        anonymise(
            group_into_traces([batch], n_shards, by_individual),
            METHOD,
            params,
            release_key(5),
            "release",
            "config",
        )
        for n_shards in (1, 2, 7)
    ]
    assert len({encode(run.products) for run in made}) == 1
    other = anonymise(
        group_into_traces([batch], 2, by_individual),
        METHOD,
        params,
        release_key(6),
        "release",
        "config",
    )
    assert encode(other.products) != encode(made[0].products)


@pytest.mark.parametrize("name", NOISY)
def test_a_log_without_cases_is_released(name: str) -> None:
    for traces in ([], [trace_batch({}, individuals={})]):
        for number in range(3):
            products = anonymise(
                traces, METHOD, params_of(**NOISY[name]), release_key(number), "release", "config"
            ).products.by_name
            graph = products["dfg"]
            assert not any(imbalance(graph).values())
            assert OTHER in graph.names.to_pylist()
            assert "▶" in json.dumps(graph.to_json(), ensure_ascii=False)
            if "durations" in products:
                assert products["durations"].to_table().num_rows >= 0


# --- parameters and shares ------------------------------------------------------------------------


@given(
    st.decimals("0.001", "900", places=3),
    st.integers(1, 10**6),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_shares_sum_to_the_budget_whatever_is_bought(
    epsilon: Any, millionths: int, buys_vocabulary: bool, buys_clip: bool, durations: bool
) -> None:
    delta = Fraction(millionths, 10**12)
    params = params_of(
        str(epsilon),
        delta=f"{millionths}e-12",
        vocabulary=None if buys_vocabulary else ("A",),
        l2_clip=None if buys_clip else "3",
        durations=durations,
    )
    shares = params.shares
    bought = [name for name, buys in (("vocabulary", buys_vocabulary), ("clip", buys_clip)) if buys]
    assert list(shares) == [*bought, "edges"] == list(METHOD.rounds(params))
    assert sum(e for e, _ in shares.values()) == Fraction(epsilon)
    assert sum(d for _, d in shares.values()) == delta
    for name in bought:
        assert shares[name][0] == Fraction(epsilon) / 20
    if buys_clip:
        assert shares["clip"][1] == 0
    if buys_vocabulary:
        assert shares["vocabulary"][1] == delta / 20


def test_without_delta_the_edges_are_all_and_pure() -> None:
    params = params_of("2", delta="0", vocabulary=("A",), max_trace_length=9)
    assert params.shares == {"edges": (2, 0)}
    [part] = METHOD.spends(params)
    assert part.mechanism == "discrete_laplace"
    assert part.sensitivity == 10
    assert Fraction(*part.scale) == 5
    assert total([part]) == (2, 0)
    assert METHOD.guarantee(params).delta == 0


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"delta": "0"}, "needs a public vocabulary"),
        ({"delta": "0", "vocabulary": ("A",)}, "needs a public max_trace_length"),
        (
            {"delta": "0", "vocabulary": ("A",), "max_trace_length": 3, "l2_clip": 2},
            "max_trace_length bounds",
        ),
        ({"l2_clip": "0.9"}, "greater than or equal to 1"),
        ({"l2_clip": "100001"}, "less than or equal to 100000"),
        ({"clip_quantile": "0"}, "greater than 0"),
        ({"clip_quantile": "1"}, "less than 1"),
        # Scores are whole numbers: cases times the quantile's denominator must fit int64.
        ({"clip_quantile": "0.1234"}, "3 decimal places"),
        ({"max_activities": 0}, "greater than or equal to 1"),
        ({"n_duration_bins": 2}, "greater than or equal to 3"),
        ({"vocabulary": tuple(map(str, range(5000)))}, "4,470 .* give a smaller vocabulary"),
        (
            {"vocabulary": tuple(map(str, range(400))), "durations": True, "n_duration_bins": 200},
            "314 activities at most with 200 duration bins.* or fewer bins",
        ),
    ],
)
def test_parameters_that_cannot_work_are_refused_with_the_mend(
    given_: dict[str, Any], said: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        params_of(**given_)


@pytest.mark.parametrize(("bins", "most"), [({}, 4470), ({"n_duration_bins": 200}, 314)])
def test_of_a_bought_vocabulary_so_many_names_are_kept_as_noise_can_be_drawn_for(
    bins: dict[str, int], most: int
) -> None:
    """Refusing them after they were bought would tell how many there are."""
    names = [f"a{i:04}" for i in range(most + 30)]
    counts = np.full(len(names), 10**6)
    counts[-20:] += 10**5
    params = params_of(durations=bool(bins), **bins)
    counted = {"activities": ActivityCounts(pa.array(names), counts)}
    decided = METHOD.decide("vocabulary", counted, {}, params, randomness())
    assert isinstance(decided, VocabularyDecision)
    kept = decided.vocabulary.names.to_pylist()
    assert len(kept) == most and OTHER in kept
    assert set(names[-20:]) < set(kept)  # the most frequent, whatever their names
    assert excess_of_pairs(len(kept), params.n_bins) == ""
    assert f"the {most - 1:,} most frequent at most" in METHOD.explain(params)[0]


def test_sentences_say_what_is_bought_and_spent() -> None:
    sentences = METHOD.explain(params_of("2", delta="1e-6"))
    assert [sentence.split(":")[0] for sentence in sentences] == ["vocabulary", "clip", "edges"]
    assert "spends epsilon 0.1, delta 0.00000005" in sentences[0]
    assert "spends epsilon 0.1, delta 0" in sentences[1]
    assert "spends epsilon 1.8, delta 0.00000095" in sentences[2]
    assert "vocabulary and clip" in METHOD.guarantee(params_of("2")).reality
