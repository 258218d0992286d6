"""A log whose values lie within objects is read as the flat log, in every format that has such."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracecloak.pipelines.configuration.config import SourceConfig
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.tally import FileTally
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource, pieces

ROWS: list[dict[str, Any]] = [
    {
        "case": {"id": f"c{n % 40}", "who": {"name": f"p{n % 7}"} if n % 5 else None},
        "event": {"name": "ABC"[n % 3], "cost": n / 4, "state": "done" if n % 4 else "open"},
        "ts": f"2024-01-{1 + n % 28:02d}T10:00:00Z",
    }
    for n in range(200)
]
PATHS = {"case_id": "case.id", "activity": "event.name", "timestamp": "ts"}
MAPPING: dict[str, Any] = {
    **PATHS, "individual_id": "case.who.name", "attributes": (("cost", "event.cost"),),
    "filters": (RowFilter("event.state", equals=("done",)),),
}  # fmt: skip


def write(path: Path) -> None:
    lines = [json.dumps(row) for row in ROWS]
    if path.suffixes[0] == ".json":
        data = json.dumps(ROWS, indent=1).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    elif path.suffix == ".jsonl":
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=50)
    else:
        with path.open("wb") as stream:
            fastavro.writer(stream, kind_of("Row", ROWS[1])[1], ROWS)


def kind_of(name: str, value: Any) -> Any:
    """The type in Avro of what has such a value; any record but the whole can be null."""
    if type(value) is not dict:
        return "double" if type(value) is float else "string"
    fields = [{"name": key, "type": kind_of(key, inner)} for key, inner in value.items()]
    return ["null", {"type": "record", "name": name, "fields": fields}]


def events_of(path: Path, max_bytes: int | None = None, **mapping: Any) -> tuple[list[Any], int]:
    source = EventSource(tuple(match_files([str(path)])), SourceFormat(), ColumnMapping(**mapping))
    (file,) = source.files
    parts = [file] if max_bytes is None else pieces(source, file, max_bytes)
    tallies = [FileTally(0) for _ in parts]
    read = [
        row
        for part, tally in zip(parts, tallies, strict=True)
        for events, _ in source.read(part, tally, [])
        for row in events.to_pylist()
    ]
    return read, sum(tally.result().n_rejects for tally in tallies)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".json.gz", ".parquet", ".avro"])
def test_values_within_objects_are_those_of_a_flat_log(tmp_path: Path, ending: str) -> None:
    flat = tmp_path / "flat.jsonl"
    rows = [
        {**row["case"], **row["event"], "case": row["case"]["id"], "ts": row["ts"],
         "who": (row["case"]["who"] or {}).get("name")}
        for row in ROWS
    ]  # fmt: skip
    flat.write_text("\n".join(map(json.dumps, rows)))
    expected = events_of(
        flat, case_id="case", activity="name", timestamp="ts", individual_id="who",
        attributes=(("cost", "cost"),), filters=(RowFilter("state", equals=("done",)),),
    )  # fmt: skip
    path = tmp_path / f"log{ending}"
    write(path)
    assert events_of(path, **MAPPING) == expected
    assert (len(expected[0]), expected[1]) == (150, 0)
    if ending in (".jsonl", ".parquet"):
        assert events_of(path, 4096, **MAPPING) == expected
    with pytest.raises(InputSchemaError, match=r"no column 'case\.name'; .*'case\.id'"):
        events_of(path, **{**MAPPING, "case_id": "case.name"})


def test_names_by_content_are_for_case_ids_that_traces_have() -> None:
    keys: dict[str, Any] = {"log": "a.xes", "unnamed_traces": "digest"}
    assert SourceConfig(**keys).source_format.unnamed_traces == "case:concept:name"
    keys["columns"] = {"case_id": "case:stay"}
    assert SourceConfig(**keys).source_format.unnamed_traces == "case:stay"
    keys["columns"] = {"case_id": "stay"}
    with pytest.raises(UsageError, match="case_id"):
        SourceConfig(**keys).source_format  # noqa: B018
    del keys["unnamed_traces"]
    assert SourceConfig(**keys).source_format.unnamed_traces is None


def test_the_same_trace_without_a_name_in_two_files_is_two_cases(tmp_path: Path) -> None:
    event = '<event><string key="concept:name" value="A"/>'
    event += '<date key="time:timestamp" value="2024-01-01T10:00:00Z"/></event>'
    for name in ("a", "b"):
        (tmp_path / f"{name}.xes").write_text(f"<log>{f'<trace>{event}</trace>' * 3}</log>")
    config = SourceConfig(log=(str(tmp_path / "*.xes"),), unnamed_traces="digest")
    files = tuple(match_files(config.log))
    source = EventSource(files, config.source_format, config.mapping)
    read = [row for events in source.events() for row in events.to_pylist()]
    assert len({row["case_id"] for row in read}) == len(read) == 6
    source = EventSource(files, SourceFormat(goes_on=True), config.mapping)
    assert not any(events.num_rows for events in source.events())
