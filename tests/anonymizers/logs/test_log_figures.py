"""Figures of a released log, its groups and waits: what they say, how often they are right."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators import answer_of
from tests.support.keys import randomness
from tests.support.logs import MINUTE, Variant, histogram, trace_batch
from tracecloak.anonymizers.logs.log_figures import (
    OF_CORRECTION,
    Estimate,
    clipped_estimate,
    figure_within,
    flow_figures,
    groups_of_log,
    time_figures,
    wait_figures,
)
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.rigorous.clips import least_events
from tracecloak.anonymizers.rigorous.names import Grouping
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.grouped_variants import GroupedVariants
from tracecloak.anonymizers.variants.joint_variants import JointVariants
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures as sums
from tracecloak.schemas.published.figures import Figure, Measure, ReleasedMeasures
from tracecloak.schemas.published.graph import ReleasedGroups
from tracecloak.schemas.statistics.log_times import BIN_EDGES_US, LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A", "B", "C", "D", "E")
VOCABULARY = ActivityVocabulary.public(NAMES)
SECOND, HOUR = 1_000_000, 3_600_000_000
ZEROS = np.zeros(0, np.int64)


def variants(log: dict[Variant, int]) -> VariantHistogram:
    return histogram(log, VOCABULARY.names.to_pylist())


def figures(
    rows: list[Measure], log: dict[Variant, int]
) -> dict[tuple[str, tuple[str, ...]], Figure]:
    made = flow_figures(ReleasedMeasures.of(rows), variants(log), VOCABULARY)
    return {(figure.name, figure.of): figure for figure in made}


def test_the_interval_is_that_of_the_estimate_and_reaches_to_the_released_number() -> None:
    near = Estimate(100.0, 25.0).figure("cases", (), 104, "measured")
    assert (near.low, near.value, near.high) == (90, 104, 110)
    far = Estimate(100.0, 25.0).figure("cases", (), 150, "measured")
    assert (far.low, far.value, far.high) == (90, 150, 150)
    assert figure_within("cases", (), 0, (-8.0, 3.2), "measured").low == 0


def test_of_cases_that_nothing_is_left_of_the_sum_says_what_it_says() -> None:
    """Catches a division by what is left: nothing is if the clip is below every case."""
    row = Measure(sums.EVENTS, (), 50.0, 6.0)
    assert (
        clipped_estimate(row, 8.0, 0.0).value == 50 and clipped_estimate(row, 8.0, 4.0).value == 100
    )
    assert clipped_estimate(row, 8.0, 0.0).variance == 6**2 + (OF_CORRECTION * 8) ** 2


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(0, 10**6))
def test_every_interval_holds_its_number(value: float, deviation: float, released: int) -> None:
    figure = Estimate(value, deviation**2).figure("cases", (), released, "measured")
    assert 0 <= figure.low <= figure.value <= figure.high


CASES = Measure(sums.CASES, ("sizes",), 100.0, 5.0)
UNCLIPPED = [
    CASES,
    Measure(sums.CLIP, (), 1000.0, 0.0),
    Measure(sums.POSITION, (), 1.0, 0.0),
    Measure(sums.ARC, ("▶", "A"), 101.0, 2.0),
    Measure(sums.ARC, ("A", "B"), 90.0, 2.0),
    Measure(sums.ARC_NOT_SHOWN, (), 3.0, 2.0),
    Measure(sums.ACTIVITY, ("A",), 98.0, 4.0),
    Measure(sums.EVENTS, (), 190.0, 6.0),
]

# Half of the norm of a case of one event: of START's arc, END's, and that of END's bin.
_HALF_CLIP = math.sqrt(3) / 2
_CLIPPED = {sums.CLIP: _HALF_CLIP, sums.ARC: 52.0, sums.EVENTS: 50.0}
HALVED = [replace(row, value=_CLIPPED.get(row.what, row.value)) for row in UNCLIPPED]
# By how much more the sums may be raised than twice, in deviations of the noise of all events.
_MOST = 50 + 1.959963984540054 * 6
MORE = (least_events(_MOST / 100, _HALF_CLIP, 2) * 100 / _MOST - 2) / 1.959963984540054


def test_a_sum_that_nothing_was_cut_of_has_the_interval_of_its_noise() -> None:
    made = figures(UNCLIPPED, {("A", "B"): 95, ("A",): 5})
    arc = made["path", ("A", "B")]
    assert (arc.kind, arc.value) == ("measured", 95)
    assert (arc.low, arc.high) == (math.floor(90 - 1.96 * 2), 95)
    activity = made["activity", ("A",)]
    assert (activity.kind, activity.value) == ("derived", 100)
    assert (activity.low, activity.high) == (90, 106)
    events = made["events", ()]
    assert (events.value, events.low, events.high) == (195, 178, 202)
    hidden = made["path_not_shown", ()]
    assert (hidden.value, hidden.low, hidden.high) == (0, 0, math.ceil(3 + 1.96 * 2))
    assert made["cases", ()].high == 110


def test_what_was_clipped_of_the_released_cases_raises_the_sum_and_widens_it() -> None:
    """A case `A` has two arcs in two counts each: norm 2 of START, END, and END's position."""
    log = {("A",): 100}
    plain = figures(UNCLIPPED, log)["path", ("▶", "A")]
    raised = figures(HALVED, log)["path", ("▶", "A")]
    assert plain.high == math.ceil(101 + 1.96 * 2)
    half = 1.96 * math.hypot(2 * 2.0, 0.5 * 52, 52 * MORE)
    assert raised.high == math.ceil(2 * 52 + half)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.floats(1, 20), st.integers(1, 2))
