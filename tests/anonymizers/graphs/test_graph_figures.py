"""Numbers of graphs and their intervals; graphs that are counted by variants."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.graph_intervals import intervals_of
from tests.support.keys import randomness, release_key
from tests.support.logs import trace_batch
from tests.support.recording import Recording
from tests.support.rounds import run_rounds
from tests.support.tiers import at_night
from tracecloak.anonymizers.graphs import graph_kinds
from tracecloak.anonymizers.graphs.graph_figures import figures_of_graph, median_times
from tracecloak.anonymizers.graphs.graph_kinds import GraphDecision, VariantGraph
from tracecloak.anonymizers.graphs.noisy_graph import NoisyCells, released_durations, released_graph
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg, PrivateDfgParams
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.names import possible_pairs
from tracecloak.anonymizers.variants.generator import numbered_cases
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import DERIVED, Figure
from tracecloak.schemas.statistics.durations import duration_borders
from tracecloak.schemas.statistics.variants import VariantHistogram

SECOND_US = 1_000_000


def log_of(cases: list[np.ndarray], n_names: int) -> TraceBatch:
    """A log with steps of seconds to months, by the activity that they lead to."""
    rng, lengths = np.random.default_rng(1), np.array([len(case) for case in cases])
    codes = np.concatenate(cases).astype(np.int32)
    steps = (np.exp(rng.normal(9 + 0.8 * (codes % 5), 2.5)) * SECOND_US).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps[offsets[:-1]] = 0
    before = np.concatenate([[0], np.cumsum(steps)])
    times = before[1:] - np.repeat(before[offsets[:-1]], lengths)
    words = ActivityVocabulary.public([f"a{i:02}" for i in range(n_names)])
    ids = pa.array([f"c{i}" for i in range(len(cases))])
    return TraceBatch(ids, offsets, codes, times, words)


def flower() -> TraceBatch:
    """Anything may follow anything, for about a dozen events."""
    rng = np.random.default_rng(2)
    return log_of([rng.integers(0, 10, 1 + rng.geometric(1 / 12)) for _ in range(2000)], 10)


def mixture() -> TraceBatch:
    """Of 8,000 cases most are short, and every seventh has a hundred events of its own."""
    rng = np.random.default_rng(9)
    long = (np.concatenate([[0], rng.integers(2, 12, 100), [1]]) for _ in range(8000))
    return log_of([np.array([0, 1]) if rng.random() < 0.85 else case for case in long], 12)


def line() -> TraceBatch:
    """Every case is the same."""
    return log_of([np.arange(10)] * 5000, 10)


def params_of(traces: TraceBatch, epsilon: str, *, durations: bool) -> PrivateDfgParams:
    names = [name for name in traces.vocabulary.names.to_pylist() if name != "__other__"]
    return PrivateDfgParams(epsilon=epsilon, vocabulary=tuple(names), durations=durations)


# How wide intervals are at most, in those of noise alone, where a clip in L1 may be taken: what
# that takes is known from the lengths that an eighth of epsilon is for.
WIDEST = 2.5
EPSILONS = ["0.5", "1", "4"]


@pytest.mark.parametrize("durations", [False, True])
@pytest.mark.parametrize(
    ("log", "epsilon", "n_keys"),
    [
        *((log, "1", 12) for log in (flower, mixture)),
        *(at_night(log, epsilon, 200) for log in (flower, mixture, line) for epsilon in EPSILONS),
    ],
)
def test_intervals_hold_nine_times_in_ten(
    log: Callable[[], TraceBatch], epsilon: str, n_keys: int, durations: bool
) -> None:
    """12 keys by day, of which each has some hundred intervals."""
    traces = log()
    found = intervals_of(traces, params_of(traces, epsilon, durations=durations), n_keys)
    assert found["edges"].n > 1000 or log is line
    for seen in found.values():
        if seen.n:
            assert seen.coverage >= 0.93
            assert seen.mean_width <= (1.5 if n_keys == 12 else WIDEST)


def test_what_a_public_clip_takes_is_in_the_intervals_however_much_it_is() -> None:
    """A clip of half of most cases' norms. Control: the quantiles of noise alone hold for few."""
    traces = flower()
    params = params_of(traces, "4", durations=False).model_copy(update={"l2_clip": Decimal(2)})
    found = intervals_of(traces, params, 12)["edges"]
    assert found.n > 1000
    assert found.coverage >= 0.93
    assert found.of_noise_alone < 0.5 * found.n


