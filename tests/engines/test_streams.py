"""Streams from Kafka on Flink: every case once, whatever is killed, and never a step too early."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.engines.fetching import UnavailableError, or_skip
from tests.engines.flink import flink_job_server, high_availability, whole_cluster
from tests.engines.kafka import KafkaBroker
from tests.engines.processes import wait_until
from tests.engines.streams import (
    Feed,
    StreamOnFlink,
    all_messages,
    job_of,
    jobs_of,
    last_checkpoint,
    send_no_events,
    stop_with_savepoint,
)
from tests.support.registry_double import registry_double
from tests.support.releasing import ROOT
from tests.support.stream_runs import reject_counts, rejected
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.step_sinks import add_up

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1_200)]


def assert_each_case_counted_once(
    stream: StreamOnFlink, feed: Feed, earlier: Sequence[Any] = ()
) -> None:
    """The steps are those of an undisturbed run, in files and topic, and they were paid once."""
    feed.end()
    found = stream.published()
    assert sorted(found) == list(range(len(found)))
    expected = stream.undisturbed(earlier)
    assert found == {step: expected[step] for step in found}
    assert stream.n_seconds_early() == 0
    sent = stream.sent_steps()
    assert sent == {step: {found[step]} for step in sent}
    assert len(sent) >= len(found) - 1  # a file is there before its message
    assert stream.config.ledger is not None
    entries = OfficersLedger(stream.config.ledger).entries()
    assert [entry.action for entry in entries if entry.action == "reserve"] == ["reserve"]


def keys_of_workers(stream: StreamOnFlink) -> int:
    """Returns how many keys workers find."""
    assert stream.config.worker_keys is not None
    return len(list(Path(stream.config.worker_keys).glob("*.key")))


def test_a_stream_on_a_local_flink_publishes_what_an_undisturbed_one_does(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """Of two topics; and after the job server is killed with all in it, from the first message."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    configuration = {"state.checkpoints.dir": checkpoints.as_uri()}
    broker.new_topic("unread")
    unread, table = f"kafka://{broker.servers}/unread", f"delta:{tmp_path}/table"
    written = {"reject_topic": unread, "output_table": table}
    stream = StreamOnFlink(tmp_path, broker, ledger, 300, n_topics=2, **written)
    send_no_events(200, *stream.topics)
    feed = Feed(*stream.topics)
    server = flink_job_server(tmp_path / "server", configuration=configuration)
    with or_skip(server) as running:
        with stream.started(running.flags()) as client:
            stream.wait_for_steps(6, client)
            running.process.kill_9()
        send_no_events(50, *stream.topics)
        running.process.start()
        begin = f"--savepoint_path={last_checkpoint(checkpoints)}"
        with stream.started([*running.flags(), begin]) as client:
            stream.wait_for_steps(6, client)
    assert_each_case_counted_once(stream, feed)
    [listed] = tmp_path.rglob("rejects.jsonl")
    add_up(str(listed.parent))  # as the next start does
    assert reject_counts(tmp_path).total() == 500
    places = [(row["topic"], row["partition"], row["offset"]) for row in rejected(tmp_path)]
    assert len(places) == len(set(places)) == 500
    lines = {message.data for message in all_messages(KafkaTopic.parse(unread, None, None))}
    assert {json.loads(line)["offset"] for line in lines} == {place[2] for place in places}
    assert len(lines) == 500
    found = DeltaTable(f"{tmp_path}/table")
    steps = found.to_pyarrow_table(columns=["step"])["step"].value_counts().to_pylist()
    assert len(found.history()) == len(steps) >= 12 and len({of["counts"] for of in steps}) == 1


