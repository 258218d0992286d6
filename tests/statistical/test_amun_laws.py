"""The laws of what Amun draws: counts, times, which cases; chi-square at ALPHA with controls."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from tests.support.chi_square import ALPHA, laplace_p_value, p_value_of_law
from tests.support.keys import randomness, release_key
from tests.support.paper_log import DAY_US, traces_of
from tests.support.rounds import rows_of, run_rounds
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.guessing_advantage import (
    epsilon_of_counts,
    epsilon_of_oversampling,
)
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.schemas.arrays.ranks import case_bytes
from tracecloak.schemas.events.traces import TraceBatch

AMUN = Amun()
G = 0.3


# --- noise on counts, n = 4,000 releases ----------------------------------------------------------

N_RELEASES = 4_000


@functools.cache
def net_moves(params: AmunParams) -> tuple[np.ndarray, np.ndarray]:
    """int64[N_RELEASES, 2] gains and losses of the variants A and B, each a transition of its own.

    Of each there are 1,000 cases, so a deletion always finds one.
    """
    rows = [(f"{letter}{i}", letter, 0) for letter in "AB" for i in range(1000)]
    run = run_rounds(traces_of(rows), AMUN, params, release_key())
    statistics = run.statistics["sampling"]
    decided = [
        AMUN.decide(
            "sampling", statistics, run.decisions, params, randomness(i // 50, f"release {i % 50}")
        )
        for i in range(N_RELEASES)
    ]
    return np.array([d.gains for d in decided]), np.array([d.losses for d in decided])


def rounded_laplace(epsilon: float) -> dict[int, float]:
    law = stats.laplace(scale=1 / epsilon)
    return {k: law.cdf(k + 0.5) - law.cdf(k - 0.5) for k in range(-300, 301)}


def truncated_laplace(epsilon: float) -> dict[int, float]:
    """Of int(Laplace)."""
    law = stats.laplace(scale=1 / epsilon)
    tail = {k: law.cdf(-k) - law.cdf(-k - 1) for k in range(1, 301)}
    return {0: law.cdf(1) - law.cdf(-1), **tail, **{-k: chance for k, chance in tail.items()}}


def absolute(law: dict[int, float]) -> dict[int, float]:
    return {k: law[k] + law[-k] if k else law[0] for k in law if k >= 0}


@pytest.mark.slow
def test_a_sampled_count_moves_by_rounded_laplace_noise() -> None:
    """Controls: epsilon 20 % smaller and larger, and noise that is cut off instead of rounded."""
    gains, losses = net_moves(AmunParams(guessing_advantage=G))
    assert not ((gains > 0) & (losses > 0)).any()
    moved = Counter((gains - losses)[:, 0].tolist())
    epsilon = epsilon_of_counts(G)
    assert p_value_of_law(moved, rounded_laplace(epsilon)) > ALPHA
    assert p_value_of_law(moved, rounded_laplace(epsilon * 0.8)) < ALPHA
    assert p_value_of_law(moved, rounded_laplace(epsilon * 1.25)) < ALPHA
    assert p_value_of_law(moved, truncated_laplace(epsilon)) < ALPHA


@pytest.mark.parametrize(
    ("profile", "own", "other"),
    [
        ("paper", epsilon_of_oversampling(G), epsilon_of_counts(G)),
        at_night("reference", epsilon_of_counts(G), epsilon_of_oversampling(G)),
    ],
)
def test_an_oversampled_count_grows_by_the_size_of_noise_of_its_profile(
    profile: str, own: float, other: float
) -> None:
    """Proposition A.6 in the paper's, epsilon_d in the authors'. Control: the other's epsilon."""
    params = AmunParams(guessing_advantage=G, mode="oversampling", profile=profile)
    gains, losses = net_moves(params)
    assert not losses.any()
    grown = Counter(gains[:, 0].tolist())
    assert p_value_of_law(grown, absolute(rounded_laplace(own))) > ALPHA
    assert p_value_of_law(grown, absolute(rounded_laplace(other))) < ALPHA


