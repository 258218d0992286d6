"""What pipelines and examinations refuse that no test of a file of its own provokes."""

from __future__ import annotations

import errno
import multiprocessing
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import pyarrow as pa
import pytest

from tests.support.embedded import AMUN, paid
from tests.support.keys import release_key
from tests.support.ledgers import reservation
from tests.support.releasing import ledger_entries, tracecloak
from tests.support.stream_runs import batch_of, stream_config, stream_keys
from tracecloak import AnonymizeEventLog
from tracecloak.examination.commands import catalogue, profile
from tracecloak.examination.comparison.contenders import chosen_methods
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.examination.doctor import places, sources
from tracecloak.examination.doctor import run as due
from tracecloak.examination.evaluation import evaluate
from tracecloak.examination.experiments import other_papers, paper, run
from tracecloak.examination.linkage import knowledge
from tracecloak.examination.measure.mining import PatientMiner
from tracecloak.pipelines.budget import opening
from tracecloak.pipelines.configuration import config, flags, plan, shared_keys
from tracecloak.pipelines.embedded import anonymize, read
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import Database, LedgerError, LedgerUnavailable
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.querying import QueryExtension
from tracecloak.pipelines.runners.flags import refuse_unknown
from tracecloak.pipelines.stream import run as flink_job
from tracecloak.pipelines.stream.plan import load_stream
from tracecloak.pipelines.stream.plan import resolve as stream_plan
from tracecloak.pipelines.stream.positions import _kept, positions
from tracecloak.schemas import errors
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import InputSchemaError, RetryLater, TracecloakError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import EVENT_SCHEMA
from tracecloak.transforms.batch.traces import cut
from tracecloak.transforms.inputs import databases
from tracecloak.transforms.services.schema_registry import SchemaRegistry

RIGOROUS = {
    "log": ["a.csv"], "output": "o", "method": "private-dfg", "vocabulary": ["A"], "epsilon": "1"
}  # fmt: skip
DAILY = {"dataset": "x", "schedule": {
    "origin": "2026-11-02", "period": "day", "max_lifetime": "1d", "horizon": 2
}}  # fmt: skip
ANY: Any = None
CASES, NONE = batch_of("AB", "B"), batch_of()
LINKED = knowledge.LinkedLog("", CASES, knowledge.no_values(CASES))
NO_EVENTS = pa.RecordBatch.from_pylist([], schema=EVENT_SCHEMA)


