"""Tallies of what was read: they merge in any order, and say how many, of what, and where first."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.record_files import canonical
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import FILE_STRIDE
from tracecloak.schemas.events.tally import (
    EMPTY_TIME,
    FINDINGS,
    FileTally,
    Finding,
    Noted,
    ReadTally,
    Reject,
    SetAside,
    TraceNames,
    pairs_of_records,
)

SECRET = "patient-4711"
_FILES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(FINDINGS), st.lists(st.integers(0, FILE_STRIDE - 1), max_size=4)),
        max_size=4,
    ),
    max_size=5,
)


def tally_of(rank: int, added: list[tuple[str, list[int]]]) -> ReadTally:
    tally = FileTally(rank)
    tally.add_events(rank)
    for what, records in added:
        tally.add(what, np.array(records, np.int64))
    return tally.result()


@given(files=_FILES, order=st.randoms())
def test_a_tally_says_how_many_and_the_first_whatever_the_order(files: Any, order: Any) -> None:
    pieces = [tally_of(rank, added) for rank, added in enumerate(files)]
    order.shuffle(pieces)
    half = len(pieces) // 2
    merged = ReadTally.merge([ReadTally.merge(pieces[:half]), ReadTally.merge(pieces[half:])])
    merged = decode(encode(merged))  # as it travels
    places = {
        what: [(r, n) for r, added in enumerate(files) for w, ns in added if w == what for n in ns]
        for what in FINDINGS
    }
    if not (places[Noted.WHOLE_KEY] and places[Noted.POINT_KEY]):
        places[Noted.WHOLE_KEY] = places[Noted.POINT_KEY] = []
    expected = [Finding(what, len(at), *min(at)) for what, at in places.items() if at]
    assert merged.found() == expected
    body = json.loads(json.dumps(merged.to_json()))
    again = ReadTally.from_json(body)
    assert again.found() == expected
    n_lost = sum(f.n_records for f in expected if f.is_lost)
    n_used = sum(range(len(files))) - merged.n_of(SetAside.DUPLICATE)
    for one in (merged, again):
        assert (one.n_lost, one.n_used, one.n_records) == (n_lost, n_used, n_used + n_lost)
        assert sum(one.causes().values()) == n_lost and one.share == merged.share
    assert (body["records"], body["share"]) == (n_used + n_lost, merged.share)


def read(columns: dict[str, list[Any]], malformed: tuple[int, ...] = (), **mapping: Any) -> Any:
    tally = FileTally(0)
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    n = len(next(iter(columns.values()))) + len(malformed)
    numbers = [number for number in range(n) if number not in malformed]
    made = ColumnMapping(**mapping)
    events, rejects = canonical(texts, made, numbers, malformed, tally=tally)
    assert tally.result().n_events == events.num_rows
    assert tally.result().n_rejects == rejects.num_rows
    assert SECRET not in str(tally.result().to_json())
    return {f.what: (f.n_records, f.record) for f in tally.result().found()}


def test_malformed_records_are_told_by_reason_and_a_missing_time_is_not_an_unreadable_one() -> None:
    found = read(
        {
            "case_id": ["", SECRET, SECRET, SECRET, SECRET, SECRET, "ok"],
            "activity": ["A", "", "A", "A", "A", "A", "A"],
            "timestamp": ["soon", "soon", "soon", "", SECRET, None, "2026-01-01"],
        },
        malformed=(2, 5),
    )
    assert found == {
        Reject.NO_CASE: (1, 0), Reject.NO_ACTIVITY: (1, 1), Reject.NO_TIME: (2, 3),
        EMPTY_TIME: (2, 4), Reject.NO_RECORD: (2, 2)
    }  # fmt: skip


def test_times_that_the_clock_skips_or_shows_twice_are_counted() -> None:
    stamps = [
        "2026-03-29 01:59:59", "2026-03-29 02:00:00", "2026-03-29T02:59:59.999999",
        "2026-03-29 03:00:00", "2026-10-25 01:59:59", "2026-10-25 02:00", "2026-10-25 02:59:59",
        "2026-10-25 03:00", "2026-03-29T02:30:00Z", "2026-10-25T02:30:00+02:00",
    ]  # fmt: skip
    columns = {"case_id": ["c"] * 10, "activity": ["A"] * 10, "timestamp": stamps}
    berlin = read(columns, time_zone="Europe/Berlin")
    assert berlin == {Noted.SKIPPED_HOUR: (2, 1), Noted.REPEATED_HOUR: (2, 5)}
    assert read(columns) == {}
    columns["timestamp"] = ["29.03.2026 02:30", "25.10.2026 02:30"] * 5
    formatted = {"time_zone": "Europe/Berlin", "timestamp_format": "%d.%m.%Y %H:%M"}
    assert read(columns, **formatted) == {Noted.SKIPPED_HOUR: (5, 0), Noted.REPEATED_HOUR: (5, 1)}


def test_case_ids_of_two_forms_are_counted_and_those_of_one_are_not() -> None:
    def of(*ids: str) -> Any:
        n = len(ids)
        stamps = ["2026-01-01"] * n
        return read({"case_id": list(ids), "activity": ["A"] * n, "timestamp": stamps})

    assert of("5", "5.0", "6.00", "-7", "5.5", "x5.0") == {
        Noted.WHOLE_KEY: (2, 0),
        Noted.POINT_KEY: (2, 1),
    }
    assert of("5", "6") == of("5.0", "6.0") == of("5", "5.5") == {}


def test_traces_with_the_name_of_an_earlier_one_are_found_across_batches() -> None:
    names = TraceNames()

    def repeated(traces: list[int], of: list[str | None]) -> list[int]:
        return names.repeated(np.array(traces, np.int64), pa.array(of, pa.string())).tolist()

    assert repeated([0, 0, 1, 2], ["a", "a", "b", "a"]) == [3]
    assert repeated([2, 3, 4, 5], ["a", "b", None, "c"]) == [1]  # the first goes on
    assert repeated([], []) == []
    assert repeated([7, 8], [None, "c"]) == [1]


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_pairs_are_those_of_queues(records: list[tuple[int, bool]]) -> None:
    """Starts and completions are paired first in, first out."""
    queues: dict[int, deque[int]] = {}
    expected = []
    for place, (group, is_start) in enumerate(records):
        queue = queues.setdefault(group, deque())
        if is_start:
            queue.append(place)
        elif queue:
            expected.append((queue.popleft(), place))
    groups = np.array([group for group, _ in records], np.int64)
    starts, ends = pairs_of_records(groups, np.array([s for _, s in records], bool))
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(expected)
