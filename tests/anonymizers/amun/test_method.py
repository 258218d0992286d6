"""Amun in memory: what holds of every release, which variants move, and what it says of itself."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import rounds
from tests.support.keys import randomness, release_key
from tests.support.logs import histogram
from tests.support.paper_log import DAY_US, MINUTE_US, table_1, traces_of
from tests.support.rounds import rows_of, run_rounds
from tracecloak.anonymizers.amun.case_moves import (
    draw_moves,
    moves_per_transition,
)
from tracecloak.anonymizers.amun.method import Amun, AmunParams, Released, equation_4
from tracecloak.anonymizers.amun.params import laplace_by_inversion
from tracecloak.anonymizers.contract.counters import Batch
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.randomness import (
    below,
    cell_numbers,
    hex_ids,
    uniform,
)
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.variants import Dafsa

MODES = ("sampling", "filtering", "oversampling")
COMPRESSIONS = ("starts", "equation_4", "noise", "shifts", "none")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = tuple[str, str, int]
Cases = list[tuple[str, tuple[tuple[str, int], ...]]]


@st.composite
def logs(
    draw: st.DrawFn, first: int = -(10**9) * DAY_US // 10**5, last: int = 10**4 * DAY_US
) -> list[Row]:
    """Small logs: up to 10 cases over 3 activities, with ties, steps of minutes and of years."""
    step = st.sampled_from([0, 1, MINUTE_US, 7 * MINUTE_US, DAY_US, 400 * DAY_US])
    rows = []
    for case in range(draw(st.integers(1, 10))):
        time = draw(st.integers(first, last) | st.sampled_from([0, DAY_US, -DAY_US]))
        for activity in draw(st.text("ABC", min_size=1, max_size=5)):
            rows.append((f"case {case}", activity, time))
            time = min(time + draw(step), MAX_TIME_US)
    return rows


def release(traces: list[TraceBatch], params: AmunParams, number: int = 0) -> Cases:
    made = anonymise(
        traces, Amun(), params, release_key(number), rounds.RELEASE_ID, rounds.CONFIG_DIGEST
    )
    return rounds.rows_of(made.traces)


def variants(cases: Iterable[tuple[str, tuple[tuple[str, int], ...]]]) -> Counter[str]:
    return Counter("".join(activity for activity, _ in events) for _, events in cases)


def steps_of(cases: Cases) -> dict[str, list[int]]:
    """Start, and then the differences, by released case id."""
    return {
        case: [events[0][1], *(b[1] - a[1] for a, b in itertools.pairwise(events))]
        for case, events in cases
    }


def by_variant(run: rounds.Rounds, counts: np.ndarray) -> Counter[str]:
    """Numbers by variant of the automaton, as numbers by variant in letters."""
    dafsa = run.decisions["dafsa"].dafsa
    bounds = itertools.pairwise(dafsa.variants.offsets.tolist())
    letters = ["".join("ABC"[code] for code in dafsa.variants.codes[a:b]) for a, b in bounds]
    return Counter(dict(zip(letters, counts.tolist(), strict=True)))


def with_all_letters(rows: list[Row]) -> list[TraceBatch]:
    """The log with codes of A, B and C, whether they occur or not."""
    [traces] = traces_of([*rows, *(("none", letter, 0) for letter in "ABC")])
    wanted = [i for i, case in enumerate(traces.case_ids.to_pylist()) if case != "none"]
    return [traces.take(np.array(wanted))]


@given(
    logs(),
    st.sampled_from(MODES),
    st.sampled_from(COMPRESSIONS),
    st.sampled_from(["paper", "reference", "tables"]),
    st.sampled_from([0.05, 0.3, 0.6]),
    st.integers(0, 10**6),
)
def test_a_release_keeps_what_it_promises(
    rows: list[Row], mode: str, compression: str, profile: str, g: float, number: int
) -> None:
    params = AmunParams(guessing_advantage=g, mode=mode, profile=profile, compression=compression)
    traces = with_all_letters(rows)
    try:
        run = rounds.run_rounds(traces, Amun(), params, release_key(number))
    except GuaranteeError:
        assert mode == "filtering"  # nothing was left
        return
    cases = release(traces, params, number)
    before = variants(rounds.rows_of(traces))
    kept = run.statistics["sampling"]["variants"] if mode == "filtering" else None
    if kept is not None:
        before = by_variant(run, run.decisions["dafsa"].dafsa.counts_of(kept))
    after = variants(cases)

    assert set(after) <= set(before)  # R1
    sampling = run.decisions["sampling"]
    gains, losses = by_variant(run, sampling.gains), by_variant(run, sampling.losses)
    for variant, n in before.items():
        assert after[variant] == n + gains[variant] - losses[variant]
        assert mode != "oversampling" or (after[variant] >= n and losses[variant] == 0)

    ids = [case for case, _ in cases]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {row[0] for row in rows}
    assert all(len(case) == 24 and set(case) <= set("0123456789abcdef") for case in ids)
    for _, events in cases:
        times = [time for _, time in events]
        assert times == sorted(times)
        assert MIN_TIME_US <= times[0]
        assert times[-1] <= MAX_TIME_US


def test_a_log_that_the_filter_empties_is_refused() -> None:
    """Two starts a day apart: each is within a day of the other, so P = 1 and P = 1/2."""
    rows = [("1", "A", 0), ("2", "A", DAY_US)]
    params = AmunParams(mode="filtering", guessing_advantage=0.6)
    with pytest.raises(GuaranteeError, match="the filter dropped every case") as raised:
        release(traces_of(rows), params)
    assert raised.value.exit_code == 5
    assert release(traces_of(rows), AmunParams(mode="oversampling", guessing_advantage=0.6))


EDGE_ROWS = [
    ("first", "A", MIN_TIME_US), ("first", "B", MIN_TIME_US), ("whole", "A", MIN_TIME_US),
    ("whole", "B", MAX_TIME_US), ("last", "A", MAX_TIME_US), ("last", "B", MAX_TIME_US),
    ("before 1970", "A", -1), ("before 1970", "B", 1), ("year 9999", "A", MAX_TIME_US - DAY_US),
    ("year 9999", "B", MAX_TIME_US),
]  # fmt: skip


@pytest.mark.by_day(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("profile", ["paper", "reference"])
def test_stamps_stay_inside_the_calendar(mode: str, compression: str, profile: str) -> None:
    """From the year 1 to 9999, with noise of thousands of years; an overflow would be a warning."""
    params = AmunParams(
        mode=mode, profile=profile, compression=compression, guessing_advantage=0.01
    )
    traces = traces_of(EDGE_ROWS)
    for number in range(5):
        cases = release(traces, params, number)
        times = [[time for _, time in events] for _, events in cases]
        assert all(own == sorted(own) for own in times)
        assert all(MIN_TIME_US <= time <= MAX_TIME_US for own in times for time in own)
        for batch in anonymise(traces, Amun(), params, release_key(number), "r", "c").traces:
            batch.to_rows().validate(full=True)


@pytest.mark.parametrize(
    ("original", "anonymised", "factor"),
    [(3, 5, 0.1875), (3, 3, 0.25), (3, 0, 0.5), (0, 7, 0.0), (0, 0, 0.25), (8, 24, 0.125)],
)
def test_equation_4_by_hand(original: int, anonymised: int, factor: float) -> None:
    """1/2 * original / (anonymised + original); 1/4 where both ranges are 0."""
    assert equation_4(original * DAY_US, anonymised * DAY_US) == factor


def both(compression: str, number: int, **params: Any) -> tuple[dict, dict, list[TraceBatch]]:
    """The steps of a release with and of one without compression; ids agree under one key."""
    rows = [
        (str(i), letter, i * i * DAY_US + j * (i + 1) * MINUTE_US)
        for i in range(12)
        for j, letter in enumerate("ABCA")
    ]
    traces = traces_of(rows)
    plain = release(traces, AmunParams(compression="none", **params), number)
    packed = release(traces, AmunParams(compression=compression, **params), number)
    return steps_of(plain), steps_of(packed), traces


@pytest.mark.by_day(5)
@pytest.mark.usefixtures("same_noise_whatever_was_decided")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("compression", ["noise", "shifts"])
@pytest.mark.parametrize("negative_steps", ["zero", "mirrored"])
def test_compression_of_the_noise_scales_what_was_drawn(
    number: int, compression: str, negative_steps: str
) -> None:
    _, packed, traces = both(compression, number, negative_steps=negative_steps)
    params = AmunParams(compression=compression, negative_steps=negative_steps)
    run = rounds.run_rounds(traces, Amun(), params, release_key(number))
    drawn = Released.of(Batch(traces[0], run.decisions, run.randomness), params)
    start_noise, noise = drawn.start_noise(), drawn.noise()
    noised = drawn.traces.starts + start_noise
    original = int(np.ptp(traces[0].starts))
    anonymised = np.ptp(noised) if compression == "noise" else np.abs(start_noise).max()
    factor = 0.5 * original / (original + int(anonymised))
    if negative_steps == "mirrored":
        assert (drawn.traces.durations + noise >= 0).all()
    ids = hex_ids(run.randomness.words("amun/case-id", drawn.cells, drawn.replica)).to_pylist()
    durations = np.maximum(drawn.traces.durations + np.rint(factor * noise), 0)
    starts = drawn.traces.starts + np.rint(factor * start_noise)
    assert set(ids) == set(packed)
    for i, case in enumerate(ids):
        own = durations[drawn.traces.offsets[i] + 1 : drawn.traces.offsets[i + 1]]
        assert packed[case] == [starts[i], *own]


stamps = st.integers(-(10**5), 10**5).map(lambda hours: EPOCH + timedelta(hours=hours))


@given(logs(), stamps, stamps, st.integers(0, 1000), st.sampled_from([0.01, 0.3]))
def test_compressed_starts_are_inside_the_public_range(
    rows: list[Row], one: datetime, other: datetime, number: int, g: float
) -> None:
    first, last = sorted([one, other])
    params = AmunParams(
        mode="oversampling",
        compression="starts",
        log_start=first,
        log_end=last,
        guessing_advantage=g,
    )
    low, high = ((stamp - EPOCH) // timedelta(microseconds=1) for stamp in (first, last))
    for _, events in release(traces_of(rows), params, number):
        assert low <= events[0][1] <= high


def test_public_ends_take_the_place_of_those_of_the_log() -> None:
    day = datetime(2020, 8, 7, tzinfo=UTC)
    given_ends = AmunParams(log_start=day, log_end=day + timedelta(days=30))
    decided = rounds.run_rounds(table_1(), Amun(), given_ends, release_key()).decisions["dafsa"]
    assert decided.log_start_us == (day - EPOCH) // timedelta(microseconds=1)
    assert decided.log_end_us == decided.log_start_us + 30 * DAY_US
    own = rounds.run_rounds(table_1(), Amun(), AmunParams(), release_key()).decisions["dafsa"]
    [traces] = table_1()
    assert (own.log_start_us, own.log_end_us) == (traces.starts.min(), traces.starts.max())


def test_an_advantage_that_would_move_more_cases_than_memory_holds_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tracecloak.anonymizers.amun.case_moves._MAX_MOVES", 10)
    traces = traces_of([("1", "A", 0), ("2", "B", 10)])
    with pytest.raises(UsageError, match=r"guessing_advantage=1e-05 asks"):
        anonymise(traces, Amun(), AmunParams(guessing_advantage=1e-5), release_key(), "r", "c")
    with pytest.raises(ValueError, match="guessing_advantage"):
        AmunParams(guessing_advantage=1e-7)


@pytest.mark.parametrize("mode", MODES)
def test_no_two_draws_share_a_cell(mode: str) -> None:
    """Times and ids of one release: every (case, replica, event) has words of its own."""
    params = AmunParams(mode=mode, guessing_advantage=0.05, profile="reference")
    traces, n_draws = table_1(), []
    for number in range(20):  # of which some delete nearly all cases
        run = rounds.run_rounds(traces, Amun(), params, release_key(number), kind=rounds.Recording)
        run.randomness.asked.clear()
        for batch in traces:
            Amun().apply(batch, run.decisions, params, run.randomness)
        for purpose in ("amun/time", "amun/case-id"):
            asked = run.randomness.asked[purpose]
            blocks = [(a, b ^ counter) for a, b, counter in asked]
            assert len(set(blocks)) == len(asked)
            n_draws.append(len(asked))
    assert max(n_draws[::2]) > 1 and max(n_draws[1::2]) > 1


@pytest.mark.parametrize(
    ("profile", "epsilon"), [("reference", 0.8109302162), ("paper", 0.1777249)]
)
def test_oversampling_draws_by_the_epsilon_of_its_profile(profile: str, epsilon: float) -> None:
    """Of six transitions each one's noise is Laplace of scale 1 / epsilon, and positive."""
    params = AmunParams(mode="oversampling", guessing_advantage=0.2, profile=profile)
    assert params.epsilon_d == pytest.approx(epsilon, abs=1e-6)
    traces = traces_of([(str(i), "A", i) for i in range(5)])  # one transition, one variant
    gained = []
    for number in range(60):
        run = run_rounds(traces, Amun(), params, release_key(number))
        sampling = run.decisions["sampling"]
        assert not sampling.losses.any()
        words = run.by_round["sampling"].words("amun/count", np.zeros((1, 2), np.uint64))
        [gain] = sampling.gains.tolist()
        assert gain == abs(int(laplace_by_inversion(words, 1 / params.epsilon_d)[0]))
        gained.append(gain)
    deviation = np.std(gained) / np.sqrt(len(gained))
    assert np.mean(gained) == pytest.approx(moves_per_transition(params), abs=4 * deviation)


