"""Released sequences take times and values from their matched case, and from the log elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.support.keys import randomness
from tests.support.logs import MINUTE, trace_batch
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.queries import pripel_enrichment
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
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
    return pripel_enrichment.Enriched.of(raw, query, contents, keyed)


def minutes(times: np.ndarray) -> list[int]:
    assert not (times % MINUTE).any()
    return (times // MINUTE).tolist()


def test_the_kth_event_of_an_activity_takes_the_kth_of_the_case() -> None:
    raw = trace_batch({"1": "A B A C", "2": "B B"}, NAMES)
    released = trace_batch({"1": "A C A A B D", "2": "A B B B"}, NAMES)
    assert pripel_enrichment.matched_events(raw, released).tolist() == [
        0,
        3,
        2,
        -1,
        1,
        -1,
        -1,
        4,
        5,
        -1,
    ]


def test_cases_are_taken_in_the_order_of_their_ranks_each_once_before_any_again() -> None:
    identities = np.array([[k, 7] for k in (5, 1, 3, 9)], np.uint64)
    ranks = CaseRanks.of(np.array([0, 0, 0, 1]), identities)
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


def test_a_case_is_the_same_in_any_batch_and_its_replicas_differ() -> None:
    keyed = randomness()
    raw = trace_batch({str(i): f"A@{i} B@{20 + i}" for i in range(20)}, NAMES)
    raw = with_values(raw, ["r", "s"] * 20, ["3", "3"] * 20)
    table = DurationTable.from_events(np.array([2]), np.array([1]))
    case = made(raw, {str(i): "ABC" for i in range(20)}, TIMES, keyed, {WHO.name: table})

    def rows(
        batches: list[TraceBatch], contents: pripel_enrichment.ContentsDecision
    ) -> list[tuple[object, ...]]:
        found = []
        for batch in batches:
            args = (case.query, contents, (WHO, AGE), 1.0, True, keyed)
            for row in pripel_enrichment.enriched(batch, *args).to_rows().to_pylist():
                found.append(tuple(row.values()))
        return sorted(found, key=str)

    whole = rows([raw], case.contents)
    assert len(whole) == 60
    parts = [raw.take(np.arange(first, 20, 3)) for first in range(3)]
    assert rows([*parts, raw.take(np.zeros(0, np.int64))], case.contents) == whole
    again = replace(case.contents, replica=np.ones(20, np.int64))
    other = rows([raw], again)
    for column in (0, 2):  # the new id, and the stamp
        assert not {row[column] for row in other} & {row[column] for row in whole}
