"""Positions of a stream as a person sees and sets them, and the logs that they are of."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.engines.processes import wait_until
from tests.support.kafka_double import BY_SENDER, TopicDouble
from tests.support.ledgers import faults
from tests.support.stream_runs import stream_config
from tracecloak.anonymizers.streams.steps import Identities, RunningStream
from tracecloak.pipelines.budget import opening
from tracecloak.pipelines.budget.opening import officers_ledger, open_store
from tracecloak.pipelines.stream import epoch as epoch_module
from tracecloak.pipelines.stream import stuck
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch, resumed
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.pipelines.stream.positions import positions
from tracecloak.schemas.errors import SourceChanged, UsageError
from tracecloak.transforms.services.kafka_identity import Place
from tracecloak.transforms.stream.local_stream import LocalState
from tracecloak.transforms.stream.stream_status import StreamStatus

SOURCE = "Kafka topic events"


def kept_positions(
    config: StreamConfig, given: Mapping[str, Any] | None = None, source: str = SOURCE
) -> object:
    """The positions in the state, which is made first with those that are given."""
    with paid_epoch(resolve(config)) as epoch:
        key, identities = (reference.resolve() for reference in epoch.keys)
        store = LocalState(epoch.state_path, key, epoch.plan.product.released)
        if given is not None:
            parts = (
                epoch.plan.product,
                epoch.plan.name,
                key,
                epoch.plan.rule,
                Identities(identities),
            )
            store.create(RunningStream(*parts).begin(), source)
            with store.opened(source) as kept:
                store.write(kept.state, given)
        with store.opened(source) as kept:
            return kept.positions


def test_a_person_sees_positions_and_sets_them_and_the_ledger_says_who(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No position is in the ledger, and a message that no broker stamped is passed."""
    topic = TopicDouble(epoch=4)
    topic.add(0, b"a", b"b", millis=1_000)
    topic.add(0, b"unstamped", millis=10**12, kind=BY_SENDER)
    topic.add(0, b"c", millis=9_000)
    topic.used_by(monkeypatch)
    given = {"input_subscription": None, "input_topic": "kafka://b:1/events", "runner": "Local"}
    config = stream_config(tmp_path, **given)
    with pytest.raises(UsageError, match="has not begun"):
        positions(resolve(config), True, None, None, None)
    kept_positions(config, {"0": 1})  # as an earlier version kept them
    with pytest.raises(UsageError, match="on a terminal alone"):
        positions(resolve(config), False, None, None, None)
    rows = dict(positions(resolve(config), True, None, None, None))
    assert rows["cluster"] == "known None, now cluster"
    assert rows["partition 0"] == ("next 1 (epoch -1); the topic has 0 to 4, stable to 4 (epoch 4)")
    more = config.model_copy(update={"vocabulary": (*config.vocabulary, "Z")})
    with monkeypatch.context() as patch:
        at_start = lambda *given: resumed(*given[:2], lambda: 0.0)  # noqa: E731
        patch.setattr(epoch_module, "resumed", at_start)
        positions(resolve(more), True, None, None, None)
    assert not list(tmp_path.rglob("*.names"))  # a look makes no vocabulary grow
    with pytest.raises(UsageError, match="to_time must be like"):
        positions(resolve(config), False, "soon", "A. Operator", "failover")
    with pytest.raises(UsageError):
        positions(resolve(config), False, "1970-01-01T00:00:02", "A. Operator", None)
    assert kept_positions(config) == {"0": 1}
    with paid_epoch(resolve(config)), pytest.raises(Exception, match="another process"):
        positions(resolve(config), False, "1970-01-01T00:00:02", "A. Operator", "failover")
    positions(resolve(config), False, "1970-01-01T00:00:02", "A. Operator", "failover")
    kept = kept_positions(config)
    assert isinstance(kept, dict)
    assert (kept["cluster_id"], kept["places"]) == ("cluster", {"0": [3, 4, -1, ""]})
    ledger = officers_ledger(open_store(config), config.ledger)
    [entry] = [entry for entry in ledger.entries() if entry.action == "positions"]
    assert entry.facts == {"by": "A. Operator", "reason": "failover"}
    assert faults(ledger) == []


def test_the_command_compares_what_workers_read_until_a_person_takes_it_for_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the begin and each minute, with how the topic is set."""
    topic = TopicDouble()
    topic.add(0, b"a", b"b", millis=1_000)
    topic.used_by(monkeypatch)
    monkeypatch.setattr(stuck, "_NOTE_SECONDS", 0.01)
    monkeypatch.setattr(opening, "is_local", lambda _: True)  # its ledger is no database
    given = {"input_subscription": None, "input_topic": "kafka://b:1/events"}
    config = stream_config(tmp_path, **given, runner="FlinkRunner")
    standing, is_ended = StreamStatus(), threading.Event()
    with paid_epoch(resolve(config)) as epoch:
        with stuck.noting(epoch, is_ended, standing):
            for policy, is_away in (("compact", True), ("delete", False)):
                topic.settings["cleanup.policy"] = policy
                said = f"a reason is {is_away}"
                wait_until(lambda a=is_away: bool(standing.source_away) == a, 20, lambda s=said: s)
            topic.epoch += 1  # another broker leads
        with pytest.raises(SourceChanged, match="made anew"):
            with stuck.noting(epoch, is_ended, standing):
                topic.topic_id = (7, 7)
                assert is_ended.wait(20)
        with pytest.raises(SourceChanged), stuck.noting(epoch, is_ended, standing):
            pytest.fail("the job is handed over")
        assert epoch.logs.last()[0] == 0
    rows = dict(positions(resolve(config), True, None, None, None))
    assert (
        rows["partition 0"]
        == "last set to 0 (epoch 0); the topic has 0 to 2, stable to 2 (epoch 1)"
    )
    rows = dict(positions(resolve(config), False, "1970-01-01T00:00:02", "A. Operator", "failover"))
    assert "--savepoint_path" in rows["next"]
    with paid_epoch(resolve(config)) as epoch, stuck.noting(epoch, threading.Event(), standing):
        number, logs = epoch.logs.last()
        assert (number, logs[SOURCE].places) == (1, {0: Place(2, 1)})
    ledger = officers_ledger(open_store(config), config.ledger)
    [entry] = [entry for entry in ledger.entries() if entry.action == "positions"]
    assert entry.facts == {"by": "A. Operator", "reason": "failover"}