def test_a_stream_ends_with_its_last_step_and_leaves_no_key_to_workers(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """The job ends by itself, with what it still sends; and a later start pays and runs nothing."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=3)
    feed = Feed(stream.topic)
    with or_skip(flink_job_server(tmp_path / "server")) as running:
        flags = running.flags()
        with stream.started([*flags, "--shutdown_sources_after_idle_ms=20000"]) as client:
            wait_until(lambda: keys_of_workers(stream) == 2, 120, lambda: "no keys", client)
            assert client.wait(240) == 0
            assert "Job state changed to DONE" in client.said()
        assert sorted(stream.published()) == sorted(stream.sent_steps()) == [0, 1, 2]
        assert keys_of_workers(stream) == 0
        with stream.started(flags) as client:
            assert client.wait(120) == 4
    assert_each_case_counted_once(stream, feed)


@pytest.mark.slow
def test_a_signal_stops_the_job_with_a_savepoint_from_which_the_stream_goes_on_to_its_end(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """The command is told where Flink's REST interface is."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=70)
    feed = Feed(stream.topic)
    with or_skip(whole_cluster(tmp_path)) as (cluster, pool, server):
        flags = [*server.flags(1, pool), f"--flink_master={cluster.address}"]
        with stream.started(flags) as client:
            stream.wait_for_steps(3, client)
            client.terminate()
            assert client.wait(120) == 0
            [saved] = re.findall(r"--savepoint_path=(\S+)", client.said())
        assert not [job for job in jobs_of(cluster) if job["state"] == "RUNNING"]
        assert 3 <= len(stream.published()) < 70
        with stream.started([*flags, f"--savepoint_path={saved}"]) as client:
            assert client.wait(400) == 0
        assert [job["state"] for job in jobs_of(cluster)] == ["FINISHED", "FINISHED"]
    assert len(stream.published()) == 70
    assert keys_of_workers(stream) == 0
    assert_each_case_counted_once(stream, feed)


@pytest.mark.slow
def test_a_topic_that_is_made_anew_ends_job_and_command_until_a_person_takes_it_for_the_log(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """Between savepoint and start, seen by the command and by workers; and while the job runs."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=900)
    feed = Feed(stream.topic)
    with or_skip(whole_cluster(tmp_path, {"restart-strategy.type": "none"})) as found:
        cluster, pool, server = found
        flags = [*server.flags(1, pool), f"--flink_master={cluster.address}"]
        with stream.started(flags) as client:
            stream.wait_for_steps(3, client)
            feed.end()
            time.sleep(5)  # all is read
            client.terminate()
            assert client.wait(120) == 0
        [saved] = re.findall(r"(--savepoint_path=\S+)", client.said())
        earlier, before = all_messages(stream.topic), stream.published()
        broker.make_anew(stream.topic.name, 2)
        feed = Feed(stream.topic)
        for is_noted in (True, False):  # the command first, and then workers alone
            if not is_noted:
                [noted] = Path(stream.config.key_store or "").rglob("logs-*.decision")
                noted.unlink()
            with stream.started([*flags, saved]) as client:
                assert client.wait(240) == 6
            assert "was deleted and made anew" in client.said()
        assert stream.published() == before
        assert "--savepoint_path" in stream.set_positions(stream.config.start)
        with stream.started([*flags, saved]) as client:
            stream.wait_for_steps(3, client)
            feed.end()
            earlier += all_messages(stream.topic)
            broker.make_anew(stream.topic.name, 2)
            assert client.wait(240) == 6
        assert "is not the log that this epoch has read" in client.said()
        assert not [job for job in jobs_of(cluster) if job["state"] == "RUNNING"]
        assert last_checkpoint(tmp_path / "cluster" / "checkpoints")  # a person may go on from it
    assert_each_case_counted_once(stream, feed, earlier)


def test_workers_of_flink_read_messages_by_the_schemas_of_a_registry(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """Each process asks for itself; which schema a message is of stands in the message alone."""
    server = flink_job_server(tmp_path / "server")
    with or_skip(server) as running, registry_double() as registry:
        number = registry.add({"type": "object", "required": ["case_id"]}, "JSON")
        schemas = {"schema": "confluent-json", "schema_registry": registry.url}
        stream = StreamOnFlink(tmp_path, broker, ledger, horizon=300, **schemas)
        feed = Feed(stream.topic, frame=b"\0" + number.to_bytes(4, "big"))
        with stream.started(running.flags()) as client:
            stream.wait_for_steps(4, client)
        assert_each_case_counted_once(stream, feed)


@pytest.mark.slow
def test_a_stream_on_a_cluster_survives_the_death_of_each_process(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """One after the other, while the job goes on."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=900)
    feed = Feed(stream.topic)
    with or_skip(whole_cluster(tmp_path)) as (cluster, pool, server):
        with stream.started(server.flags(1, pool)) as client:
            stream.wait_for_steps(3, client)
            for manager in cluster.task_managers:
                manager.kill_9()
                cluster.restart(manager)
                stream.wait_for_steps(3, client)
            pool.process.kill_9()
            pool.process.start()
            stream.wait_for_steps(3, client)
            broker.process.kill_9()
            broker.process.start()
            stream.wait_for_steps(3, client)
            client.kill_9()
        stream.wait_for_steps(2)
        server.process.kill_9()
        stream.wait_for_steps(2)
    assert_each_case_counted_once(stream, feed)


@pytest.mark.slow
def test_a_stream_goes_on_from_savepoints_with_more_and_fewer_tasks_and_from_a_checkpoint(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """The checkpoint is the last one before the job manager dies."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=900)
    feed = Feed(stream.topic)
    with or_skip(whole_cluster(tmp_path)) as (cluster, pool, server):
        with stream.started(server.flags(1, pool)) as client:
            stream.wait_for_steps(2, client)
            saved = stop_with_savepoint(cluster, tmp_path / "savepoints")
        n_before = len(stream.published())
        flags = server.flags(2, pool)
        with stream.started([*flags, f"--savepoint_path={saved}"]) as client:
            stream.wait_for_steps(4, client)
            cluster.job_manager.kill_9()
        cluster.restart(cluster.job_manager)
        begin = f"--savepoint_path={last_checkpoint(tmp_path / 'cluster' / 'checkpoints')}"
        server.process.kill_9()
        server.process.start()
        with stream.started([*flags, begin]) as client:
            stream.wait_for_steps(4, client)
            saved = stop_with_savepoint(cluster, tmp_path / "savepoints")
        with stream.started([*server.flags(1, pool), f"--savepoint_path={saved}"]) as client:
            stream.wait_for_steps(4, client)
    assert len(stream.published()) > n_before
    assert_each_case_counted_once(stream, feed)


@pytest.mark.slow
def test_a_stream_outlives_its_job_manager_where_flink_is_highly_available(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """Twice; nobody hands it over again, and no client and no job server is there any more."""
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=900)
    feed = Feed(stream.topic)
    with ExitStack() as stack:
        keys = stack.enter_context(or_skip(high_availability(tmp_path / "high-availability")))
        cluster, pool, server = stack.enter_context(whole_cluster(tmp_path, keys))
        with stream.started(server.flags(2, pool)) as client:
            stream.wait_for_steps(3, client)
            client.kill_9()
        server.process.kill_9()
        job = job_of(cluster)
        for _ in range(2):
            cluster.job_manager.kill_9()
            cluster.restart(cluster.job_manager)
            stream.wait_for_steps(4, cluster.job_manager)
        assert job_of(cluster) == job
    assert_each_case_counted_once(stream, feed)


# What says how the state of a stream on Beam, and all that is under way in it, becomes bytes.
STATE = (
    "transforms/stream/beam_stages.py",
    "transforms/stream/read_kafka.py",
    "transforms/arrow_coder.py",
    "schemas/arrays/columnar.py",
    "schemas/streams",
)


def before_last_change(folder: Path, *paths: str) -> Path:
    """Puts the checkout as it was before the last commit that changed some paths into a folder."""
    (change,) = _git("log", "-1", "--format=%H", "--", *paths).decode().split() or [""]
    if not change:
        raise UnavailableError(f"no commit of this checkout changed {', '.join(paths)}")
    archive = _git("archive", "--format=tar", f"{change}^")
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> bytes:
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError:
        raise UnavailableError("there is no git on this machine") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"git knows no older build here: {said[:300]}") from None
    return ended.stdout


@pytest.mark.slow
def test_a_build_goes_on_from_a_savepoint_of_the_one_before_its_state_was_changed_last(
    tmp_path: Path, broker: KafkaBroker, ledger: str
) -> None:
    """Workers are threads of the process that hands the stream over: they are of its build."""
    try:
        older = before_last_change(tmp_path / "older", *STATE)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    loaded = [sys.executable, "-c", "import tracecloak; print(tracecloak.__file__)"]
    of_older = {**os.environ, "PYTHONPATH": str(older)}
    assert str(older) in subprocess.check_output(loaded, env=of_older, cwd=tmp_path, text=True)
    stream = StreamOnFlink(tmp_path, broker, ledger, horizon=900)
    feed = Feed(stream.topic)
    with or_skip(whole_cluster(tmp_path)) as (cluster, _, server):
        with stream.started(server.flags(), older) as client:
            stream.wait_for_steps(4, client)
            saved = stop_with_savepoint(cluster, tmp_path / "savepoints")
        n_before = len(stream.published())
        with stream.started([*server.flags(2), f"--savepoint_path={saved}"]) as client:
            stream.wait_for_steps(4, client)
    assert len(stream.published()) > n_before
    assert_each_case_counted_once(stream, feed)
