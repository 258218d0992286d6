"""What the transforms for other pipelines refuse when one is built: by name, with the remedy."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream as streams
from apache_beam.transforms.window import FixedWindows
from apache_beam.typehints.row_type import RowTypeConstraint

from tests.support.embedded import AMUN, COLUMNS, GRAPH, Claim, paid
from tests.support.tiers import each_row
from tracecloak import (
    AnonymizeEventLog,
    ColumnMapping,
    PublishDirectlyFollows,
    ReadEventLog,
    WriteRelease,
)
from tracecloak.pipelines.embedded.elements import kind_of
from tracecloak.schemas.errors import InputSchemaError, UsageError

UNPAID = {"release_id": "r", "key": "env:NO_KEY", "unaccounted": True}
STREAM = {
    "output": "out", "release_id": "ward", "epoch": "1", "epsilon": 1, "vocabulary": ["A", "B"],
    "period": "1h", "horizon": 3, "start": "2026-01-01", "gap": "1h", "max_lifetime": "1d",
}  # fmt: skip


@dataclasses.dataclass
class Plain:
    claim: str
    step: str
    at: datetime.datetime


class Keyed(TypedDict):
    claim: str


def typed(element_type: Any) -> beam.PCollection[Any]:
    """A collection of a type in a pipeline that nobody runs."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    return pipeline | beam.Create([]) | beam.Map(lambda row: row).with_output_types(element_type)


def row_of(**fields: Any) -> Any:
    return RowTypeConstraint.from_fields(list(fields.items()))


@each_row(
    ("element_type", "kind"),
    [
        (dict, "dicts"), (dict[str, Any], "dicts"), (Mapping[str, str], "dicts"), (Keyed, "dicts"),
        (pa.RecordBatch, "batches"), (Claim, "rows"), (Plain, "rows"), (row_of(a=str), "rows"),
    ],
)  # fmt: skip
def test_what_elements_are_is_told_by_their_type(element_type: Any, kind: str) -> None:
    assert kind_of(typed(element_type).element_type)[0] == kind


@each_row("element_type", [Any, beam.Row, str, int, tuple[str, str], list[str]])
def test_another_type_is_refused_by_its_name(element_type: Any) -> None:
    with pytest.raises(UsageError, match=r"have the type \w.*with_output_types.*NamedTuple"):
        _ = typed(element_type) | AnonymizeEventLog(**AMUN, **UNPAID)


class Wrong(NamedTuple):
    claim: str
    step: list[str]
    at: int


@each_row(
    ("element_type", "keys", "told"),
    [
        (row_of(claim=str, step=str), {}, "no field 'at'; their fields are 'claim', 'step'"),
        (Wrong, {}, "the field 'step' has the type"),
        (Wrong, {"activity": "claim"}, "'at' holds numbers; say their unit since 1970"),
        (Claim, {"case_id": "at"}, "the field 'at' has the type Timestamp"),
        (Claim, {"where": "ward = 3"}, "no field 'ward'"),
        (Claim, {"individual_id": "person"}, "no field 'person'"),
    ],
)
def test_rows_that_lack_a_column_are_refused_by_its_name(
    element_type: Any, keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputSchemaError, match=told):
        _ = typed(element_type) | AnonymizeEventLog(**{**AMUN, **UNPAID, **keys})


def test_windows_and_unbounded_input_are_refused_with_what_does_it() -> None:
    windowed = typed(dict) | beam.WindowInto(FixedWindows(3600))
    with pytest.raises(UsageError, match=r"windowed.*PublishDirectlyFollows"):
        _ = windowed | AnonymizeEventLog(**AMUN, **UNPAID)
    unbounded = beam.Pipeline(runner="FnApiRunner") | streams.TestStream().with_output_types(dict)
    with pytest.raises(UsageError, match=r"unbounded.*PublishDirectlyFollows"):
        _ = unbounded | AnonymizeEventLog(**AMUN, **UNPAID)


def test_a_runner_that_loses_data_is_refused() -> None:
    options = PipelineOptions(["--direct_running_mode=multi_threading"])
    pipeline = beam.Pipeline(runner="FnApiRunner", options=options)
    with pytest.raises(UsageError, match="direct_running_mode"):
        _ = pipeline | beam.Create([{"a": 1}]) | AnonymizeEventLog(**AMUN, **UNPAID)


def anonymize(**keys: Any) -> Any:
    return AnonymizeEventLog(**{**AMUN, "release_id": "r", **keys})


def write(**keys: Any) -> Any:
    return WriteRelease(**{**GRAPH, "release_id": "r", "output": "out", **keys})


def publish(**keys: Any) -> Any:
    return PublishDirectlyFollows(**{**STREAM, **keys})


