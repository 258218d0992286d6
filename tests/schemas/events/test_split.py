"""Batches of cases that are split so that each is small."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import Event, event_logs, plain, trace_batch
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.events.traces import TraceBatch


@given(event_logs(), st.integers(1, 400))
def test_split_keeps_every_case_once_and_in_order(log: list[Event], max_bytes: int) -> None:
    traces = trace_batch(log)
    pieces = list(traces.split(max_bytes))
    assert plain(TraceBatch.concat(pieces)) == plain(traces)
    assert len(pieces) == 1 or all(piece.n_cases for piece in pieces)
    if max_bytes == 1:
        assert len(pieces) == max(1, traces.n_cases)


@pytest.fixture
def large() -> TraceBatch:
    """600 cases of 200 individuals, each with a text of its own."""
    traces = trace_batch({f"c{i:03}": "A B C" for i in range(600)})
    whose = pa.array([f"p{i // 3:03}" for i in range(600)])
    texts = pa.array([f"{'x' * 50}{i // 3}" for i in range(traces.n_events)]).dictionary_encode()
    return replace(traces, individuals=whose, attributes={"note": texts})


def test_an_individual_is_in_one_batch(large: TraceBatch) -> None:
    pieces = list(large.split(4_000))
    assert len(pieces) > 5
    seen = [set(piece.individuals.to_pylist()) for piece in pieces if piece.individuals]
    assert sum(len(names) for names in seen) == len(set.union(*seen)) == 200


def test_a_small_batch_carries_no_value_of_another(large: TraceBatch) -> None:
    """Catches a slice that sends the dictionary of all, however small it is itself."""
    pieces = list(large.split(4_000))
    assert max(len(encode(piece)) for piece in pieces) < len(encode(large)) / 4
    values = [v for piece in pieces for v in piece.attributes["note"].to_pylist()]
    assert values == large.attributes["note"].to_pylist()
    assert {piece.attributes["note"].type for piece in pieces} == {large.attributes["note"].type}
