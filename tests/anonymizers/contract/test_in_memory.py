"""The driver without Beam: grouping, the order of the steps, what it hands to whom."""

from __future__ import annotations

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
from tracecloak.anonymizers.contract.in_memory import anonymise, group_into_traces
from tracecloak.anonymizers.contract.method import Products
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.traces import TraceBatch

rows = st.lists(
    st.tuples(st.sampled_from("12345"), st.sampled_from("ABC"), st.integers(0, 3)), max_size=15
)


def naive_cases(log: list[tuple[str, str, int]]) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Cases of rows in document order; the sort is stable, so ties keep that order."""
    cases: dict[str, list[tuple[str, int]]] = {}
    for case, activity, time in log:
        cases.setdefault(case, []).append((activity, time))
    return sorted(
        (case, tuple(sorted(events, key=lambda event: event[1]))) for case, events in cases.items()
    )


@given(rows, st.integers(1, 20), st.integers(1, 4))
def test_grouping_makes_the_cases_of_the_document(
    log: list[tuple[str, str, int]], n_shards: int, n_batches: int
) -> None:
    batch = canonical_events(log)
    cuts = np.linspace(0, len(log), n_batches + 1).astype(int)
    pieces = [batch.slice(a, b - a) for a, b in pairwise(cuts)]
    traces = group_into_traces(pieces[::-1], n_shards)
    assert rows_of(traces) == naive_cases(log)
    assert len(traces) <= min(n_shards, len({row[0] for row in log}))
    assert all(each.vocabulary == traces[0].vocabulary for each in traces)
    assert not traces or set(traces[0].vocabulary.names.to_pylist()) == {row[1] for row in log}


class Noting:
    """A method of two rounds that notes how it is called, and releases what it is given."""

    name = "noting"
    log = "transformed"

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def bounds(self, params: str) -> ContributionBounds:
        return ContributionBounds()

    def attributes(self, params: str) -> tuple[Attribute, ...]:
        return ()

    def carried(self, params: str) -> dict[str, pa.DataType]:
        return {}

    def rounds(self, params: str) -> tuple[str, ...]:
        return ("one", "two")

    def requires(self, round_name: str, params: str) -> dict[str, Any]:
        return {f"{round_name} a": _NotingCounter(self), f"{round_name} b": _NotingCounter(self)}

    def decide(
        self, round_name: str, statistics: dict[str, Any], decisions: Any, params: str, keyed: Any
    ) -> str:
        counted = {name: total.n_cases for name, total in statistics.items()}
        self.calls.append((round_name, counted, dict(decisions), params, keyed is not None))
        return f"decided {round_name}"

    def apply(self, traces: TraceBatch, decisions: Any, params: str, keyed: Any) -> TraceBatch:
        self.calls.append(("apply", traces.n_cases, dict(decisions), params))
        return traces

    def products(self, decisions: Any, params: str) -> Products:
        self.calls.append(("products", dict(decisions), params))
        return Products({})


class _Cases:
    def __init__(self, n_cases: int) -> None:
        self.n_cases = n_cases
        self.weight = 1

    @classmethod
    def merge(cls, pieces: Any) -> _Cases:
        return cls(sum(piece.n_cases for piece in pieces))


class _NotingCounter:
    kind = _Cases

    def __init__(self, method: Noting) -> None:
        self._method = method

    def count(self, traces: TraceBatch, decisions: Any, keyed: Any) -> _Cases:
        self._method.calls.append(("count", list(decisions), bool(keyed.input_digest)))
        return _Cases(traces.n_cases)


def test_rounds_are_counted_and_decided_in_order_and_then_applied() -> None:
    traces = table_1(n_shards=2)
    assert len(traces) == 2
    method = Noting()
    steps: list[str] = []
    made = anonymise(traces, method, "params", release_key(), "r", "c", steps.append)
    assert steps == ["one", "two", "release"]
    done = {"one": "decided one", "two": "decided two"}
    assert method.calls == [
        # The first round's randomness is that of the units: the input's digest is not known.
        *[("count", [], False)] * 4,
        ("one", {"one a": 6, "one b": 6}, {}, "params", True),
        *[("count", ["one"], True)] * 4,
        ("two", {"two a": 6, "two b": 6}, {"one": "decided one"}, "params", True),
        *[("apply", batch.n_cases, done, "params") for batch in traces],
        ("products", done, "params"),
    ]
    assert made.traces == traces
    assert len(made.input_digest) == 48


def test_statistics_of_no_batches_are_those_of_an_empty_log() -> None:
    method = Noting()
    made = anonymise([], method, "params", release_key(), "r", "c")
    assert made.traces == []
    assert [call[:2] for call in method.calls[:-1]] == [
        ("one", {"one a": 0, "one b": 0}),
        ("two", {"two a": 0, "two b": 0}),
    ]
    assert method.calls[-1][0] == "products"
    assert made.input_digest == "0" * 48
