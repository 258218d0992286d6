"""Whether intervals hold what they say: by hand, and what a manifest tells of the noise."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, poisson

from tests.support.logs import Variant, histogram, trace_batch
from tracecloak.anonymizers.registry import method_named
from tracecloak.examination.measure.intervals import (
    CHAINS,
    Chain,
    bootstrap,
    interval_figures,
    noise_half_width,
    public_words,
)
from tracecloak.schemas.statistics.variants import DirectlyFollows


def test_intervals_of_a_graph_by_hand() -> None:
    def edges(*rows: tuple[int, int, int]) -> DirectlyFollows:
        source, target, weight = np.array(rows).T
        return DirectlyFollows(source, target, weight)

    truth, released = edges((0, 1, 5), (1, 2, 9)), edges((0, 1, 4), (2, 2, 3))
    ends = np.array([4, 0]), np.array([6, 4])
    found = interval_figures(truth, released, *ends, half_width=2.0)
    assert found == {"interval_coverage": 1.0, "interval_width": pytest.approx(0.75)}
    assert interval_figures(truth, released, *ends, half_width=None)["interval_width"] is None
    missed = interval_figures(truth, released, np.array([6, 1]), ends[1], half_width=2.0)
    assert missed["interval_coverage"] == 0
    nothing = DirectlyFollows.merge(())
    known = interval_figures(truth, nothing, nothing.counts, nothing.counts, half_width=2.0)
    assert set(known.values()) == {None}


@pytest.mark.parametrize(
    ("given_params", "width_of"),
    [
        ({"epsilon": "1", "l2_clip": "4"}, 4 * 1024),
        ({"epsilon": "1", "l2_clip": "4", "max_cases_per_individual": 3}, 4 * 1024),
        ({"epsilon": "2", "delta": "0", "max_trace_length": 3}, 4),
        ({"epsilon": "1"}, None),  # the clip is bought
    ],
)
def test_the_manifest_tells_the_noise_where_the_clip_is_public(
    given_params: dict[str, Any], width_of: int | None
) -> None:
    """As wide as the method itself says, which rounds up to whole occurrences."""
    method = method_named("private-dfg")
    params = method.Params(vocabulary=("A", "B"), **given_params)
    spends = [spend.to_json() for spend in method.spends(params)]
    found = noise_half_width({"params": params.resolved(), "spends": spends})
    if width_of is None:
        assert found is None
        return
    assert found is not None
    own = params.noise(width_of).half_width
    assert own - 1 <= found <= own


def test_a_manifest_without_such_noise_tells_nothing() -> None:
    assert noise_half_width({}) is None
    assert noise_half_width({"params": {}, "spends": [{"what": "variants", "scale": "3"}]}) is None
    # Parts within a part are looked at.
    inner = {"what": "edges", "mechanism": "discrete_gaussian", "scale": "20", "sensitivity": "10"}
    nested = {"params": {"l2_clip": "3"}, "spends": [{"what": "all", "blocks": [inner]}]}
    assert noise_half_width(nested) == pytest.approx(1.96 * 6)


def test_as_many_cases_of_the_log_and_the_same_for_everybody() -> None:
    traces = trace_batch({f"c{i}": "A B" if i % 2 else "A" for i in range(300)}, "AB")
    drawn = bootstrap(traces)
    assert drawn.n_cases == 300
    assert set(drawn.case_ids.to_pylist()) < set(traces.case_ids.to_pylist())
    assert drawn.case_ids.equals(bootstrap(traces).case_ids)
    assert not drawn.case_ids.equals(bootstrap(traces, 1).case_ids)
    assert bootstrap(trace_batch({}, "A")).n_cases == 0


def test_every_case_is_drawn_as_often_as_chance_has_it() -> None:
    """20,000 cases come 0, 1, … times as Poisson has it; alpha 1e-3, and a control that fails."""
    n = 20_000
    expected = n * np.array([*poisson.pmf(range(5), 1), poisson.sf(4, 1)])

    def seen(drawn: np.ndarray) -> np.ndarray:
        times = Counter(np.bincount(drawn, minlength=n).tolist())
        return np.array([*(times[k] for k in range(5)), sum(times[k] for k in times if k > 4)])

    for draw in range(3):
        found = seen((public_words(n, draw) % np.uint64(n)).astype(np.int64))
        assert chisquare(found, expected).pvalue > 1e-3
    assert chisquare(seen(np.arange(n)), expected).pvalue < 1e-3


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