WORDS = ActivityVocabulary.public("AB")
METHOD = PrivateDfg()
N_KEYS = 20


def cells_of(counts: dict[str, int], noise: SumNoise, n_bins: int = 1) -> NoisyCells:
    """Sums without any noise in them, of pairs such as `▶A`, all in the bin that is their value."""
    domain, n_codes = possible_pairs(WORDS, n_bins), WORDS.end + 1
    labels = WORDS.labels
    names = [labels[c // n_bins // n_codes] + labels[c // n_bins % n_codes] for c in domain]
    places = (domain % n_bins).tolist()
    sums = [counts.get(f"{name}{place}" if n_bins > 1 else name, 0)
            for name, place in zip(names, places, strict=True)]  # fmt: skip
    return NoisyCells.measured(domain, np.array(sums, np.int64) * noise.units, noise)


@given(st.lists(st.integers(-500, 500), min_size=15, max_size=15))
@settings(max_examples=60, deadline=None)
def test_the_interval_of_a_total_is_around_what_all_pairs_agree_on(values: list[int]) -> None:
    """Against the projection onto circulations by a solver of linear equations."""
    noise = SumNoise((3, 1), 1, is_laplace=False)
    domain, n_codes = possible_pairs(WORDS, 1), WORDS.end + 1
    arcs = NoisyCells.measured(domain, np.array(values), noise)
    source, target = np.divmod(domain, n_codes)
    balance = np.zeros((n_codes, len(domain)))
    np.add.at(balance, (source, np.arange(len(domain))), 1)
    np.add.at(balance, (target, np.arange(len(domain))), -1)
    balance[WORDS.start] += balance[WORDS.end]
    balance = balance[:-1]
    nearest = np.array(values) - np.linalg.pinv(balance) @ (balance @ np.array(values))
    graph = released_graph(arcs, WORDS)
    cases, events, *activities = figures_of_graph(arcs, graph, WORDS)[:5]
    out_of = np.bincount(source, nearest, n_codes)
    expected = [out_of[WORDS.start], out_of[: WORDS.start].sum(), *out_of[: WORDS.start]]
    least = arcs.least(len(domain))
    counts = np.array(values) * least**2 / (least**2 + 12 * 9)
    shown = dict(zip(zip(graph.sources, graph.targets, strict=True), graph.counts, strict=True))
    for place, ends in enumerate(zip(source, target, strict=True)):
        counts[place] = shown.get(ends, counts[place])
    means = (np.bincount(source, counts, n_codes) + np.bincount(target, counts, n_codes)) / 2
    cases_of, own = means[WORDS.start] + means[WORDS.end], means[: WORDS.start]
    passed = [cases_of, own.sum(), *own]
    variances = [6 / 4, 9 + 6 / 4, *[1 + 6 / 4] * 3]
    for figure, number, count, variance in zip(
        [cases, events, *activities], expected, passed, variances, strict=True
    ):
        half_width = 1.96 * 3 * math.sqrt(variance)
        assert figure.low == pytest.approx(max(number - half_width, 0), abs=1.01)
        assert figure.value == pytest.approx(min(max(count, figure.low), figure.high), abs=0.51)


def test_the_median_of_exact_counts_lies_in_its_bin() -> None:
    """Seven steps A B: 3 below a second, 4 in the second bin, where the median is."""
    noise = SumNoise((1, 1), 1_000_000, is_laplace=False)
    counts = {"AB0": 300, "AB1": 400, "▶A0": 700, "B■0": 700}
    bins = cells_of(counts, noise, n_bins=4)
    arcs, borders = bins.over_bins(4), duration_borders(4)
    graph = released_graph(arcs, WORDS)
    durations = released_durations(bins, graph, borders)
    [figure] = median_times(None, bins, graph, durations)
    assert (figure.name, figure.of, figure.kind) == ("median_time_us", ("A", "B"), DERIVED)
    assert (figure.low, figure.high) == (borders[0], borders[1])
    ratio = borders[1] / borders[0]
    assert figure.value == pytest.approx(borders[0] * ratio ** (50 / 400), rel=1e-5)


class Truth:
    """What a log has, counted case by case."""

    def __init__(self, traces: TraceBatch, params: PrivateDfgParams) -> None:
        words = params.words.labels
        codes, times = traces.activities.tolist(), traces.times.tolist()
        offsets = traces.offsets.tolist()
        self.events = Counter(words[code] for code in codes)
        self.n_cases, self.pairs, self.times = len(offsets) - 1, Counter[Any](), dict[Any, Any]()
        for first, last in itertools.pairwise(offsets):
            names = ["▶", *(words[code] for code in codes[first:last]), "■"]
            for place, pair in enumerate(itertools.pairwise(names)):
                self.pairs[pair] += 1
                if 0 < place < last - first:
                    lasted = times[first + place] - times[first + place - 1]
                    self.times.setdefault(pair, []).append(lasted)

    def numbers(self, figure: Figure, made: GraphDecision) -> tuple[float, float]:
        """The number, and another that is as good: the two middle ones of a median."""
        if figure.name == "median_time_us":
            of_pair = sorted(self.times.get(figure.of, [0]))
            return of_pair[(len(of_pair) - 1) // 2], of_pair[len(of_pair) // 2]
        if figure.name == "path_not_shown":
            shown = {(e["source"], e["target"]) for e in made.graph.to_table().to_pylist()}
            return (max((n for p, n in self.pairs.items() if p not in shown), default=0),) * 2
        one = {"cases": self.n_cases, "events": sum(self.events.values())}
        return (one[figure.name] if not figure.of else self.events[figure.of[0]],) * 2


def held(epsilon: str, n_keys: int, shrunk: float = 1.0) -> dict[str, tuple[float, float]]:
    """Coverage of each kind of figure, and its mean width in 3.92 times its mean square error."""
    traces = flower()
    params = params_of(traces, epsilon, durations=True)
    truth, seen = Truth(traces, params), dict[str, list[tuple[bool, float, float]]]()
    norms = {
        n: c.count(traces, {}, randomness()) for n, c in METHOD.requires("clip", params).items()
    }
    counted: dict[str, Any] = {}
    for number in range(n_keys):
        keyed = randomness(number)
        decisions = {"clip": METHOD.decide("clip", norms, {}, params, keyed)}
        if str(decisions) not in counted:
            counters = METHOD.requires("edges", params).items()
            counted[str(decisions)] = {n: c.count(traces, decisions, keyed) for n, c in counters}
        made = METHOD.decide("edges", counted[str(decisions)], decisions, params, keyed)
        for figure in made.figures.rows():
            low, high = truth.numbers(figure, made)
            lost = (figure.high - figure.low) * (1 - shrunk) / 2
            is_held = figure.low + lost <= high and low <= figure.high - lost
            width = figure.high - figure.low
            seen.setdefault(figure.name, []).append((is_held, width, figure.value - low))
    found = {}
    for name, rows in seen.items():
        holds, widths, errors = np.array(rows, float).T
        found[name] = holds.mean(), widths.mean() / (3.92 * math.sqrt((errors**2).mean()) + 1e-9)
    return found


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_figures_hold_the_numbers_of_the_log(epsilon: str) -> None:
    """Each kind apart, over 20 keys: some 20 cases and events, 220 activities, 2,000 times."""
    found = held(epsilon, N_KEYS)
    assert set(found) == {"cases", "events", "activity", "path_not_shown", "median_time_us"}
    for name, (coverage, _) in found.items():
        assert coverage >= (0.85 if name in ("cases", "events") else 0.93)
    # What clipping takes from all events together is spread as the paths are, which is too much
    # here, where it takes from loops alone.
    for name, most in (("cases", 1.6), ("activity", 1.5), ("events", 2.2)):
        assert found[name][1] <= most


def test_intervals_of_half_the_width_do_not_hold() -> None:
    """The control: the check above would see them."""
    found = held("1", N_KEYS, shrunk=0.5)
    assert found["activity"][0] < 0.85
    assert found["path_not_shown"][0] < 1 or found["median_time_us"][0] < 0.93


# --- Graphs of variants ---------------------------------------------------------------------------


PARAMS = PrivateDfgParams(epsilon="1", vocabulary=tuple("ABCDEF"))
VARIANTS = ActivityVocabulary.public("ABCDEF")


def variants_of(counts: dict[str, int]) -> VariantHistogram:
    log = {f"{text} {i}": text for text, n in counts.items() for i in range(n)}
    return VariantHistogram.from_traces(trace_batch(log).recode_public(VARIANTS))


def ways_of(counts: dict[str, int], n_keys: int) -> list[tuple[Any, list[str]]]:
    """The decision of the edges' round, and what noise was drawn for, by key."""
    log = {f"{text} {i}": text for text, n in counts.items() for i in range(n)}
    ways = []
    for number in range(n_keys):
        recording = Recording()
        rounds = run_rounds(
            [trace_batch(log)], METHOD, PARAMS, release_key(number), noise=recording
        )
        ways.append((rounds.decisions["edges"], [one.purpose for one in recording.drawn]))
    return ways


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(2, 9), st.data())
def test_one_case_more_adds_1_to_one_number(
    counts: list[int], threshold: int, data: st.DataObject
) -> None:
    def numbered(sizes: list[int]) -> np.ndarray:
        names = ("".join(p) for p in itertools.permutations("ABC"))
        present = {" ".join(name): n for name, n in zip(names, sizes, strict=False) if n}
        return numbered_cases(variants_of(present), threshold)

    if not any(counts):
        counts[0] = 1
    more = list(counts)
    more[data.draw(st.integers(0, len(counts) - 1))] += 1
    moved = numbered(more) - numbered(counts)
    assert sorted(moved.tolist()) == [0, 0, 1]
    assert numbered(counts).sum() == sum(counts)


def test_its_counts_are_those_of_the_variants_and_the_missing_widen_the_intervals() -> None:
    seen = variants_of({"A B": 300, "A A B": 100})
    one = SumNoise((1, 1), 1, is_laplace=True)
    graphs = [VariantGraph(seen, one, missing, one, VARIANTS) for missing in (-5.0, 0.0, 40.0)]
    for made in graphs:
        rows = made.graph().to_table().to_pylist()
        counts = {(row["source"], row["target"]): row for row in rows}
        true = {("▶", "A"): 400, ("A", "A"): 100, ("A", "B"): 400, ("B", "■"): 400}
        assert {pair: row["count"] for pair, row in counts.items()} == true
        # Two noises of scale 1 have a deviation of 2, and 2.12 of these hold 95 %.
        first = counts["▶", "A"]
        most = max(made.missing, 0) + 4  # 3 times the root of 1 + 1/9, rounded up
        assert (first["low"], first["high"]) == (395, 400 + 5 + most)
    figures = {(f.name, *f.of): f for f in graphs[1].figures()}
    assert figures["cases",].value == 400
    assert figures["events",].value == 900
    assert figures["activity", "A"].value == 500 and figures["activity", "C"].value == 0
    assert figures["path_not_shown",].high == 4


def test_a_few_variants_are_counted_instead_and_nothing_else_gets_noise() -> None:
    """The choice comes before all other noise, and either kind of graph has none of the other's."""
    few, n_others = {"A B C": 3000, "A C B": 2000, "B A": 900}, 0
    for decision, purposes in ways_of(few, 10):
        assert purposes[:2] == ["votes", "kind"]
        if purposes[2] != "variants/count":
            n_others += 1  # of ten keys about one, by the noise of the choice
            continue
        assert len(purposes) == 3
        graph = decision.graph
        assert (graph.lows <= graph.counts).all() and (graph.counts <= graph.highs).all()
        assert (
            np.abs(
                np.sort(graph.counts) - [900, 900, 900, 2000, 2000, 2000, 3000, 3000, 3000, 5000]
            ).max()
            <= 150
        )
    assert n_others <= 4
    many = {" ".join(text): 40 for text in itertools.product("ABCD", repeat=4)}
    rare = {f"{' '.join(text)} E": 5 for text in itertools.product("ABCD", repeat=4)}
    for _, purposes in ways_of(many | rare, 3):
        gaussian = ["edges clip", "edge sum", "edge sum beyond"]
        assert purposes[2:] in (gaussian, ["lengths", "edge sum"])


@given(st.dictionaries(st.text("ABC", min_size=1, max_size=9), st.integers(1, 9), min_size=1))
@pytest.mark.parametrize("ratio", [0.3, 0.45, 0.6])
def test_each_case_has_one_vote_by_its_norms(ratio: float, counts: dict[str, int]) -> None:
    naive = np.zeros(4, np.int64)
    for text, n in counts.items():
        pairs = Counter(itertools.pairwise(["▶", *text, "■"]))
        size = pairs.total()
        bucket = min(math.ceil(math.log2(size)) - 1, 3)
        is_long = math.sqrt(sum(k * k for k in pairs.values())) > ratio * size
        naive[bucket] += n if is_long else -n
    counted = variants_of({" ".join(text): n for text, n in counts.items()})
    assert graph_kinds.votes(counted, VARIANTS, ratio, 4).tolist() == naive.tolist()


def test_cases_that_repeat_their_pairs_get_laplace_noise() -> None:
    """Loops of 16 events before all ends, and cases of 12 whose 13 pairs all differ."""
    loops = [[*("AB" * 8), *last] for last in itertools.product("CDEF", repeat=4)]
    orders = [[*order, *order[::-1]] for order in itertools.permutations("ABCDEF")][:300]
    for cases, first in ((loops, "lengths"), (orders, "edges clip")):
        for _, purposes in ways_of({" ".join(case): 2 for case in cases}, 5):
            assert purposes[2] == first


@pytest.mark.parametrize("missing", [0, 10])
def test_its_intervals_hold(missing: int) -> None:
    """Of 200 keys, at least 93 of 100 intervals of all pairs that are shown."""
    counts = {"A B C": 800, "A B B C": 150, "A C": 300}
    counts |= {f"C {'A ' * i}B": 1 for i in range(missing)}
    params, held = PARAMS, []
    true: dict[tuple[str, str], int] = {}
    for text, n in counts.items():
        steps = ["▶", *text.split(), "■"]
        for pair in itertools.pairwise(steps):
            true[pair] = true.get(pair, 0) + n
    part = METHOD.requires("clip", params)
    log = {f"{text} {i}": text for text, n in counts.items() for i in range(n)}
    traces = trace_batch(log).recode_public(VARIANTS)
    statistics = {name: c.count(traces, {}, randomness()) for name, c in part.items()}
    for number in range(200):
        decided = METHOD.decide("clip", statistics, {}, params, randomness(number))
        if decided.released is None:
            continue
        for row in decided.released.graph.to_table().to_pylist():
            held.append(row["low"] <= true[row["source"], row["target"]] <= row["high"])
    assert len(held) > 500 and np.mean(held) >= 0.93
