"""Objects are listed once, and read as they were listed, in few requests."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystems import FileSystems
from hypothesis import given
from hypothesis import strategies as st

from tests.support.s3_double import S3Double, s3_double
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.pipelines.budget.draw_guard import Unchanged
from tracecloak.pipelines.keys.receipts import InputFile, snapshot_of
from tracecloak.schemas.errors import NoSuchFile, RetryLater, TracecloakError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.csv_writer import CsvWriter
from tracecloak.transforms.formats.jsonl import JsonLinesWriter
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs import stores
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.inputs.stores import open_version
from tracecloak.transforms.sources import EventSource


@pytest.fixture(scope="module")
def server() -> Iterator[S3Double]:
    with s3_double() as double:
        yield double


@pytest.fixture
def lake(server: S3Double, monkeypatch: pytest.MonkeyPatch) -> S3Double:
    """An empty bucket, of which nothing is remembered."""
    for found in server.client.list_objects_v2(Bucket="lake").get("Contents", ()):
        server.client.delete_object(Bucket="lake", Key=found["Key"])
    monkeypatch.setattr(stores, "_of_process", stores._Cache(1 << 20))
    server.requests.clear()
    return server


def parquet(n_cases: int, **how: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_batches(hospital_log(n_cases)), made, **how)
    return made.getvalue()


def written(writer: Any, n_cases: int) -> bytes:
    made = io.BytesIO()
    rows = pa.Table.from_batches(hospital_log(n_cases)).combine_chunks().to_batches()[0]
    lines = writer(made)
    lines.write(rows)
    lines.close()
    return made.getvalue()


def source_of(*patterns: str) -> EventSource:
    return EventSource(tuple(match_files(patterns)), SourceFormat(), ColumnMapping())


def n_events(source: EventSource) -> int:
    return sum(events.num_rows for file in source.files for events, _ in source.read(file))


def copied(source: EventSource) -> EventSource:
    """The source as another process has it."""
    return pickle.loads(pickle.dumps(source))  # noqa: S301 - our own


def test_small_files_take_a_listing_and_a_request_each_however_often_they_are_read(
    lake: S3Double,
) -> None:
    for day in range(3):
        lake.put(f"claims/day={day}/part-0.parquet", parquet(5))
    source = source_of("s3://lake/claims/")
    # One for the files, and one for each of the three markers of a table at most, of two folders.
    assert set(lake.kinds) == {"LIST"} and lake.kinds["LIST"] <= 4
    lake.requests.clear()
    files = snapshot_of(source.files)
    unchanged = Unchanged.since_now(source.files)
    unchanged()
    assert lake.requests == []  # what is read is what was listed, so nobody asks again
    source.check(source.files)
    for _ in range(3):
        assert n_events(source) == n_events(copied(source))
    assert lake.kinds == {"GET": 3}
    # As in receipts of releases whose files Beam was asked for.
    for file in files:
        assert file == InputFile(file.path, file.n_bytes, str(FileSystems.checksum(file.path)))


def test_a_file_without_wildcard_is_looked_up_and_a_folder_listed(lake: S3Double) -> None:
    lake.put("a.csv", written(CsvWriter, 3))
    lake.put("b/c.csv", written(CsvWriter, 3))
    lake.put("b/_SUCCESS", b"")
    (file,) = match_files(["s3://lake/a.csv"])
    assert lake.kinds["HEAD"] == 1 and not any("a.csv" in r for r in lake.requests if r[0] == "L")
    assert [file.path for file in match_files(["s3://lake/b"])] == ["s3://lake/b/c.csv"]
    assert file.version == file.digest == f'"{hashlib.md5(written(CsvWriter, 3)).hexdigest()}"'
    with pytest.raises(NoSuchFile, match=r"^No such file: "):
        match_files(["s3://lake/none.csv"])
    with pytest.raises(UsageError, match=r"cannot be listed: NoSuchBucket"):
        match_files(["s3://nowhere/*.csv"])


def test_of_a_large_file_its_end_and_the_columns_that_are_asked_for_are_got(
    lake: S3Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_WHOLE_BYTES", 1 << 10)
    monkeypatch.setattr(stores, "_BLOCK_BYTES", 1 << 15)
    rows = pa.Table.from_batches(hospital_log(700))
    noise = pa.array([b"%064d" % (i * 7919**5) for i in range(rows.num_rows)])
    made = io.BytesIO()
    pq.write_table(rows.append_column("zz", noise), made, compression="none", use_dictionary=False)
    lake.put("log.parquet", made.getvalue())
    source = source_of("s3://lake/log.parquet")
    lake.requests.clear()
    source.check(source.files)
    source.check(source.files)
    assert lake.kinds == {"GET": 1}
    assert n_events(source) == rows.num_rows
    n_blocks = len(made.getvalue()) >> 15
    assert lake.kinds["GET"] < n_blocks  # the column that nobody asked for is half of it


FORMATS = {
    "log.csv": lambda n: written(CsvWriter, n),
    "log.csv.gz": lambda n: gzip.compress(written(CsvWriter, n), mtime=0),
    "LOG.CSV.ZST": lambda n: pa.compress(written(CsvWriter, n), "zstd", asbytes=True),
    "log.jsonl": lambda n: written(JsonLinesWriter, n),
    "log.parquet": parquet,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_what_it_reads_here(lake: S3Double, name: str, tmp_path: Path) -> None:
    lake.put(name, FORMATS[name](5))
    (tmp_path / name).write_bytes(FORMATS[name](5))
    there, here = source_of(f"s3://lake/{name}"), source_of(str(tmp_path / name))
    read = [[*source.read(source.files[0])] for source in (there, here)]
    assert read[0] == read[1] and sum(events.num_rows for events, _ in read[0]) > 10


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_replaced_or_deleted_since_the_listing_is_not_read(
    lake: S3Double, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nor the head of one version and the records of another."""
    monkeypatch.setattr(stores, "_WHOLE_BYTES", 1 << 10)
    monkeypatch.setattr(stores, "_END_BYTES", 1 << 9)
    lake.put(name, FORMATS[name](400))
    source, unchecked = source_of(f"s3://lake/{name}"), source_of(f"s3://lake/{name}")
    source.check(source.files)
    lake.put(name, FORMATS[name](401))
    told = f"{name}' was replaced or deleted after it was listed"
    for since in (source, unchecked):
        with pytest.raises(RetryLater, match=told):
            n_events(since)
    if name != "log.jsonl":  # which declares nothing
        with pytest.raises(RetryLater, match=told):
            unchecked.check(unchecked.files)
    lake.client.delete_object(Bucket="lake", Key=name)
    with pytest.raises(RetryLater, match="replaced or deleted"):
        n_events(source)


