"""Compressed files: by their endings, of several members, cut off anywhere, and damaged."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.registry import CODECS, SourceFormat
from tracecloak.transforms.inputs.source_files import match_files, open_source, position_in
from tracecloak.transforms.sources import EventSource

HEADER = b"case_id,activity,timestamp\n"
DATA = HEADER + b"".join(b"c%d,A %d,2026-01-01\n" % (i // 7, i * 7919 % 1000) for i in range(9000))


def packed(data: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    if codec == "bz2":
        return bz2.compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def content(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    [file] = match_files([str(path)])
    with open_source(file) as stream:
        return stream.read()


@pytest.mark.parametrize(("ending", "codec"), CODECS.items())
def test_a_compressed_file_is_what_it_holds(ending: str, codec: str, tmp_path: Path) -> None:
    whole = packed(DATA, codec)
    for name in (f"a.csv{ending}", f"A.CSV{ending.upper()}"):
        assert content(tmp_path / name, whole) == DATA
        assert content(tmp_path / name, whole + packed(b"", codec) + whole) == DATA * 2
        assert SourceFormat().name_of(name) == "csv"
        source = EventSource(
            tuple(match_files([str(tmp_path / name)])), SourceFormat(), ColumnMapping()
        )
        assert source.divider(source.files[0]) is None
    (tmp_path / name).write_bytes(whole)
    assert sum(events.num_rows for events in source.events()) == 9000


@pytest.mark.parametrize(("ending", "codec"), CODECS.items())
def test_one_that_is_cut_off_anywhere_is_refused(ending: str, codec: str, tmp_path: Path) -> None:
    whole = packed(DATA, codec)
    path = tmp_path / f"a.csv{ending}"
    for data in (whole, whole + whole):
        for n in {1, 2, 3, 4, 5, 8, 11, 20, *range(30, len(whole), len(whole) // 9)} | {
            len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1,
        }:  # fmt: skip
            cut = data[: len(data) - len(whole) + n]
            with pytest.raises(InputSchemaError, match=f"{codec} stream"):
                content(path, cut)
    middle = len(whole) // 2
    damaged = [b"case_id,activity\n" * 50, whole[:middle] + bytes(300) + whole[middle + 300 :]]
    if codec in ("gzip", "bz2"):  # of others not every frame has a sum of its content
        for data in damaged:
            with pytest.raises(InputSchemaError, match=f"{codec} stream"):
                content(path, data)
    with pytest.raises(InputSchemaError, match=f"{codec} stream"):
        content(path, damaged[0])


class _Failing(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, size: int | None = -1) -> bytes:
        raise self.error


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("error", [OSError(5, "disk"), ConnectionResetError("x"), ValueError("x")])
def test_errors_of_the_stream_itself_pass(codec: str, error: Exception) -> None:
    from tracecloak.transforms.inputs.source_files import DecompressedStream

    with pytest.raises(type(error)) as raised:
        DecompressedStream(cast(Any, _Failing(error)), codec).read()
    assert str(raised.value) == str(error)


@pytest.mark.parametrize("codec", CODECS.values())
def test_the_position_is_that_in_the_file(codec: str, tmp_path: Path) -> None:
    ending = next(ending for ending, one in CODECS.items() if one == codec)
    (tmp_path / f"a{ending}").write_bytes(packed(DATA, codec))
    [file] = match_files([str(tmp_path / f"a{ending}")])
    with open_source(file) as stream:
        assert position_in(stream) == 0
        stream.read(9)
        assert 0 < position_in(stream) <= file.n_bytes
        stream.read()
        assert position_in(stream) == file.n_bytes
    assert stream.closed
