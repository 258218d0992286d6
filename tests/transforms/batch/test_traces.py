"""The shuffle by individual equals the driver in memory, and loses no event silently."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that

from tests.support.logs import event_batch, read_cases_of_individuals
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.traces import GroupIntoTraces


def batches() -> list[pa.RecordBatch]:
    """Cases of 20 individuals, of which every third case names two, spread over three batches."""
    events = [
        (i, (f"c{case}", "ABC"[i % 3], 7 * i), f"i{(case + (case % 3 == 0) * (i % 2)) % 20}")
        for i in range(400)
        for case in [i * 11 % 45]
    ]
    hands = [events[k::3] for k in range(3)]
    return [
        event_batch([e for _, e, _ in hand], [i for i, _, _ in hand], [who for _, _, who in hand])
        for hand in hands
    ]


def grouped_of(
    pipeline: beam.Pipeline, events: list[pa.RecordBatch], shards: int
) -> beam.PCollection:
    created = pipeline | beam.Create(events).with_output_types(pa.RecordBatch)
    return created | GroupIntoTraces(shards, by_individual=True)


@pytest.mark.parametrize("shards", [1, 5])
def test_the_shuffle_keeps_every_individual_whole(shards: int) -> None:
    (whole,) = group_into_traces(batches(), 1, by_individual=True)
    expected = read_cases_of_individuals(whole)
    assert len(expected) > 45 and whole.vocabulary.names.to_pylist() == ["A", "B", "C"]

    def same_cases(found: Iterable[TraceBatch]) -> None:
        cases: dict[tuple[str, str], object] = {}
        individuals: list[str] = []
        for batch in found:
            assert batch.vocabulary == whole.vocabulary
            cases.update(read_cases_of_individuals(batch))
            individuals += set(batch.individuals.to_pylist())
        assert len(set(individuals)) == len(individuals) == 20
        assert cases == expected

    with beam.Pipeline("FnApiRunner") as pipeline:
        assert_that(grouped_of(pipeline, batches(), shards), same_cases)
