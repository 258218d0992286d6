"""The graph of a few variants: what is counted for the choice, the choice, and what is released."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tests.support.logs import trace_batch
from tests.support.recording import Recording
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.graphs import graph_kinds
from tracecloak.anonymizers.graphs.graph_kinds import VariantGraph
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg, PrivateDfgParams
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.variants.generator import numbered_cases
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram

METHOD = PrivateDfg()
PARAMS = PrivateDfgParams(epsilon="1", vocabulary=tuple("ABCDEF"))
WORDS = ActivityVocabulary.public("ABCDEF")


def variants_of(counts: dict[str, int]) -> VariantHistogram:
    log = {f"{text} {i}": text for text, n in counts.items() for i in range(n)}
    return VariantHistogram.from_traces(trace_batch(log).recode_public(WORDS))


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
    graphs = [VariantGraph(seen, one, missing, one, WORDS) for missing in (-5.0, 0.0, 40.0)]
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
    assert graph_kinds.votes(counted, WORDS, ratio, 4).tolist() == naive.tolist()


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
    traces = trace_batch(log).recode_public(WORDS)
    statistics = {name: c.count(traces, {}, randomness()) for name, c in part.items()}
    for number in range(200):
        decided = METHOD.decide("clip", statistics, {}, params, randomness(number))
        if decided.released is None:
            continue
        for row in decided.released.graph.to_table().to_pylist():
            held.append(row["low"] <= true[row["source"], row["target"]] <= row["high"])
    assert len(held) > 500 and np.mean(held) >= 0.93
