"""Tables of Iceberg are read as they are at one snapshot, columns by the ids of their fields."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support import lake_tables
from tests.support.lake_tables import (
    TYPED_VALUES,
    data_files,
    delete_by_list,
    events_of,
    iceberg_table,
    log_rows,
    pairs,
    rows_without,
    source,
    use_catalogue,
)
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.source_column import texts
from tracecloak.transforms.lakes import iceberg
from tracecloak.transforms.lakes.tables import VersionGoneError

pytest.importorskip("pyiceberg")
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

ROWS = log_rows(4)
NAME = "lake.hospital.visits"


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_catalogue(monkeypatch, tmp_path)


def test_a_snapshot_is_what_it_was(tmp_path: Path) -> None:
    table = iceberg_table(NAME, ROWS)
    first = table.current_snapshot().snapshot_id
    table.delete("case_id = 'case-1'")
    with table.update_schema() as update:
        update.rename_column("activity", "step")
    table.append(log_rows(1, prefix="new").rename_columns(["case_id", "step", "timestamp"]))
    assert events_of(source(f"iceberg:{NAME}@{first}")) == pairs(ROWS.to_pylist())
    with pytest.raises(InputSchemaError, match="'step'"):
        source(f"iceberg:{NAME}")
    now = events_of(source(f"iceberg:{NAME}", activity="step"))
    assert sorted({case for case, _ in now}) == ["case-0", "case-2", "case-3", "new-0"]
    with pytest.raises(VersionGoneError, match="version 7 of the table iceberg:lake"):
        source(f"iceberg:{NAME}@7")


@pytest.mark.parametrize("form", ["parquet", "puffin"])
def test_rows_of_a_list_of_deleted_ones_are_not_read(form: str) -> None:
    table = iceberg_table(NAME, ROWS)
    before = table.current_snapshot().snapshot_id
    delete_by_list(table, data_files(table)[0], [0, 4, 9], form)
    assert events_of(source(f"iceberg:{NAME}")) == pairs(rows_without(ROWS, [0, 4, 9]))
    assert len(events_of(source(f"iceberg:{NAME}@{before}"))) == len(ROWS)
    if form == "parquet":  # a second list adds to the first
        delete_by_list(table, data_files(table)[0], [1, 2], form)
        assert events_of(source(f"iceberg:{NAME}")) == pairs(rows_without(ROWS, [0, 1, 2, 4, 9]))


def test_what_is_not_honoured_is_refused() -> None:
    table = iceberg_table(NAME, ROWS)
    delete_by_list(table, data_files(table)[0], [0], "equality")
    with pytest.raises(InputSchemaError, match=r"iceberg:.*equality"):
        source(f"iceberg:{NAME}")


def test_a_list_of_deleted_rows_of_another_file_is_not_taken_for_that_of_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches deleted rows that are read, as the list is said to be of this file and is not."""
    whole = lake_tables._puffin
    monkeypatch.setattr(lake_tables, "_puffin", lambda path, places: whole(f"{path}-2", places))
    table = iceberg_table(NAME, ROWS)
    delete_by_list(table, data_files(table)[0], [0], "puffin")
    with pytest.raises(InputSchemaError, match="unsupported list"):
        source(f"iceberg:{NAME}")


@pytest.mark.parametrize(
    ("kind", "key", "said"), [("ORC", None, "files of ORC"), ("PARQUET", b"k", "encrypted files")]
)
def test_files_of_another_kind_are_refused(kind: str, key: bytes | None, said: str) -> None:
    file = SimpleNamespace(file_format=SimpleNamespace(value=kind), key_metadata=key)
    with pytest.raises(InputSchemaError, match=said):
        iceberg._check_file(file, NAME)


def test_a_default_for_older_files_is_refused() -> None:
    """Catches a column that is null where the table says that it has a value."""
    field = NestedField(1, "ward", StringType(), required=False, initial_default="A")
    table = SimpleNamespace(name_mapping=lambda: None)
    with pytest.raises(InputSchemaError, match="a default of column 'ward'"):
        list(iceberg._columns(table, Schema(field), NAME))


