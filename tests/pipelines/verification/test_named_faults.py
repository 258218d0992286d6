"""What `verify` says of each fault of a received release, by the check that must say it."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.verification.test_verify import PART, STEP, says, step, table, unlisted, xes
from tests.support.received import copied, edited, made, rewritten
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.verification import folder, log_forms, parquet_bounds, promise, received
from tracecloak.pipelines.verification.folder import Unsure, Wrong
from tracecloak.pipelines.verification.parquet_bounds import BoundedParquet
from tracecloak.pipelines.verification.promise import log_attributes
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.publish.release_files import GZIP_LEVEL

NO_PARQUET = b"PAR1" + b"x" * 300 + (5).to_bytes(4, "little") + b"PAR1"
PARTS = (PART, "log/part-00001.parquet")


def unmarked(release: Path) -> None:
    """Takes the promise out of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(release / PART).replace_schema_metadata(None), sink)
    rewritten(release, PART, sink.getvalue().to_pybytes())


def in_every_part(release: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for part in PARTS:
        table(release, part, change)


def in_csv(release: Path, old: bytes, new: bytes) -> None:
    data = gzip.decompress((release / "log.csv.gz").read_bytes())
    assert old in data
    rewritten(release, "log.csv.gz", gzip.compress(data.replace(old, new, 1), GZIP_LEVEL))


def parquet_alone(release: Path) -> None:
    for name in ("log.csv.gz", "log.xes.gz", "dfg.json"):
        unlisted(release, name)


def texts_alone_of_nobody(release: Path) -> None:
    for part in PARTS:
        unlisted(release, part)
    edited(release, lambda b: b.update(method="nobody"))


def beyond_the_end(release: Path) -> None:
    """Adds a step after the last one, which is as one of the epoch is in all else."""
    stream = json.loads((release / "manifest.json").read_text())["stream"]
    number = stream["n_steps"] + 1
    path = release / f"{STEP[:-6]}{number:06d}.json"
    shutil.copy(release / f"{STEP}.json", path)
    end_us = stream["start_us"] + (number + 1) * stream["period_us"]
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "step": number, "end_us": end_us, "n_steps_left": -2}))


def without_steps(release: Path) -> None:
    for path in release.glob("product=*/**/step-*"):
        path.unlink()


