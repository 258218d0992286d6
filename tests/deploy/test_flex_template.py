"""The Flex Template of Dataflow: what its launcher refuses and hands over, what a worker runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pytest
import yaml
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.environments import DockerEnvironment

from deploy.dataflow import launch
from tests.engines.postgresql import PostgreSql
from tests.pipelines.runners.test_options import DRY, IMAGE, ORDINARY, check_graph
from tests.pipelines.runners.test_options import with_client as with_client
from tests.support.embedded import AMUN, claims, typed
from tests.support.postgres import server as server
from tests.support.releasing import Commands, tracecloak
from tests.support.s3_double import S3Double, s3_double
from tests.support.stream_runs import stream_config
from tracecloak import AnonymizeEventLog
from tracecloak.pipelines.budget.database_store import DatabaseKeyStore, _copy_of, require_lasting
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.schemas.errors import RetryLater, UsageError

KEY = "command:printf " + 64 * "5"
SECRET = "--ledger_password_secret=projects/p/secrets/s/versions/1"
DAILY = {
    "dataset": "ward", "origin": "2026-01-01", "period": "day", "gap": "1h", "max_lifetime": "2h",
    "release_delay": "1h", "horizon": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Double]:
    with s3_double() as double:
        FileSystems.set_options(PipelineOptions())  # as a worker of Beam's does
        yield double


@pytest.fixture(scope="module")
def commands(bucket: S3Double) -> Iterator[Commands]:
    with Commands() as made:
        yield made


@pytest.fixture
def body(server: PostgreSql, bucket: S3Double, tmp_path: Path) -> dict[str, Any]:
    """A configuration for the memory of a worker, nothing of which is on a disk."""
    place = f"s3://lake/{tmp_path.name}"
    rows = ["case_id,activity,timestamp"]
    for case in range(60):
        day = 1 + case % 2
        rows += [f"{case},A,2026-01-0{day}T10:00Z", f"{case},B,2026-01-0{day}T11:00Z"]
    bucket.put(f"{tmp_path.name}/log.csv", "\n".join(rows).encode())
    ledger = server.new_database()
    assert tracecloak("ledger", "begin", "--ledger", ledger, "--key_store", tmp_path / "k") == 0
    return {
        "log": f"{place}/log.csv", "output": f"{place}/out", "worker_keys": f"{place}/keys",
        "key_store": server.new_database(), "key_encryption_key": KEY, "ledger": ledger,
        "method": "private-dfg",
        "params": {"epsilon": "1", "delta": "1e-6", "vocabulary": ["A", "B"]},
    }  # fmt: skip


def order_of(bucket: S3Double, body: dict[str, Any], *flags: str) -> launch.Order:
    key = f"{body['log'].split('/')[3]}/release.yaml"
    bucket.put(key, yaml.safe_dump(body).encode())
    return launch.Order(f"s3://lake/{key}", flags, "projects/p/secrets/s/versions/1")


def start(order: launch.Order) -> list[int]:
    """Runs a worker's step, whose command is another process with another disk each time."""
    return list(launch.RunCommand(lambda name: f"password of {name}").process(order))


def objects(bucket: S3Double, body: dict[str, Any], key: str, name: str = "") -> dict[str, str]:
    prefix = f"{body[key].removeprefix('s3://lake/')}/{name}"
    listed = bucket.client.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", ())
    return {one["Key"]: one["ETag"] for one in listed}


def counted(body: dict[str, Any]) -> list[str]:
    """The names of the releases that are charged, once a charge."""
    last = charges(OfficersLedger(body["ledger"]).entries()).values()
    return [entry.release_id for entry in last if entry.action == "commit"]


def rows(url: str) -> dict[str, bytes]:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return dict(connection.execute("SELECT name, body FROM tracecloak_key_store").fetchall())


# --- What a worker runs -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "at",
    ["before ledger 1", "before charge 1", "after charge 1", "before commit 1", "after commit 1",
     "before key's end 1"],
)  # fmt: skip
def test_a_release_is_finished_by_the_next_start_and_charged_once(
    commands: Commands, bucket: S3Double, body: dict[str, Any], tmp_path: Path, at: str
) -> None:
    """Wherever a worker was lost, and though no disk of it stays."""
    config = tmp_path / "release.yaml"
    config.write_text(yaml.safe_dump(body))
    flags = ("release", config, "--release_id", "r")
    lost = commands.run(*flags, at=f"kill {at}", secret=b"1" * 32)
    assert lost.code == -9, lost.text
    published = objects(bucket, body, "output", "run_id=r/")
    assert bool(published) == (at in ("after commit 1", "before ledger 1", "before key's end 1"))
    for _ in range(2):  # finishes it, and recognises it
        ended = commands.run(*flags, secret=b"2" * 32)
        assert ended.code == 0, ended.text
        released = objects(bucket, body, "output", "run_id=r/")
        assert released and published in ({}, released)
        published = released
    assert counted(body) == ["r"]
    places = (*rows(body["key_store"]), *objects(bucket, body, "worker_keys"))
    assert not [name for name in places if name.endswith(".key")]