def like(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def read_as(batch: pa.RecordBatch, **mapping: Any) -> list[Any]:
    elements = like(mapping=ColumnMapping(**mapping), carried=())
    return list(read._read_batch(batch, elements))


def unsound(folder: Path) -> None:
    ledger = Ledger(f"sqlite:///{folder / 'l.sqlite'}", new=True)
    ledger.reserve(reservation(1))
    with sqlite3.connect(folder / "l.sqlite") as database:
        database.execute("UPDATE tracecloak_ledger SET epsilon = '0.01'")
    opening.back_up(ledger, str(folder / "backup"))


def of_wrong_options(folder: Path) -> None:
    database = Database(f"sqlite:///{folder / 'l.sqlite'}", 0)
    database._engine = like(connect=lambda: int("planted"))
    database.connect()


def of_no_driver(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        Database("postgresql+psycopg://h/d", 0)


def patched(owner: Any, name: str, value: Any, call: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        return call()


def kept_positions(folder: Path) -> None:
    keys = [like(resolve=lambda: release_key(1))] * 2
    product = like(released=None)
    plan = like(keys=like(runner="Local"), product=product)
    with _kept(like(plan=plan, keys=keys, state_path=folder / "state"), ["a"]):
        pass


def database(error: Exception) -> None:
    query = like(keys=like(query="SELECT 1", database="sqlite:///x"))
    patched(
        databases, "connected", Mock(side_effect=error), lambda: list(sources._check_query(query))
    )


def ended_miner() -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    miner = PatientMiner(ANY, ANY, 1)
    miner._worker = like(kill=int, join=int), ours
    miner.mined("question")


SPENT = like(is_spent=True, plan=like(keys=like(epoch="1", release_id="ward")))
SINGLE = {"name": "k", "above": 0, "most": 9, "is_single": True}
OF_FLINK = {
    "/jobs/overview": {"jobs": [{"jid": "j", "name": "ward", "state": "RUNNING"}]},
    "/jobs/j/stop": {"request-id": "s"},
    "/jobs/j/savepoints/s": {"status": {"id": "COMPLETED"}},
}

# What is called with a folder, the error, and the distinctive part of its message.
REFUSED: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (unsound, LedgerError, "is not sound, so it is not backed up"),
    (lambda f: opening.back_up(Ledger(f"sqlite:///{f / 'l.sqlite'}", new=True), str(f / "b")),
     UsageError, "there is nothing to back up"),
    (lambda f: opening.restore(KeyStore(f / "k"), f"sqlite:///{f / 'l'}", str(f / "b"), "a", "r"),
     UsageError, "is not there; correct the path"),
    (lambda f: opening.check_worker_keys(like(runner="DataflowRunner", worker_keys=None)),
     UsageError, "cannot read this machine's key store"),
    (lambda f: plan.read_plan(None, {**RIGOROUS, **DAILY, "window": "due"}).require_names(),
     UsageError, "the releases of a schedule are named by it"),
    (lambda f: plan.read_plan(None, {**RIGOROUS, "max_cases_per_individual": 2}), UsageError,
     "needs to know the individuals"),
    (lambda f: config.read_yaml(written(f / "c.yaml", "- a\n")), UsageError,
     "must be a mapping of keys to values"),
    (lambda f: shared_keys.require_files("SELECT 1"), UsageError, "a query is asked once"),
    (lambda f: QueryExtension().check(like(keys=like(release_id=None))), UsageError,
     "the result of a query is kept for the release"),
    (lambda f: flags.check_new_names({"a": "B"}, like(vocabulary=("A",))), UsageError,
     "the name 'B', which is not in the vocabulary"),
    (lambda f: read_as(pa.record_batch({"claim": ["1"]}), case_id="claim", activity="step"),
     InputSchemaError, "step"),
    (lambda f: read_as(NO_EVENTS, needs_individual=True, individual_id="who"), InputSchemaError,
     "name no individuals"),
    (lambda f: read_as(NO_EVENTS, order="n"), InputSchemaError, "have no order column"),
    (lambda f: read.product_schema("none"), UsageError, "to come as rows, got 'none'"),
    (lambda f: read.product_batches("tree", cut(Statistics({}))), UsageError,
     "the release has no product 'tree'"),
    (of_no_driver, UsageError, "psycopg.*postgresql"),
    (of_wrong_options, LedgerError, r"cannot be opened \(ValueError\)"),
    (lambda f: refuse_unknown(["word"], []), UsageError, "unknown argument 'word'"),
    (lambda f: stream_config(f, vocabulary=written(f / "v.txt", " \n")), UsageError, "has no name"),
    (lambda f: load_stream(written(f / "s.yaml", '{"log_params": {"epsilon": 1}}'), stream_keys(f)),
     UsageError, "log_params: epsilon is a key beside it"),
    (lambda f: stream_config(f, start_timestamp="began"), UsageError,
     "a stream does not release when events began"),
    (lambda f: SchemaRegistry("http://me:planted@a:1"), UsageError, "must not hold a user or a"),
    (lambda f: flink_job.cancel("127.0.0.1:1", "ward"), TracecloakError,
     "does not answer as Flink's REST interface does"),
    (lambda f: patched(flink_job, "_ask", lambda _, path, body=None: OF_FLINK[path],
                       lambda: flink_job.stop_with_savepoint("h:1", "ward")),
     TracecloakError, "has not stopped job j with a savepoint"),
    (lambda f: positions(stream_plan(stream_config(f)), True, None, None, None), UsageError,
     "positions are those of topics of Kafka"),
    (kept_positions, UsageError, "no state on this machine"),
    (lambda f: catalogue._known("hybrid-log"), UsageError, "auto-variants or joint-variants"),
    (lambda f: chosen_methods(["hybrid-log"]), UsageError, "auto-variants or joint-variants"),
    (lambda f: profile._place("gs://b/p.json", None, "log"), UsageError, "for its owner alone"),
    (lambda f: write_sample(1, str(f / "a.parquet.gz")), UsageError, "is compressed inside"),
    (lambda f: write_sample(1, str(f / "a.json")), UsageError, "can be read only"),
    (lambda f: patched(socket, "create_server", Mock(side_effect=OSError(errno.EACCES, "x")),
                       lambda: list(due._port("127.0.0.1", 80))),
     UsageError, "operator_port 80 cannot be opened: Perm"),
    (lambda f: list(due.check_engine(like(config=like(runner="Local"), of_beam=["--x"]))),
     UsageError, "takes nothing of Beam, got --x"),
    (lambda f: due._require_answer("flink_master", "127.0.0.1:1"), RetryLater,
     "nobody answers at flink_master '127.0.0.1:1'"),
    (lambda f: patched(places.files, "write_anew", Mock(side_effect=OSError(errno.ENOSPC, "full")),
                       lambda: list(places._probed(like(now=float), str(f)))),
     TracecloakError, ": full; correct its disk"),
    (lambda f: sources.check_sample(like(), 1, True), UsageError, "sample is for streams"),
    (lambda f: database(InputSchemaError("no such file")), InputSchemaError, "no such file"),
    (lambda f: database(ValueError("planted")), InputSchemaError,
     r"the database does not answer \(ValueError\)"),
    (lambda f: list(sources._remote_state(ANY, SPENT, ANY)), errors.BudgetExhausted, "is spent"),
    (lambda f: evaluate.graph_of(like(values_of=lambda *_: None, folder=like(path="p"))),
     UsageError, "holds neither a log nor dfg.json"),
    (lambda f: evaluate._tree_report(evaluate.Side.of(NONE), "'A'"), UsageError,
     "the original has no case"),
    (lambda f: paper.value_of(SINGLE, "1,2"), UsageError, "one only, got '1,2'"),
    (lambda f: run.Experiment((), patience=0, paper=ANY), UsageError, "patience must be above 0"),
    (lambda f: other_papers.settings_of("hours/2/20/0.5,hours/2/20/0.5", {}), UsageError,
     "settings must be distinct"),
    (lambda f: other_papers._weight("alpha", "half"), UsageError,
     "alpha must be a number from 0 to 1"),
    (lambda f: patched(knowledge, "MAX_CODE", 1,
                       lambda: knowledge.known_of([LINKED], "set", "activity", "hours")),
     UsageError, "pairs of activities and resources"),
    (lambda f: ended_miner(), RuntimeError, "the process that mines has ended"),
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
    file = written(tmp_path / "c.yaml", "{log: a, output: o, method: amun}")
    log = written(tmp_path / "a.csv", "case_id,activity,timestamp\n")
    assert tracecloak(*words.format(file, log).split()) == code
    assert said in capsys.readouterr().err


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


def test_what_is_claimed_is_given_back_if_no_job_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a budget that is reserved for good by a pipeline that was never built."""
    monkeypatch.setattr(anonymize, "job_of", lambda _: int("no job"))
    with pytest.raises(ValueError, match="no job"), beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([{"claim": "1"}]) | AnonymizeEventLog(**AMUN, **paid(tmp_path))
    assert [entry.action for entry in ledger_entries(tmp_path / "keys")] == ["reserve", "void"]
