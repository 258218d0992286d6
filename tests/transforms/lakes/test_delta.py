"""Tables of Delta are read as they are at one version: no deleted row, every column by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.lake_tables import (
    TYPED_VALUES,
    actions_of,
    commit,
    delete_by_vector,
    events_of,
    log_rows,
    mapped_table,
    pairs,
    protocol,
    rows_without,
    source,
)
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.keys.receipts import snapshot_of
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.lakes import delta
from tracecloak.transforms.lakes.tables import VersionGoneError, address_of

deltalake = pytest.importorskip("deltalake")

ROWS = log_rows(4)


def write(path: Path, rows: pa.Table, **how: object) -> None:
    # Of several chunks the library does not keep the order.
    deltalake.write_deltalake(str(path), rows.combine_chunks(), **{"mode": "append", **how})


def test_deleted_rows_are_not_read_and_a_version_is_what_it_was(tmp_path: Path) -> None:
    table = tmp_path / "visits"
    write(table, ROWS)
    deltalake.DeltaTable(str(table)).delete("case_id = 'case-1'")
    assert {case for case, _ in events_of(source(f"delta:{table}"))} == {
        "case-0", "case-2", "case-3",
    }  # fmt: skip
    assert events_of(source(f"delta:{table}@0")) == pairs(ROWS.to_pylist())
    # All of a log that was folded into a checkpoint is there still.
    deltalake.DeltaTable(str(table)).create_checkpoint()
    assert len(events_of(source(f"delta:{table}/"))) == len(ROWS) - 3


@settings(max_examples=6)
@given(st.sets(st.integers(0, 20)), st.booleans())
def test_rows_of_a_deletion_vector_are_not_read_and_the_others_keep_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, places: set[int], is_partitioned: bool
) -> None:
    table, rows = tmp_path_factory.mktemp("a table") / "v 1", log_rows(8)
    rows = rows.append_column("ward", pa.array(["A/B %20"] * len(rows)))
    write(table, rows, partition_by=["ward"] if is_partitioned else None)
    deleted = sorted(place for place in places if place < len(rows)) or [0]
    delete_by_vector(table, 1, "parquet", deleted)
    read = source(f"delta:{table}", resource="ward")
    assert events_of(read) == pairs(rows_without(rows, deleted))
    assert {ward for *_, ward in events_of(read, "resource")} <= {"A/B %20"}
    numbered = replace(read, is_unordered=False)
    index = [
        row for batch, _ in numbered.read(read.files[0]) for row in batch["event_index"].to_pylist()
    ]
    numbers = [place for place in range(len(rows)) if place not in deleted]
    assert [one - index[0] for one in index] == [one - numbers[0] for one in numbers]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_read_by_what_the_table_calls_them(tmp_path: Path, mode: str) -> None:
    mapped_table(tmp_path / "t", ROWS, mode, day="2026-11-01")
    read = source(f"delta:{tmp_path / 't'}", resource="day")
    assert events_of(read, "resource") == [
        (*pair, "2026-11-01") for pair in pairs(ROWS.to_pylist())
    ]


def test_columns_that_came_later_are_null_before_and_widened_ones_are_one(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, ROWS.append_column("n", pa.array([7] * len(ROWS), pa.int32())))
    later = log_rows(1, prefix="later").append_column("ward", [["x"] * 2])
    write(table, later.append_column("n", pa.array([8] * 2, pa.int32())), schema_mode="merge")
    read = source(f"delta:{table}", resource="ward")
    wards = {case: ward for case, _, ward in events_of(read, "resource")}
    assert wards == {"later-0": "x", **{f"case-{case}": None for case in range(4)}}
    numbers = events_of(source(f"delta:{table}", resource="n"), "resource")
    assert {number for *_, number in numbers} == {"7", "8"}


def test_partitions_are_what_the_table_says_whatever_the_path_does(tmp_path: Path) -> None:
    table = tmp_path / "day=1999-01-01" / "t"  # a folder above is no partition
    rows = ROWS.append_column("ward", pa.array(["a", None, ""] * 3 + ["a"]))
    write(table, rows, partition_by=["ward"])
    events = events_of(source(f"delta:{table}", resource="ward"), "resource")
    assert sorted(ward or "" for *_, ward in events) == [""] * 6 + ["a"] * 4
    with pytest.raises(InputSchemaError, match="day"):
        source(f"delta:{table}", activity="day")


def test_the_text_of_a_partition_is_that_of_its_value_in_a_file(tmp_path: Path) -> None:
    """Catches a value that a filter or an attribute meets as another one, by where it lies."""
    rows = ROWS.slice(0, 3)
    for name, values in TYPED_VALUES.items():
        rows = rows.append_column(name, values)
    write(tmp_path / "flat", rows)
    write(tmp_path / "parts", rows, partition_by=list(TYPED_VALUES))
    for name in TYPED_VALUES:
        part = "timestamp" if name in ("date", "stamp") else "resource"
        flat, parts = (
            events_of(source(f"delta:{tmp_path / table}", **{part: name}), part)
            for table in ("flat", "parts")
        )
        assert sorted(parts, key=str) == sorted(flat, key=str), name


def test_what_is_not_honoured_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    write(table, ROWS)
    commit(table, 1, [protocol("catalogManaged", "variantType")])
    with pytest.raises(InputSchemaError, match=r"delta:.*unknown feature"):
        source(f"delta:{table}")
    monkeypatch.setattr(delta, "_HONOURED", frozenset())
    mapped_table(tmp_path / "mapped", ROWS, "name")
    with pytest.raises(InputSchemaError, match=r"delta:.* has unsupported columnMapping"):
        source(f"delta:{tmp_path / 'mapped'}")


def test_a_version_whose_files_are_gone_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write(table, ROWS)
    write(table, log_rows(2, prefix="new"), mode="overwrite")
    old = actions_of(table, 0)[-1]["add"]["path"]
    assert len(events_of(source(f"delta:{table}@0"))) == len(ROWS)
    (table / old).unlink()
    with pytest.raises(VersionGoneError, match=r"version 0 .*1 of its 1 files"):
        source(f"delta:{table}@0")
    with pytest.raises(InputSchemaError, match=r"no version 7.* 1$"):
        source(f"delta:{table}@7")
    with pytest.raises(InputSchemaError, match="no table of Delta"):
        source(f"delta:{tmp_path / 'nothing'}")
    # A list of deleted rows lies in a file of its own, which a VACUUM can delete.
    (added,) = [action["add"] for action in actions_of(table, 1) if "add" in action]
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    vector |= {"offset": 1, "sizeInBytes": 36, "cardinality": 2}
    commit(table, 2, [protocol("deletionVectors"), {"add": {**added, "deletionVector": vector}}])
    with pytest.raises(VersionGoneError, match=r"version 2 .*deleted rows cannot be read"):
        source(f"delta:{table}")
    (table / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(InputSchemaError):
        source(f"delta:{table}@0")


def test_deleted_rows_of_a_file_that_the_table_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a library that names a file otherwise there: its deleted rows would be read."""
    write(table := tmp_path / "visits", ROWS)
    delete_by_vector(table, 1, "parquet", [0])
    path_of = delta.path_of

    def with_a_part(uri: str) -> str:
        return path_of(uri) + ("" if uri.startswith(str(tmp_path)) else "-2")

    assert len(events_of(source(f"delta:{table}"))) == len(ROWS) - 1
    monkeypatch.setattr(delta, "path_of", with_a_part)
    with pytest.raises(InputSchemaError, match="deleted rows of 1 unknown files"):
        source(f"delta:{table}")


