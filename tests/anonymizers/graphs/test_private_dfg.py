"""The private directly-follows graph: sensitivity by enumeration, its noise, what is published."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.coupled_noise import dearest
from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE, Event, Log, event_batch, naive_pairs, trace_batch
from tests.support.recording import Recording
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.joint import Unseen, block_scale, joint_deviation
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract.in_memory import anonymise, group_into_traces
from tracecloak.anonymizers.graphs import graph_kinds
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg, PrivateDfgParams, clip_of
from tracecloak.anonymizers.noise.sums import variance_of
from tracecloak.anonymizers.rigorous.bought import VocabularyDecision
from tracecloak.anonymizers.rigorous.names import excess_of_names, most_names_of_pairs
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import ActivityCounts

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
    assert len(found) == len(rows) == len(graph.counts)
    return found


BLOCKS = {
    "edge sum": "edges",
    "edge sum beyond": "edges beyond",
    "duration sum": "durations",
    "duration sum beyond": "durations beyond",
}


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

# Parameters, and whether cases vote for Laplace noise, where they may.
CONFIGURATIONS: dict[str, tuple[dict[str, Any], int]] = {
    "public": ({"l2_clip": "2.5"}, 0),
    "loose clip": ({"l2_clip": "50"}, 0),
    "odd clip": ({"l2_clip": "1.7320508"}, 0),
    "bins": ({"l2_clip": "2", "durations": True, "n_duration_bins": 4}, 0),
    "bought": ({"vocabulary": None}, 0),
    "truncated": ({"l2_clip": "4", "max_trace_length": 3}, 0),
    "whole": ({"max_trace_length": 3}, 0),
    "short": ({"epsilon": "100"}, 1),
    "chosen": ({"vocabulary": ("A", "B", *"MNO")}, -1),
    "pure": ({"delta": "0", "max_trace_length": 3}, 0),
    "pure bins": (
        {"delta": "0", "max_trace_length": 3, "durations": True, "n_duration_bins": 4}, 0,
    ),
}  # fmt: skip


def units_of(params: PrivateDfgParams) -> list[list[tuple[str, int]]]:
    return [*small_cases(3, params.durations), LONG, ROUND]


def shares_of(params: PrivateDfgParams) -> dict[str, Fraction]:
    """What each block of the graph has: 83 to the sums, 10 to their clip, 7 to what it takes."""
    table = {"edges": 83.0, "edges clip": 10.0, "edges beyond": 7.0}
    if params.durations:
        table = {"edges clip": 5.0, "durations clip": 5.0, "edges": 30.0, "durations": 53.0}
        table |= {"edges beyond": 3.5, "durations beyond": 3.5}
    if params.l2_clip is not None:
        table = {name: share for name, share in table.items() if "clip" not in name}
    left = Fraction(85 if params.vocabulary is None else 100, 100)
    total_ = Fraction(sum(table.values()))
    return {name: left * Fraction(share) / total_ for name, share in table.items()}


def is_short(decisions: Mapping[str, Any]) -> bool:
    """Whether pairs are clipped in L1, with Laplace noise."""
    return "clip" in decisions and decisions["clip"].most_lost is not None


def calibrated(
    params: PrivateDfgParams, norm: int, name: str = "edges", *, short: bool = False
) -> tuple[int, int]:
    """The scale for a norm of one unit, by the parts that the release has."""
    epsilon, delta = params.budget
    if params.is_whole or short:
        left = Fraction(37, 40) * Fraction(7, 8) if short else 1
        return laplace_scale(epsilon * left, of_count(norm))
    unseen = ()
    if params.vocabulary is None:
        passing = params.spending.means["vocabulary"].delta
        assert 0 < passing < delta
        unseen = (Unseen(Fraction(15, 100), passing),)
    choices, instead = (), Fraction(0)
    if params.may_choose:
        choices, instead = (epsilon / 20, epsilon / 40), delta / 4
    deviation = joint_deviation(epsilon, delta, choices, unseen, instead)
    return block_scale(deviation, shares_of(params)[name], norm)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_one_case_moves_the_sums_by_no_more_than_the_noise_was_made_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case of up to 3 events over 3 activities, and two long ones, beside two other cases."""
    given_, vote = CONFIGURATIONS[name]
    params = params_of(**{"vocabulary": ("A", "B"), **given_})
    if vote:
        force(monkeypatch, vote * 10**6)
    others = small_log([("A", 0), ("B", 5)], [("B", 0), ("B", 0), ("X", MINUTE)])
    logs = (
        trace_batch([*others, *(("new", *event) for event in case)], "ABX")
        for case in units_of(params)
    )
    most, largest = dearest(METHOD, params, trace_batch(others, "ABX"), logs)
    assert params.is_whole == (name in ("whole", "pure", "pure bins"))
    assert params.may_choose == bool(vote)
    deviation = params.spending.deviation
    covered = params.budget[0] if params.is_whole or vote > 0 else 1 / deviation**2
    least = {"loose clip": 0.5, "truncated": 0.3, "short": 0.9}.get(name, 0.99)
    assert least * covered < most <= covered
    kinds = ("edge sum", "duration sum") if name == "bins" else ("edge sum",)
    if params.is_whole or vote > 0:
        assert largest.keys() - {"votes", "lengths"} == {"edge sum"}
        return
    assert largest.keys() >= {*kinds, *(f"{kind} beyond" for kind in kinds)}
    for kind in kinds:  # a case of more than twice the clip
        assert (largest[f"{kind} beyond"] > 0) == (name not in ("loose clip", "truncated"))


