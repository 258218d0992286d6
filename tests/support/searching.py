"""Searching files for what must not be in them: also in what is packed, where plain bytes hide it.

The pages of a Parquet file are compressed, as a log in CSV or XES is, so a search of the bytes on
the disk finds nothing there whatever was written.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is packed in them: gzip, the pages of Parquet, escaped text."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".gz":
        data = gzip.decompress(data)
        yield data
    if path.suffix in (".json", ".jsonl"):
        for line in data.splitlines() if path.suffix == ".jsonl" else [data]:
            yield json.dumps(json.loads(line), ensure_ascii=False).encode()
    if path.suffix == ".parquet":
        # Dictionaries are read as they were written: with values that no row has, if there are any.
        texts = [
            column.path for column in pq.ParquetFile(path).schema if "BYTE" in column.physical_type
        ]
        file = pq.ParquetFile(path, read_dictionary=texts)
        yield repr(file.metadata.to_dict()).encode()
        for column in file.read().columns:
            yield from (_buffers(chunk) for chunk in column.chunks)


def _buffers(array: pa.Array) -> bytes:
    own = b"".join(buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
    if pa.types.is_dictionary(array.type):
        own += _buffers(array.dictionary)
    elif pa.types.is_list(array.type):
        own += _buffers(array.values)
    return own


def files_with(needle: bytes, folder: Path) -> set[str]:
    """The files below a folder that have these bytes, by their paths from it."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(needle in content for content in contents(path))
    }
