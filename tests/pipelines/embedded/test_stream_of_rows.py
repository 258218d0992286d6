"""A stream of rows publishes what the command publishes of the same messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.testing import test_stream as streams
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.support.releasing import fix_key, ledger_entries
from tests.support.stream_runs import (
    Happening,
    Sent,
    in_time,
    random_messages,
    run,
    stream_config,
    stream_keys,
    ticking,
)
from tracecloak import PublishDirectlyFollows
from tracecloak.pipelines.embedded.directly_follows import ToMessage
from tracecloak.schemas.errors import BudgetExhausted


def as_dict(sent: Sent) -> dict[str, Any]:
    """A message as a row: its time is a time."""
    return {
        "case_id": sent.case,
        "activity": sent.activity,
        "timestamp": Timestamp(sent.publish - sent.age),
        "event_id": sent.event_id,
    }


def rows_of(happenings: Sequence[Happening], row: Callable[[Sent], Any]) -> beam.PTransform:
    stream = streams.TestStream(coder=FastPrimitivesCoder()).advance_watermark_to(0)
    for happening in happenings:
        if isinstance(happening, float | int):
            stream = stream.advance_watermark_to(happening)
        else:
            rows = [TimestampedValue(row(sent), sent.publish) for sent in happening]
            stream = stream.add_elements(rows)
    return stream.advance_watermark_to_infinity().with_output_types(dict)


def published(folder: Path, happenings: Sequence[Happening]) -> None:
    keys = stream_keys(folder)
    del keys["input_subscription"]
    with beam.Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        edges = pipeline | rows_of(happenings, as_dict) | PublishDirectlyFollows(**keys)
        _ = edges | beam.Map(_noted, str(folder / "edges"))


def _noted(edge: Any, path: str) -> None:
    with Path(path).open("a") as stream:
        stream.write(json.dumps([edge.step, edge.source, edge.target, edge.count]) + "\n")


@pytest.mark.slow
def test_a_stream_of_rows_is_the_stream_of_their_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same key, the same steps; an epoch that is built again pays nothing and goes on."""
    fix_key(monkeypatch)
    happenings = [*in_time(random_messages(until=30), 30), *ticking(30, 120)]
    (tmp_path / "rows").mkdir()
    (tmp_path / "messages").mkdir()
    published(tmp_path / "rows", happenings)
    run(stream_config(tmp_path / "messages", time_attribute="time"), happenings)
    steps = [
        {path.name: path.read_bytes() for path in (tmp_path / place).rglob("step-*")}
        for place in ("rows/out", "messages/out")
    ]
    assert steps[0] == steps[1] and steps[0]
    found = [json.loads(line) for line in (tmp_path / "rows" / "edges").read_text().splitlines()]
    files = [json.loads(path.read_text()) for path in (tmp_path / "rows/out").rglob("step-*.json")]
    cells = [[f["step"], *c["cell"], c["count"]] for f in files for c in f["cells"]]
    assert sorted(found) == sorted(cells)
    with pytest.raises(BudgetExhausted, match="its last step is published"):
        published(tmp_path / "rows", happenings)
    paid = [e.action for e in ledger_entries(tmp_path / "rows" / "keys") if e.action != "step"]
    assert paid == ["reserve", "commit"]


@pytest.mark.parametrize(
    ("row", "body", "attributes"),
    [
        ({"c": 1, "t": 5.5}, {"c": 1, "t": 5.5}, {}),
        ({"c": "x", "t": Timestamp(5)}, {"c": "x"}, {"time": "1970-01-01T00:00:05Z"}),
        ({"c": [1], "t": None, "more": 1}, {"c": [], "t": None}, {}),
        ({"c": float("nan")}, {"c": None, "t": None}, {}),
        ({"c": Timestamp(5), "t": 1}, {"c": "1970-01-01T00:00:05Z", "t": 1}, {}),
        ({"c": Decimal("7.0"), "t": Decimal("1.5")}, {"c": 7, "t": 1.5}, {}),
    ],
)
def test_a_row_is_a_message_of_the_fields_that_are_read(
    row: dict[str, Any], body: dict[str, Any], attributes: dict[str, str]
) -> None:
    message = ToMessage(("c", "t"), "t", is_dict=True)(row)
    assert (json.loads(message.data), message.attributes) == (body, attributes)
