"""What every file format owes the pipeline, over one log that each of them writes itself."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.format_streams import rows_of
from tracecloak.schemas.errors import LacksColumn
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, RELEASED_SCHEMA
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat

ROWS = [
    (f"c{i // 3}", "A,é" if i % 2 else 'B "x"', 1_767_225_600_000_000 + i * 3_600_000_000)
    for i in range(60)
]
WHOLE = rows_of(*ROWS)
WRITTEN = [name for name, kind in FORMATS.builtins.items() if kind.writer and name != "spreadsheet"]
every_format = pytest.mark.parametrize("name", WRITTEN)


class Slow(io.BytesIO):
    """A stream that gives less than it is asked for, and fails where it is told to."""

    def __init__(self, data: bytes, fails_at: int | None = None) -> None:
        super().__init__(data)
        self._fails_at = fails_at

    def read(self, size: int | None = -1, /) -> bytes:
        if self._fails_at is not None and self.tell() >= self._fails_at:
            raise OSError(5, "disk")
        return super().read(size if size is None or size < 0 else min(size, 7))


def written(name: str, *batches: pa.RecordBatch) -> bytes:
    stream = io.BytesIO()
    writer = FORMATS.named(name).open_writer(stream, RELEASED_SCHEMA)
    for batch in batches or (WHOLE,):
        writer.write(batch)
    writer.close()
    assert not stream.closed
    return stream.getvalue()


def read(name: str, stream: Any, batch_rows: int = 1_000, **mapping: str) -> list[Any]:
    reader = SourceFormat(name).reader_of("log")
    names = reader.column_names(stream)
    stream.seek(0)
    xes_names = FORMATS.named(name).has_xes_names
    resolved = ColumnMapping(**mapping).resolve(names, xes_names)
    found, records, n_rejects = [], [], 0
    for raw in reader.read(stream, resolved.wanted, resolved.required, batch_rows):
        assert len(raw.records) <= batch_rows
        records += raw.records.tolist()
        events, rejects = resolved.canonicalise(raw.columns, raw.records, raw.malformed, 0)
        n_rejects += rejects.num_rows
        columns = (events.column(column).to_pylist() for column in RELEASED_SCHEMA.names)
        found += zip(*columns, strict=True)
    assert records == list(range(len(found))) and not n_rejects
    return found


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
TIMES = st.integers(MIN_TIME_US, MAX_TIME_US)


@every_format
@given(st.lists(st.tuples(TEXTS, TEXTS, TIMES), max_size=20), st.integers(0, 20), st.integers(1, 9))
def test_what_is_written_is_read_back_and_no_batch_changes_a_byte(
    name: str, rows: list[tuple[str, str, int]], cut: int, batch_rows: int
) -> None:
    whole = rows_of(*rows)
    data = written(name, whole)
    assert written(name, whole.slice(0, cut), whole.slice(cut)) == data
    assert read(name, io.BytesIO(data), batch_rows) == rows


@every_format
def test_a_column_that_the_file_lacks_is_named_and_no_value_is(name: str) -> None:
    with pytest.raises(LacksColumn, match="'colour'") as caught:
        read(name, io.BytesIO(written(name)), case_id="colour")
    assert "c1" not in str(caught.value)


@every_format
def test_a_stream_may_give_few_bytes_and_its_own_errors_pass(name: str) -> None:
    data = written(name)
    is_parquet = name == "parquet"  # which is read from its end, and as much as is asked for
    assert is_parquet or read(name, Slow(data)) == ROWS
    with pytest.raises(OSError, match="disk"):
        read(name, Slow(data, fails_at=0 if is_parquet else len(data) - 20))
