"""Writes the synthetic hospital log to a file of any format that has a writer."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO, cast

from tracecloak.examination.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat


def write_sample(n_cases: int, path: str) -> None:
    """Streams a log of `n_cases` cases into a file; the same number gives the same bytes.

    Raises:
        UsageError: The ending of the file's name tells no format that can be written, or the number
            is not positive.
    """
    name = SourceFormat().name_of(path)
    form = FORMATS[name]
    if form.is_packed and path.endswith(".gz"):
        raise UsageError(f"{name} is compressed inside; leave out .gz in {path!r}")
    if form.writer is None:
        raise UsageError(f"{name} can be read only; end {path!r} otherwise")
    batches = hospital_log(n_cases)
    with Path(path).open("wb") as raw:
        if path.endswith(".gz"):
            # No time of writing in the header.
            stream = cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
        else:
            stream = cast(BinaryIO, raw)
        writer = form.open_writer(stream, RELEASED_SCHEMA)
        for batch in batches:
            writer.write(batch)
        writer.close()
        if stream is not raw:
            stream.close()


def write_vocabulary(path: str) -> None:
    """Writes the activities that the log can have, one a line; they are public."""
    Path(path).write_text("".join(f"{name}\n" for name in sorted(ACTIVITIES)), encoding="utf-8")
