"""The digest of a log and the sketch of its cases: on what they depend, and how pieces add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import canonical_events, table_1, traces_of
from tests.support.rounds import rows_of
from tests.support.tiers import each_row
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.case_digests import MAX_DIGESTS, CaseSketch, InputDigest
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, anonymise, group_into_traces
from tracecloak.anonymizers.contract.method import Products
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

Row = tuple[str, str, int]


def log_of(text: str) -> list[Row]:
    """Events such as 1A10: of case 1, activity A, at 10."""
    return [(event[0], event[1], int(event[2:])) for event in text.split()]


BASE = log_of("1A10 1B20 1C20 2A10 2B30")

rows = st.lists(
    st.tuples(st.sampled_from(["1", "2", "3", ""]), st.text(max_size=3), st.integers(-50, 50)),
    max_size=12,
)


def digest(batches: list[TraceBatch], number: int = 0) -> str:
    key = release_key(number)
    return InputDigest.merge([InputDigest.from_traces(batch, key) for batch in batches]).hex


def of_rows(log: list[Row], number: int = 0) -> str:
    return digest(traces_of(log), number)


CHANGED = {
    "another case id": "1A10 1B20 1C20 9A10 9B30",
    "another activity": "1A10 1B20 1C20 2A10 2C30",
    "another time": "1A10 1B20 1C20 2A10 2B31",
    "another order of a tie": "1A10 1C20 1B20 2A10 2B30",
    "activities of two events of a case swapped": "1B10 1A20 1C20 2A10 2B30",
    "activities of two cases swapped": "1A10 1B20 1B20 2A10 2C30",
    "times of two events swapped over cases": "1A10 1B20 1C30 2A10 2B20",
    "cases swapped": "2A10 2B20 2C20 1A10 1B30",
    "an event less": "1A10 1B20 1C20 2A10",
    "a case less": "1A10 1B20 1C20",
    "an event twice": "1A10 1B20 1C20 2A10 2B30 2B30",
    "a case split in two": "1A10 1B20 3C20 2A10 2B30",
    "two cases joined": "1A10 1B20 1C20 1A10 1B30",
    "nothing": "",
}


@each_row("change", CHANGED)
def test_every_change_of_the_log_changes_the_digest(change: str) -> None:
    assert of_rows(log_of(CHANGED[change])) != of_rows(BASE)


@given(rows, st.randoms(use_true_random=False), st.integers(1, 7))
def test_batches_shards_and_their_order_do_not_matter(
    log: list[Row], order: Any, n_shards: int
) -> None:
    batch = canonical_events(log)
    places = list(range(len(log)))
    order.shuffle(places)
    mixed = batch.take(
        pa.array(places, pa.int64())
    )  # with their event numbers, so ties keep their order
    cut = order.randint(0, len(log))
    shards = group_into_traces([mixed.slice(cut), mixed.slice(0, cut)], n_shards)
    order.shuffle(shards)
    assert digest(shards) == of_rows(log)


def test_the_digest_of_one_log_does_not_tell_that_of_its_events() -> None:
    """Keyed: the difference that one event makes is another under another key."""
    differences = set()
    for number in range(8):
        key = release_key(number)
        [all_rows], [fewer] = traces_of(BASE), traces_of(BASE[:-1])
        lanes = InputDigest.from_traces(all_rows, key).lanes
        difference = lanes - InputDigest.from_traces(fewer, key).lanes
        differences.add(tuple(difference.tolist()))
    assert len(differences) == 8


def of_attributes(**attributes: list[str | None]) -> str:
    [traces] = traces_of(BASE)
    arrays = {
        name: pa.array(values, pa.string()).dictionary_encode()
        for name, values in attributes.items()
    }
    return digest([replace(traces, attributes=arrays)])


def test_every_value_of_an_attribute_is_digested_with_its_event_and_its_name() -> None:
    """Catches noise that stays the same when nothing but an attribute has changed."""
    values = ["x", "y", None, "x", ""]
    found = [
        of_rows(BASE),
        of_attributes(one=values),
        of_attributes(two=values),
        of_attributes(one=values, two=values),
        of_attributes(one=["y", "x", None, "x", ""]),
        of_attributes(one=["x", None, "y", "x", ""]),
        of_attributes(one=["x", "y", "", "x", ""]),
        of_attributes(one=["x", "y", "", "x", None]),
    ]
    assert len(set(found)) == len(found)
    assert of_attributes(one=values, two=["z"] * 5) == of_attributes(two=["z"] * 5, one=values)


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
SKETCH_BASE: list[Row] = [
    row
    for i in range(N)
    for row in ((str(i), "A", 100 + i), (str(i), "B", 100 + i), (str(i), "C", 900))
]


def changed(which: Callable[[Row], bool], by: Callable[[Row], Row]) -> list[Row]:
    return [by(row) if which(row) else row for row in SKETCH_BASE]


@each_row(
    ("other", "share"),
    [
        (SKETCH_BASE[::-1], 1.0),  # also of events at the same time
        ([row for row in SKETCH_BASE if row[1] != "C"], 1.0),  # what comes later is of no account
        ([*SKETCH_BASE, ("x", "A", 10)], 1.0),  # all of the smaller log's
        (changed(lambda row: int(row[0]) < 15, lambda row: (f"x{row[0]}", *row[1:])), 0.5),
        (
            changed(lambda row: row[1] == "A" or row[1] == "B", lambda row: (row[0], "X", row[2])),
            0.0,
        ),
        (changed(lambda row: row[2] < 106, lambda row: (*row[:2], row[2] - 50)), 0.8),
        (changed(lambda row: True, lambda row: (f"x{row[0]}", *row[1:])), 0.0),
        (SKETCH_BASE[: 3 * 19], None),
        ([], None),
    ],
)
def test_a_case_is_its_id_its_first_time_and_what_happened_then(
    other: list[Row], share: float | None
) -> None:
    one, two = sketch(traces_of(SKETCH_BASE)), sketch(traces_of(other))
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


@each_row("data", [b"123", b"\2" * 16, bytes(8 * (MAX_DIGESTS + 1))])
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


# --- The executor without Beam --------------------------------------------------------------------


Rows = list[tuple[str, str, int]]
ROWS = st.tuples(st.sampled_from("12345"), st.sampled_from("ABC"), st.integers(0, 3))


@given(st.lists(ROWS, max_size=15), st.integers(1, 20), st.integers(1, 4))
def test_grouping_makes_the_cases_of_the_document(log: Rows, n_shards: int, n_batches: int) -> None:
    """Against a stable sort of each case: what has one time stays in the order of the document."""
    cases: dict[str, list[tuple[str, int]]] = {}
    for case, activity, time in log:
        cases.setdefault(case, []).append((activity, time))
    naive = {case: tuple(sorted(events, key=lambda e: e[1])) for case, events in cases.items()}
    batch, cuts = canonical_events(log), np.linspace(0, len(log), n_batches + 1).astype(int)
    pieces = [batch.slice(a, b - a) for a, b in pairwise(cuts)]
    traces = group_into_traces(pieces[::-1], n_shards)
    assert rows_of(traces) == sorted(naive.items())
    assert len(traces) <= min(n_shards, len(cases))
    assert all(set(each.vocabulary.names.to_pylist()) == {row[1] for row in log} for each in traces)


@dataclass
class Cases:
    n_cases: int

    @classmethod
    def merge(cls, pieces: Any) -> Cases:
        return cls(sum(piece.n_cases for piece in pieces))


class Counter:
    kind = Cases

    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def count(self, traces: Any, decisions: Any, keyed: Any) -> Cases:
        self._calls.append(("count", list(decisions), bool(keyed.input_digest)))
        return Cases(traces.n_cases)


class Noting:
    """A method of two rounds that notes how it is called, and releases what it is given."""

    name, log = "noting", "transformed"

    def __init__(self, **carried: pa.DataType) -> None:
        self.calls: list[Any] = []
        self.carried = lambda _: carried
        self.bounds = lambda _: ContributionBounds()
        self.attributes = lambda _: ()
        self.rounds = lambda _: ("one", "two")
        self.keeps, self.known = lambda *_: False, lambda known: known

    def requires(self, name: str, _: str) -> dict[str, Any]:
        return {f"{name} a": Counter(self.calls), f"{name} b": Counter(self.calls)}

    def decide(self, name: str, statistics: Any, decisions: Any, params: str, keyed: Any) -> str:
        counted = {name: all_.n_cases for name, all_ in statistics.items() if name != INPUT_DIGEST}
        self.calls.append((name, counted, dict(decisions), params, keyed is not None))
        return f"decided {name}"

    def apply(self, traces: Any, decisions: Any, params: str, _: Any) -> Any:
        self.calls.append(("apply", traces.n_cases, dict(decisions), params))
        return traces

    def products(self, decisions: Any, params: str) -> Products:
        self.calls.append(("products", dict(decisions), params))
        return Products({})


def test_rounds_are_counted_and_decided_in_order_and_then_applied() -> None:
    """With the attributes that are declared, on which alone the digest depends."""
    plain, method = table_1(n_shards=2), Noting(a=pa.string())
    texts = [pa.array(batch.times.tolist()).cast("string").dictionary_encode() for batch in plain]
    traces = [
        replace(batch, attributes={"a": text, "b": text})
        for batch, text in zip(plain, texts, strict=True)
    ]
    made = anonymise(traces, method, "params", release_key(), "r", "c")
    done = {"one": "decided one", "two": "decided two"}
    assert method.calls == [
        # The first round's randomness is that of the units: the input's digest is not there yet.
        *[("count", [], False)] * 4,
        ("one", {"one a": 6, "one b": 6}, {}, "params", True),
        *[("count", ["one"], True)] * 4,
        ("two", {"two a": 6, "two b": 6}, {"one": "decided one"}, "params", True),
        ("products", done, "params"),
        *[("apply", batch.n_cases, done, "params") for batch in traces],
    ]
    assert [list(batch.attributes) for batch in made.traces] == [["a"], ["a"]]
    only_a = [replace(batch, attributes={"a": batch.attributes["a"]}) for batch in traces]
    again = anonymise(only_a, Noting(a=pa.string()), "params", release_key(), "r", "c")
    assert (again.traces, again.input_digest) == (only_a, made.input_digest)
    other = anonymise(plain, Noting(), "params", release_key(), "r", "c")
    assert other.traces == plain and other.input_digest != made.input_digest


def test_statistics_of_no_batches_are_those_of_an_empty_log() -> None:
    method = Noting()
    made = anonymise([], method, "params", release_key(), "r", "c")
    assert (made.traces, made.input_digest) == ([], "0" * 48)
    assert [call[:2] for call in method.calls[:2]] == [
        ("one", {"one a": 0, "one b": 0}),
        ("two", {"two a": 0, "two b": 0}),
    ]
