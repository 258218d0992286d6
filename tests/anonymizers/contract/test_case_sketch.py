"""The sketch of a log's cases: what it is of, how pieces merge, what two tell about each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import traces_of
from tracecloak.anonymizers.contract.case_sketch import MAX_DIGESTS, CaseSketch, share_text
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

DAY_US = 86_400_000_000
Row = tuple[str, str, int]


def sketch(batches: list[TraceBatch], number: int = 0) -> CaseSketch:
    key = release_key(number)
    return CaseSketch.merge([CaseSketch.from_traces(batch, key) for batch in batches])


def log(ids: list[str], starts: np.ndarray, first: str = "A") -> TraceBatch:
    """A case of two events for each id."""
    n = len(ids)
    return TraceBatch(
        case_ids=pa.array(ids, pa.string()),
        offsets=2 * np.arange(n + 1),
        activities=np.tile(np.array([0, 1], np.int32), n),
        times=np.repeat(starts, 2) + np.tile([0, 1_000_000], n),
        vocabulary=ActivityVocabulary.of([first, "Z"]),
    )


def numbered(n: int, starts: np.ndarray, begin: int = 1) -> TraceBatch:
    return log([str(i) for i in range(begin, begin + n)], starts)


def seconds_of_a_year(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 365 * 86_400, n) * 1_000_000


def days(n: int, seed: int, n_days: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n_days, n) * DAY_US


# --- what it is of ------------------------------------------------------------------------------

BASE: list[Row] = [("1", "A", 10), ("1", "B", 20), ("2", "A", 10), ("2", "C", 30)]


@pytest.mark.parametrize(
    ("other", "share"),
    [
        (BASE[::-1], 1.0),
        ([("1", "A", 10), ("2", "A", 10)], 1.0),  # what comes after the start is of no account
        ([*BASE, ("3", "A", 10)], 1.0),  # all of the smaller log's
        ([("9", "A", 10), *BASE[2:]], 0.5),
        ([("1", "X", 10), *BASE[1:]], 0.5),
        ([("1", "A", 11), *BASE[1:]], 0.5),
        ([("8", "A", 10), ("9", "A", 10)], 0.0),
        ([], None),
    ],
)
def test_a_case_is_its_id_its_first_time_and_its_first_activity(
    other: list[Row], share: float | None
) -> None:
    one, two = sketch(traces_of(BASE)), sketch(traces_of(other))
    assert one.shared_with(two) == two.shared_with(one) == share


def test_under_another_key_it_is_another_and_tells_nothing() -> None:
    one, two = (sketch(traces_of(BASE), number) for number in (0, 1))
    assert one.shared_with(two) == 0.0


@given(
    n=st.integers(0, 3000),
    pieces=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_pieces_merge_to_the_smallest_digests_of_all(n: int, pieces: int, seed: int) -> None:
    """The reference: the digests of parts so small that all are kept, in one set, sorted."""
    starts = seconds_of_a_year(n, seed)
    key = release_key()
    cuts = np.sort(np.random.default_rng(seed).integers(0, n + 1, pieces - 1))
    parts = [
        CaseSketch.from_traces(numbered(b - a, starts[a:b], 1 + a), key)
        for a, b in zip([0, *cuts], [*cuts, n], strict=True)
    ]
    whole = [
        CaseSketch.from_traces(numbered(len(own), own, 1 + at), key)
        for at in range(0, n, 700)
        for own in [starts[at : at + 700]]
    ]
    expected = sorted({int(d) for part in whole for d in part.digests})[:MAX_DIGESTS]
    merged_before = [CaseSketch.merge(parts[:2]), *parts[2:]]
    for order in (parts, parts[::-1], merged_before, 3 * parts):
        merged = CaseSketch.merge(order)
        assert merged.digests.tolist() == expected
        assert CaseSketch.from_bytes(merged.to_bytes()).digests.tolist() == expected
    assert merged.is_whole == (n < MAX_DIGESTS)
    if n < MAX_DIGESTS:
        assert merged.n_cases == n


@pytest.mark.parametrize("data", [b"123", b"\2" * 16, bytes(8 * (MAX_DIGESTS + 1))])
def test_other_bytes_are_no_sketch(data: bytes) -> None:
    with pytest.raises(ValueError):
        CaseSketch.from_bytes(data)


# --- what two tell of what they share -----------------------------------------------------------


@pytest.mark.parametrize("n", [2_000, 50_000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_shares_and_sizes_are_told_within_a_twentieth(n: int, share: float) -> None:
    starts = seconds_of_a_year(2 * n, 1)
    n_common = round(share * n)
    one = sketch([numbered(n, starts[:n])])
    begin = n - n_common
    two = sketch([numbered(n, starts[begin : begin + n], 1 + begin)])
    assert one.shared_with(two) == pytest.approx(share, abs=0.05)
    assert one.n_cases == pytest.approx(n, rel=0.1)


@pytest.mark.parametrize(("times", "is_told"), [(10, True), (30, True), (300, False)])
def test_a_much_larger_log_is_compared_as_long_as_enough_is_left(times: int, is_told: bool) -> None:
    n = 1_000
    starts = seconds_of_a_year(n * times, 2)
    part, whole = sketch([numbered(n, starts[:n])]), sketch([numbered(n * times, starts)])
    assert part.shared_with(whole) == (1.0 if is_told else None)


@pytest.mark.parametrize("n", [30, 1_000, 20_000])
@pytest.mark.parametrize(
    ("name", "largest"), [("seconds", 0.001), ("days of a year", 0.1), ("days of a month", 0.18)]
)
def test_logs_that_are_numbered_alike_share_next_to_nothing(
    n: int, name: str, largest: float
) -> None:
    """Ids from 1 on, the same first activity and period: no alarm, which begins at a fifth."""
    found = []
    for seed in range(20):
        starts = [
            {
                "seconds": seconds_of_a_year(n, s),
                "days of a year": days(n, s, 365),
                "days of a month": days(n, s, 30),
            }[name]
            for s in (2 * seed, 2 * seed + 1)
        ]
        found.append(sketch([numbered(n, starts[0])]).shared_with(sketch([numbered(n, starts[1])])))
    assert max(found) <= largest


def test_a_share_in_words() -> None:
    assert [share_text(s) for s in (0.2, 0.449, 0.94, 0.96, 1)] == [
        "about 20 %", "about 40 %", "about 90 %", "nearly all", "nearly all",
    ]  # fmt: skip
