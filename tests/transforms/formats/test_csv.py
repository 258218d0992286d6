"""Delimited text: worked examples, record numbers, encodings, damage, and the way back."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.format_streams import read_all, rows_of, written_by
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA, released_schema
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.csv_writer import CsvWriter, iso_utc

HEADER = b"case_id,activity,timestamp\n"


def read(
    data: bytes,
    wanted: Sequence[str] = ("case_id", "activity", "timestamp"),
    required: Sequence[str] = ("case_id",),
    batch_rows: int = 1000,
    **options: Any,
) -> tuple[list[tuple[str, ...]], list[int], list[int]]:
    """Returns the rows, their record numbers and the malformed ones."""
    batches, records, malformed = read_all(CsvReader(**options), data, wanted, required, batch_rows)
    assert all(field.type == pa.string() for batch in batches for field in batch.schema)
    return (
        [tuple(row.values()) for batch in batches for row in batch.to_pylist()],
        records,
        malformed,
    )


# A file, and the fields of its one record that are asked for.
COLUMNS: dict[str, tuple[bytes, tuple[str, ...], tuple[str, ...]]] = {
    "one name twice that is not used": (b"a,n,b,n\n1,p,A,q\n", ("a", "b"), ("1", "A")),
    "another order": (b"b,unused,a\nA,0,1\n", ("a", "b"), ("1", "A")),
    "blank names at the end of the header": (b"a,b,,\n1,A,,\n", ("a", "b"), ("1", "A")),
    "one that is not there": (b"a,c\n1,x\n", ("a", "b", "c"), ("1", "x")),
    "names with other signs": (b"a:b,c.d\n1,x\n", ("c.d", "a:b"), ("x", "1")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_as_they_are_asked_for(name: str) -> None:
    data, wanted, row = COLUMNS[name]
    assert read(data, wanted, wanted[:1]) == ([row], [0], [])


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
def test_malformed_records_come_with_those_before_which_they_stand(batch_rows: int) -> None:
    data = HEADER + b"short\n1,A,x\n1,2,3,4\n,,,\n2,B,y\nq\n3,C,z\nr,s\n"
    rows = [("1", "A", "x"), ("2", "B", "y"), ("3", "C", "z")]
    assert read(data, batch_rows=batch_rows) == (rows, [1, 4, 6], [0, 2, 3, 5, 7])


TEXT = "case_id,activity\nJosé,é\nKøb,ø\n"


@pytest.mark.by_day(12)
@pytest.mark.parametrize(
    ("encoding", "option"),
    [
        ("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-8-sig", "utf-8-sig"),
        ("utf-8", "utf-8-sig"), ("latin-1", "latin-1"), ("cp1252", "cp1252"), ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32"), ("cp500", "cp500"), ("utf-7", "utf-7"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_encodings(encoding: str, option: str, chunk: int) -> None:
    with mock.patch.object(csv_format, "_CHUNK_BYTES", chunk):
        rows, records, malformed = read(TEXT.encode(encoding), encoding=option)
    assert rows == [("José", "é"), ("Køb", "ø")]
    assert (records, malformed) == ([0, 1], [])


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (HEADER + b"secret\xfe,A,x\n", "utf-8"),
        (HEADER + b"secret\xfe\n", "utf-8"),  # in a malformed record
        (b"case_id,se\xfecret\n1,2\n", "utf-8"),
        (HEADER + b"1,A,secret\xc3", "utf-8"),  # cut within a character
        (HEADER + b"1,A,\xed\xa0\x80secret\n", "utf-8"),  # half a surrogate pair
        (TEXT.encode("utf-16")[:-1], "utf-16"),
        (HEADER + b"1,secret\x81,x\n", "cp1252"),
        (HEADER + b"1,A,+2AA-\n", "utf-7"),  # half a surrogate pair
    ],
)
def test_undecodable_bytes_name_the_option_only(
    data: bytes, encoding: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputSchemaError, match=f"not encoded as '{encoding}'.*encoding") as caught:
        read(data, encoding=encoding)
    assert "secret" not in str(caught.value) and "fe" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no header line"),
        (b"\n\r\n\n", "no header line"),
        (b"case_id,case_id,other\n1,A,x\n", "two columns are called 'case_id'"),
        (b"x,y\n1,2\n", "no column 'case_id'; its columns are 'x', 'y'.*case_id"),
        (b"case_id;activity\n1;2\n", "'case_id;activity'.*delimiter"),
        (b'case_id,"' + b"x" * 2_000_000, "header line"),
        (b'case_id,"' + b"x," * 100_000, "header line"),
        (b"x," * 2_000_000, "header line is longer"),
    ],
)
def test_header_errors(data: bytes, message: str) -> None:
    with pytest.raises(InputSchemaError, match=message):
        read(data)


@pytest.mark.parametrize(
    "line",
    [
        "anna,review,2010-01-01T00:00:00", "anna,review,01/02/2010", "anna,review,5. Jan 10",
        "anna,review,Jan 5 2010", "anna,review,10:15 pm", "anna,review,20100101",
        "anna,review,1262304000.5", "anna,review,1e9", "anna,review,-5", "anna,review,١٢",
        "anna,review,", "anna,review,  ", "anna,review,nan", "anna,anna,2010-01-01",
        "anna;review;2010-01-01", '"anna","review","2010-01-01 10:00"',
    ],
)  # fmt: skip
def test_first_line_that_is_data_is_never_shown(line: str) -> None:
    with pytest.raises(InputSchemaError, match=r"no header line.*in header$") as caught:
        read(f"{line}\nbert,review,2010-01-02\n".encode())
    for value in ("anna", "review", "2010", "bert"):
        assert value not in str(caught.value)


def test_names_show_no_data_behind_an_open_quote() -> None:
    with pytest.raises(InputSchemaError) as caught:
        read(b'case,"activity,time\nanna,"A",Monday\n')
    assert "anna" not in str(caught.value) and "'activity,time…'" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ""}, {"delimiter": "||"}, {"delimiter": "\n"}, {"delimiter": "é"},
        {"delimiter": '"'}, {"quote_char": "“"}, {"encoding": "no-such"}, {"encoding": "hex"},
        {"encoding": "rot13"}, {"encoding": "a\0b"}, {"header": ()}, {"header": False},
        {"escape_char": "\\\\"}, {"delimiter": "\\", "escape_char": "\\"}, {"comment": ""},
        {"comment": "#\n"},
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        CsvReader(**options)


@pytest.mark.parametrize("has_apostrophes", [False, True])
def test_written_bytes(has_apostrophes: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Attributes are further fields, empty if missing; a negative number is no formula."""
    kinds = {"org:resource": pa.string(), "case:age": pa.int64(), 'a,"b"': pa.float64()}
    schema = released_schema(kinds)
    last = datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=UTC)
    rows = [
        ("1", "A", 0, 'R,"1"', -44, 2.5), ("a,b", 'say "hi"', -1, None, None, None),
        ("c\rd", "e\nf", last, None, None, None),
        ("", " é ", datetime(1, 1, 1, tzinfo=UTC), None, None, None),
    ]  # fmt: skip
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(named, schema)
    data = written_by(lambda s: CsvWriter(s, schema, has_apostrophes=has_apostrophes), batch)
    assert not caplog.records
    assert data.decode() == (
        'case_id,activity,timestamp,org:resource,case:age,"a,""b"""\n'
        '1,A,1970-01-01T00:00:00.000000+00:00,"R,""1""",-44,2.5\n'
        '"a,b","say ""hi""",1969-12-31T23:59:59.999999+00:00,,,\n'
        '"c\rd","e\nf",9999-12-31T23:59:59.000001+00:00,,,\n'
        ", é ,0001-01-01T00:00:00.000000+00:00,,,\n"
    )


@pytest.mark.parametrize("micros", [-62135596800000001, 253402300800000000, 2**63 - 1, -(2**63)])
def test_stamps_that_iso_8601_has_no_text_for(micros: int) -> None:
    with pytest.raises(ValueError, match="outside the years"):
        iso_utc(pa.array([micros], pa.timestamp("us", "UTC")))


STAMPS = st.integers(-62135596800000000, 253402300799999999)
ROWS = st.lists(st.tuples(st.text(), st.text(), STAMPS), max_size=20)


@given(ROWS)
def test_round_trip(rows: list[tuple[str, str, int]]) -> None:
    data = written_by(CsvWriter, rows_of(*rows))
    expected = [(c, a, pd.Timestamp(micros, unit="us", tz="UTC")) for c, a, micros in rows]
    got, records, malformed = read(data)
    assert [(c, a, pd.Timestamp(t)) for c, a, t in got] == expected
    assert records == list(range(len(rows))) and not malformed
    # The standard library reads the same text.
    lines = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert lines == [RELEASED_SCHEMA.names, *map(list, got)]