def test_clipped_cases_of_any_lengths_have_no_fewer_events(
    lengths: list[int], clip: float, times: int
) -> None:
    """Catches a bound that holds for cases of one length alone."""
    events = np.array(lengths)
    left = events * np.minimum(1, clip / np.sqrt(1 + times * events))
    assert least_events(float(left.mean()), clip, times) <= events.mean() * (1 + 1e-9)
    if len(set(lengths)) == 1:
        assert least_events(float(left.mean()), clip, times) == pytest.approx(events.mean())


def test_without_noise_a_quantile_lies_in_its_bin() -> None:
    bins = ((0, 0, 5), (HOUR, 2 * HOUR, 80), (3 * HOUR, 9 * HOUR, 15))
    rows = [
        Measure(sums.CASES, (), 100.0, 1e-9),
        *(Measure(sums.DURATION, (str(low), str(high)), n, 1e-9) for low, high, n in bins),
    ]
    spans = np.searchsorted(BIN_EDGES_US, [0, 1.5 * HOUR, 5 * HOUR], side="right")
    times = LogTimes(ZEROS, ZEROS, spans, np.array([5, 80, 15]), *(ZEROS,) * 4)
    made = {(f.name, f.of): f for f in time_figures(ReleasedMeasures.of(rows), times)}
    median = made["median_duration_us", ()]
    assert (median.low, median.high) == (HOUR, 2 * HOUR)
    late = made["quantile_duration_us", ("0.9",)]
    assert (late.low, late.high) == (3 * HOUR, 9 * HOUR)
    mean = made["mean_duration_us", ()]
    assert mean.low < 0.8 * 1.45 * HOUR + 0.15 * 5.5 * HOUR < mean.high


@pytest.mark.parametrize("n_cases", [40.0, 60.0])
def test_durations_that_noise_hides_are_noise_and_never_surely_none(n_cases: float) -> None:
    """Catches "0 (0-0)" where no bin stands out: with 95 % they end where noise might begin."""
    rows = [
        Measure(sums.CASES, (), n_cases, 20.0),
        *(Measure(sums.DURATION, (str(b), str(2 * b)), 9.0, 12.0) for b in (1, 2, 4, 8, 16)),
    ]
    times = LogTimes(ZEROS, ZEROS, np.array([0]), np.array([40]), *(ZEROS,) * 4)
    for figure in time_figures(ReleasedMeasures.of(rows), times):
        assert figure.low == 0 and figure.high > 8 and figure.grade == "noise"


@dataclass(frozen=True)
class _Made:
    figures: list[Figure]
    truths: dict[tuple[str, tuple[str, ...]], int]


@cache
def made_up_log() -> dict[Variant, int]:
    """2,500 cases of a process with a choice, a loop and a rare way out."""
    generator = np.random.default_rng(7)
    log: Counter[Variant] = Counter()
    for _ in range(2500):
        case = ["A"]
        while generator.random() < 0.4 and len(case) < 9:
            case += ["B", "C"] if generator.random() < 0.7 else ["C"]
        if generator.random() < 0.9:
            case.append("D")
        log[(*case, "E")] += 1
    return dict(log)