# --- noise on times, n = 100,000 cases ------------------------------------------------------------

N_CASES = 100_000
FAR = 10**13  # microseconds; noised durations stay above 0
WIDTH = 10**9


def two_durations(least: int = FAR) -> list[TraceBatch]:
    """Cases <A, B>, half of them a duration of `least` and half of WIDTH more, so P = 1/2.

    The starts are 0 and 1 days, likewise by halves, independent of the durations.
    """
    n = np.arange(N_CASES)
    times = np.empty((N_CASES, 2), np.int64)
    times[:, 0] = n // 2 % 2 * DAY_US
    times[:, 1] = times[:, 0] + least + n % 2 * WIDTH
    [small] = traces_of([("0", "A", 0), ("0", "B", 0)])
    return [
        TraceBatch(
            pa.array([f"case {i}" for i in n]),
            2 * np.arange(N_CASES + 1),
            np.tile(np.array([0, 1], np.int32), N_CASES),
            times.reshape(-1),
            small.vocabulary,
        )
    ]


def mixture_p_value(values: np.ndarray, scale: float, places: tuple[int, int]) -> float:
    """p-value against Laplace noise of that scale around one of two places."""

    def cdf(x: np.ndarray) -> np.ndarray:
        return np.mean([stats.laplace(place, scale).cdf(x) for place in places], axis=0)

    edges = np.linspace(places[0] - 8 * scale, places[1] + 8 * scale, 120)
    chances = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]]))
    found = Counter(np.searchsorted(edges, values).tolist())
    return p_value_of_law(found, dict(enumerate(chances.tolist())))


def test_a_time_is_noised_by_the_range_of_its_group_over_epsilon() -> None:
    """Durations: P = 1/2, so epsilon = 1.3863 (Equation 3); starts: P = 1/2 within half a day.

    Controls: both scales 7 % smaller and larger. A few of the cases are copied or deleted; the
    scale of the copied ones is twice that, which the test does not see in 100,000.
    """
    params = AmunParams(
        guessing_advantage=G, profile="paper", compression="none", start_precision_days=0.5
    )
    [released] = anonymise(two_durations(), AMUN, params, release_key(), "r", "c").traces
    assert abs(released.n_cases - N_CASES) < 100
    durations = released.durations[1::2]
    assert durations.min() > 0
    epsilon = 1.3862943611
    places = {"durations": (FAR, FAR + WIDTH), "starts": (0, DAY_US)}
    for name, values in (("durations", durations), ("starts", released.starts)):
        low, high = places[name]
        scale = (high - low) / epsilon
        assert mixture_p_value(values, scale, (low, high)) > ALPHA, name
        assert mixture_p_value(values, scale * 0.93, (low, high)) < ALPHA, name
        assert mixture_p_value(values, scale * 1.07, (low, high)) < ALPHA, name


# --- epsilon is divided by the number of copies, n > 15,000 residuals -----------------------------


