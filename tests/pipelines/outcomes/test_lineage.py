"""Events keep OpenLineage's own schema, hold nothing of the log, and never stop a release."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from tests.support.releasing import tracecloak
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.plan import read_plan
from tracecloak.pipelines.outcomes.lineage import LineageRun, check_lineage, event_of, send
from tracecloak.pipelines.stream import operator_side
from tracecloak.pipelines.stream import run as stream
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.run import StreamOutcome
from tracecloak.pipelines.windows.batch import _run_of
from tracecloak.schemas.errors import BudgetExhausted, UsageError

SCHEMAS = Path(__file__).parents[2] / "support" / "openlineage"
PARAMS = {"epsilon": 1, "vocabulary": ["a", "b"]}
METHOD = method_named("private-dfg")
RUN = LineageRun(
    "hospital", "ward-2026-10", "/releases",
    ("lake/day=*/*.parquet", "gs://lake/claims/", "delta:/lake/visits@7", "iceberg:lake.ward.v@12"),
    "private-dfg", METHOD.guarantee(METHOD.Params(**PARAMS)), 1_795_400_000_000_000,
    "2026-10", 1_790_805_600_000_000, 1_793_487_600_000_000,
)  # fmt: skip


def validate(event: dict[str, Any]) -> None:
    """By the specification, and each facet by the schema that it names."""
    bodies = {body["$id"]: body for body in map(_body, SCHEMAS.glob("*.json"))}
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(body)) for name, body in bodies.items()
    )

    def check(value: Any, schema: str) -> None:
        assert schema.partition("#")[0] in bodies, schema
        jsonschema.Draft202012Validator(
            {"$ref": schema}, registry=registry, format_checker=jsonschema.FormatChecker()
        ).validate(value)

    check(event, event["schemaURL"])
    for facet in (*event["run"]["facets"].values(), *event["job"]["facets"].values()):
        check(facet, facet["_schemaURL"])


def _body(path: Path) -> Any:
    return json.loads(path.read_text())


STARTED = event_of(RUN, "START", 1_795_400_000_000_000)
COMPLETED = event_of(RUN, "COMPLETE", 1_795_400_012_345_678, 0, "/releases/run_id=ward-2026-10")
FAILED = event_of(RUN, "FAIL", 1_795_400_012_000_000, 3)


@pytest.mark.parametrize("event", [STARTED, COMPLETED, FAILED])
def test_every_event_keeps_the_specification(event: dict[str, Any]) -> None:
    validate(json.loads(json.dumps(event)))


def test_events_of_one_try_are_of_one_run_and_another_try_is_another() -> None:
    ids = {event["run"]["runId"] for event in (STARTED, COMPLETED, FAILED)}
    again = dataclasses.replace(RUN, began_us=RUN.began_us + 1)
    other = dataclasses.replace(RUN, release_id="ward-2026-11")
    assert len({*ids, again.run_id, other.run_id}) == 3
    assert uuid.UUID(*ids).version == 5


def test_an_event_says_what_is_public_and_no_more() -> None:
    assert COMPLETED["eventTime"] == "2026-11-23T02:13:32.345Z"
    assert COMPLETED["job"]["name"] == "release.hospital"
    assert COMPLETED["inputs"] == [
        {"namespace": "file", "name": str(Path.cwd() / "lake")},
        {"namespace": "gs://lake", "name": "claims"},
        {"namespace": "file", "name": "/lake/visits"},  # a table without its version
        {"namespace": "iceberg://lake", "name": "ward.v"},
    ]
    assert COMPLETED["outputs"] == [{"namespace": "file", "name": "/releases/run_id=ward-2026-10"}]
    assert STARTED["outputs"] == FAILED["outputs"] == []
    facets = COMPLETED["run"]["facets"]
    assert facets["nominalTime"]["nominalStartTime"] == "2026-09-30T22:00:00.000Z"
    release = facets["tracecloak_release"]
    assert {key for key in release if not key.startswith("_")} == {
        "release_id", "method", "guarantee", "window", "exit_code",
    }  # fmt: skip
    assert (release["guarantee"]["epsilon"], release["guarantee"]["kind"]) == (1, "rigorous")
    assert "exit_code" not in STARTED["run"]["facets"]["tracecloak_release"]


def test_a_release_of_no_window_and_no_data_set_has_a_job_too() -> None:
    bare = dataclasses.replace(RUN, dataset="", window="", begin_us=None, end_us=None)
    event = event_of(bare, "START", RUN.began_us)
    validate(event)
    assert event["job"]["name"] == "release.ward-2026-10"
    assert set(event["run"]["facets"]) == {"tracecloak_release"}


@pytest.mark.parametrize(
    ("is_spent", "ends"), [(True, "COMPLETE"), (False, "ABORT"), (None, "FAIL")]
)
def test_a_stream_says_what_it_reads_and_writes_and_how_it_ends(
    is_spent: bool | None, ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, vocabulary = tmp_path / "lineage.jsonl", tmp_path / "vocabulary.txt"
    vocabulary.write_text("A\nB\n")

    def run_stream(config: StreamConfig, rest: list[str]) -> StreamOutcome:
        while len(path.read_text().splitlines()) < 3:
            time.sleep(0.01)
        if is_spent is None:
            raise BudgetExhausted("nothing is left")
        return StreamOutcome("folder", is_spent)

    monkeypatch.setattr(stream, "run_stream", run_stream)
    monkeypatch.setattr(operator_side, "_LINEAGE_SECONDS", 0.05)
    flags = {
        "release_id": "ward", "epoch": "1", "epsilon": 1, "vocabulary": vocabulary, "period": "1h",
        "horizon": 24, "gap": "30s", "max_lifetime": "2h", "start": "2027-01-01T00:00:00Z",
        "input_topic": "kafka://broker:9092/events", "output_topic": "kafka://broker:9092/steps",
        "output": tmp_path / "out", "key_store": tmp_path / "keys", "lineage": path,
        "output_table": "iceberg:lake.ward.steps",
    }  # fmt: skip
    code = tracecloak("stream", *(f"--{name}={value}" for name, value in flags.items()))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        validate(event)
        assert event["inputs"] == [{"namespace": "kafka://broker:9092", "name": "events"}]
        assert event["outputs"] == [
            {"namespace": "file", "name": str(tmp_path / "out" / "run_id=ward" / "epoch=1")},
            {"namespace": "iceberg://lake", "name": "ward.steps"},
            {"namespace": "kafka://broker:9092", "name": "steps"},
        ]
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    kinds = [event["eventType"] for event in events]
    assert kinds[:3] == ["START", "RUNNING", "RUNNING"] and kinds[-1] == ends
    assert code == events[-1]["run"]["facets"]["tracecloak_release"]["exit_code"]
    # Nothing but the moment differs from one hour to the next.
    assert {**events[1], "eventTime": ""} == {**events[2], "eventTime": ""}


# --- Where events go ------------------------------------------------------------------------------


@contextmanager
def catalogue(status: int, to: str = "") -> Iterator[tuple[str, list[Any]]]:
    """A server that answers every event with a status, its address, and what it was sent."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(status)
            if to:
                self.send_header("Location", to)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", got
        finally:
            server.shutdown()
            serving.join()