@each_row(
    ("door", "keys", "told"),
    [
        (anonymize, {"release_id": None}, "release_id is missing"),
        (anonymize, {"log": "a.csv"}, "log is a key of a release that a command makes"),
        (anonymize, {"output": "folder"}, "output must be rows or batches"),
        (anonymize, {"formats": ["csv"]}, "formats is a key of a release that a command makes"),
        (anonymize, {"epsilom": 1}, "epsilom: unknown key"),
        (anonymize, {"guessing_advantage": 2}, "guessing_advantage: must be below 1"),
        (anonymize, {"params": {"guessing_advantage": 0.1}}, "guessing_advantage is given twice"),
        (anonymize, {"params": {"epsilon": 1}}, "epsilon: unknown key; amun has"),
        (anonymize, {"unaccounted": True}, "unaccounted=True needs it"),
        (anonymize, {"key": "env:K"}, "key is for unaccounted=True"),
        (anonymize, {"unaccounted": True, "key": "env:K", "account": "a"}, "account is for a rel"),
        (anonymize, {"product": "graph"}, "amun has no product .graph.; it has none"),
        (anonymize, {"columns": ColumnMapping(needs_individual=True, individual_id="i")},
         "columns has needs_individual"),
        (anonymize, {"timestamp_unit": "h"}, "timestamp_unit"),
        (anonymize, {"method": "private-dfg", "guessing_advantage": None, "epsilon": 1,
                     "vocabulary": ["A"]}, "private-dfg releases no log: name the product"),
        (anonymize, {"where": [{"column": "step"}]}, "where takes texts"),
        (write, {"where": {"step": "Check"}}, "where takes texts"),
        (publish, {"where": {"step": "Check"}}, "where takes texts"),
        (write, {"schedule": {}}, "schedule is a key of a release that a command makes"),
        (write, {"runner": "FnApiRunner"}, "runner is a key of a release that a command makes"),
        (write, {"formats": ["wasm"]}, "formats"),
        (publish, {"runner": "FlinkRunner"}, "runner is a key of a stream that a command runs"),
        (publish, {"horizon": None}, "horizon: required"),
        (publish, {"output_steps": "json"}, "output_steps must be rows or steps"),
        (write, {"vocabulary": "no file"}, "names as JSON: "),
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused_at_construction(
    door: Callable[..., Any], keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        door(**keys)


def test_reading_refuses_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="epsilon"):
        ReadEventLog("a.csv", epsilon=1)
    for key in ("rename", "drop_duplicates"):
        with pytest.raises(UsageError, match="give it to AnonymizeEventLog or"):
            ReadEventLog("a.csv", **{key: {"a": "b"}})
    with pytest.raises(UsageError, match="attributes are in the batches"):
        ReadEventLog("a.csv", attributes=["x"], output="rows")
    with pytest.raises(UsageError, match="output must be rows or batches"):
        ReadEventLog("a.csv", output="dicts")  # type: ignore[arg-type]
    (tmp_path / "a.csv").write_text("case_id,activity,timestamp\n")
    with pytest.raises(InputSchemaError, match=r"Name the right column in case_id,"):
        _ = beam.Pipeline() | ReadEventLog(str(tmp_path / "a.csv"), attributes=["x"])
    with pytest.raises(InputSchemaError, match="nothing there"):
        _ = beam.Pipeline(runner="FnApiRunner") | ReadEventLog(str(tmp_path / "nothing there.csv"))


def test_a_stream_refuses_a_runner_that_runs_none_and_what_is_no_source(tmp_path: Path) -> None:
    keys = {**STREAM, **COLUMNS}
    with pytest.raises(UsageError, match="runner must be"):
        _ = typed(dict) | PublishDirectlyFollows(**keys)
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    with pytest.raises(UsageError, match="name the topic of Kafka"):
        _ = pipeline | PublishDirectlyFollows(**keys)
    windowed = pipeline | beam.Create([{"claim": 1}]) | beam.WindowInto(FixedWindows(3600))
    with pytest.raises(UsageError, match=r"windowed.*period"):
        _ = windowed | "Windowed" >> PublishDirectlyFollows(**keys)
    batches = pipeline | "Batches" >> beam.Create([]).with_output_types(pa.RecordBatch)
    with pytest.raises(UsageError, match="type RecordBatch"):
        _ = batches | "OfBatches" >> PublishDirectlyFollows(**keys)
    rows = pipeline | "Rows" >> beam.Create([]).with_output_types(row_of(claim=str))
    with pytest.raises(InputSchemaError, match="no field 'step'"):
        _ = rows | "Published" >> PublishDirectlyFollows(**keys)
    with pytest.raises(UsageError, match="input_topic is for a transform that"):
        _ = rows | "Two" >> PublishDirectlyFollows(**keys, input_topic="kafka://b:1/events")
    for flags, told in (
        ((), "such as `--checkpointing_interval 60000`"),
        (("--checkpointing_interval=60000",), "loses messages of a stream between checkpoints"),
    ):
        flink = beam.Pipeline(options=PipelineOptions(["--runner=FlinkRunner", *flags]))
        events = flink | beam.Create([{"claim": 1}])
        with pytest.raises(UsageError, match=told):
            _ = events | PublishDirectlyFollows(**keys)


def test_nothing_is_paid_for_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputSchemaError):
        _ = typed(row_of(claim=str)) | AnonymizeEventLog(**AMUN, **paid(tmp_path))
    unbegun = {**paid(tmp_path), "new_ledger": None}
    for door in (anonymize(**unbegun), write(**unbegun)):  # whose user has keywords and no flags
        with pytest.raises(UsageError, match=r"or with new_ledger at the first"):
            _ = typed(dict) | door
    assert not (tmp_path / "keys").exists()


def test_a_ledger_that_stays_here_is_refused_for_a_runner_elsewhere(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=PortableRunner"]))
    rows = pipeline | beam.Create([{"claim": 1}])
    with pytest.raises(UsageError, match="runner PortableRunner leaves this"):
        _ = rows | AnonymizeEventLog(**AMUN, **paid(tmp_path))


def test_a_runner_is_shown_no_key_and_no_value_of_a_filter() -> None:
    door = AnonymizeEventLog(**AMUN, **UNPAID, where=["claim = secret"])
    shown = door.display_data()
    assert (shown["method"], shown["release_id"], shown["unaccounted"]) == ("amun", "r", True)
    assert "secret" not in repr(door.display_data()) and "NO_KEY" not in repr(door.display_data())
    stream = PublishDirectlyFollows(**STREAM, where=["claim = secret"])
    assert stream.display_data()["epsilon"] == "1" and "secret" not in repr(stream.display_data())
