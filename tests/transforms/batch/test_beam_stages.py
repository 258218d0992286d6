"""The Beam stages: coders, the combiner, the shuffle, and what a retry does."""

import pickle
import re
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.pipelines.embedded.anonymize import AnonymizeEventLog
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.schemas.events.traces import without_duplicates
from tracecloak.transforms.batch.job import DeadLetter, ReleaseRun
from tracecloak.transforms.batch.traces import DropDuplicates
from tracecloak.transforms.keys.wrapping import KeyReference


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


def test_a_pipeline_is_built_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only workers resolve it, so it cannot be part of the graph (and it does not pickle)."""

    def resolved(self: KeyReference) -> None:
        raise AssertionError("the key was resolved where the pipeline is built")

    monkeypatch.setattr(KeyReference, "resolve", resolved)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    created = pipeline | beam.Create(events(3)).with_output_types(pa.RecordBatch)
    _ = created | AnonymizeEventLog("amun", key="env:TEST_KEY", release_id="r", unaccounted=True)
    assert pipeline.to_runner_api().components.transforms


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


def test_a_run_that_knows_its_key_travels_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "cd" * 32)
    run = ReleaseRun(Amun(), Amun.Params(), "r", "conf", key=KeyReference("env:TEST_KEY"))
    run.known()
    assert b"\xcd" * 32 not in pickle.dumps(run)


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
