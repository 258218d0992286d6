"""A stream of messages of a registry: steps of plain messages, and none lost while it is away."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.transforms.window import TimestampedValue

from tests.support.local_streams import run_script
from tests.support.registry_double import RegistryDouble, registry_double
from tests.support.stream_runs import (
    Happening,
    Sent,
    accepted,
    batch_pairs,
    counts_of,
    in_time,
    no_noise,
    published,
    random_messages,
    reject_counts,
    rejected,
    run,
    stream_config,
    ticking,
)
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.formats import registry_messages
from tracecloak.transforms.services import schema_registry
from tracecloak.transforms.stream import local_stream

# A case is called by a number, by a text, and by a number again with a field that came later.
CASES: Sequence[Any] = ("long", "string", ["null", "long"])


def envelope(case_id: Any) -> dict[str, Any]:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "case_id", "type": case_id},
            {"name": "activity", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    fields = [("after", ["null", row]), ("op", "string"), ("id", ["null", "string"])]
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryDouble]:
    """A registry of the schemas, which is asked without patience."""
    fast = {**schema_registry._SETTINGS, "max.retries": 0}
    monkeypatch.setattr(schema_registry, "_SETTINGS", fast)
    monkeypatch.setattr(local_stream, "_AGAIN_SECONDS", 0.01)
    registry_messages._readers.cache_clear()
    with registry_double() as double:
        for case_id in CASES:
            double.add(envelope(case_id))
        yield double
    registry_messages._readers.cache_clear()


def as_change(sent: Sent, number: int, operation: str = "c") -> TimestampedValue:
    """A message as a registry's serialiser sends it, by the schema of a number."""
    case: Any = sent.case.removeprefix("c")
    case_id = CASES[number - 1]
    body = {
        "after": {
            "case_id": case if case_id == "string" else int(case),
            "activity": sent.activity,
            "at": int((sent.publish - sent.age) * 1e6),
        },
        "op": operation,
        "id": sent.event_id,
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(envelope(case_id)), body)
    data = b"\0" + number.to_bytes(4, "big") + stream.getvalue()
    return TimestampedValue(PubsubMessage(data, {}), sent.publish)


def changes(happenings: Sequence[Happening]) -> list[Happening]:
    """The same messages as changes of three versions of a schema, and each deleted at once."""
    feed: list[Happening] = []
    for happening in happenings:
        if isinstance(happening, float | int):
            feed.append(happening)
            continue
        sent = [one for one in happening if isinstance(one, Sent)]
        created = [as_change(one, 1 + i % 3) for i, one in enumerate(sent)]
        feed.append([*created, *(as_change(one, 1, "d") for one in sent)])
    return feed


def config_of(folder: Path, registry: RegistryDouble, **more: Any) -> Any:
    folder.mkdir(exist_ok=True)
    columns = {"case_id": "after.case_id", "activity": "after.activity", "timestamp": "after.at"}
    keys = {"schema": "confluent-avro", "schema_registry": registry.url, "event_id": "id"}
    operations = {"operation": "op", "operation_events": "c"}
    return stream_config(folder, **columns, **keys, **operations, **more)


def script() -> list[Happening]:
    return [*in_time(random_messages(30, 30), 60), *ticking(60, 90)]


def test_changes_of_three_schemas_are_the_events_that_they_hold(
    tmp_path: Path, registry: RegistryDouble, caplog: pytest.LogCaptureFixture
) -> None:
    """And a registry that is away is waited for: it rejects nothing, and no case is lost."""
    registry.away = 503
    happenings = changes(script())
    config = config_of(tmp_path, registry)
    n_asked = 0

    class Away(logging.Handler):
        """Brings the registry back once the stream has said that it waits."""

        def emit(self, record: logging.LogRecord) -> None:
            nonlocal n_asked
            if "cannot answer now (HTTP 503)" in record.getMessage():
                n_asked = len(registry.asked)
                registry.away = None

    handler = Away()
    logging.getLogger("tracecloak").addHandler(handler)
    try:
        with no_noise():
            outcome = run_script(config, happenings)
    finally:
        logging.getLogger("tracecloak").removeHandler(handler)
    assert outcome.is_spent and n_asked >= 1
    steps = accepted(random_messages(30, 30))
    assert [counts_of(one) for one in published(config)] == [
        {pair: n for pair, n in batch_pairs(steps.get(step, [])).items() if n} for step in range(6)
    ]
    n = len(random_messages(30, 30))
    assert reject_counts(tmp_path / "keys") == {"operation that is no event": n}


def test_a_runner_of_beam_ends_with_what_passes(tmp_path: Path, registry: RegistryDouble) -> None:
    """The job is started again by whoever watches it; no message of it became a reject."""
    registry.away = 503
    with pytest.raises(RetryLater, match=r"cannot answer now \(HTTP 503\)"):
        run(config_of(tmp_path, registry), changes(script())[:2])
    assert not rejected(tmp_path / "keys")
