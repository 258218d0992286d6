"""What is larger or else than any release has is not read."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.verification.test_changes import PART
from tracecloak.pipelines.verification import folder, log_forms, promise, received
from tracecloak.pipelines.verification.folder import ReceivedParquet, Unsure, Wrong
from tracecloak.pipelines.verification.promise import log_attributes
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"<lag/>", "no log"),
        (b'<log><a key="x" value="1"/><a key="x" value="1"/></log>', "a key stands there twice"),
        (b'<!DOCTYPE log [<!ENTITY a "b">]><log/>', "a DOCTYPE"),
        (b"<log>" + b" " * 200_000, "too long"),
    ],
)
def test_a_head_of_xes_that_is_none(
    monkeypatch: pytest.MonkeyPatch, head: bytes, said: str
) -> None:
    monkeypatch.setattr(promise, "_LARGEST_HEAD", 100_000)
    with pytest.raises(ValueError, match=said):
        log_attributes(io.BytesIO(head), is_gzipped=False)


def in_parquet(values: pa.Array, max_rows: int) -> ReceivedParquet:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": values}), sink)
    return ReceivedParquet(sink, max_rows)


def of_spreadsheet(cell: str) -> list[pa.RecordBatch]:
    text = f"case_id,activity,timestamp\n{cell},A,2026-01-01T00:00:00.000000Z\n".encode()
    stream = io.BytesIO(gzip.compress(text))
    return list(log_forms._text_rows(stream, "log.csv.gz", "spreadsheet", RELEASED_SCHEMA))


def beyond(n_bytes: int) -> None:
    text = log_forms._Text(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"x" * n_bytes))))
    text.n_left = n_bytes - 1
    io.BufferedReader(text).read()


def written(kind: str) -> Path:
    """Something that is no plain file; the test is in an empty folder."""
    path = Path("x")
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    return path


# What is read, which bounds are smaller than usual, and what is said.
BOUNDS: dict[str, tuple[Callable[[], Any], dict[str, int], type[Exception], str]] = {
    "memory": (lambda: folder.strict_json(b"[0]" + b" " * (64 << 20)),
        {"folder._MORE_BYTES": 16 << 20}, Unsure, "takes more than 16 MiB"),
    "a pipe": (lambda: folder.open_plain(str(written("pipe"))), {}, Wrong, "^x is no plain file"),
    "a name that no system has": (lambda: folder.open_plain("x" * 5_000), {}, OSError,
        "File name too long"),
    "the length of a file": (lambda: folder._read(io.BytesIO(b"x" * 5_000), 4_096), {}, Wrong,
        "is longer than 4 KiB"),
    "the number of files": (lambda: folder._listed_here(os.path.dirname(__file__)),
        {"folder._MOST_FILES": 1}, Wrong, "holds more than 1 files"),
    "a folder elsewhere": (lambda: folder._listed_elsewhere("zeal://bucket/x"), {}, UsageError,
        "cannot be listed: ValueError"),
    "a formula": (lambda: of_spreadsheet("=1+1"), {}, Wrong, "has a formula without"),
    "a text between events": (lambda: beyond(100), {}, Wrong, "larger than any"),
    "rows of Parquet": (lambda: in_parquet(pa.array([1, 2]), 1).schema, {}, Wrong,
        "more than the 1 rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_larger_or_else_than_any_release_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Catches a reader that takes as much memory as a folder of somebody else asks for."""
    monkeypatch.chdir(tmp_path)
    read, bounds, kind, said = BOUNDS[name]
    for place, bound in bounds.items():
        monkeypatch.setattr(f"tracecloak.pipelines.verification.{place}", bound)
    with pytest.raises(kind) as refused:
        read()
    assert re.search(said, getattr(refused.value, "sentence", str(refused.value)))


def test_a_text_has_no_more_events_than_came_out(log_release: Path) -> None:
    received_ = received.Received.at(str(log_release))
    form = log_forms.LogForm(received_.folder, "csv", ("log.csv.gz",), max_events=1)
    with pytest.raises(Wrong, match="more events than came_out allows"):
        list(form.rows(pq.read_schema(log_release / PART).remove_metadata()))
