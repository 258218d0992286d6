"""A stream of several topics, each with a mapping of its own."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.testing import test_stream as on_beam
from apache_beam.transforms.window import TimestampedValue

from tests.support.local_streams import Script
from tests.support.releasing import fix_key
from tests.support.stream_runs import (
    Happening,
    Sent,
    counts_of,
    in_time,
    made,
    no_noise,
    published,
    random_messages,
    run,
    steps_of,
    stream_config,
    stream_keys,
    ticking,
)
from tracecloak.pipelines.stream import stuck
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch
from tracecloak.pipelines.stream.plan import digest_of, load_stream, resolve
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.stream.sources import SeveralSources

S = 1_000_000
BROKER = "kafka://b:9092"
# Topic 0 has cases of some activities as a stream of one topic has them; topic 1 calls its fields
# otherwise and its one activity nothing; topic 2 has END without its first letter.
INPUTS: list[dict[str, Any]] = [
    {"input_topic": f"{BROKER}/orders"},
    {
        "input_topic": f"{BROKER}/shipments",
        "constant_activity": "C",
        "event_id": "id",
        "columns": {"case_id": "order.number", "timestamp": "at", "timestamp_unit": "ms"},
        "where": [{"column": "kind", "equals": "out"}],
    },
    {"input_topic": f"{BROKER}/payments", "activity_prefix": "E", "columns": {"activity": "what"}},
]


def config_of(folder: Path, **changes: Any) -> StreamConfig:
    inputs = changes.pop("inputs", INPUTS)
    path = folder / "inputs.yaml"
    path.write_text(json.dumps({"inputs": inputs}))  # they are no flag
    flags = stream_keys(folder, **{"input_subscription": None, "horizon": 3, **changes})
    return load_stream(str(path), flags)


def place_of(sent: Sent) -> int:
    return {"C": 1, "END": 2}.get(sent.activity, 0)


def as_sent(sent: Sent) -> TimestampedValue:
    """The message as the topic of its activity has it."""
    place, micros = place_of(sent), int((sent.publish - sent.age) * S)
    body: dict[str, Any] = {"event_id": sent.event_id, "timestamp": micros, "case_id": sent.case}
    if place == 1:
        body = {"id": sent.event_id, "order": {"number": sent.case}, "kind": "out"}
        body["at"] = micros / 1_000
    else:
        body["activity" if place == 0 else "what"] = sent.activity if place == 0 else "ND"
    return TimestampedValue(PubsubMessage(json.dumps(body).encode(), {}), sent.publish)


def happenings_of(sent: Sequence[Sent], place: int) -> list[Happening]:
    """What happens in one topic."""
    own = in_time([one for one in sent if place_of(one) == place], 40)
    messages: list[Happening] = [
        h if isinstance(h, float | int) else [as_sent(one) for one in h if isinstance(one, Sent)]
        for h in own
    ]
    return [*messages, *ticking(40, 50)]


class _Topic(beam.PTransform):
    """One of the outputs of a stream that all of these share."""

    def __init__(self, stream: on_beam.TestStream, tag: str, outputs: dict[str, Any]) -> None:
        super().__init__(f"Topic{tag}")
        self._stream, self._tag, self._outputs = stream, tag, outputs

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        if not self._outputs:
            self._outputs.update(begin.pipeline | "Topics" >> self._stream)
        return self._outputs[self._tag]


def topics_on_beam(scripts: Sequence[Sequence[Happening]]) -> list[beam.PTransform]:
    """Sources in which this happens, one happening of each after the other."""
    stream = on_beam.TestStream(output_tags={str(place) for place in range(len(scripts))})
    for happenings in zip_longest(*scripts, fillvalue=()):
        for place, happening in enumerate(happenings):
            if isinstance(happening, float | int):
                stream = stream.advance_watermark_to(happening, tag=str(place))
            elif happening:
                stream = stream.add_elements(list(happening), tag=str(place))
    for place in range(len(scripts)):
        stream = stream.advance_watermark_to_infinity(tag=str(place))
    outputs: dict[str, Any] = {}
    return [_Topic(stream, str(place), outputs) for place in range(len(scripts))]


def opening_of(script: Sequence[Happening]) -> Callable[[Mapping[str, Any], bytes], Script]:
    """Opens a source of a script behind positions."""
    return lambda positions, _: Script(script, positions)


def run_here(config: StreamConfig, scripts: Sequence[Sequence[Happening]]) -> None:
    openings = {f"topic {place}": opening_of(script) for place, script in enumerate(scripts)}
    with paid_epoch(resolve(config)) as epoch:
        opening = functools.partial(SeveralSources, openings)
        run_epoch(epoch, opening, "topics", [], threading.Event(), lambda: float(1 << 40))


def distinct_moments() -> list[Sent]:
    """Messages of which no two were published at one moment."""
    return [
        s._replace(publish=s.publish + i / 8_192) for i, s in enumerate(random_messages(24, 20))
    ]


def test_topics_are_read_as_one_topic_that_has_their_events(tmp_path: Path) -> None:
    """The same bytes here and on Beam, and the counts of a stream that finds all in one topic."""
    sent = distinct_moments()
    folders = made(tmp_path, "here", "beam", "one")
    here, beam = (config_of(tmp_path / name) for name in folders[:2])
    one = stream_config(tmp_path / "one", horizon=3)
    scripts = [happenings_of(sent, place) for place in range(3)]
    with pytest.MonkeyPatch.context() as patch, no_noise():
        fix_key(patch)
        patch.setattr(stuck, "_compare", lambda *_: None)  # no broker is there
        run_here(here, scripts)
        run_stream(beam, messages=topics_on_beam(scripts))
        run(one, [*in_time(sent, 40), *ticking(40, 50)])
    assert steps_of(here) == steps_of(beam)
    assert [counts_of(step) for step in published(here)] == [
        counts_of(step) for step in published(one)
    ]
    assert sum(sum(counts_of(step).values()) for step in published(here)) > 30


def test_a_stream_goes_on_in_each_topic_where_it_was(tmp_path: Path) -> None:
    scripts: dict[str, list[Happening]] = {"a": [[Sent(1, "c", "A")], 3.0], "b": [5.0]}
    openings = {name: opening_of(script) for name, script in scripts.items()}
    source = SeveralSources(openings, {}, b"")
    pulled = [source.pull(9, 0) for _ in range(2)]
    assert [(one.place, len(one.messages)) for one in pulled] == [(0, 1), (0, 0)]
    assert source.watermark_us() == 3 * S
    again = SeveralSources(openings, json.loads(json.dumps(source.positions)), b"")
    assert again.positions == source.positions == {"a": {"place": 2}, "b": {"place": 1}}
    assert again.watermark_us() == 3 * S
    source.close()


def message(**body: Any) -> Any:
    return SimpleNamespace(data=json.dumps(body).encode(), attributes={}, message_id="7")


def test_events_of_several_topics_are_told_apart(tmp_path: Path) -> None:
    """One id in two topics is two events, and a reject says of which topic it is."""
    config = config_of(tmp_path, closed_vocabulary=True, vocabulary=["A", "Ebb", "C", "END"])
    sent = [
        [message(case_id=1, activity="A", timestamp=9, event_id="x"),
         message(case_id=1, activity="Ebb", timestamp=9, event_id="x"),
         message(case_id=1, activity="bb", timestamp=9)],
        [message(order={"number": 1}, at=9, id="x", kind="out"),
         message(order={"number": 1}, at=9, id="x", kind="in"),
         message(order={"number": 1.5}, at=9, id="x", kind="out")],
        [message(case_id=1, what="bb", timestamp=9, event_id="x"),
         message(case_id=1, what="A", timestamp=9)],
    ]  # fmt: skip
    events, rejects = [], []
    for layout, messages in zip([one.layout for one in resolve(config).inputs], sent, strict=True):
        read, unread = layout.decode(messages, [5] * len(messages))
        names = ("case_id", "activity", "timestamp", "event_id", "source_order")
        events += [tuple(row[name] for name in names) for row in read.to_pylist()]
        rejects += [(row["topic"], row["reason"]) for row in unread.to_pylist()]
    assert events == [
        ("1", "A", 9, "0/x", 7), ("1", "Ebb", 9, "0/x", 7),
        ("1", "C", 9_000, "1/x", 10**15 + 7), ("1", "Ebb", 9, "2/x", 2 * 10**15 + 7),
    ]  # fmt: skip
    assert rejects == [
        ("orders", "activity outside the closed vocabulary"),
        ("shipments", "case id that is no whole number"),
        ("payments", "activity outside the closed vocabulary"),
    ]


def test_the_digest_is_of_mappings_and_not_of_addresses(tmp_path: Path) -> None:
    digest = digest_of(config_of(tmp_path))
    moved = [{**one, "input_topic": f"kafka://c:1/{i}"} for i, one in enumerate(INPUTS)]
    assert digest_of(config_of(tmp_path, inputs=moved)) == digest
    assert digest_of(config_of(tmp_path, inputs=INPUTS[::-1])) != digest
    other = [*INPUTS[:2], {**INPUTS[2], "event_id": "key"}]
    assert digest_of(config_of(tmp_path, inputs=other)) != digest
    # What every input says for itself is said in vain beside the list.
    named = [{**one, "event_id": one.get("event_id", "event_id")} for one in INPUTS]
    assert digest_of(config_of(tmp_path, inputs=named, event_id="z")) == digest
    filtered = [{**one, "where": [{"column": "kind", "equals": "Jo"}]} for one in INPUTS]
    of_values = config_of(tmp_path, inputs=filtered)
    assert resolve(of_values).published_digest == resolve(config_of(tmp_path)).published_digest


def test_inputs_that_cannot_be_read_together_are_refused(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"input_topic": f"{BROKER}/x"}, "move input_topic"),
        ({"inputs": [INPUTS[0], INPUTS[0]]}, "different topics"),
        ({"inputs": [*INPUTS, {"input_topic": "kafka://other:1/x"}]}, "the same brokers"),
        ({"inputs": [*INPUTS, {"input_topic": "projects/p/topics/x"}]}, "one service"),
        ({"inputs": [*INPUTS, {}]}, "one service"),
        ({"inputs": [{}]}, "give input_subscription or input_topic"),
        ({"inputs": [{**INPUTS[0], "columns": {"order": "x"}}]}, "leave out order"),
        ({"inputs": [{**INPUTS[0], "columns": {"individual_id": "x"}}]}, "beside inputs"),
        ({"inputs": [{**INPUTS[0], "constant_activity": "D"}]}, "no activity of the voc"),
        ({"inputs": [{**INPUTS[0], "activity_prefix": "D"}]}, "no activity of the voc"),
        ({"inputs": [{**INPUTS[1], "constant_activity": "EN"}]}, "no activity of the voc"),
        ({"inputs": [{**INPUTS[1], "where": [{"column": "activity", "equals": "A"}]}]}, "filter"),
        ({"inputs": [{**INPUTS[0], "epsilon": 3}]}, "epsilon"),
        ({"schema_registry": "http://r:1"}, "schema_registry and"),
    ]
    for changes, said in refused:
        with pytest.raises(UsageError, match=said):
            config_of(tmp_path, **changes)