def test_a_table_and_files_are_one_log_and_a_table_twice_is_none(tmp_path: Path) -> None:
    write(tmp_path / "t", ROWS)
    pq.write_table(log_rows(1, prefix="file"), tmp_path / "more.parquet")
    both = load_log({"log": f"delta:{tmp_path / 't'},{tmp_path / 'more.parquet'}"})
    assert len(events_of(source_of(both))) == len(ROWS) + 2
    twice = load_log({"log": f"delta:{tmp_path / 't'},delta:{tmp_path / 't'}/@0"})
    with pytest.raises(UsageError, match="twice"):
        source_of(twice)
    for name, value in {"input_format": "csv", "delimiter": ";", "skip_lines": "1"}.items():
        with pytest.raises(UsageError, match=f"{name} is .*leave it out"):
            source(f"delta:{tmp_path / 't'}", **{name: value})


def test_addresses() -> None:
    cases = {
        "delta:/lake/t": ("/lake/t", None),
        "delta:/lake/t@12": ("/lake/t", 12),
        "delta:/lake/me@home/t": ("/lake/me@home/t", None),
        "delta:/lake/me@home/": ("/lake/me@home", None),
        "delta:s3://bucket/t@0": ("s3://bucket/t", 0),
        "iceberg:lake.h.t@8208871308027258711": ("lake.h.t", 8208871308027258711),
    }
    for text, (place, version) in cases.items():
        address = address_of(text)
        assert (address.place, address.version) == (place, version), text
        assert address_of(str(address)) == address
    for text in ("delta:", "delta:@3", *(f"delta:/t@{v}" for v in ("", "-1", "3.5", "\u0661"))):
        with pytest.raises(UsageError, match="log"):
            address_of(text)