class _Failing:
    """A store whose client raises, or sends too little."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Status(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        super().__init__("of patient-4711")
        self.status_code = status


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([_Status(412)], RetryLater), ([_Status(404)], RetryLater), ([_Status(403)], UsageError),
        ([_Status(503)], RetryLater), ([ConnectionError("patient-4711")] * 3, RetryLater),
        ([b"ab"] * 3, RetryLater), ([b"ab", ConnectionError(), b"abc"], None),
    ],
)  # fmt: skip
def test_what_a_store_raises_is_told_without_its_text_and_what_breaks_off_is_asked_again(
    answers: list[bytes | Exception],
    told: type[TracecloakError] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = _Failing(*answers)
    monkeypatch.setattr(stores, "_store_of", lambda path: store)
    stream = open_version("s3://lake/a.csv", "v", 3)
    if told is None:
        assert stream.read() == b"abc"
    else:
        with pytest.raises(told, match=r"s3://lake/a\.csv") as raised:
            stream.read()
        assert "4711" not in str(raised.value)
    assert store.answers == []


DATA = bytes(i * 31 % 251 for i in range(997))


@given(
    n_bytes=st.integers(0, len(DATA)),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 1000), st.integers(-1, 400))),
)
def test_it_reads_as_a_file_of_the_same_bytes_in_pieces_that_are_got_once(
    n_bytes: int, steps: list[tuple[int, int, int]]
) -> None:
    data = DATA[:n_bytes]
    asked: list[tuple[int, int]] = []

    def read(path: str, version: str, begin: int, end: int) -> bytes:
        asked.append((begin, end))
        assert 0 <= begin < end <= n_bytes
        return data[begin:end]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "read_version", read)
        patch.setattr(stores, "_of_process", stores._Cache(1 << 20))
        sizes = {"_WHOLE_BYTES": 100, "_END_BYTES": 16, "_BLOCK_BYTES": 64}
        for name, size in sizes.items():
            patch.setattr(stores, name, size)
        same, stream = io.BytesIO(data), open_version("s3://lake/a", "v", n_bytes)
        for whence, offset, n in steps:
            if (0, same.tell(), n_bytes)[whence] + offset >= 0:
                assert stream.seek(offset, whence) == same.seek(offset, whence)
            assert stream.read(n) == same.read(n)
            assert stream.tell() == same.tell()
    assert len(asked) == len(set(asked)) <= max(1, 3 + n_bytes // 64)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60))
def test_what_is_remembered_has_a_bound_and_the_last_used_stays(
    puts: list[tuple[int, int]],
) -> None:
    remembered = stores._Cache(100)
    for key, n in puts:
        remembered.put(key, bytes([key]) * n)
        assert remembered.get(key) == bytes([key]) * n
        there = [remembered.get(other) for other in range(10)]
        assert sum(len(data) for data in there if data is not None) <= 100