@pytest.mark.slow
def test_the_windows_that_are_due_are_released_once(
    commands: Commands, bucket: S3Double, body: dict[str, Any], tmp_path: Path
) -> None:
    """What the windows counted and the key by which they find it are there again."""
    config = tmp_path / "release.yaml"
    body |= {"schedule": DAILY, "release_id": "ward"}
    config.write_text(yaml.safe_dump(body))
    flags = ("release", config, "--window", "due")
    assert commands.run(*flags, at="kill before commit 2").code == -9
    assert len(counted(body)) == 1
    for _ in range(2):
        ended = commands.run(*flags)
        assert ended.code == 0, ended.text
        assert len(counted(body)) == 2


@pytest.mark.slow
def test_a_worker_makes_the_release_of_its_order_and_waits_for_others(
    bucket: S3Double, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has the key store until the pause before the second try."""
    order, url = order_of(bucket, body, "--release_id=r"), body["key_store"]
    held = _copy_of(url)
    held.lock()
    monkeypatch.setattr(launch, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(launch, "_LOG", log := _Released(held))
    assert start(order) == [0]
    assert re.search("in use by another process .*exit code 75", "\n".join(log.lines))
    assert counted(body) == ["r"] and objects(bucket, body, "output", "run_id=r/")
    changed = order_of(bucket, {**body, "params": {**body["params"], "epsilon": "2"}}, *order.flags)
    with pytest.raises(RuntimeError, match=r"ended with 2 .*was begun in.*changed"):
        start(changed)


class _Released:
    """A log of a worker after whose first line a session is over."""

    def __init__(self, held: Any) -> None:
        self.held, self.lines = held, list[str]()

    def info(self, line: str) -> None:
        self.lines.append(line)
        self.held.lock().close()


def test_a_process_that_lost_its_session_writes_no_more(body: dict[str, Any]) -> None:
    """Nor one that read before another wrote; and keys are wrapped."""
    url = body["key_store"]
    with pytest.raises(UsageError, match=r"key_encryption_key .*is missing: backups"):
        DatabaseKeyStore(url)
    passwords = "me:secret@host/keys", "me@host/keys?password=secret", "host/x?sslpassword=secret"
    named = [f"postgresql+psycopg://{place}" for place in passwords]
    for wrong in ("gs://bucket/keys", "mysql://h/x", *named):
        with pytest.raises(UsageError, match="PGPASSWORD") as refused:
            DatabaseKeyStore(wrong, key_encryption_key=KEY)
        assert "secret" not in str(refused.value)
    store = DatabaseKeyStore(url, body["worker_keys"], KEY)
    with pytest.raises(UsageError, match="give the URL of the ledger"):
        _ = store.ledger_url
    store.reserve("out", "r", "", "")
    found = rows(url)
    keys = {name: text for name, text in found.items() if name.endswith((".secret", ".key"))}
    assert len(keys) == 2
    assert not any(re.fullmatch(rb"[0-9a-f]{64}", text) for text in keys.values())
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        for _ in range(2):  # nor does it take the lock again
            with pytest.raises(RetryLater, match="by another process or away"):
                store.write("releases/b.json", "{}")
        assert rows(url) == found
        _copy_of.cache_clear()
        late = DatabaseKeyStore(url, body["worker_keys"], KEY)
        other.execute("DELETE FROM tracecloak_key_store")
        with pytest.raises(RetryLater):
            late.next_generation()


def test_keys_are_wrapped_anew_and_doctor_ends_as_the_run(
    body: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, config = body["key_store"], tmp_path / "release.yaml"
    DatabaseKeyStore(url, None, KEY).reserve("out", "other", "", "")
    before, to = rows(url), KEY.replace("5", "6")
    _copy_of(url).lock().close()  # as its process ends
    _copy_of.cache_clear()
    assert tracecloak("key", "rewrap", "--key_store", url, "--from", KEY, "--to", to) == 0
    secrets = [name for name in before if name.endswith((".secret", ".key"))]
    assert len(secrets) == 2 and not [n for n in secrets if rows(url)[n] == before[n]]
    config.write_text(yaml.safe_dump({**body, "worker_keys": None, "key_encryption_key": to}))
    for command in ("doctor", "release"):
        assert tracecloak(command, config, "--release_id", "r") == 2
        text = "".join(capsys.readouterr())
        assert "worker_keys must be elsewhere" in text and ("not ready" in text) == (
            command == "doctor"
        )
    with pytest.raises(UsageError, match="tracecloak release alone writes"):
        paying = {name: body[name] for name in ("worker_keys", "key_store", "ledger")}
        events = beam.Pipeline(runner="DirectRunner") | beam.Create(typed(claims(2)))
        _ = events | AnonymizeEventLog(**AMUN, **paying, release_id="r", key_encryption_key=to)
    _copy_of(url).lock().close()


# --- What the launcher refuses and hands over --------------------------------------------------


CLOUD = {
    "log": "gs://lake/log.csv", "output": "gs://open/out", "worker_keys": "gs://keys/claims",
    "key_store": "postgresql+psycopg://p@db/keys", "key_encryption_key": KEY, "method": "amun",
    "ledger": "postgresql+psycopg://p@db/budgets", "params": {"guessing_advantage": "0.3"},
    "runner": "DataflowRunner",
}  # fmt: skip


def built(tmp_path: Path, *arguments: str, **changes: object) -> Any:
    config = tmp_path / "release.yaml"
    body = {name: value for name, value in {**CLOUD, **changes}.items() if value is not None}
    config.write_text(yaml.safe_dump(body))
    return launch.built([f"--configuration={config}", SECRET, *ORDINARY, DRY, *arguments])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key_store": None}, "key_store is on a disk .*another start would be charged again"),
        ({"key_store": "/keys"}, "key_store is on a disk"),
        ({"output": "/out"}, "output is on a disk"),
        ({"ledger": None}, "ledger must be elsewhere"),
        ({"ledger": "sqlite:////ledger.db"}, "ledger must be elsewhere"),
        ({"worker_keys": None, "runner": "InMemory"}, "worker_keys must be elsewhere"),
        ({"schedule": DAILY, "jobs": 2}, "set jobs to 1"),
        ({"ledger": "postgresql+psycopg://p:secret@db/budgets"}, "PGPASSWORD"),
        ({"ledger": "postgresql+psycopg://p@db/budgets?password=secret"}, "PGPASSWORD"),
    ],
)
def test_what_a_start_would_lose_or_charge_again_is_refused(
    tmp_path: Path, with_client: None, changes: dict[str, object], told: str
) -> None:
    flag = "--window=due" if "schedule" in changes else "--release_id=r"
    with pytest.raises(UsageError, match=told) as refused:
        built(tmp_path, flag, **changes)
    assert "secret" not in str(refused.value)


def test_no_stream_has_its_keys_in_a_database(tmp_path: Path) -> None:
    """Its workers note steps in a folder, and the keys of an ended epoch would stay."""
    for runner in ("Local", "FlinkRunner", "DataflowRunner"):
        with pytest.raises(UsageError, match="which no stream writes"):
            require_lasting(stream_config(tmp_path, runner=runner, ledger=CLOUD["ledger"]))


def test_a_name_by_which_the_next_start_recognises_the_release_is_needed(
    tmp_path: Path, with_client: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ((), ("--release_id=r", "--window=due")):
        with pytest.raises(UsageError, match="give release_id or window"):
            built(tmp_path, *flags)
    arguments = [f"--configuration={tmp_path / 'release.yaml'}", SECRET, "--release_id=r"]
    assert launch.main([*arguments, "--project=hospital-project"]) == 2
    assert "temp_location" in capsys.readouterr().err


def test_the_job_has_one_worker_with_our_image_and_no_secret(
    tmp_path: Path, with_client: None
) -> None:
    pipeline = built(tmp_path, "--release_id=r")
    graph = pipeline.to_runner_api(
        default_environment=DockerEnvironment.from_container_image(IMAGE)
    )
    check_graph(graph)
    everything = graph.SerializeToString()
    for secret in (b"5555", b"p@db"):
        assert secret not in everything
    options = pipeline.options.get_all_options()
    assert (options["num_workers"], options["max_num_workers"]) == (1, 1)
    assert not [text for text in map(str, options.values()) if "p@db" in text or "5555" in text]
    # The options of the job that the command starts, by its own parser.
    from tracecloak.pipelines.runners.on_beam import check_ready, pipeline_options

    passed = launch.passed_on(pipeline_options("DataflowRunner", ORDINARY))
    inner = pipeline_options("DataflowRunner", [*passed, DRY], must_end=False)
    check_ready(inner)
    then, now = inner.get_all_options(), options
    assert then["labels"] == ["team=claims", "started-by=tracecloak-1"]
    assert (then["max_num_workers"], then["job_name"]) == (4, None)
    for name in ("project", "region", "temp_location", "sdk_container_image", "machine_type",
                 "service_account_email", "subnetwork", "use_public_ips"):  # fmt: skip
        assert then[name] == now[name] is not None, name