def test_an_address_gets_each_event(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENLINEAGE_API_KEY", raising=False)
    with catalogue(201) as (address, got):
        check_lineage(address)
        send(STARTED, address)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "of a test")
        send(COMPLETED, address)
    (path, headers, first), (_, with_key, second) = got
    assert (path, headers["Content-Type"]) == ("/api/v1/lineage", "application/json")
    assert "Authorization" not in headers and with_key["Authorization"] == "Bearer of a test"
    assert [first, second] == [STARTED, COMPLETED]
    assert not caplog.records


@pytest.mark.parametrize("status", [401, 500, 302])
def test_an_address_that_refuses_is_a_warning(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with catalogue(status, to="/elsewhere") as (address, got):
        send(STARTED, f"{address}?token=t")
    assert len(got) == 1
    assert f"/api/v1/lineage took no event ({status})" in caplog.text
    assert "token" not in caplog.text


def test_an_address_that_nobody_serves_and_a_file_that_cannot_be_are_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with catalogue(200) as (address, _):
        pass
    send(STARTED, address)
    send(STARTED, str(tmp_path / "gone" / "lineage.jsonl"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "URLError" in caplog.text and "FileNotFoundError" in caplog.text


def test_a_place_that_will_not_do_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    check_lineage(str(tmp_path / "lineage.jsonl"))
    check_lineage("https://catalogue.example/api/v1/lineage")
    for wrong in ("gs://bucket/lineage.jsonl", "ftp://host/x", "http://"):
        with pytest.raises(UsageError, match="must be a file of this machine or an"):
            check_lineage(wrong)
    with pytest.raises(UsageError, match=r"the folder of .* is not there"):
        check_lineage(str(tmp_path / "none" / "lineage.jsonl"))


def test_a_database_is_named_without_who_asks_it_and_how() -> None:
    named = {
        "sqlite:////lake/visits.db": ("file", "/lake/visits.db"),
        "postgresql://me@host:5433/ward?sslmode=require": ("postgres://host:5433", "ward"),
        "postgresql://host/ward": ("postgres://host:5432", "ward"),
        "snowflake://me@account/ward/visits": ("snowflake://account", "ward/visits"),
        "env:WAREHOUSE": ("database://env", "WAREHOUSE"),
        "file:/run/secrets/warehouse": ("database://file", "/run/secrets/warehouse"),
        "command:pass show warehouse": ("database://command", "pass"),
        "command:TOKEN=planted pass": ("database://command", "TOKEN"),
    }
    for database, (namespace, name) in named.items():
        body = {"query": "SELECT 1", "database": database, "output": "o", "method": "private-dfg"}
        run = _run_of(read_plan(None, {**body, **PARAMS}))
        event = event_of(run, "START", run.began_us)
        validate(event)
        assert event["inputs"] == [{"namespace": namespace, "name": name}]
