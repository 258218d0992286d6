"""Writes the synthetic hospital log to a file of any format that has a writer."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO, cast

from tracecloak.pipelines.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.avro import AvroWriter
from tracecloak.transforms.formats.base import Writer
from tracecloak.transforms.formats.csv import CsvWriter
from tracecloak.transforms.formats.jsonl import JsonLinesWriter
from tracecloak.transforms.formats.parquet import ParquetWriter
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.formats.xes_writer import XesWriter


def write_sample(n_cases: int, path: str) -> None:
    """Streams a log of `n_cases` cases into a file; the same number gives the same bytes.

    Raises:
        UsageError: The ending of the file's name tells no format, or the number is not positive.
    """
    name = SourceFormat().name_of(path)
    batches = hospital_log(n_cases)
    with Path(path).open("wb") as raw:
        if path.endswith(".gz"):
            if name in ("parquet", "avro"):
                raise UsageError(f"{name} is compressed inside; leave out .gz in {path!r}")
            # No time of writing in the header.
            stream = cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
        else:
            stream = cast(BinaryIO, raw)
        writer = _writer(name, stream)
        for batch in batches:
            writer.write(batch)
        writer.close()
        if stream is not raw:
            stream.close()


def write_vocabulary(path: str) -> None:
    """Writes the activities that the log can have, one a line; they are public."""
    Path(path).write_text("".join(f"{name}\n" for name in sorted(ACTIVITIES)), encoding="utf-8")


def _writer(name: str, stream: BinaryIO) -> Writer:
    if name == "xes":
        return XesWriter(stream)
    if name == "parquet":
        return ParquetWriter(stream, {})
    if name == "avro":
        return AvroWriter(stream)
    if name == "jsonl":
        return JsonLinesWriter(stream)
    return CsvWriter(stream)
