"""The sketch of a log's cases: what it is of, how pieces merge, what two tell about each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import traces_of
from tracecloak.anonymizers.contract.case_digests import MAX_DIGESTS, CaseSketch
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

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


N = 30
BASE: list[Row] = [
    row
    for i in range(N)
    for row in ((str(i), "A", 100 + i), (str(i), "B", 100 + i), (str(i), "C", 900))
]


def changed(which: Callable[[Row], bool], by: Callable[[Row], Row]) -> list[Row]:
    return [by(row) if which(row) else row for row in BASE]


@pytest.mark.parametrize(
    ("other", "share"),
    [
        (BASE[::-1], 1.0),  # also of events at the same time
        ([row for row in BASE if row[1] != "C"], 1.0),  # what comes later is of no account
        ([*BASE, ("x", "A", 10)], 1.0),  # all of the smaller log's
        (changed(lambda row: int(row[0]) < 15, lambda row: (f"x{row[0]}", *row[1:])), 0.5),
        (
            changed(lambda row: row[1] == "A" or row[1] == "B", lambda row: (row[0], "X", row[2])),
            0.0,
        ),
        (changed(lambda row: row[2] < 106, lambda row: (*row[:2], row[2] - 50)), 0.8),
        (changed(lambda row: True, lambda row: (f"x{row[0]}", *row[1:])), 0.0),
        (BASE[: 3 * 19], None),
        ([], None),
    ],
)
def test_a_case_is_its_id_its_first_time_and_what_happened_then(
    other: list[Row], share: float | None
) -> None:
    one, two = sketch(traces_of(BASE)), sketch(traces_of(other))
    assert one.shared_with(two) == two.shared_with(one) == share


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