@cache
def released(key: int, epsilon: int) -> _Made:
    log, noting = made_up_log(), MeasureRecorder()
    listened = randomness(key).with_noise(noting)
    where = Domain(VOCABULARY, 12, 1)
    budget = Fraction(epsilon), Fraction(1, 10**6)
    drawn = answer_of(JointVariants(), variants(log), where, *budget, listened)
    rows = {tuple(row["variant"]): row["count"] for row in drawn.to_table().to_pylist()}
    made = list(flow_figures(noting.measures, variants(rows), VOCABULARY))
    truths: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for variant, n in log.items():
        truths["cases", ()] += n
        truths["events", ()] += n * len(variant)
        truths["variant", (" → ".join(variant),)] += n
        for name in variant:
            truths["activity", (name,)] += n
        for ends in zip(("▶", *variant), (*variant, "■"), strict=True):
            truths["path", ends] += n
    shown = {figure.of for figure in made if figure.name == "path"}
    hidden = [n for (name, of), n in truths.items() if name == "path" and of not in shown]
    truths["path_not_shown", ()] = max(hidden, default=0)
    return _Made(made, dict(truths))


@pytest.mark.parametrize("epsilon", [1, 4])
def test_what_the_original_has_lies_within(epsilon: int) -> None:
    """All figures of 6 releases; a fourth of the width, the control, is too little."""
    within, narrow = [], []
    for key in range(6):
        made = released(key, epsilon)
        for figure in made.figures:
            truth = made.truths.get((figure.name, figure.of), 0)
            middle, half = (figure.low + figure.high) / 2, (figure.high - figure.low) / 2
            within.append(abs(truth - middle) <= half)
            narrow.append(abs(truth - middle) <= half / 4)
    assert len(within) > 6 * 20
    assert np.mean(within) >= 0.93 > np.mean(narrow) + 0.1


GROUP_VOCABULARY = ActivityVocabulary.of(["A1", "A2", "B1"])
MEMBERS = {"A1": "A", "A2": "A", "B1": "B"}
ROWS = [
    *(Measure(sums.GROUP, pair, 0.0, 0.0) for pair in MEMBERS.items()),
    Measure(sums.STEP, ("A", "B"), 98.0, 5.0),
    Measure(sums.STEP, ("▶", "A"), 104.0, 5.0),
    Measure(sums.STEP, ("B", "■"), 90.0, 5.0),
    Measure(sums.STEP, ("A", "A"), 8.0, 20.0),
    Measure(sums.STEP_NOT_SHOWN, (), 7.0, 5.0),
    *(Measure(sums.GROUP_POSITION, (), float(begin), 0.0) for begin in range(4)),
]
LOG: dict[Variant, int] = {("A1", "B1"): 80, ("A1", "A2", "B1"): 20}


def groups_of(clip: float, log: dict[Variant, int] | None = None) -> ReleasedGroups:
    rows = [*ROWS, Measure(sums.GROUP_CLIP, (), clip, 0.0)]
    variants = histogram(LOG if log is None else log, GROUP_VOCABULARY.names.to_pylist())
    return groups_of_log(ReleasedMeasures.of(rows), variants, GROUP_VOCABULARY)


def edges_of(groups: ReleasedGroups) -> dict[tuple[str, str], tuple[int, int, int]]:
    rows = groups.to_table().to_pylist()
    return {(r["source"], r["target"]): (r["count"], r["low"], r["high"]) for r in rows}


def test_counts_are_those_of_the_released_log_and_intervals_are_of_the_sums() -> None:
    """Nobody is clipped: 98 with a deviation of 5 is 88 to 108."""
    edges = edges_of(groups_of(100.0))
    assert {ends: count for ends, (count, _, _) in edges.items()} == {
        ("▶", "A"): 100, ("A", "A"): 20, ("A", "B"): 100, ("B", "■"): 100,
    }  # fmt: skip
    assert edges["A", "B"] == (100, 88, 108)
    assert edges["B", "■"] == (100, 80, 100)  # the count is above the interval of 80 to 99.8
    count, low, high = edges["A", "A"]
    assert low == 0 and high == pytest.approx(8 + 1.96 * 20, abs=1) and count == 20


def test_a_step_without_a_sum_has_the_limit_of_those_that_are_not_shown() -> None:
    """Nobody counted how often B leads to A: at most 7 and twice a deviation of 5."""
    edges = edges_of(groups_of(100.0, {**LOG, ("B1", "A1"): 3}))
    assert edges["B", "A"] == (3, 0, 17)


