"""What somebody changed of a release is found, by the check that must find it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.received import copied, digest_of, edited, failed, rewritten
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.dfg_steps import with_intervals
from tracecloak.pipelines.verification import folder, log_forms, received
from tracecloak.pipelines.verification.folder import Wrong
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.publish.release_files import GZIP_LEVEL

Change = Callable[[Path], Any]
Edit = Callable[[Any], Any]
NO_PARQUET = b"PAR1" + b"x" * 300 + (5).to_bytes(4, "little") + b"PAR1"
PARTS = PART, _ = ("log/part-00000.parquet", "log/part-00001.parquet")
STEP = "product=dfg/view=window/step-000002"
STATEMENT, SIGNATURE, KEY = "statement.md", "manifest.json.sig", "manifest.json.pub"
CSV, XES = "log.csv.gz", "log.xes.gz"


def has(name: str, data: bytes) -> Change:
    """A file of other bytes, of which the manifest has the digest."""
    return lambda release: rewritten(release, name, data)


def has_unlisted(name: str, data: bytes) -> Change:
    return lambda release: (release / name).write_bytes(data)


def lacks(*names: str) -> Change:
    """Files are neither there nor listed."""

    def change(release: Path) -> None:
        for name in names:
            (release / name).unlink()
        edited(release, lambda b: b.update(
            outputs=[o for o in b["outputs"] if o["path"] not in names]))  # fmt: skip

    return change


def gone(pattern: str) -> Change:
    return lambda release: [path.unlink() for path in release.glob(pattern)]


def says(section: str = "", **values: Any) -> Change:
    """In the manifest, or in a section of it."""
    return manifest(lambda body: (body[section] if section else body).update(values))


def manifest(edit: Edit) -> Change:
    return lambda release: edited(release, edit)


def of_json(name: str, edit: Edit) -> Change:
    def change(release: Path) -> None:
        body = json.loads((release / name).read_text())
        edit(body)
        rewritten(release, name, json.dumps(body).encode())

    return change


def text(name: str, old: bytes, new: bytes) -> Change:
    """A file, unpacked if it is packed, has another text in place of one."""

    def change(release: Path) -> None:
        data = (release / name).read_bytes()
        plain = gzip.decompress(data) if name.endswith(".gz") else data
        assert old in plain
        plain = plain.replace(old, new)
        packed = gzip.compress(plain, GZIP_LEVEL) if name.endswith(".gz") else plain
        rewritten(release, name, packed)

    return change


def tables(
    edit: Callable[[pa.Table], pa.Table], *names: str, promise: Edit | None = None
) -> Change:
    """Tables have other rows or columns, and what they say of the release is as it was."""

    def change(release: Path) -> None:
        for name in names:
            read = pq.read_table(release / name)
            body = json.loads(read.schema.metadata[b"tracecloak.release"])
            said = {} if promise is not None and promise(body) == {} else body
            sink = pa.BufferOutputStream()
            about = {"tracecloak.release": json.dumps(said)} if said else None
            pq.write_table(edit(read).replace_schema_metadata(about), sink)
            rewritten(release, name, sink.getvalue().to_pybytes())

    return change


def carries(edit: Edit) -> Change:
    """A part of the log carries another promise; none if the edit gives {}."""
    return tables(lambda table: table, PART, promise=edit)


def promised_twice(release: Path) -> None:
    read, sink = pq.read_table(release / PART), pa.BufferOutputStream()
    about = pa.KeyValueMetadata([*read.schema.metadata.items()] * 2)
    pq.write_table(read.replace_schema_metadata(about), sink)
    rewritten(release, PART, sink.getvalue().to_pybytes())


def of_log(*checks: str) -> set[str]:
    """Of a log that cannot be read."""
    return {"data", "forms", "numbers", "property", "page", *checks}


def with_column(values: Edit) -> Edit:
    return lambda table: table.append_column("x", values(table))


def cut_off(release: Path) -> None:
    rewritten(release, CSV, (release / CSV).read_bytes()[:-40])


def last_name(release: Path) -> None:
    """The last A of the log, which is in one of its last batches, has another name."""
    plain = gzip.decompress((release / XES).read_bytes())
    first, last = plain.rsplit(b'"concept:name" value="A"', 1)
    plain = first + b'"concept:name" value="Z"' + last
    rewritten(release, XES, gzip.compress(plain, GZIP_LEVEL))


def narrower_figure(release: Path) -> None:
    """The first figure has no interval, in both of its forms."""
    body = json.loads((release / "figures.json").read_text())
    first = body["figures"][0]
    first["low"] = first["high"] = first["value"]
    has("figures.json", json.dumps(body, indent=1, ensure_ascii=False).encode())(release)

    def edit(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(body["figures"], table.schema.remove_metadata())

    tables(edit, "figures.parquet")(release)


def part_as_page(release: Path) -> None:
    """Parquet has room for a page: what is read as a log is opened as what its name says."""
    page = PARTS[1].replace(".parquet", ".html")
    (release / PARTS[1]).rename(release / page)
    edited(release, lambda body: [
        o.update(path=page) for o in body["outputs"] if o["path"] == PARTS[1]])  # fmt: skip


def less_noise(body: Any) -> None:
    """Says that the noise was half of what it was."""
    [part] = body["spends"]
    block = part["blocks"][1]
    block["scale"] = str(Fraction(block["scale"]) / 2)


def step(edit: Edit, name: str = STEP) -> Change:
    """A step of the stream has another body; a copy of it under another name."""

    def change(release: Path) -> None:
        body = json.loads((release / f"{STEP}.json").read_text())
        edit(body)
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        (release / f"{name}.json").write_text(text)

    return change


def narrower(release: Path) -> None:
    """As if there were half as much noise, in both forms of the step."""
    path = release / f"{STEP}.json"
    step = StepRelease.from_json(path.read_bytes())
    halved = with_intervals(replace(step, standard_errors=step.standard_errors / 2))
    narrow = replace(halved, standard_errors=step.standard_errors)
    path.write_bytes(narrow.to_json())
    table = release / f"{STEP}.parquet"
    pq.write_table(narrow.to_rows().replace_schema_metadata(pq.read_schema(table).metadata), table)


def beyond_the_end(release: Path) -> None:
    """Adds a step after the last one, which is as one of the epoch is in all else."""
    stream = json.loads((release / "manifest.json").read_text())["stream"]
    number = stream["n_steps"] + 1
    end_us = stream["start_us"] + (number + 1) * stream["period_us"]
    later = {"step": number, "end_us": end_us, "n_steps_left": -2}
    step(lambda body: body.update(later), f"{STEP[:-6]}{number:06d}")(release)


def a_row_less(release: Path) -> None:
    path = release / f"{STEP}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


# Of which release, by an older version or this one; what is done to it; and the checks that fail.
_OF_EPSILON = {"signature", "statement", "copies", "method", "budget", "pictures", "page"}
CHANGES: dict[str, tuple[str, Change, set[str]]] = {
    "a byte of a part": ("log", has_unlisted(PART, b"x"), {"files"}),
    "a promise of too many values": (
        "log", carries(lambda b: b.update(x="," * 4_000_000)), {"copies"}),
    "a hidden file": ("log", has_unlisted(".DS_Store", b""), {"leftovers"}),
    "a pipe": ("log", lambda r: os.mkfifo(r / "pipe"), {"leftovers"}),
    "a link to a folder": ("log", lambda r: (r / "more").symlink_to("log"), {"leftovers"}),
    "an empty folder": ("log", lambda r: (r / "more").mkdir(), {"leftovers"}),
    "a link in place of a file": (
        "log", lambda r: (shutil.move(r / "dfg.json", r / "x"), (r / "dfg.json").symlink_to("x")),
        {"files", "leftovers"}),
    "a part less": ("log", lacks(PART), {"data", "forms", "numbers", "page"}),
    "a script in the page": (
        "log", text("report.html", b"script-src ", b"script-src 'unsafe-inline' "), {"page"}),
    "another digest on the page": (
        "log", lambda r: text("report.html", digest_of(r / "dfg.json"), b"0" * 64)(r), {"page"}),
    "other words": ("log", text(STATEMENT, b"\n", b"\nSafe.\n"), {"statement"}),
    "another claim in XES": (
        "log", text(XES, b'guarantee" value="syntactic"', b'guarantee" value="rigorous"'),
        {"copies"}),
    "an epsilon in XES alone": (
        "log", text(XES, b"\t<trace>", b'\t<float key="tracecloak:epsilon" value="1"/>\n\t<trace>'),
        {"copies"}),
    "an entity in XES": (
        "log", text(XES, b"<log ", b'<!DOCTYPE log [<!ENTITY a "b">]>\n<log '),
        {"copies", "data", "forms"}),
    "an event in XES alone": (
        "log", text(XES, b"</event>", b"</event><event/>"), {"data", "forms"}),
    "a name in XES": ("log", last_name, {"forms"}),
    "half a gzip stream": ("log", cut_off, {"data", "forms"}),
    "garbage for Parquet": ("log", has(PART, NO_PARQUET), of_log("copies")),
    "a count of the graph": (
        "log", of_json("dfg.json", lambda b: b["edges"][0].update(count=10**6)), {"forms"}),
    "an activity of no edge": (
        "log", of_json("dfg.json", lambda b: b["activities"].append("Z")), {"forms"}),
    "a graph of another kind": ("log", has("dfg.json", b"[[[]]]"), {"forms"}),
    "a number of cases": ("log", says("came_out", n_cases=7000), {"numbers", "statement", "page"}),
    "fewer cases than its log": ("log", says("came_out", n_cases=7), of_log("statement")),
    "a verdict of its own": ("log", says(usability="usable"), {"numbers"}),
    "a log out of order": (
        "log", tables(lambda t: t.take(list(range(t.num_rows))[::-1]), PART), of_log()),
    "a column more": ("log", tables(with_column(lambda t: t["activity"]), *PARTS), of_log()),
    "a larger k": (
        "log", says("params", k=50), {"statement", "copies", "method", "property", "page"}),
    "a parameter that none has": ("log", says("params", zeal=1), of_log("statement", "method")),
    "a version that the method has not": ("log", says(method_version=2), {"copies"}),
    "no manifest but JSON": (
        "log", has_unlisted("manifest.json", b'{"outputs": {}}'), {"manifest"}),
    "a manifest of digits": ("log", has_unlisted("manifest.json", b"9" * 10_000), {"manifest"}),
    "a key twice": ("log", lambda r: (r / "manifest.json").write_text(
        (r / "manifest.json").read_text().replace("{", '{"method": "a",', 1)), {"manifest"}),
    # Of params and randomness a file may carry less than the manifest has, and of nothing else.
    "a promise in Parquet that leaves out what is not covered": (
        "log", carries(lambda b: b["guarantee"].pop("not_covered")), {"copies"}),
    "a promise in Parquet of another parameter": (
        "log", carries(lambda b: b["params"].update(k=50)), {"copies"}),
    "a promise in Parquet whose parameters are none": (
        "log", carries(lambda b: b.update(params=5)), {"copies"}),
    "a public key alone": ("log", has_unlisted(KEY, b"x"), {"signature"}),
    "a smaller epsilon": ("signed", says("guarantee", epsilon=0.5), _OF_EPSILON),
    "an epsilon beyond every float": ("signed", says("guarantee", epsilon=10**390), _OF_EPSILON),
    "less noise": ("signed", manifest(less_noise),
        {"signature", "statement", "copies", "method", "budget", "page"}),
    "a kinder promise": ("signed", says("guarantee", not_covered=[]),
        {"signature", "statement", "copies", "method", "page"}),
    "an edge less in JSON": ("signed", of_json("dfg.json", lambda b: b["edges"].pop()),
        {"signature", "forms", "numbers", "pictures", "page"}),
    "a picture that declares": ("signed", has("dfg.svg", b"<!DOCTYPE svg []><svg/>"),
        {"signature", "data", "pictures"}),
    "another picture": ("signed", has("dfg.svg", b"<svg/>"), {"signature", "pictures"}),
    "no signature": ("signed", gone(SIGNATURE), {"signature"}),
    "half a signature": ("signed", has_unlisted(SIGNATURE, b"x" * 32), {"signature"}),
    "a long signature": ("signed", has_unlisted(SIGNATURE, b"x" * (1 << 20)), {"signature"}),
    "a signature of no key": ("signed", gone(KEY), {"signature"}),
    "a key in PEM and more": ("signed", lambda r: (r / KEY).write_bytes(
        b"<script src=//x></script>\n" + (r / KEY).read_bytes()), {"signature"}),
    "no key in PEM": ("signed", has_unlisted(KEY, b"mine"), {"signature"}),
    "another file": ("stream", has_unlisted("product=dfg/x", b""), {"leftovers"}),
    "another view": ("stream", lambda r: shutil.copytree(
        r / "product=dfg/view=window", r / "product=dfg/view=total"), {"leftovers"}),
    "a step of another epoch": ("stream", step(lambda b: b.update(epoch="2")), {"data"}),
    "a step of another time": ("stream", step(lambda b: b.update(end_us=1)), {"data"}),
    "another count": ("stream", step(lambda b: b.update(cells=[])), {"data"}),
    "intervals of less noise": ("stream", narrower, {"data"}),
    "a figure is gone": ("stream", step(lambda b: b["figures"].pop(0)), {"data"}),
    "more noise than there is": ("stream", step(
        lambda b: [cell.update(standard_error=1e308) for cell in b["cells"]]), {"data"}),
    "half a step": ("stream", gone(f"{STEP}.json"), {"data"}),
    "another statement": ("stream", has_unlisted(STATEMENT, b"Safe."), {"statement"}),
    "no statement": ("stream", gone(STATEMENT), {"statement"}),
    "a step too many": ("stream", step(lambda b: None, f"{STEP[:-1]}9"), {"data"}),
    "another version of the method": ("older log", says(method_version=2), {"copies"}),
    "a larger k, then": ("older log", says("params", k=50), {"copies", "property"}),
    "an epsilon in the statement of none": ("older log",
        text(STATEMENT, b"# ", b"# differential privacy with epsilon = 1 "), {"statement"}),
    "a statement of another name": (
        "older log", text(STATEMENT, b"golden", b"silver"), {"statement"}),
    "a name that begins as the release's": (
        "older log", text(STATEMENT, b"golden", b"golden2"), {"statement"}),
    "a smaller epsilon in the statement": ("older signed",
        text(STATEMENT, b"epsilon = 9", b"epsilon = 0.9"), {"signature", "statement"}),
    "a number that begins as epsilon does": ("older signed",
        text(STATEMENT, b"epsilon = 9", b"epsilon = 9.5"), {"signature", "statement"}),
    "another delta in the statement": ("older signed",
        text(STATEMENT, b"delta = 0", b"delta = 1"), {"signature", "statement"}),
    "less noise, then": (
        "older signed", manifest(less_noise), {"signature", "copies", "budget"}),
    "a smaller epsilon, then": ("older signed", says("guarantee", epsilon=0.5),
        {"signature", "statement", "copies", "budget"}),
}  # fmt: skip
# Of which release, what is done to it, the check that says so, how it ends, and what it says.
FAULTS: dict[str, tuple[str, Change, str, str, str]] = {
    "a list of files of an epoch": ("stream", says(outputs=[
        {"path": "x", "n_bytes": 1, "sha256": "0" * 64}]), "files", "failed",
        "of an epoch lists files"),
    "a path that leads out": ("log", manifest(lambda b: b["outputs"][0].update(path="../x")),
        "files", "failed", "lists paths that lie outside the folder: "),
    "a file that is listed twice": ("log", manifest(lambda b: b["outputs"].append(b["outputs"][0])),
        "files", "failed", "lists a file twice"),
    "a release without a statement": ("log", lacks(STATEMENT), "files",
        "failed", "lists no statement.md"),
    "a file that is not there": ("log", gone("dfg.json"), "files", "failed",
        "Not there, or no plain file: dfg.json"),
    "a statement in another encoding": ("log", has(STATEMENT, b"\xff\xfe"), "statement", "failed",
        "no text in UTF-8"),
    "another column in one part": ("log", tables(with_column(lambda t: t["activity"]), PART),
        "data", "failed", "has other columns than"),
    "columns in another order": ("log", tables(lambda t: t.select(t.column_names[::-1]), *PARTS),
        "data", "failed", "a log begins with the columns"),
    "a column of another type": ("log",
        tables(with_column(lambda t: pa.nulls(len(t), pa.date32())), *PARTS),
        "data", "failed", "has a column of a type or name that no release has"),
    "a record of CSV that is torn": ("log", text(CSV, b"\n", b"\nx\n"), "data",
        "failed", "has records that cannot be read"),
    "a promise twice": ("log", promised_twice, "copies", "failed", "a key of its metadata twice"),
    "a promise that Parquet does not carry": ("log", carries(lambda b: {}), "copies", "failed",
        "carries no promise"),
    "a key of XES twice": ("log",
        text(XES, b"\t<trace>", b"\t" + 2 * b'<string key="x" value="1"/>' + b"\n\t<trace>"),
        "copies", "failed", "log.xes.gz cannot be read"),
    "one form alone": ("log", lacks(CSV, XES, "dfg.json"), "forms", "not applicable",
        "in two forms"),
    "a log without types of a method that nobody knows": ("log",
        lambda r: (lacks(*PARTS)(r), says(method="nobody")(r)), "data",
        "unsure", "does not know the method nobody"),
    "an inner version that is not here": ("log", says(inner_versions={"x": 9}), "method", "unsure",
        "version 9 of x"),
    "a method that was removed": ("log", says(method=min(METHODS.removed)), "method", "unsure",
        "was removed from tracecloak"),
    "parameters of an older version": ("older log", says("params", zeal=1), "method", "unsure",
        "parameters are of another version"),
    "other caveats of times": ("log", says(time_caveats=["none"]), "method", "failed",
        "time_caveats in"),
    "a property that nobody verifies": ("signed", says(verified=True), "property", "failed",
        "says that a property of the log was verified: none is"),
    "a check that the method does not make": ("signed",
        says(verified=True), "method", "failed", "verified in"),
    "a graph in no Parquet": ("signed", has("dfg.parquet", NO_PARQUET), "data", "failed",
        "dfg.parquet cannot be read"),
    "another picture of an older version": ("older signed", has("dfg.svg", b"<svg/>"), "pictures",
        "unsure", "do not open it in a browser: dfg.svg"),
    "a page of nobody by an older version": ("older signed", has("report.html", b"<script src=x>"),
        "page", "unsure", "open it only where there is no network"),
    "no page": ("older signed", lacks("report.html"), "page", "not applicable", "no report.html"),
    "a version that steers": ("log", says("tool", version="0.9\x1b"), "method", "unsure", r"\x1b"),
    "a figure without an interval": ("figures", narrower_figure, "forms", "failed",
        "figures.json is not what follows from"),
    "one of an older version": ("older figures", narrower_figure, "forms", "unsure",
        "can be made again by"),
    "a part that is opened as a page": ("log", part_as_page, "pictures", "failed",
        "log/part-00001.html"),
    "no part of the budget": ("signed", says(spends=[]),
        "budget", "failed", "no part of the budget is listed"),
    "a part of the budget that contradicts itself": ("signed",
        manifest(lambda b: b["spends"][0]["blocks"][1].update(sensitivity="0")),
        "budget", "failed", "its numbers contradict each other"),
    "a step after the last one": ("stream", beyond_the_end, "data", "failed",
        "the epoch has no step of this number"),
    "a step of no kind": ("stream", step(lambda b: b.update(cells=5)), "data", "failed",
        "is no release of a step"),
    "a table of a step that is none": ("stream", has_unlisted(f"{STEP}.parquet", NO_PARQUET),
        "data", "failed", "step-000002.parquet cannot be read"),
    "a table of a step with a row less": ("stream", a_row_less, "data", "failed",
        "says something else than"),
    "no step yet": ("stream", gone("product=*/**/step-*"), "data", "not applicable",
        "No step has been"),
}  # fmt: skip

Changed = Callable[[str, Change], Path]


@pytest.fixture
def changed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Changed:
    """Changes a copy of a release, and of an older one what verifies is of a later version."""

    def of_kind(kind: str, change: Change) -> Path:
        if kind.startswith("older "):
            monkeypatch.setattr(received, "TOOL_VERSION", "99.0")
        kind = kind.removeprefix("older ")
        release = copied(request.getfixturevalue(f"{kind}_release"), tmp_path)
        change(release)
        return release

    return of_kind


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_does_not_hold(changed: Changed, name: str) -> None:
    kind, change, checks = CHANGES[name]
    assert set(failed(verify(str(changed(kind, change))))) == checks


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_by_its_check(changed: Changed, name: str) -> None:
    """Catches a guard that lets its fault through to another check, or to none."""
    kind, change, check, state, said = FAULTS[name]
    [found] = [f for f in verify(str(changed(kind, change))).findings if f.check == check]
    assert (found.state, said in found.sentence) == (state, True), found.sentence


def test_cases_are_in_the_order_of_a_release_over_all_batches() -> None:
    """Catches a comparison that ends with a batch: here each has one event, and so one case."""

    def batches(*cases: tuple[str, int]) -> Iterator[pa.RecordBatch]:
        for case, at in cases:
            row = {"case_id": case, "activity": "A", "timestamp": at}
            yield pa.RecordBatch.from_pylist([row], schema=RELEASED_SCHEMA)

    right = ("b", 1), ("b", 2), ("c", 2), ("a", 3)
    found = list(log_forms.in_order(batches(*right), "log"))
    assert [row["case_id"] for rows in found for row in rows.to_pylist()] == ["b", "b", "c", "a"]
    for wrong in ((right[2], right[0]), (("b", 2), ("a", 2)), (*right, ("b", 1))):
        with pytest.raises(Wrong, match="order of a release, or come twice"):
            list(log_forms.in_order(batches(*wrong), "log"))


@pytest.mark.parametrize("n_rows", [at_night(1), at_night(4), 16])
def test_so_it_is_where_a_log_is_read_in_many_batches(
    log_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    """Catches cases and orders that are only looked at within a batch: one holds 65,536 events."""
    monkeypatch.setattr(log_forms, "_TEXT_ROWS", n_rows)
    monkeypatch.setattr(folder, "_BATCH_ROWS", n_rows)
    assert failed(verify(str(log_release))) == {}
    for name in ("a name in XES", "a log out of order"):
        release = copied(log_release, tmp_path / name)
        _, change, checks = CHANGES[name]
        change(release)
        assert set(failed(verify(str(release)))) == checks, name
    monkeypatch.setattr(log_forms, "_CASE_BYTES", 1)  # a case in two batches is longer
    assert verify(str(log_release)).verdict == "unsure"