# Of which release, what is done to it, the check that says so, how it ends, and what it says.
FAULTS: dict[str, tuple[str, Callable[[Path], Any], str, str, str]] = {
    "a list of files of an epoch": ("stream", says(outputs=[
        {"path": "x", "n_bytes": 1, "sha256": "0" * 64}]), "files", "failed",
        "of an epoch lists files"),
    "a path that leads out": ("log",
        lambda r: edited(r, lambda b: b["outputs"][0].update(path="../x")), "files", "failed",
        "lists paths that lie outside the folder: "),
    "a file that is listed twice": ("log",
        lambda r: edited(r, lambda b: b["outputs"].append(b["outputs"][0])), "files", "failed",
        "lists a file twice"),
    "a release without a statement": ("log", lambda r: unlisted(r, "statement.md"), "files",
        "failed", "lists no statement.md"),
    "a file that is not there": ("log", lambda r: (r / "dfg.json").unlink(), "files", "failed",
        "Not there, or no plain file: dfg.json"),
    "a statement in another encoding": ("log",
        lambda r: rewritten(r, "statement.md", b"\xff\xfe"), "statement", "failed",
        "no text in UTF-8"),
    "another column in one part": ("log",
        lambda r: table(r, PART, lambda t: t.append_column("x", t["activity"])), "data", "failed",
        "has other columns"),
    "columns in another order": ("log",
        lambda r: in_every_part(r, lambda t: t.select(t.column_names[::-1])), "data", "failed",
        "a log begins with the columns"),
    "a column of another type": ("log",
        lambda r: in_every_part(r, lambda t: t.append_column("x", pa.nulls(len(t), pa.date32()))),
        "data", "failed", "has a column of a type or name that no release has"),
    "a record of CSV that is torn": ("log", lambda r: in_csv(r, b"\n", b"\nx\n"), "data",
        "failed", "has records that cannot be read"),
    "a promise that Parquet does not carry": ("log", unmarked, "copies", "failed",
        "carries no promise"),
    "a key of XES twice": ("log",
        lambda r: xes(r, b"\t<trace>", b"\t" + 2 * b'<string key="x" value="1"/>' + b"\n\t<trace>"),
        "copies", "failed", "log.xes.gz cannot be read"),
    "one form alone": ("log", parquet_alone, "forms", "not applicable", "in two forms"),
    "a log without types of a method that nobody knows": ("log", texts_alone_of_nobody, "data",
        "unsure", "does not know the method nobody"),
    "an inner version that is not here": ("log", says(inner_versions={"x": 9}), "method", "unsure",
        "version 9 of x"),
    "a method that was removed": ("log", says(method=min(METHODS.removed)), "method", "unsure",
        "was removed from tracecloak"),
    "other caveats of times": ("log", says(time_caveats=["none"]), "method", "failed",
        "time_caveats in"),
    "a property that nobody verifies": ("signed", says(verified=True), "property", "failed",
        "says that a property of the log was verified: none is"),
    "a check that the method does not make": ("signed",
        says(verified=True), "method", "failed", "verified in"),
    "a graph in no Parquet": ("signed",
        lambda r: rewritten(r, "dfg.parquet", NO_PARQUET), "data", "failed",
        "dfg.parquet cannot be read"),
    "no part of the budget": ("signed", says(spends=[]),
        "budget", "failed", "no part of the budget is listed"),
    "a part of the budget that contradicts itself": ("signed",
        lambda r: edited(r, lambda b: b["spends"][0]["blocks"][1].update(sensitivity="0")),
        "budget", "failed", "its numbers contradict each other"),
    "a step after the last one": ("stream", beyond_the_end, "data", "failed",
        "the epoch has no step of this number"),
    "a step of no kind": ("stream", lambda r: step(r, cells=5), "data", "failed",
        "is no release of a step"),
    "a table of a step that is none": ("stream",
        lambda r: (r / f"{STEP}.parquet").write_bytes(NO_PARQUET), "data",
        "failed", "step-000002.parquet cannot be read"),
    "a table of a step with a row less": ("stream",
        lambda r: pq.write_table(pq.read_table(path := r / f"{STEP}.parquet").slice(1), path),
        "data", "failed", "says something else than"),
    "no step yet": ("stream", without_steps, "data", "not applicable", "No step has been"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_by_its_check(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    """Catches a guard that lets its fault through to another check, or to none."""
    kind, change, check, state, said = FAULTS[name]
    release = copied(request.getfixturevalue(f"{kind}_release"), tmp_path)
    change(release)
    [found] = [f for f in verify(str(release)).findings if f.check == check]
    assert (found.state, said in found.sentence) == (state, True), found.sentence


def test_parameters_of_another_version_may_be_sound(
    log_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = copied(log_release, tmp_path)
    edited(release, lambda b: b["params"].update(zeal=1))
    monkeypatch.setattr(received, "TOOL_VERSION", "99.0")
    [found] = [f for f in verify(str(release)).findings if f.check == "method"]
    assert found.state == "unsure" and "parameters are of another version" in found.sentence


def test_a_shared_script_that_is_not_what_it_is_named_after_is_found(tmp_path: Path) -> None:
    """Catches a script of somebody else in the folder that the pages of releases share."""
    release = made(tmp_path, "private-dfg", 3, page="shared")
    shared = min((release.parent / "_static").iterdir())
    shared.write_text("alert()")
    [found] = [f for f in verify(str(release)).findings if f.check == "page"]
    assert found.state == "unsure" and f"{shared.name} beside the release" in found.sentence


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


def in_parquet(values: pa.Array, **options: Any) -> BoundedParquet:
    """One column; times are of a type that no release has."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": values}), sink, use_deprecated_int96_timestamps=True, **options)
    return BoundedParquet(sink)


def test_a_table_without_rows_has_none() -> None:
    """Arrow names pages of it that are not there."""
    for kind in (pa.int64(), pa.string(), pa.list_(pa.string()), pa.bool_(), pa.float64()):
        read = in_parquet(pa.array([], kind))
        assert (read.schema.types, read.n_rows, list(read.batches())) == ([kind], 0, [])


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


LONG, TIMES = pa.array(["y" * 1_000] * 500), pa.array([0], pa.timestamp("us"))
LISTS, OTHERS = pa.array([["x" * 40, "y"]] * 20), pa.array(f"{i:0100d}" for i in range(1_000))
# What is read, which bounds are smaller than usual, and what is said.
BOUNDS: dict[str, tuple[Callable[[], Any], dict[str, int], type[Exception], str]] = {
    "values of JSON": (lambda: folder.strict_json(b"[1,2,3]"), {"folder._MOST_VALUES": 2}, Unsure,
        "has more than 2 values"),
    "a character of four bytes": (lambda: folder.strict_json('"\U0001f600 and more"'.encode()),
        {"folder._LARGEST_TEXT": 40}, Unsure, "character of four bytes"),
    "one that is escaped": (lambda: folder.strict_json(b'"\\ud83d\\ude00"'),
        {"folder._LARGEST_TEXT": 40}, Unsure, "character of four bytes"),
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
    "a type of Parquet": (lambda: in_parquet(TIMES).n_rows, {}, ValueError,
        "not as releases have them"),
    "pages of Parquet": (lambda: in_parquet(LONG).n_rows, {"parquet_bounds.MAX_BYTES": 1_000},
        Wrong, "comes to more bytes than any"),
    "rows of Parquet as they are written out": (lambda: list(in_parquet(LONG).batches()),
        {"parquet_bounds.MAX_BYTES": 100_000}, Wrong, "comes to more bytes than any"),
    "one row of Parquet": (lambda: list(in_parquet(LONG).batches()),
        {"parquet_bounds._PIECE_BYTES": 900}, Wrong, "comes to more bytes than any"),
    "texts that are not coded": (
        lambda: list(in_parquet(OTHERS, use_dictionary=False).batches()),
        {"parquet_bounds._MAX_PLAIN": 90_000}, Unsure, "few are equal"),
    "values in lists": (lambda: in_parquet(LISTS).n_rows, {"parquet_bounds._MAX_LISTED": 7},
        Unsure, "values in lists"),
    "a long row": (lambda: in_parquet(LISTS).n_rows, {"parquet_bounds._MAX_ROW_BYTES": 7},
        ValueError, "not as releases have them"),
    "a field twice": (lambda: parquet_bounds._thrift(b"\x15\x02\x05\x02\x04\x00"), {},
        ValueError, "number of a field"),
    "a column of structs": (
        lambda: parquet_bounds._written_out(pa.array([{"x": 1}])), {}, ValueError,
        "a column of a type that no release has"),
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
