"""Chains of a log without noise: what they keep exactly, and what only a longer memory keeps."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from scipy.stats import chisquare

from tests.support.logs import Variant, histogram
from tracecloak.examination.measure.intervals import CHAINS, Chain

NAMES = ["A", "B", "C"]


def drawn(chain: Chain, counts: dict[Variant, int], number: int = 0) -> Counter[Variant]:
    found = chain.draw(histogram(counts, NAMES), len(NAMES), number)
    rows = itertools.pairwise(found.offsets.tolist())
    cases = [tuple(NAMES[code] for code in found.codes[a:b]) for a, b in rows]
    return Counter(dict(zip(cases, found.counts.tolist(), strict=True)))


def test_each_chain_remembers_what_its_order_says() -> None:
    """Of A B A C only order 2 by position knows which A comes second in A A A B, too."""
    loop = {("A", "B", "A", "C"): 500}
    assert set(drawn(Chain(1, False), loop)) > set(loop)  # A goes on to B or to C
    assert set(drawn(Chain(1, True), loop)) == set(loop)
    crossed = {("A", "C", "A"): 500, ("B", "C", "B"): 500}
    assert set(drawn(Chain(1, True), crossed)) == {
        (a, "C", b) for a, b in itertools.product("AB", "AB")
    }
    assert set(drawn(Chain(2, True), crossed)) == set(crossed)
    assert set(drawn(Chain(2, False), crossed)) == set(crossed)
    # The last two of C A A and B A A B are the same at another place.
    places = {("A", "A", "B"): 300, ("B", "A", "A", "C"): 300}
    assert set(drawn(Chain(2, True), places)) == set(places)
    assert ("A", "A", "C") in drawn(Chain(2, False), places)


def test_what_is_drawn_has_the_laws_of_the_log() -> None:
    """20,000 first activities and ends; alpha 1e-3, and other shares as a control."""
    counts = {("A",): 6000, ("A", "B"): 4000, ("B",): 9000, ("C", "A"): 1000}
    for number, chain in enumerate(CHAINS.values()):
        found = drawn(chain, counts, number)
        assert found.total() == 20_000
        first = Counter({name: 0 for name in NAMES})
        for variant, n in found.items():
            first[variant[0]] += n
        seen = np.array([first[name] for name in NAMES])
        assert chisquare(seen, [10_000, 9_000, 1_000]).pvalue > 1e-3
        assert chisquare(seen, [9_500, 9_500, 1_000]).pvalue < 1e-3
    assert drawn(CHAINS["chain by position"], counts, 1) != drawn(
        CHAINS["chain by position"], counts, 2
    )


def test_walks_end_where_the_longest_case_does() -> None:
    looping = {("A",) * 30: 50}
    found = drawn(Chain(1, False), looping)
    assert max(map(len, found)) <= 30