def test_replicated_cases_share_their_epsilon() -> None:
    """Two cases, told apart by their last activity, ten days apart; B takes FAR and FAR + WIDTH.

    g = .05, so there are many copies; P = 1/2, so epsilon = .2007. Each of c released cases of one
    original has noise of scale c * range / epsilon on start and on B. Controls: a scale 15 % larger
    and smaller, and residuals without the division by c.
    """
    params = AmunParams(
        guessing_advantage=0.05, profile="paper", compression="none", mode="oversampling"
    )
    far = 10**15
    base = {"X": (0, far), "Y": (10 * DAY_US, far + WIDTH)}
    rows = [
        row
        for last, (start, duration) in base.items()
        for row in (
            (last, "A", start),
            (last, "B", start + duration),
            (last, last, start + 2 * far),
        )
    ]
    traces = traces_of(rows)
    noise, copies = [], []
    for number in range(250):
        cases = rows_of(anonymise(traces, AMUN, params, release_key(number), "r", "c").traces)
        n_copies = Counter(events[-1][0] for _, events in cases)
        for _, ((_, begin), (_, end), (last, _)) in cases:
            assert end > begin  # never cut off at 0
            noise.append((begin - base[last][0], end - begin - base[last][1]))
            copies.append(n_copies[last])
    assert len(copies) > 15_000
    epsilon = -np.log(1 / 0.55 - 1)
    for column, width in ((0, 10 * DAY_US), (1, WIDTH)):
        drawn, scale = np.array(noise, float)[:, column], width / epsilon
        residuals = drawn / np.array(copies)
        assert laplace_p_value(residuals, scale) > ALPHA
        assert laplace_p_value(residuals, 1.15 * scale) < ALPHA
        assert laplace_p_value(residuals, scale / 1.15) < ALPHA
        assert laplace_p_value(drawn, scale) < ALPHA


# --- which cases are copied and deleted, n = 2,000 selections -------------------------------------


def exact_selection(n: int, gain: int, loss: int) -> dict[tuple[int, ...], float]:
    """How often each of n cases is released: copies with replacement, then deletions without."""
    law: Counter[tuple[int, ...]] = Counter()
    for copied in itertools.product(range(n), repeat=gain):
        instances = [*range(n), *copied]
        gone = list(itertools.combinations(range(len(instances)), loss))
        for deleted in gone:
            left = Counter(case for i, case in enumerate(instances) if i not in deleted)
            law[tuple(left[case] for case in range(n))] += Fraction(1, n**gain * len(gone))
    return {copies: float(chance) for copies, chance in law.items()}


def selections(n: int, gain: int, loss: int, how_many: int) -> Counter[tuple[int, ...]]:
    """Copies of each of n cases of the second of three variants, over many releases."""
    rows = [("a", "A", 0), *((f"case {i}", "B", 0) for i in range(n)), ("c", "C", 0)]
    [traces] = traces_of(rows)
    params = AmunParams()
    decisions = dict(run_rounds([traces], AMUN, params, release_key()).decisions)
    decisions["sampling"] = replace(
        decisions["sampling"], gains=np.array([0, gain, 0]), losses=np.array([0, loss, 0])
    )
    counter = AMUN.requires("selection", params)["ranks"]
    found: Counter[tuple[int, ...]] = Counter()
    for i in range(how_many):
        keyed = randomness(i // 50, f"release {i % 50}")
        ranks = counter.count(traces, decisions, keyed)
        decided = AMUN.decide("selection", {"ranks": ranks}, decisions, params, keyed)
        copies = dict(zip(decided.changed.to_pylist(), decided.copies.tolist(), strict=True))
        identities = case_bytes(keyed.identify("case", traces.case_ids)).to_pylist()
        number = [copies.pop(identity, 1) for identity in identities]
        assert not copies
        assert number[0] == number[-1] == 1
        found[tuple(number[1:-1])] += 1
    return found


@pytest.mark.parametrize(
    ("n", "gain", "loss"),
    [
        at_night(3, 1, 0),
        (3, 2, 0),
        at_night(3, 0, 1),
        at_night(4, 0, 2),
        at_night(3, 2, 2),
        (2, 1, 3),
    ],
)
def test_cases_are_copied_and_deleted_at_random(n: int, gain: int, loss: int) -> None:
    """Control: a selection in which the first case is twice as likely to be the one that stays."""
    found = selections(n, gain, loss, 2_000)
    law = exact_selection(n, gain, loss)
    assert p_value_of_law(found, law) > ALPHA if len(law) > 1 else set(found) == set(law)
    if len(law) > 1:
        skewed = {copies: chance * (1 + copies[0]) for copies, chance in law.items()}
        total = sum(skewed.values())
        skewed = {copies: chance / total for copies, chance in skewed.items()}
        assert p_value_of_law(found, skewed) < ALPHA
