"""Folders that an attacker made: every command that reads a release refuses them, within bounds.

Each command runs in a process of its own, forked from one that has loaded the libraries, so that
its memory, its time and its exit code are seen from outside.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.verification.test_changes import PART
from tests.support.received import copied, digest_of, edited, made, rewritten
from tests.support.releasing import Commands, as_typed
from tests.support.tiers import at_night
from tracecloak.pipelines.verification import data as contents_of
from tracecloak.pipelines.verification import folder, log_forms, promise, received
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.folder import ReceivedFolder, ReceivedParquet, Unsure, Wrong
from tracecloak.pipelines.verification.promise import log_attributes
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.publish.release_folder import release_around

COMMANDS = ("verify", "append", "evaluate", "report")
if importlib.util.find_spec("deltalake") is None:
    COMMANDS = ("verify", "evaluate", "report")
SECONDS, MEGABYTES = 20, 500
_N = 30_000_000


def parquet(table: pa.Table, path: Path, rows_of_group: int | None = None) -> None:
    """Writes a file over one of a release, with what that says of the release."""
    about = pq.read_schema(path).metadata
    table = table.replace_schema_metadata(about)
    pq.write_table(table, path, rows_of_group, compression="zstd", store_schema=False)


def equal_rows(path: Path, n: int) -> None:
    """Each column of n rows is its first value over and over."""
    old = pq.read_table(path)
    first = pa.array([0]).take(pa.nulls(n, pa.int8()).fill_null(0))
    parquet(
        pa.table({c: old[c].combine_chunks().slice(0, 1).take(first) for c in old.column_names}),
        path,
    )


def listed(release: Path, *names: str) -> None:
    """Lists files as they are now."""
    for name in names:
        rewritten(release, name, (release / name).read_bytes())


def sparse(release: Path, is_listed: bool) -> None:
    """Four terabytes that take no place."""
    os.truncate(release / "dfg.svg", 4 << 40)
    if is_listed:
        edited(release, lambda body: [
            o.update(n_bytes=4 << 40) for o in body["outputs"] if o["path"] == "dfg.svg"
        ])  # fmt: skip


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(path: Path) -> None:
    """What a name leads to has the right bytes, and is outside."""
    outside = path.parents[2] / f"outside-{path.name}"
    path.rename(outside)
    path.symlink_to(outside)


def many_events(release: Path) -> None:
    name = next(release.glob("log/*.parquet"))
    equal_rows(name, _N)
    listed(release, f"log/{name.name}")


def log_of(release: Path, cases: pa.Array, names: pa.Array) -> None:
    """A log of events of one time, of which the manifest has as many."""
    path = next(release.glob("log/*.parquet"))
    old = pq.read_table(path)
    first = {n: old[n].combine_chunks().slice(0, 1) for n in old.column_names}
    place = pa.nulls(len(cases), pa.int8()).fill_null(0)
    columns = {name: values.take(place) for name, values in first.items()}
    columns |= {"case_id": cases, "activity": names}
    fields = [f.with_type(columns[f.name].type) for f in old.schema]
    parquet(pa.table(columns, pa.schema(fields)), path, 1 << 12)
    listed(release, f"log/{path.name}")
    edited(release, lambda b: b["came_out"].update(n_cases=len(cases), max_events=len(cases)))


def long_case(release: Path) -> None:
    """Three gigabytes in two kilobytes: one case, whose activity has a name of 4,000 characters."""
    place = pa.nulls(800_000, pa.int32()).fill_null(0)
    log_of(release, *(pa.DictionaryArray.from_arrays(place, [text]) for text in ("c", "a" * 4000)))


def as_epoch(release: Path) -> None:
    """Called the epoch of a stream, whose files have no digests, with another page."""
    (release / "report.html").write_text("<script></script>")
    numbers = {"start_us": 0, "period_us": 1, "n_steps": 1}
    of_run = {"explained": [], "runner": "x", "runner_facts": []}
    edited(release, lambda body: body.update(stream={"epoch": "e", **numbers, **of_run}))


def odd_graph(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def changed(release: Path) -> None:
        body = json.loads((release / "dfg.json").read_text())
        change(body)
        graph(release, json.dumps(body).encode())

    return changed


def written(release: Path, files: dict[str, bytes]) -> None:
    """Adds files that the manifest lists."""
    for name in files:
        (release / name).write_bytes(files[name])
    new = [{"path": name, "sha256": "0" * 64, "n_bytes": 0} for name in files]
    edited(release, lambda body: body["outputs"].extend(new))
    listed(release, *files)


def small_mappings(release: Path) -> None:
    old = (release / "manifest.json").read_bytes()
    values = b'{"a":1},' * 1_900_000
    manifest(release, old.replace(b'"params": {', b'"params": {"x": [%s0],' % values))


def manifest(release: Path, data: bytes) -> None:
    (release / "manifest.json").write_bytes(data)


def pointed(release: Path, place: str) -> Path:
    """A folder of releases, whose pointer leads to a link to the release."""
    folder_ = release.parent / "releases"
    folder_.mkdir()
    (folder_ / "run_id=x").symlink_to(release)
    (folder_ / "latest.json").write_text(json.dumps({"path": place}))
    return folder_


def pipe_as_pointer(release: Path) -> Path:
    (release / "manifest.json").unlink()
    pipe(release / "latest.json")
    return release


def graph(release: Path, data: bytes) -> None:
    rewritten(release, "dfg.json", data)


Change = Callable[[Path], Path | None]
# What is done to the release of a log or of a graph; the exit codes of verify (append has 5 for 8),
# and of evaluate and report, which read one form of a log and JSON of a graph. Those that are slow
# are run at night.
BY_DAY: dict[str, tuple[str, Change, int, int]] = {
    "nothing": ("log", lambda r: None, 0, 0),
    "a pipe as manifest": ("graph", lambda r: pipe(r / "manifest.json"), 5, 3),
    "a pipe as pointer": ("graph", pipe_as_pointer, 3, 3),
    "a folder that is a link": ("log", lambda r: link(r / "log"), 5, 3),
    "a pointer to a link": ("log", lambda r: pointed(r, "run_id=x"), 3, 3),
    "a long text": ("graph", lambda r: graph(r, b" " * (65 << 20)), 8, 3),
    "four terabytes": ("graph", lambda r: sparse(r, False), 5, 3),
    "four terabytes that are listed": ("graph", lambda r: sparse(r, True), 5, 3),
    "an epoch that lists files": ("graph", as_epoch, 5, 3),
    "a number of activities": ("graph", odd_graph(lambda b: b.update(activities=5)), 8, 3),
    "half a count": ("graph", odd_graph(lambda b: b["edges"][0].update(count=1.5)), 8, 3),
    "many small mappings": ("graph", small_mappings, 5, 3),
    "a deep manifest": ("graph", lambda r: manifest(r, b"[" * 5_000_000), 5, 3),
}
AT_NIGHT: dict[str, tuple[str, Change, int, int]] = {
    "a deep picture": ("graph", lambda r: written(r, {"a.svg": b"<a>" * 20_000_000}), 5, 0),
    "a link as manifest": ("graph", lambda r: link(r / "manifest.json"), 5, 3),
    "a pointer that leads out": ("log", lambda r: pointed(r, f"../{r.name}"), 3, 3),
    "30 million events": ("log", many_events, 5, 3),
    "a deep head in XES": ("log", lambda r: rewritten(
        r, "log.xes.gz", gzip.compress(b"<log>" + b"<a>" * 5_000_000)), 5, 0),
    "one case of 3 GB": ("log", long_case, 5, 3),
    "a manifest of many faults": ("graph", lambda r: edited(
        r, lambda body: body.update(outputs=[0] * 1_000_000)), 5, 3),
}  # fmt: skip
HOSTILE = BY_DAY | AT_NIGHT


@pytest.fixture
def releases(log_release: Path, graph_release: Path) -> dict[str, Path]:
    """The release of a log in three forms, and that of a graph."""
    return {"log": log_release, "graph": graph_release}


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    """Runs commands in processes that are forked from one with nothing that only releases need."""
    with Commands(
        "tracecloak.pipelines.verification.verify", "tracecloak.pipelines.verification.data",
        "tracecloak.pipelines.outcomes.metrics", "tracecloak.examination.evaluation.evaluate",
        "tracecloak.examination.evaluation.internal",
    ) as made:  # fmt: skip
        yield made


@pytest.mark.parametrize("name", [*BY_DAY, *map(at_night, AT_NIGHT)])
def test_every_command_refuses_a_hostile_folder_within_bounds(
    releases: dict[str, Path], tmp_path: Path, name: str, forked: Commands
) -> None:
    kind, change, *codes = HOSTILE[name]
    (tmp_path / "in").mkdir()
    release = copied(releases[kind], tmp_path / "in")
    release = change(release) or release
    csv = releases[kind].parents[1] / "log.csv"
    log = ("--log", csv, "--key_store", tmp_path / "keys", "--quiet")
    argv = {
        "verify": (),
        "append": ("--table", f"delta:{tmp_path}/table", "--quiet"),
        "evaluate": (*log, "--output", tmp_path / "e"),
        "report": (*log, "--output", tmp_path / "r.html", "--no_linkage"),
    }
    found = {
        command: forked.run(command, release, *argv[command], max_cpu_s=30) for command in COMMANDS
    }
    expected = dict(zip(argv, [codes[0], min(codes[0], 5), codes[1], codes[1]], strict=True))
    assert {c: ended.code for c, ended in found.items()} == {c: expected[c] for c in COMMANDS}
    assert max(ended.peak_mib for ended in found.values()) < MEGABYTES, found
    assert max(ended.cpu_s for ended in found.values()) < SECONDS, found


def test_bytes_that_are_changed_after_they_were_digested_are_not_read(
    releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = copied(releases["log"], tmp_path)
    received = Received.at(str(release))
    part = next(release.glob("log/*.parquet"))
    whole = Contents(received).whole()
    assert whole is not None and VariantHistogram.from_traces(whole).n_variants
    with part.open("r+b") as stream:  # in place, so that an open file changes as well
        stream.seek(part.stat().st_size // 2)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))
    with pytest.raises(Wrong, match="changed while it was read"):
        Contents(received).whole()
    monkeypatch.setattr(folder, "_BLOCK_BYTES", 7)  # blocks that end anywhere
    again = Received.at(str(releases["log"])).folder
    assert isinstance(again, ReceivedFolder)
    with again.open("statement.md") as stream:
        data = stream.read(3) + stream.read()
        assert (
            stream.seek(-5, os.SEEK_END) and data == (releases["log"] / "statement.md").read_bytes()
        )
        assert stream.read() == data[-5:]


def test_who_looks_for_releases_opens_no_pipe(releases: dict[str, Path], tmp_path: Path) -> None:
    release = copied(releases["graph"], tmp_path)
    assert release_around(str(release / "x")) == str(release)
    data = (release / "manifest.json").read_bytes()
    manifest(release, data[:-1] + b" " * (16 << 20) + b"}")
    assert release_around(str(release / "x")) is None
    pipe(release / "manifest.json")
    assert release_around(str(release / "x")) is None


def test_an_examination_holds_a_log_up_to_a_number_of_events(
    releases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = Contents(Received.at(str(releases["log"])))
    whole = contents.whole()
    assert whole is not None
    monkeypatch.setattr(contents_of, "_MOST_EVENTS", whole.n_events)
    assert contents.whole() is not None
    monkeypatch.setattr(contents_of, "_MOST_EVENTS", whole.n_events - 1)
    with pytest.raises(Unsure, match="too large"):
        contents.whole()


@pytest.mark.parametrize(
    ("bound", "check"),
    [
        ("data._NAMES_BYTES", "numbers"),
        ("promise._LONGEST_SPENDS", "budget"),
        ("promise._MOST_SUMS", "budget"),
    ],
)
def test_names_and_parts_of_a_budget_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, check: str
) -> None:
    release = made(tmp_path, "private-log", 2)
    monkeypatch.setattr(f"tracecloak.pipelines.verification.{bound}", 1)
    found = verify(str(release))
    assert found.verdict == "unsure"
    assert check in {finding.check for finding in found.findings if finding.state == "unsure"}


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError, TimeoutError])
def test_a_machine_that_is_too_small_fails_no_release(
    releases: dict[str, Path], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def too_much(*_: object) -> None:
        raise error("too much")

    monkeypatch.setattr(VariantHistogram, "from_traces", too_much)
    monkeypatch.setattr("tracecloak.pipelines.verification.log_forms.in_order", too_much)
    found = verify(str(releases["log"]))
    undecided = [finding for finding in found.findings if finding.state == "unsure"]
    assert found.verdict == "unsure" and {"data", "numbers"} <= {f.check for f in undecided}
    assert all(finding.sentence.startswith("Not checked") for finding in undecided)


def test_who_judges_names_the_manifest(
    releases: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, log = releases["graph"], releases["graph"].parents[1] / "log.csv"
    digest = digest_of(release / "manifest.json").decode()
    for command in ("evaluate", "report"):
        output = tmp_path / command
        assert not as_typed(command, release, "--log", log, "--output", output, "--json")
        assert json.loads(capsys.readouterr().out)["manifest_sha256"] == digest
        assert not as_typed(command, release, "--log", log, "--output", output)
        assert digest in capsys.readouterr().out
    pages = [tmp_path / "evaluate.md", tmp_path / "evaluate.html", tmp_path / "report"]
    assert all(digest in page.read_text() for page in pages)
    assert json.loads((tmp_path / "evaluate.json").read_text())["manifest_sha256"] == digest


# --- Bounds ---------------------------------------------------------------------------------------


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


def no_file(kind: str) -> Path:
    """Something that is no plain file; the test is in an empty folder."""
    path = Path("x")
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    return path


# What is read, which bounds are smaller than usual, and what is said. The bound of memory is one of
# the process: earlier tests may have left it free memory, or a reader that was not closed yet.
BOUNDS: dict[str, tuple[Callable[[], Any], dict[str, int], type[Exception], str]] = {
    "memory": (lambda: folder.strict_json(b"[0]" + b" " * (256 << 20)),
        {"folder._MORE_BYTES": 16 << 20, "folder._n_bounds": 0}, Unsure, "takes more than 16 MiB"),
    "a pipe": (lambda: folder.open_plain(str(no_file("pipe"))), {}, Wrong, "^x is no plain file"),
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
    "rows of Parquet": (lambda: in_parquet(pa.array([1, 2]), 1).file, {}, Wrong,
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
