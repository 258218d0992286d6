"""The Beam stages: coders, the combiner, the shuffle, and what a retry does."""

import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.pipelines.embedded.anonymize import AnonymizeEventLog
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.schemas.events.traces import without_duplicates
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.batch.anonymize import AnonymizeTraces
from tracecloak.transforms.batch.job import DeadLetter, ReleaseRun
from tracecloak.transforms.batch.traces import DropDuplicates, GroupIntoTraces, MergeStatisticsFn
from tracecloak.transforms.keys.wrapping import KeyReference

KINDS = {"variants": VariantHistogram, "pairs": DirectlyFollows}


def events(n_cases: int, batch_cases: int = 7) -> list[pa.RecordBatch]:
    """Canonical events of a hospital log."""
    mapping = ColumnMapping()
    batches, first = [], 0
    for rows in hospital_log(n_cases, batch_cases):
        resolved = mapping.resolve(rows.schema.names, xes_names=False)
        none = np.zeros(0, np.int64)
        numbers = np.arange(first, first + rows.num_rows)
        batches.append(resolved.canonicalise(rows, numbers, none, 0)[0])
        first += rows.num_rows
    return batches


def counted(batches: Sequence[pa.RecordBatch]) -> list[Statistics]:
    """The statistics of each batch of complete cases, with codes agreed over all."""
    traces = group_into_traces(batches, 5)
    return [
        Statistics(
            {"variants": VariantHistogram.from_traces(t), "pairs": DirectlyFollows.from_traces(t)}
        )
        for t in traces
    ]


def test_a_pipeline_is_built_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only workers resolve it, so it cannot be part of the graph (and it does not pickle)."""

    def resolved(self: KeyReference) -> None:
        raise AssertionError("the key was resolved where the pipeline is built")

    monkeypatch.setattr(KeyReference, "resolve", resolved)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    created = pipeline | beam.Create(events(3)).with_output_types(pa.RecordBatch)
    _ = created | AnonymizeEventLog("amun", key="env:TEST_KEY", release_id="r", unaccounted=True)
    assert pipeline.to_runner_api().components.transforms


def test_the_combiner_gives_one_result_over_the_wire() -> None:
    batches = counted(events(60))
    whole = group_into_traces(events(60), 1)[0]
    fn = MergeStatisticsFn(KINDS)
    coder = fn.get_accumulator_coder()
    sent = [
        coder.decode(coder.encode(fn.compact(fn.add_input(fn.create_accumulator(), b))))
        for b in batches
    ]
    accumulator = fn.merge_accumulators([fn.create_accumulator(), *sent])
    for found in (fn.extract_output(accumulator), fn.extract_output(accumulator)):
        assert found.by_name["variants"] == VariantHistogram.from_traces(whole)
        assert found.by_name["pairs"] == DirectlyFollows.from_traces(whole)


def test_how_many_events_were_dropped_is_noted_once_for_all_batches(tmp_path: Path) -> None:
    once = events(30)
    batches = group_into_traces([*once, *once], 5)
    noted = tmp_path / "noted"

    def note(n_dropped: int) -> None:
        with noted.open("a") as lines:
            lines.write(f"{n_dropped}\n")

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create(batches) | DropDuplicates(None, note)
    n_dropped = sum(batch.n_events - without_duplicates(batch).n_events for batch in batches)
    assert len(batches) > 1 and noted.read_text() == f"{n_dropped}\n"


def _rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in batch.columns), strict=True))


class FailingOnce(beam.DoFn):
    """Fails a bundle after its stage has drawn its noise, the first time it sees one."""

    def __init__(self, marker: str) -> None:
        self._marker = Path(marker)

    def process(self, traces: Any) -> Any:
        seen = self._marker.with_suffix(".seen")
        with seen.open("a") as stream:
            stream.write(repr([_rows(traces.to_rows())]) + "\n")
        if not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("try again")
        yield traces.n_events


def test_a_retried_bundle_draws_the_same_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracecloak.anonymizers.amun.method import Amun

    monkeypatch.setenv("TEST_KEY", "cd" * 32)
    spec = ReleaseRun(Amun(), Amun.Params(), "r", "conf", key=KeyReference("env:TEST_KEY"))
    spec.known()  # it has found the key, which does not pickle
    pickle.dumps(spec)
    with beam.Pipeline("BundleBasedDirectRunner") as pipeline:
        grouped = (
            pipeline
            | beam.Create(events(30)).with_output_types(pa.RecordBatch)
            | GroupIntoTraces(1)
        )
        made = grouped | AnonymizeTraces(spec, 1)
        _ = made["traces"] | beam.ParDo(FailingOnce(str(tmp_path / "marker")))
    attempts = (tmp_path / "marker.seen").read_text().splitlines()
    assert len(attempts) >= 2
    assert len(set(attempts)) == 1


@pytest.mark.parametrize(("n_rejects", "passes"), [(0, True), (1, True), (2, False)])
def test_the_error_ratio_is_a_bound_that_may_be_met(
    tmp_path: Path, n_rejects: int, passes: bool
) -> None:
    letter = DeadLetter(str(tmp_path), 0.1)
    tally = FileTally(0)
    tally.add_events(9)
    tally.add(Reject.NO_CASE, np.arange(n_rejects))
    if passes:
        letter.check(tally.result())
    else:
        with pytest.raises(InputSchemaError, match=r"max_error_ratio=0\.1") as raised:
            letter.check(tally.result())
        # After the reservation an error has no number of the data.
        assert re.findall(r"\d+", str(raised.value).replace(str(tmp_path), "")) == ["0", "1"]
    told = letter.told()
    assert told is not None and (told.n_used, told.n_lost) == (9, n_rejects)
    assert told.found() == tally.result().found()
    letter.begin()
    assert letter.told() is None
