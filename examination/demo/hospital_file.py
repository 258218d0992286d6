"""Writes the synthetic hospital log to a file of any format that has a writer."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracecloak.examination.demo import hospital
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat, unpacked


def write_sample(n_cases: int, path: str, n_patients: int | None = None) -> None:
    """Streams a log of `n_cases` cases into a file; the same numbers give the same bytes.

    With `n_patients` there is a column `patient`, which says whose of so many people a case is.

    Raises:
        UsageError: The ending of the file's name tells no format that can be written, or none with
            that column; or a number is not positive.
    """
    name = SourceFormat().name_of(path)
    form = FORMATS[name]
    _, codec = unpacked(path)
    if form.is_packed and codec:
        raise UsageError(f"{name} is compressed inside; leave out the last ending in {path!r}")
    if form.writer is None:
        raise UsageError(f"{name} can be read only; end {path!r} otherwise")
    if n_patients is not None and (n_patients < 1 or name in ("avro", "jsonl")):
        raise UsageError("patients must be at least 1, in a file of csv, xes or parquet")
    with contextlib.ExitStack() as files:
        stream: Any = files.enter_context(Path(path).open("wb"))
        if codec == "gzip":  # without a time of writing in the header
            stream = files.enter_context(gzip.GzipFile("", "wb", 6, stream, mtime=0))
        elif codec:
            stream = files.enter_context(pa.CompressedOutputStream(stream, codec))
        schema = RELEASED_SCHEMA if n_patients is None else hospital.WITH_PATIENTS
        writer = form.open_writer(stream, schema)
        for rows in hospital.hospital_log(n_cases):
            writer.write(rows if n_patients is None else hospital.with_patients(rows, n_patients))
        writer.close()


def write_vocabulary(path: str) -> None:
    """Writes the activities that the log can have, one a line; they are public."""
    Path(path).write_text("\n".join([*sorted(hospital.ACTIVITIES), ""]), encoding="utf-8")