AMUN = Amun()


def guarantee(**params: object) -> Guarantee:
    return AMUN.guarantee(AmunParams(**params))


def released_variants(rows: list[tuple[str, str, int]], number: int, mode: str) -> set[str]:
    params = AmunParams(mode=mode, guessing_advantage=0.3)
    made = anonymise(traces_of(rows), AMUN, params, release_key(number), "r", "c")
    return {"".join(name for name, _ in events) for _, events in rows_of(made.traces)}


@pytest.mark.parametrize("mode", ["sampling", "oversampling"])
def test_a_released_variant_of_one_case_proves_that_case(mode: str) -> None:
    """With the one case AXB its variant is released more often than not; without it never is."""
    others = [(str(i), name, i) for i in range(20) for name in "AB"]
    one = [("one", name, 5) for name in "AXB"]
    n = 40
    with_it = sum("AXB" in released_variants([*others, *one], k, mode) for k in range(n))
    without = sum("AXB" in released_variants(others, k, mode) for k in range(n))
    assert with_it > n / 2
    assert without == 0
    assert "proves that case's presence" in guarantee(mode=mode).reality


def test_a_release_that_would_be_too_large_is_refused_before_its_noise_is_drawn() -> None:
    """One case, one transition: 1 + 1.2 cases on average; at g = 0.01 some 25."""
    traces = traces_of([("1", "A", 0)])
    wide = {"guessing_advantage": 0.01, "mode": "oversampling"}
    message = r"^max_growth=10 is exceeded: the release would have more cases "
    with pytest.raises(UsageError, match=message):
        run_rounds(traces, Amun(), AmunParams(**wide, max_growth=10), release_key())
    run_rounds(traces, Amun(), AmunParams(**wide), release_key())
    run_rounds(traces, Amun(), AmunParams(**wide, max_growth=1000), release_key())
    run_rounds(traces, Amun(), AmunParams(guessing_advantage=0.01, max_growth=1), release_key())