@pytest.mark.parametrize("max_cases", [1, 2])
def test_a_unit_moves_names_and_pairs_together_no_further_than_the_budget_covers(
    max_cases: int,
) -> None:
    """Names, pairs, the clip and what clipping takes; a long case nearly attains the bound."""
    of_unit = {"max_cases_per_individual": max_cases} if max_cases > 1 else {}
    params = params_of(max_activities=2, **of_unit)
    others, whose = small_log([("A", 0), ("B", 5)], [("X", 0)]), {"c0": "i", "c1": "j"}
    logs = []
    for case in [*small_cases(3, False), LONG, ROUND]:
        new = [(f"new {i}", *event) for i in range(max_cases) for event in case]
        owners = whose | {f"new {i}": "k" for i in range(max_cases)}
        logs.append(owned([*others, *new], owners))
    most, largest = dearest(METHOD, params, owned(others, whose), logs)
    assert largest.keys() == {"activity", "edges clip", "edge sum", "edge sum beyond"}
    covered = 1 / params.spending.deviation**2
    assert Fraction(99, 100) * covered < most <= covered


def owned(log: list[Event], owners: Mapping[str, str]) -> TraceBatch:
    batch = event_batch(log, individuals=[owners[case] for case, _, _ in log])
    [traces] = group_into_traces([batch], 1, by_individual=True)
    names = ActivityVocabulary.of("ABX")
    return traces.recode(names)


LOG = {f"c{i}": text for i, text in enumerate(["A B C", "A C", "A B B C", "B"] * 150)}

NOISY: dict[str, dict[str, Any]] = {
    "public": {"vocabulary": ("A", "B", "C", "D"), "l2_clip": "3"},
    "bins": {"vocabulary": ("A", "B"), "l2_clip": "3", "durations": True, "n_duration_bins": 5},
    "whole": {"vocabulary": ("A", "B", "C"), "max_trace_length": 4},
    "pure": {"vocabulary": ("A", "B", "C"), "delta": "0", "max_trace_length": 4},
    "individuals": {"vocabulary": ("A", "B", "C"), "max_cases_per_individual": 2},
    "bought": {},
    "bought with bins": {"durations": True, "n_duration_bins": 4},
    "bought vocabulary": {"l2_clip": "3"},
}


