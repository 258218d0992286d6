"""Parquet: native types, exact names, damage, bounded reads, and released files."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support.format_streams import rows_of, table_of, written_by
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats import parquet
from tracecloak.transforms.formats.parquet import ParquetReader, ParquetWriter


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def read(
    data: bytes,
    wanted: Sequence[str] = ("case_id", "activity", "timestamp"),
    required: Sequence[str] = ("case_id",),
) -> pa.Table:
    return table_of(ParquetReader(), data, wanted, required)


@pytest.mark.skipif(not hasattr(pa, "json_"), reason="this pyarrow has no such types")
def test_extension_types_are_plain() -> None:
    table = pa.table(
        {
            "case_id": pa.array([UUID(int=1).bytes, None], pa.uuid()),
            "activity": pa.array(['"a"', None], pa.json_()),
        }
    )
    got = read(parquet_of(table))
    assert got.schema.types == [pa.string(), pa.string()]
    assert got.to_pydict() == {
        "case_id": ["00000000-0000-0000-0000-000000000001", None],
        "activity": ['"a"', None],
    }


NESTED = pa.table(
    {
        "a": [1, 2],
        "a.b": [3, 4],
        "s.b": [5, 6],
        "s": [{"b": 7, "b.c": 8}, {"b": 9, "b.c": 10}],
        "l": [[1], [2]],
        "a.b.c": [11, 12],
        "": [13, 14],
    }
)


def test_a_path_leads_into_structs_unless_a_column_has_its_name() -> None:
    data = parquet_of(NESTED.drop_columns(["s.b"]))
    assert read(data, ["a", "s.b", "s.b.c"], ["s.b.c"]).to_pydict() == {
        "a": [1, 2], "s.b": [7, 9], "s.b.c": [8, 10],
    }  # fmt: skip
    with pytest.raises(InputSchemaError, match=r"no column 's\.x'; .*'s\.b', 's\.b\.c'"):
        read(data, ["s.x"], ["s.x"])
    for path in ("s.b.x", "l.element", "l.list.element", "a.x"):
        assert read(data, ["a", path], ["a"]).column_names == ["a"]
    outside = list(ParquetReader(enters=False).read(io.BytesIO(data), ["a", "s.b"], (), 9))
    assert outside[0].columns.schema.names == ["a"]


@pytest.mark.parametrize(("name", "kind"), [("s", "struct"), ("l", "list")])
def test_nested_columns_cannot_be_asked_for(name: str, kind: str) -> None:
    with pytest.raises(InputSchemaError, match=f"'{name}' is nested.*{kind}"):
        read(parquet_of(NESTED), ["a", name], ["a"])


def test_duplicate_names_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["case_id", "case_id"])
    for reading in (read, lambda data: ParquetReader().column_names(io.BytesIO(data))):
        with pytest.raises(InputSchemaError, match="2 columns 'case_id'"):
            reading(parquet_of(table))


def test_checksums_of_pages_are_verified() -> None:
    table = pa.table({"case_id": [f"case {n}" for n in range(100)]})
    options = {"compression": "none", "write_page_checksum": True, "use_dictionary": False}
    data = parquet_of(table, **options)
    damaged = data.replace(b"case 57", b"case 75", 1)
    assert damaged != data and read(data).num_rows == 100
    with pytest.raises(InputSchemaError, match="damaged"):
        read(damaged)
    with pytest.raises(InputSchemaError, match="damaged"):
        read(written(rows_of(("1", "A", 0)))[:40] + b"x" + written(rows_of(("1", "A", 0)))[41:])


def written(*batches: pa.RecordBatch, about: Any = None) -> bytes:
    return written_by(lambda stream: ParquetWriter(stream, about=about), *batches)


def test_written_file() -> None:
    rows = rows_of(("1", "A", 5), ("1", "B", -5))
    data = written(rows, about={"é": "r"})
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.schema_arrow.equals(RELEASED_SCHEMA)
    assert file.metadata.metadata == {b"tracecloak.release": '{"é": "r"}'.encode()}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.read().to_pydict() == pa.Table.from_batches([rows]).to_pydict()


def test_names_filtered_out_of_a_dictionary_are_not_in_the_bytes() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "case_id": pa.array(["kept-case", "removed-case"] * 500).dictionary_encode(),
            "activity": pa.array(["kept-name", "removed-name"] * 500).dictionary_encode(),
            "timestamp": pa.array([0] * 1000, pa.timestamp("us", "UTC")),
        }
    )
    kept = rows.filter(pc.equal(rows["case_id"].cast(pa.string()), "kept-case"))
    assert "removed-name" in kept["activity"].dictionary.to_pylist()
    for batch in (kept, rows.slice(0, 1)):
        data = written(batch)
        assert b"kept-name" in data and b"removed" not in data
        assert set(pq.read_table(io.BytesIO(data))["activity"].to_pylist()) == {"kept-name"}


def test_bytes_and_row_groups_do_not_depend_on_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 150_000)
    numbers = np.random.default_rng(2).integers(0, 1 << 60, 200_000)  # for many pages
    text = pa.array(numbers).cast(pa.string())
    sevenths, stamps = pa.array(numbers % 7), pa.array(numbers, pa.timestamp("us", "UTC"))
    columns = [text, sevenths.cast(pa.string()), stamps]
    rows = pa.RecordBatch.from_arrays(columns, schema=RELEASED_SCHEMA)
    data = written(rows)
    cuts = [0, 1, 1, *range(777, 140_000, 7777), 149_999, 150_000, 150_001, 180_000, 200_000]
    assert written(*(rows.slice(a, b - a) for a, b in pairwise(cuts))) == data
    file = pq.ParquetFile(io.BytesIO(data))
    assert [file.metadata.row_group(n).num_rows for n in (0, 1)] == [150_000, 50_000]
    assert file.metadata.num_row_groups == 2
    assert pa.Table.from_batches([rows]).equals(file.read())


def test_fuzz() -> None:
    rng = random.Random(1)
    table = pa.table(
        {
            "case_id": [f"c{n}" for n in range(60)],
            "activity": pa.array(["a", "b", None] * 20).dictionary_encode(),
            "timestamp": pa.array(range(60), pa.timestamp("us", "UTC")),
            "nested": [{"x": [n]} for n in range(60)],
        }
    )
    valid = [
        parquet_of(table, compression="snappy", row_group_size=25),
        parquet_of(table, compression="none", write_page_checksum=True, version="1.0"),
        parquet_of(table, compression="zstd", use_dictionary=False, data_page_version="2.0"),
    ]
    outcomes = {"rows": 0, "error": 0}
    for _ in range(1500):
        data = bytearray(rng.choice(valid))
        for _ in range(rng.randrange(5)):
            place = rng.randrange(len(data)) if rng.random() < 0.5 else -rng.randrange(1, 900)
            data[place] = rng.randrange(256)
        if rng.random() < 0.2:
            data = data[: rng.randrange(len(data))] if rng.random() < 0.5 else data[1:]
        if rng.random() < 0.05:
            data = bytearray(b"PAR1" + rng.randbytes(99) + b"\x40\0\0\0PAR1")
        try:
            batches = ParquetReader().read(
                io.BytesIO(bytes(data)), ["case_id", "activity", "timestamp"], [], 7
            )
            for batch in batches:
                batch.columns.validate(full=True)
            outcomes["rows"] += 1
        except InputSchemaError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 100
