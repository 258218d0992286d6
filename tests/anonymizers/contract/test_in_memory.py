"""The executor without Beam: grouping, the order of the steps, what each is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.paper_log import canonical_events, table_1
from tests.support.rounds import rows_of
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, anonymise, group_into_traces
from tracecloak.anonymizers.contract.method import Products

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