@given(st.text(max_size=40), st.sampled_from(["delta", "iceberg"]))
def test_any_address_is_read_or_refused_with_a_remedy(text: str, kind: str) -> None:
    try:
        address = address_of(f"{kind}:{text}")
    except UsageError as error:
        assert "log" in str(error)
    else:
        assert address.kind == kind and address.place
        assert address_of(str(address).replace("@", "@", 1)).kind == kind


def test_stamps_without_a_zone_are_utc_as_their_table_says(tmp_path: Path) -> None:
    """Catches INT96, as Spark writes it, which is read by the clock of the configuration."""
    table = tmp_path / "t"
    stamps = pa.array([1_767_268_800_000_000], pa.timestamp("us", "UTC"))  # 2026-01-01T12:00Z
    rows = pa.table({"case_id": ["c"], "activity": ["A"], "timestamp": stamps})
    write(table, rows)
    (data,) = table.glob("*.parquet")
    pq.write_table(rows, data, use_deprecated_int96_timestamps=True)
    read = source(f"delta:{table}", time_zone="Europe/Berlin")
    ((events, _),) = read.read(read.files[0])
    assert events.column("timestamp").to_pylist() == [1_767_268_800_000_000]


def test_equal_stamps_of_a_table_are_in_no_order_of_its_files(tmp_path: Path) -> None:
    """Catches an order by random names of files, which a deleted row of another case changes."""
    for name in "ABC":
        write(
            tmp_path / "t",
            pa.table({"case_id": ["c"], "activity": [name], "timestamp": ["2026-01-01"]}),
        )
    read = source(f"delta:{tmp_path / 't'}")
    assert read.is_unordered and read.is_by_name
    numbers = [e.column("event_index").to_pylist() for f in read.files for e, _ in read.read(f)]
    assert numbers == [[0], [0], [0]]


@pytest.mark.slow
def test_a_table_on_s3_is_told_from_one_that_was_rewritten_or_vacuumed(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from tests.support.s3_double import s3_double

    write(tmp_path / "t", ROWS)
    with s3_double() as double:
        for path in (tmp_path / "t").rglob("*.*"):
            double.put(f"ward/{path.relative_to(tmp_path)}", path.read_bytes())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ALLOW_HTTP", "true")
            read = source("delta:s3://lake/ward/t")
            (file,) = read.files
            # A file that is written over in place is another input.
            other = log_rows(4, prefix="more")
            pq.write_table(other, tmp_path / "other.parquet")
            key = file.path.removeprefix("s3://lake/")
            double.put(key, (tmp_path / "other.parquet").read_bytes())
            again = source("delta:s3://lake/ward/t")
            assert events_of(again) == pairs(other.to_pylist())
            assert snapshot_of(again.files) != snapshot_of(read.files)
            double.client.delete_object(Bucket="lake", Key=key)
            with pytest.raises(VersionGoneError, match=r"version 0 .* 1 of its 1 files .*Restore"):
                source("delta:s3://lake/ward/t")


def test_a_version_that_is_gone_is_named(tmp_path: Path) -> None:
    """By a table that is not there any more, and by a log that was cleaned up."""
    table = tmp_path / "visits"
    with pytest.raises(VersionGoneError, match=r"version 3 .*the table is not there"):
        delta.snapshot(str(table), 3)
    for _ in range(3):
        write(table, ROWS)
    deltalake.DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(VersionGoneError, match=r"version 0 .*its log was cleaned up"):
        delta.snapshot(str(table), 0)
