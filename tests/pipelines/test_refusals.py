"""What configurations, ledgers and commands refuse that no test of their own file provokes."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.pipelines.embedded.test_refused import STREAM
from tests.support.embedded import AMUN, COLUMNS, paid
from tests.support.keys import release_key
from tests.support.ledgers import reservation
from tests.support.releasing import ledger_entries, tracecloak
from tests.support.stream_runs import stream_config, stream_keys
from tracecloak import AnonymizeEventLog, PublishDirectlyFollows
from tracecloak.pipelines.budget.backups import back_up, restore
from tracecloak.pipelines.budget.opening import check_worker_keys
from tracecloak.pipelines.configuration.config import load, read_yaml
from tracecloak.pipelines.configuration.query_keys import require_files
from tracecloak.pipelines.configuration.vocabulary_file import check_new_names
from tracecloak.pipelines.embedded import claiming
from tracecloak.pipelines.embedded.canonical import _ReadBatches
from tracecloak.pipelines.embedded.read import product_batches, product_schema
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.database import Database, LedgerError, LedgerUnavailable
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.past import Past
from tracecloak.pipelines.outcomes import lineage
from tracecloak.pipelines.planning import findings
from tracecloak.pipelines.release import usable
from tracecloak.pipelines.release.querying import QueryConcern
from tracecloak.pipelines.runners.flags import refuse_unknown
from tracecloak.pipelines.stream import flink_job
from tracecloak.pipelines.stream.config import load_stream
from tracecloak.pipelines.stream.positions import _kept, positions
from tracecloak.pipelines.windows.several import _schedule_of
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import InputSchemaError, TracecloakError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import EVENT_SCHEMA
from tracecloak.transforms.batch.chunks import cut

ANY: Any = None
RELEASE = {"log": ["a.csv"], "output": "out"}
AMUN_FILE = {"method": "amun", "params": {"guessing_advantage": 0.4}}
RIGOROUS = {**RELEASE, "method": "private-dfg", "vocabulary": ["A"], "epsilon": "1"}
DAILY = {"dataset": "x", "schedule": {
    "origin": "2026-11-02", "period": "day", "max_lifetime": "1d", "horizon": 2
}}  # fmt: skip


def like(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def read_as(batch: pa.RecordBatch, **mapping: Any) -> list[Any]:
    """What a pipeline reads of a batch."""
    elements = like(mapping=ColumnMapping(**mapping), carried=())
    return list(_ReadBatches(elements).process(batch))


def no_events() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=EVENT_SCHEMA)


def unsound(folder: Path) -> None:
    """Backs a ledger up of which an entry was changed."""
    ledger = Ledger(f"sqlite:///{folder / 'l.sqlite'}", new=True)
    ledger.reserve(reservation(1))
    with sqlite3.connect(folder / "l.sqlite") as database:
        database.execute("UPDATE tracecloak_ledger SET epsilon = '0.01'")
    back_up(ledger, str(folder / "backup"))


def of_wrong_options(folder: Path) -> None:
    database = Database(f"sqlite:///{folder / 'l.sqlite'}", 0)

    def connect() -> None:
        raise TypeError("planted")

    database._engine = like(connect=connect)
    database.connect()


def told_past() -> None:
    with Past._told(like(_path="/keys/past")):
        raise sqlite3.OperationalError("disk I/O error")


def unconfirmed() -> None:
    """A release of which most first records do not count, and the operator says no."""
    books = like(look=lambda: like(state=next(iter(usable.BEGINS))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings.FirstLook, "at", lambda *_: like(unread="9 of 10 records"))
        run: Any = like(books=books, config=None, source=None, concerns=())
        usable.require_confirmation(run, lambda asked: "Release it all the same" not in asked)


def of_flink() -> None:
    flink = ["--runner=FlinkRunner", "--checkpointing_interval=60000"]
    pipeline = beam.Pipeline(options=PipelineOptions(flink))
    _ = pipeline | beam.Create([{"claim": 1}]) | PublishDirectlyFollows(**{**STREAM, **COLUMNS})


def of_two_sources() -> None:
    topic = {"input_topic": "kafka://b:1/events"}
    events = beam.Pipeline(runner="BundleBasedDirectRunner") | beam.Create([{"claim": 1}])
    _ = events | PublishDirectlyFollows(**{**STREAM, **COLUMNS, **topic})


def kept_positions(folder: Path) -> None:
    """Of an epoch whose state is gone."""
    keys = [like(resolve=lambda: release_key(1))] * 2
    of_epoch = {"config": like(runner="Local"), "keys": keys, "product": like(released=None)}
    epoch = like(**of_epoch, state_path=folder / "state")
    with _kept(epoch, ["a"]):
        pass


# What is called with a folder, the error, and the distinctive part of its message.
REFUSED: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (unsound, LedgerError, "is not sound, and is not backed up over"),
    (lambda f: back_up(Ledger(f"sqlite:///{f / 'l.sqlite'}", new=True), str(f / "b")), UsageError,
     "there is nothing to back up"),
    (lambda f: restore(KeyStore(f / "k"), f"sqlite:///{f / 'l.sqlite'}", str(f / "b"), "a", "r"),
     UsageError, "is not there; correct the path"),
    (lambda f: check_worker_keys(like(runner="DataflowRunner", worker_keys=None)), UsageError,
     "cannot read this machine's key store"),
    (lambda f: load(None, {**RIGOROUS, **DAILY, "window": "due"}).check_named(), UsageError,
     "the releases of a schedule are named by it"),
    (lambda f: load(None, {**RIGOROUS, "max_cases_per_individual": 2}), UsageError,
     "needs to know the individuals"),
    (lambda f: read_yaml(written(f / "c.yaml", "- a\n")), UsageError,
     "must be a mapping of keys to values"),
    (lambda f: require_files("SELECT 1"), UsageError, "a query is asked once"),
    (lambda f: QueryConcern().check(like(release_id=None)), UsageError,
     "the result of a query is kept for the release"),
    (lambda f: check_new_names({"a": "B"}, like(vocabulary=("A",))), UsageError,
     "the name 'B', which is not in the vocabulary"),
    (lambda f: read_as(pa.record_batch({"claim": ["1"]}), case_id="claim", activity="step"),
     InputSchemaError, "step"),
    (lambda f: read_as(no_events(), needs_individual=True, individual_id="who"), InputSchemaError,
     "name no individuals"),
    (lambda f: read_as(no_events(), order="n"), InputSchemaError, "have no order column"),
    (lambda f: of_flink(), UsageError, "loses messages of a stream"),
    (lambda f: of_two_sources(), UsageError, "a transform that begins a pipeline"),
    (lambda f: product_schema("none"), UsageError, "to come as rows, got 'none'"),
    (lambda f: product_batches(None, "tree", cut(Statistics({}))), UsageError,
     "the release has no product 'tree'"),
    (of_wrong_options, LedgerError, r"cannot be opened \(TypeError\)"),
    (lambda f: told_past(), KeyStoreError, "/keys/past, cannot be used: disk I/O error"),
    (lambda f: unconfirmed(), usable.NotConfirmed, "so nothing was reserved or paid"),
    (lambda f: refuse_unknown(["word"], []), UsageError, "unknown argument 'word'"),
    (lambda f: stream_config(f, vocabulary=written(f / "v.txt", " \n")), UsageError, "has no name"),
    (lambda f: load_stream(written(f / "s.yaml", '{"log_params": {"epsilon": 1}}'), stream_keys(f)),
     UsageError, "log_params: epsilon is a key beside it"),
    (lambda f: stream_config(f, start_timestamp="began"), UsageError,
     "a stream does not release when events began"),
    (lambda f: flink_job.cancel("127.0.0.1:1", "ward"), TracecloakError,
     "does not answer as Flink's REST interface does"),
    (lambda f: positions(stream_config(f), True, None, None, None), UsageError,
     "positions are those of topics of Kafka"),
    (kept_positions, UsageError, "no state on this machine"),
    (lambda f: _schedule_of(load(None, RIGOROUS)), UsageError, "schedule is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_it_is_refused(
    call: Callable[[Path], Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    """Catches a guard that is gone: what it keeps out would fail late, or not at all."""
    with pytest.raises(kind, match=said) as raised:
        call(tmp_path)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--bogus sample --cases 3", 2, "unknown flag --bogus"),
        ("windows {0}", 2, "a calendar is of the windows of a schedule"),
        ("vocabulary --log {1}", 3, "no activity can be listed"),
    ],
)
def test_a_command_refuses(
    words: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path / "c.yaml", json.dumps({**RELEASE, **AMUN_FILE}))
    log = written(tmp_path / "a.csv", "case_id,activity,timestamp\n")
    assert tracecloak(*words.format(config, log).split()) == code
    assert said in capsys.readouterr().err


def test_a_postgresql_ledger_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match="postgresql"):
        Database("postgresql+psycopg://h/d", 0)


def test_a_ledger_that_is_locked_while_it_is_made_may_be_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a lock that is told as a wrong configuration, which nobody tries again."""

    def transact(self: Database, work: Any, writes: bool) -> Any:
        if writes:
            raise LedgerUnavailable("locked")
        return False

    monkeypatch.setattr(Database, "transact", transact)
    with pytest.raises(LedgerUnavailable, match="locked"):
        Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}", new=True)


def test_a_line_of_lineage_that_is_cut_off_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, line: len(line) - 1)
    with pytest.raises(OSError, match="the disk is full"):
        lineage._append(b"{}\n", str(tmp_path / "lineage"))


def test_what_is_claimed_is_given_back_if_no_job_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a budget that is reserved for good by a pipeline that was never built."""

    def fails(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(claiming, "job_of", fails)
    with pytest.raises(MemoryError), beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([{"claim": "1"}]) | AnonymizeEventLog(**AMUN, **paid(tmp_path))
    assert [entry.action for entry in ledger_entries(tmp_path / "keys")] == ["reserve", "void"]


def test_a_job_that_flink_does_not_stop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "/jobs/overview": {"jobs": [{"jid": "j", "name": "ward", "state": "RUNNING"}]},
        "/jobs/j/stop": {"request-id": "s"},
        "/jobs/j/savepoints/s": {"status": {"id": "COMPLETED"}},
    }
    monkeypatch.setattr(flink_job, "_ask", lambda _, path, body=None: answers[path])
    with pytest.raises(TracecloakError, match="has not stopped job j with a savepoint"):
        flink_job.stop_with_savepoint("h:1", "ward")