def test_files_without_ids_of_fields_need_a_mapping_of_names(tmp_path: Path) -> None:
    table = iceberg_table(NAME, ROWS)
    pq.write_table(log_rows(1, prefix="added"), tmp_path / "added.parquet")
    table.add_files([f"file://{tmp_path}/added.parquet"])  # which notes the names
    with table.refresh().update_schema() as update:
        update.rename_column("activity", "step")
    table.append(log_rows(1, prefix="new").rename_columns(["case_id", "step", "timestamp"]))
    events = events_of(source(f"iceberg:{NAME}", activity="step"))
    assert ("added-0", "B") in events and ("new-0", "A") in events
    with table.refresh().transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    with pytest.raises(InputSchemaError, match="maps ids of fields"):
        events_of(source(f"iceberg:{NAME}", activity="step"))


def test_partitions_and_hidden_ones_are_columns(tmp_path: Path) -> None:
    stamped = pa.concat_tables([ROWS, log_rows(2, "2026-11-02", "next")])
    stamps = pc.cast(
        pc.strptime(stamped["timestamp"], "%Y-%m-%dT%H:%M:%SZ", "us"), pa.timestamp("us", "UTC")
    )
    stamped = stamped.set_column(2, "timestamp", stamps)
    iceberg_table(NAME, stamped, partitioned_by="timestamp|day")
    files = source(f"iceberg:{NAME}").files
    assert [dict(file.partitions) for file in files] == [
        {"timestamp_day": "2026-11-01Z"},
        {"timestamp_day": "2026-11-02Z"},
    ]
    by_ward = ROWS.append_column("ward", pa.array(["a", None] * 5))
    iceberg_table("lake.hospital.wards", by_ward, partitioned_by="ward")
    read = source("iceberg:lake.hospital.wards", resource="ward")
    assert {ward for *_, ward in events_of(read, "resource")} == {"a", None}
    # The text of a partition is that of its value in a file.
    typed = ROWS.slice(0, 3)
    for name, values in TYPED_VALUES.items():
        typed = typed.append_column(name, values)
    for name in ("double", "date"):
        table = iceberg_table(f"lake.hospital.by_{name}", typed, partitioned_by=name)
        files = source(f"iceberg:lake.hospital.by_{name}").files
        given = {str(dict(file.partitions)[name]) for file in files}
        assert given == set(map(str, texts(TYPED_VALUES[name]).to_pylist())), name
    # A partition that came later gives no column to the files before it.
    table = iceberg_table("lake.hospital.late", by_ward)
    with table.update_spec() as update:
        update.add_identity("ward")
    table.append(by_ward)
    read = source("iceberg:lake.hospital.late", resource="ward")
    assert [dict(file.partitions) for file in read.files] == [{}, {}, {}]
    assert len(events_of(read)) == 2 * len(ROWS)


def test_files_that_are_gone_and_tables_that_are_none_are_refused(tmp_path: Path) -> None:
    table = iceberg_table(NAME, ROWS)
    Path(data_files(table)[0].file_path.removeprefix("file://")).unlink()
    with pytest.raises(VersionGoneError, match="1 of its 1 files are not there"):
        source(f"iceberg:{NAME}")
    for lists in (tmp_path / "warehouse").rglob("*.avro"):
        lists.unlink()
    with pytest.raises(VersionGoneError, match="what lists its files"):
        source(f"iceberg:{NAME}")
    shutil.rmtree(tmp_path / "warehouse")
    with pytest.raises(VersionGoneError, match="the table is not there"):
        source(f"iceberg:{NAME}@7")
    with pytest.raises(InputSchemaError, match=r"no table iceberg:lake\.hospital\.none"):
        source("iceberg:lake.hospital.none")
    with pytest.raises(UsageError, match=r"'other'.*pyiceberg\.yaml"):
        source("iceberg:other.hospital.visits")
    with pytest.raises(UsageError, match="is not iceberg:CATALOG"):
        source("iceberg:visits")


def test_a_table_without_a_snapshot_is_refused() -> None:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake")
    catalog.create_namespace("hospital")
    catalog.create_table("hospital.visits", ROWS.schema)
    with pytest.raises(InputSchemaError, match="no snapshot yet"):
        source(f"iceberg:{NAME}")