def test_intervals_hold_what_the_original_has() -> None:
    """95 % are meant; of some 60 steps of 8 releases, 53 do with a probability of about .99."""
    names = [f"{group}{i}" for group in "PQR" for i in range(4)]
    vocabulary = ActivityVocabulary.public(names)
    generator = np.random.default_rng(3)
    log: dict[Variant, int] = {}
    for _ in range(400):
        walk = tuple(f"{g}{generator.integers(4)}" for g in ("P", "Q", "QR"[_ % 2], "R"))
        log[walk] = log.get(walk, 0) + 1
    exact = histogram(log, vocabulary.names.to_pylist())
    truth: Counter[tuple[str, str]] = Counter()
    for walk, n_cases in log.items():
        of = [name[0] for name in walk]
        for pair in zip(["▶", *of], [*of, "■"], strict=True):
            truth[pair] += n_cases
    generator_of = GroupedVariants(Grouping({name: name[0] for name in names}))
    n_right = n = 0
    for number in range(8):
        noting = MeasureRecorder()
        where = Domain(vocabulary, 6, 1)
        made = answer_of(
            generator_of, exact, where, Fraction(2), Fraction(1, 10**6),
            randomness(number).with_noise(noting),
        )  # fmt: skip
        codes = vocabulary.codes(made.names)[made.codes]
        released = VariantHistogram(encode_sequences(made.offsets, codes), made.counts)
        for ends, (_, low, high) in edges_of(
            groups_of_log(noting.measures, released, vocabulary)
        ).items():
            n += 1
            n_right += low <= truth[ends] <= high
    assert n > 40 and n_right / n > 0.88


WAIT_HOUR = 60 * MINUTE
WAIT_NAMES = ActivityVocabulary.public("ABC")
PAIR = ("A", "B")


def times(n_cases: int, wait_us: int) -> LogTimes:
    steps = [
        (str(case), name, 0 if name == "A" else wait_us) for case in range(n_cases) for name in "AB"
    ]
    return LogTimes.from_traces(trace_batch(steps).recode_public(WAIT_NAMES))


def waits(
    value: float, deviation: float, path: Figure, kept: dict[tuple[str, ...], float] | None = None
) -> list[Figure]:
    """Of one pair; nothing was cut of it, nor of others, unless it is said."""
    shares = {PAIR: 1.0, (): 1.0} if kept is None else kept
    rows = [Measure(sums.TIME_KEPT, of, share, 0.0) for of, share in shares.items()]
    rows.append(Measure(sums.TIME_OF_PAIR, PAIR, value, deviation))
    return list(wait_figures(ReleasedMeasures.of(rows), [path], times(200, WAIT_HOUR), WAIT_NAMES))


def taken(n: int, within: int = 0) -> Figure:
    return Figure("path", PAIR, n, n - within, n + within, "measured")


def test_what_a_clip_may_have_taken_raises_the_upper_end() -> None:
    """150 hours of 200 steps: .75 each, or 1.25 if the clip kept .8 of the pair, and .8 of all."""
    [wait] = waits(150 * WAIT_HOUR, 0.0, taken(200), {PAIR: 0.8, (): 0.8})
    assert (wait.name, wait.of, wait.kind) == ("mean_wait_us", PAIR, "derived")
    assert wait.value == pytest.approx(WAIT_HOUR, rel=0.05)
    assert (wait.low / WAIT_HOUR, wait.high / WAIT_HOUR) == pytest.approx((0.75, 1.25))


def test_noise_of_the_time_and_of_the_count_add_up() -> None:
    """10 hours of 200, and 5 of 200 times: half the width is 1.96 sqrt(.05^2 + .025^2) hours."""
    [wait] = waits(200 * WAIT_HOUR, 10 * WAIT_HOUR, taken(200, round(1.96 * 5)))
    half = 1.96 * math.hypot(0.05, 0.025) * WAIT_HOUR
    assert (wait.high - wait.low) / 2 == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("kept", [{}, {PAIR: 0.3, (): 0.3}])
def test_of_a_pair_of_which_nearly_all_may_be_lost_only_that_is_known(kept: dict) -> None:
    [wait] = waits(100 * WAIT_HOUR, 0.0, taken(200), kept)
    assert (wait.low / WAIT_HOUR, wait.high / WAIT_HOUR) == pytest.approx((0.5, 5))
    assert wait.grade == "noise"