def force(patch: pytest.MonkeyPatch, vote: int) -> None:
    """Makes all cases vote for Laplace noise or against it, and no graph of variants be nearer."""
    patch.setattr(graph_kinds, "_graph_of_variants", lambda *_: None)
    patch.setattr(graph_kinds, "votes", lambda *given_: np.full(given_[-1], vote))


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("vote", [-(10**6), 10**6])
def test_the_noise_drawn_has_the_scale_of_the_edges_share(
    name: str, vote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, vote)
    params = params_of("8", **NOISY[name])
    recording = Recording()
    rounds = run_rounds([trace_batch(LOG)], METHOD, params, release_key(), noise=recording)
    drawn = {one.purpose: one for one in recording.drawn}
    assert len(drawn) == len(recording.drawn)
    short = is_short(rounds.decisions)
    assert short == (params.may_choose and vote > 0)
    is_laplace = params.is_whole or short
    law = "discrete_laplace" if is_laplace else "discrete_gaussian"
    assert {one.law for one in drawn.values() if one.purpose != "votes"} == {law}
    n = len(rounds.decisions["edges"].graph.names)
    kinds = {"edge sum": 1, "duration sum": params.n_duration_bins}
    if not params.durations:
        del kinds["duration sum"]
    expected = set(kinds)
    for purpose, n_bins in kinds.items():
        block = BLOCKS[purpose]
        norm = clip_of(rounds.decisions, params, block) * params.max_units
        # Inner pairs in bins, START and END once each.
        assert drawn[purpose].n == n * n * n_bins + 2 * n
        scale = calibrated(params, norm, block, short=short)
        assert drawn[purpose].scale.as_integer_ratio() == scale
        for choice, share in (("votes", Fraction(1, 40)), ("lengths", Fraction(37, 320))):
            if params.may_choose and (short or choice == "votes"):
                expected.add(choice)
                scale = laplace_scale(8 * share, of_count(params.max_units))
                assert drawn[choice].scale.as_integer_ratio() == scale
        if is_laplace:
            continue
        beyond = drawn[f"{purpose} beyond"]
        scale = calibrated(params, norm, f"{block} beyond")
        assert (beyond.n, beyond.scale.as_integer_ratio()) == (1, scale)
        expected.add(f"{purpose} beyond")
        if params.l2_clip is None:
            expected.add(f"{block} clip")
    assert set(drawn) == expected | ({"activity"} if params.vocabulary is None else set())


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


def test_short_cases_are_counted_whole_where_that_errs_less() -> None:
    for epsilon, longest, is_whole in [
        # Of n events n + 1 pairs: Laplace noise errs by root 2 (n + 1) / epsilon, Gaussian noise by
        # root (n + 1) s, with s about 4.64 at epsilon 1 and a share of .83: as much at 11 pairs.
        ("1", 9, True),
        ("1", 10, False),
        ("0.25", 6, True),
        ("0.25", 8, False),
    ]:
        given_: dict[str, Any] = {"vocabulary": tuple("ABCDEF"), "max_trace_length": longest}
        params = params_of(epsilon, **given_)
        assert params.is_whole == is_whole
        clip = str(round(math.sqrt(longest + 1), 3))
        clipped = params_of(str(Decimal(epsilon) * 98 / 100), l2_clip=clip, **given_)
        whole = params_of(epsilon, delta="0", **given_)
        errors = [
            math.sqrt(variance_of(each.noise(each.public_clip_units))) for each in (whole, clipped)
        ]
        assert (errors[0] < errors[1]) == is_whole
        assert METHOD.rounds(params) == (("edges",) if is_whole else ("clip", "edges"))
        law = "Laplace" if is_whole else "Gaussian"
        assert f"exact discrete {law} noise" in METHOD.guarantee(params).reality
        # A vocabulary that is bought, or a clip that is given, has a Gaussian budget.
        assert not params_of(epsilon, max_trace_length=longest).is_whole
        assert not params_of(epsilon, l2_clip="3", **given_).is_whole


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
    assert not excess_of_names(len(kept), most_names_of_pairs(params.n_bins), params.n_bins)
    assert f"the {most - 1:,} most frequent at most" in METHOD.explain(params)[0]


def test_an_epsilon_too_small_for_gaussian_noise_is_refused_and_not_searched_for() -> None:
    """At 1e-30 the search for a deviation would not end."""
    for delta in ["1e-6", "1e-300"]:
        params = params_of("1e-30", delta=delta, vocabulary=tuple("ABCDEF"), max_trace_length=3)
        assert METHOD.rounds(params) == ("clip", "edges")
        with pytest.raises(UsageError, match="epsilon of Gaussian noise must be at"):
            METHOD.spends(params)