def dafsa_of(words: Sequence[str]) -> Dafsa:
    """The automaton of words over A, B and C."""
    return Dafsa.from_variants(histogram(dict.fromkeys(map(tuple, words), 1)))


def paths_of(dafsa: Dafsa) -> list[list[int]]:
    bounds = itertools.pairwise(dafsa.variants.offsets.tolist())
    return [dafsa.path[a:b].tolist() for a, b in bounds]


@st.composite
def automata_and_needs(draw: st.DrawFn) -> tuple[Dafsa, np.ndarray, np.ndarray]:
    """An automaton, numbers of cases (0 for some variants), and needs where cases pass."""
    words = draw(st.lists(st.text("ABC", min_size=1, max_size=5), min_size=1, max_size=8))
    dafsa = dafsa_of(words)
    n = dafsa.variants.n_variants
    counts = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    size = dafsa.n_transitions
    needs = np.array(draw(st.lists(st.integers(0, 12), min_size=size, max_size=size)))
    return dafsa, counts, np.where(dafsa.contingency_table(counts) > 0, needs, 0)


@given(automata_and_needs(), st.integers(0, 100))
def test_picks_are_those_of_a_pass_that_raises_every_transition(
    case: tuple[Dafsa, np.ndarray, np.ndarray], number: int
) -> None:
    """The algorithm as it is written, one ticket after the other."""
    dafsa, counts, needs = case
    keyed, paths = randomness(number), paths_of(dafsa)
    needy = np.flatnonzero(needs)
    words = keyed.words("moves/order", cell_numbers(needy.astype(np.uint64)))
    frequency = dafsa.contingency_table(counts)
    clocks = -elementary.log(uniform(words[:, 0])) / frequency[needy]
    added, picks = np.zeros(dafsa.n_transitions, np.int64), np.zeros(len(counts), np.int64)
    for transition in needy[np.argsort(clocks, kind="stable")].tolist():
        if added[transition] >= needs[transition]:
            continue
        through = [v for v, path in enumerate(paths) if transition in path]
        cases = np.repeat(through, counts[through])
        cell = cell_numbers(np.full(needs[transition], transition, np.uint64))
        tickets = keyed.words("moves/pick", cell, np.arange(needs[transition]))[:, 0]
        for variant in cases[below(tickets, len(cases))].tolist():
            picks[variant] += 1
            added[paths[variant]] += 1
    assert draw_moves(dafsa, counts, needs, keyed, "moves").tolist() == picks.tolist()
