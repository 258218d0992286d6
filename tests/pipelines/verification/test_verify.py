"""`tracecloak verify`: what was released holds, whatever it is; what was changed is found."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.golden.releases import EXIT_CODE, recorded
from tests.support.examples import examples_of
from tests.support.object_store import ObjectStore
from tests.support.received import copied, digest_of, edited, failed, made, rewritten, states
from tests.support.registered import forget
from tests.support.releasing import as_typed, tracecloak
from tests.support.tiers import at_night, few_examples
from tests.support.xes_schema import schema_problems
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.dfg_steps import with_intervals
from tracecloak.pipelines.verification import log_forms, parquet_bounds, received
from tracecloak.pipelines.verification.folder import Finding, Wrong
from tracecloak.pipelines.verification.verify import Verification, verify
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.keys.signing import SigningReference, new_pair
from tracecloak.transforms.publish.release_files import GZIP_LEVEL

Change = Callable[[Path], None]
CHECKS = (
    "manifest", "signature", "files", "leftovers", "statement", "copies", "method", "budget",
    "data", "forms", "numbers", "property", "pictures", "page",
)  # fmt: skip


def compared(found: Verification) -> list[str]:
    """What is said to be the same in two forms."""
    [sentence] = [f.sentence for f in found.findings if f.check == "forms"]
    return sentence.removeprefix("The same is said by ").removesuffix(".").split("; ")


# --- What was released holds ----------------------------------------------------------------------

_QUICK = ("amun", "private-log", "process-tree", "tlkc", "variant-histogram")
_REFUSED = {name for name, found in recorded()["digests"].items() if EXIT_CODE in found}
_ALL = [
    (name, n)
    for name, method in METHODS.items()
    for n in range(len(examples_of(method)))
    if f"{name} {n}" not in _REFUSED
]


@pytest.mark.parametrize(
    ("method", "number"),
    [case if case in {(name, 0) for name in _QUICK} else at_night(*case) for case in _ALL],
)
def test_every_kind_of_release_holds(tmp_path: Path, method: str, number: int) -> None:
    release = made(tmp_path, method, number)
    found = verify(str(release))
    assert failed(found) == {} and found.holds
    assert tuple(states(found)) == CHECKS
    expected = "ok" if METHODS[method].verifies else "not applicable"
    assert states(found)["property"] == expected
    for check in ("manifest", "files", "leftovers", "statement", "copies", "method", "data"):
        assert states(found)[check] == "ok"
    # Both are made again of the folder, whatever the method.
    assert "it is the same bytes" in found.findings[CHECKS.index("page")].sentence
    # Of groups a log has a picture, too; figures that are asked for have charts on the page alone.
    has_pictures = any(release.glob("*.svg"))
    assert has_pictures or METHODS[method].log != "none" or (release / "indicators.json").exists()
    assert states(found)["pictures"] == ("ok" if has_pictures else "not applicable")


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_a_log_in_one_form_alone_is_looked_at_as_closely(tmp_path: Path, form: str) -> None:
    found = verify(str(made(tmp_path, "pretsa", 2, formats=[form])))
    assert failed(found) == {}
    assert {states(found)[c] for c in ("data", "forms", "numbers", "property")} == {"ok"}
    assert compared(found) == ["the log and its graph, dfg.json"]


def of_names(
    folder: Path, activities: Sequence[str], attributes: dict[str, str], formats: str
) -> Path:
    """A release of 60 cases of these activities, whose attributes have one value each."""
    rows = [
        (case, activity, f"2026-01-0{1 + case % 9}T0{hour}:00:00Z", *attributes.values())
        for case in range(60)
        for hour, activity in enumerate(activities)
    ]
    with (folder / "log.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("case_id", "activity", "timestamp", *attributes), *rows])
    declared = {name: {"values": [value, "other"]} for name, value in attributes.items()}
    config = {
        "log": str(folder / "log.csv"), "output": str(folder / "out"), "release_id": "r",
        "key_store": str(folder / "keys"), "method": "private-log", "runner": "InMemory",
        "params": {"epsilon": 50, "vocabulary": list(activities), "attributes": declared},
        "formats": formats.split(), "even_if_unusable": True,
    }  # fmt: skip
    (folder / "r.yaml").write_text(json.dumps(config))
    assert tracecloak("release", folder / "r.yaml", "--json") == 0
    return folder / "out" / "run_id=r"


def test_attributes_of_any_name_hold_in_xes_as_they_are_written_and_as_they_were(
    tmp_path: Path,
) -> None:
    """A key is a name of XML now; in what earlier versions wrote it is the attribute's name."""
    keys = {"cost center": "cost_center_2", "cost_center": "cost_center", "1st": "_1st"}
    release = of_names(tmp_path, "AB", dict(zip(keys, "xyz", strict=True)), "parquet csv xes")
    data = gzip.decompress((release / "log.xes.gz").read_bytes())
    assert schema_problems(data) == []
    found = verify(str(release))
    assert failed(found) == {} and "parquet and csv and xes" in compared(found)[0]
    other = data.replace(b'"tracecloak:epsilon" value="50', b'"tracecloak:epsilon" value="5')
    assert other != data
    rewritten(release, "log.xes.gz", gzip.compress(other, GZIP_LEVEL))
    assert set(failed(verify(str(release)))) == {"copies"}
    for name, key in keys.items():
        quoted = f'"{key}"'.encode()
        assert quoted in data
        data = data.replace(quoted, f'"{name}"'.encode())
    rewritten(release, "log.xes.gz", gzip.compress(data, GZIP_LEVEL))
    assert states(verify(str(release)))["forms"] == "ok"
    rewritten(release, "log.xes.gz", gzip.compress(data.replace(b'value="x"', b'value="w"', 1)))
    assert states(verify(str(release)))["forms"] == "failed"


def test_formulas_are_told_of_a_csv_and_have_an_apostrophe_in_a_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["=HYPERLINK(0)", "'=A1", "\uff1d1", "-1", "A=1"]
    release = of_names(tmp_path, names, {"+cost": "@x"}, "parquet csv spreadsheet xes")
    told = capsys.readouterr().err
    plain, sheet = (
        list(csv.reader(gzip.decompress((release / name).read_bytes()).decode().splitlines()))
        for name in ("log.csv.gz", "log.spreadsheet.csv.gz")
    )
    assert plain[0][3] == "+cost" and sheet[0][3] == "'+cost"
    formulas = [0, 0]
    for row, beside in zip(plain[1:], sheet[1:], strict=True):
        assert (row[0], row[2]) == (beside[0], beside[2])
        for i, column in enumerate((1, 3)):
            is_formula = row[column][:1] in tuple("=-@\uff1d")
            formulas[i] += is_formula
            before = "'" * (is_formula or row[column] == "'=A1")
            assert beside[column] == before + row[column]
    assert min(formulas) > 0 and told.count("a spreadsheet computes") == 1
    assert f"1 of 'the header', {formulas[0]} of 'activity', {formulas[1]} of '+cost'" in told
    found = verify(str(release))
    assert failed(found) == {} and "parquet and csv and spreadsheet" in compared(found)[0]
    data = gzip.decompress((release / "log.spreadsheet.csv.gz").read_bytes())
    for other in (data.replace(b"'=HYP", b"=HYP", 1), data.replace(b"''=A1", b"'=A1", 1)):
        rewritten(release, "log.spreadsheet.csv.gz", gzip.compress(other))
        assert states(verify(str(release)))["forms"] == "failed"


def test_an_epoch_of_a_stream_holds(stream_release: Path) -> None:
    found = verify(str(stream_release))
    assert failed(found) == {}
    assert states(found)["files"] == "not applicable"
    assert {states(found)[c] for c in ("leftovers", "statement", "copies", "budget", "data")} == {
        "ok"
    }


def test_a_release_in_an_object_store_holds(
    log_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "root", tmp_path)
    shutil.copytree(log_release.parent, tmp_path / "o")
    assert failed(verify("objects://o")) == {}
    (tmp_path / "o" / "run_id=golden" / ".more").write_text("x")
    assert set(failed(verify("objects://o/run_id=golden"))) == {"leftovers"}


# --- What was changed is found --------------------------------------------------------------------


def xes(release: Path, old: bytes, new: bytes) -> None:
    data = gzip.decompress((release / "log.xes.gz").read_bytes())
    assert old in data
    rewritten(release, "log.xes.gz", gzip.compress(data.replace(old, new, 1), GZIP_LEVEL))


def table(release: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes a table, and keeps what it says of the release."""
    read = pq.read_table(release / name)
    sink = pa.BufferOutputStream()
    pq.write_table(change(read).replace_schema_metadata(read.schema.metadata), sink)
    rewritten(release, name, sink.getvalue().to_pybytes())


def in_json(release: Path, name: str, edit: Callable[[Any], object]) -> None:
    body = json.loads((release / name).read_text())
    edit(body)
    rewritten(release, name, json.dumps(body).encode())


def unlisted(release: Path, name: str) -> None:
    (release / name).unlink()
    edited(release, lambda b: b.update(outputs=[o for o in b["outputs"] if o["path"] != name]))


def in_page(release: Path, old: bytes, new: bytes) -> None:
    data = (release / "report.html").read_bytes()
    assert old in data
    rewritten(release, "report.html", data.replace(old, new))


def carried(release: Path, edit: Callable[[Any], object]) -> None:
    """Changes the promise that a Parquet file carries."""
    read = pq.read_table(release / PART)
    body = json.loads(read.schema.metadata[b"tracecloak.release"])
    edit(body)
    sink = pa.BufferOutputStream()
    pq.write_table(read.replace_schema_metadata({"tracecloak.release": json.dumps(body)}), sink)
    rewritten(release, PART, sink.getvalue().to_pybytes())


def says(section: str = "", **values: Any) -> Change:
    """In the manifest, or in a section of it."""
    return lambda release: edited(
        release, lambda body: (body[section] if section else body).update(values)
    )


def carries(edit: Callable[[Any], object]) -> Change:
    return lambda release: carried(release, edit)


def has_bytes(name: str, data: bytes | str) -> Change:
    """A file that the manifest does not list so."""
    return lambda r: (r / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def page_has(old: bytes, new: bytes) -> Change:
    return lambda release: in_page(release, old, new)


def xes_has(old: bytes, new: bytes) -> Change:
    return lambda release: xes(release, old, new)


def of_log(*checks: str) -> set[str]:
    """Of a log that cannot be read."""
    return {"data", "forms", "numbers", "property", "page", *checks}


PART = "log/part-00000.parquet"
LOG_CHANGES: dict[str, tuple[Change, set[str]]] = {
    "a byte of a part": (has_bytes(PART, b"x"), {"files"}),
    "a promise of too many values": (carries(lambda b: b.update(x="," * 4_000_000)), {"copies"}),
    "a hidden file": (has_bytes(".DS_Store", ""), {"leftovers"}),
    "a pipe": (lambda r: os.mkfifo(r / "pipe"), {"leftovers"}),
    "a link in place of a file": (
        lambda r: (shutil.move(r / "dfg.json", r / "x"), (r / "dfg.json").symlink_to("x")),
        {"files", "leftovers"}),
    "a part less": (lambda r: unlisted(r, PART), {"data", "forms", "numbers", "page"}),
    "a script in the page": (page_has(b"script-src ", b"script-src 'unsafe-inline' "), {"page"}),
    "another digest on the page": (
        lambda r: in_page(r, digest_of(r / "dfg.json"), b"0" * 64), {"page"}),
    "other words": (
        lambda r: rewritten(r, "statement.md", (r / "statement.md").read_bytes() + b"Safe.\n"),
        {"statement"}),
    "another claim in XES": (
        xes_has(b'guarantee" value="syntactic"', b'guarantee" value="rigorous"'), {"copies"}),
    "an epsilon in XES alone": (
        xes_has(b"\t<trace>", b'\t<float key="tracecloak:epsilon" value="1"/>\n\t<trace>'),
        {"copies"}),
    "an entity in XES": (
        xes_has(b"<log ", b'<!DOCTYPE log [<!ENTITY a "b">]>\n<log '), {"copies", "data", "forms"}),
    "an event in XES alone": (xes_has(b"</event>", b"</event><event/>"), {"data", "forms"}),
    "a name in XES": (xes_has(b'"concept:name" value="A"', b'"concept:name" value="Z"'), {"forms"}),
    "half a gzip stream": (
        lambda r: rewritten(r, "log.csv.gz", (r / "log.csv.gz").read_bytes()[:-40]),
        {"data", "forms"}),
    "garbage for Parquet": (
        lambda r: rewritten(r, PART, b"PAR1" + b"x" * 300 + b"PAR1"), of_log("copies")),
    "a count of the graph": (
        lambda r: in_json(r, "dfg.json", lambda b: b["edges"][0].update(count=10**6)), {"forms"}),
    "an activity of no edge": (
        lambda r: in_json(r, "dfg.json", lambda b: b["activities"].append("Z")), {"forms"}),
    "a graph of another kind": (lambda r: rewritten(r, "dfg.json", b"[[[]]]"), {"forms"}),
    "a number of cases": (says("came_out", n_cases=7000), {"numbers", "statement", "page"}),
    "fewer cases than its log": (says("came_out", n_cases=7), of_log("statement")),
    "a verdict of its own": (says(usability="usable"), {"numbers"}),
    "a log out of order": (
        lambda r: table(r, PART, lambda t: t.take(list(range(t.num_rows))[::-1])), of_log()),
    "a column more": (lambda r: [
        table(r, f"log/part-0000{n}.parquet", lambda t: t.append_column("x", t["activity"]))
        for n in range(2)], of_log()),
    "a larger k": (says("params", k=50), {"statement", "copies", "method", "property", "page"}),
    "a parameter that none has": (says("params", zeal=1), of_log("statement", "method")),
    "a version that the method has not": (says(method_version=2), {"copies"}),
    "no manifest but JSON": (has_bytes("manifest.json", '{"outputs": {}}'), {"manifest"}),
    "a key twice": (lambda r: (r / "manifest.json").write_text(
        (r / "manifest.json").read_text().replace("{", '{"method": "a",', 1)), {"manifest"}),
    # Of params and randomness a file may carry less than the manifest has, and of nothing else.
    "a promise in Parquet that leaves out what is not covered": (
        carries(lambda b: b["guarantee"].pop("not_covered")), {"copies"}),
    "a promise in Parquet of another parameter": (
        carries(lambda b: b["params"].update(k=50)), {"copies"}),
    "a promise in Parquet whose parameters are none": (
        carries(lambda b: b.update(params=5)), {"copies"}),
    "a public key alone": (has_bytes("manifest.json.pub", "x"), {"signature"}),
}  # fmt: skip


def test_cases_are_in_the_order_of_a_release_over_all_batches() -> None:
    """Catches a comparison that ends with a batch: here each has one event, and so one case."""

    def batches(*cases: tuple[str, int]) -> Iterator[pa.RecordBatch]:
        for case, at in cases:
            yield pa.RecordBatch.from_pylist(
                [{"case_id": case, "activity": "A", "timestamp": at}], schema=RELEASED_SCHEMA
            )

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
    monkeypatch.setattr(parquet_bounds, "_BATCH_ROWS", n_rows)
    assert failed(verify(str(log_release))) == {}
    for name in ("a name in XES", "a log out of order"):
        release = copied(log_release, tmp_path / name)
        change, checks = LOG_CHANGES[name]
        change(release)
        assert set(failed(verify(str(release)))) == checks, name
    monkeypatch.setattr(log_forms, "_CASE_BYTES", 1)  # a case in two batches is longer
    assert verify(str(log_release)).verdict == "unsure"


def less_noise(body: Any) -> None:
    """Says that the noise was half of what it was."""
    [part] = body["spends"]
    block = part["blocks"][1]
    block["scale"] = str(Fraction(block["scale"]) / 2)


_OF_EPSILON = {"signature", "statement", "copies", "method", "budget", "pictures", "page"}
GRAPH_CHANGES: dict[str, tuple[Change, set[str]]] = {
    "a smaller epsilon": (says("guarantee", epsilon=0.5), _OF_EPSILON),
    "an epsilon beyond every float": (says("guarantee", epsilon=10**390), _OF_EPSILON),
    "less noise": (lambda r: edited(r, less_noise),
        {"signature", "statement", "copies", "method", "budget", "page"}),
    "a kinder promise": (
        says("guarantee", not_covered=[]), {"signature", "statement", "copies", "method", "page"}),
    "an edge less in JSON": (lambda r: in_json(r, "dfg.json", lambda b: b["edges"].pop()),
        {"signature", "forms", "numbers", "pictures", "page"}),
    "a picture that declares": (lambda r: rewritten(r, "dfg.svg", b"<!DOCTYPE svg []><svg/>"),
        {"signature", "data", "pictures"}),
    "no signature": (lambda r: (r / "manifest.json.sig").unlink(), {"signature"}),
    "half a signature": (has_bytes("manifest.json.sig", b"x" * 32), {"signature"}),
    "a long signature": (has_bytes("manifest.json.sig", b"x" * (1 << 20)), {"signature"}),
    "a signature of no key": (lambda r: (r / "manifest.json.pub").unlink(), {"signature"}),
    "a key in PEM and more": (lambda r: (r / "manifest.json.pub").write_bytes(
        b"<script src=//x></script>\n" + (r / "manifest.json.pub").read_bytes()), {"signature"}),
    "no key in PEM": (has_bytes("manifest.json.pub", "mine"), {"signature"}),
}  # fmt: skip


STEP = "product=dfg/view=window/step-000002"


def step(release: Path, **changes: Any) -> None:
    path = release / f"{STEP}.json"
    body = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def narrower(release: Path) -> None:
    """As if there were half as much noise, in both forms of the step."""
    path = release / f"{STEP}.json"
    step = StepRelease.from_json(path.read_bytes())
    halved = with_intervals(replace(step, standard_errors=step.standard_errors / 2))
    narrow = replace(halved, standard_errors=step.standard_errors)
    path.write_bytes(narrow.to_json())
    table = release / f"{STEP}.parquet"
    pq.write_table(narrow.to_rows().replace_schema_metadata(pq.read_schema(table).metadata), table)


def more_noise(release: Path) -> None:
    cells = json.loads((release / f"{STEP}.json").read_text())["cells"]
    step(release, cells=[{**cell, "standard_error": 1e308} for cell in cells])


def without_figure(release: Path) -> None:
    figures = json.loads((release / f"{STEP}.json").read_text())["figures"]
    step(release, figures=figures[1:])


STREAM_CHANGES: dict[str, tuple[Change, set[str]]] = {
    "another file": (lambda r: (r / "product=dfg" / "x").write_text(""), {"leftovers"}),
    "another view": (
        lambda r: shutil.copytree(r / "product=dfg/view=window", r / "product=dfg/view=total"),
        {"leftovers"},
    ),
    "a step of another epoch": (lambda r: step(r, epoch="2"), {"data"}),
    "a step of another time": (lambda r: step(r, end_us=1), {"data"}),
    "another count": (lambda r: step(r, cells=[]), {"data"}),
    "intervals of less noise": (narrower, {"data"}),
    "a figure is gone": (without_figure, {"data"}),
    "more noise than there is": (more_noise, {"data"}),
    "half a step": (lambda r: (r / f"{STEP}.json").unlink(), {"data"}),
    "another statement": (lambda r: (r / "statement.md").write_text("Safe."), {"statement"}),
    "no statement": (lambda r: (r / "statement.md").unlink(), {"statement"}),
    "a step too many": (
        lambda r: shutil.copy(r / f"{STEP}.json", r / f"{STEP[:-1]}9.json"),
        {"data"},
    ),
}


CHANGES = [
    *(("log_release", name, *change) for name, change in LOG_CHANGES.items()),
    *(("signed_release", name, *change) for name, change in GRAPH_CHANGES.items()),
    *(("stream_release", name, *change) for name, change in STREAM_CHANGES.items()),
]


@pytest.mark.parametrize(("kind", "name", "change", "checks"), CHANGES)
def test_what_was_changed_does_not_hold(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
    name: str,
    change: Change,
    checks: set[str],
) -> None:
    release = copied(request.getfixturevalue(kind), tmp_path)
    change(release)
    found = verify(str(release))
    assert set(failed(found)) == checks, name
    assert kind == "stream_release" or tuple(states(found)) == CHECKS


# --- By another version ---------------------------------------------------------------------------


@pytest.fixture
def of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """What verifies is of a later version than what released."""
    monkeypatch.setattr(received, "TOOL_VERSION", "99.0")


def in_statement(release: Path, old: str, new: str) -> None:
    text = (release / "statement.md").read_text()
    assert old in text
    rewritten(release, "statement.md", text.replace(old, new).encode())


@pytest.mark.usefixtures("of_another_version")
@pytest.mark.parametrize("kind", ["log_release", "signed_release", "stream_release"])
def test_a_release_of_another_version_holds_by_what_does_not_depend_on_it(
    kind: str, request: pytest.FixtureRequest
) -> None:
    found = verify(str(request.getfixturevalue(kind)))
    assert failed(found) == {}
    assert found.verdict == "unsure"
    said = {finding.check: finding for finding in found.findings}
    assert said["method"].state == ("unsure" if kind != "stream_release" else "not applicable")
    # The page is the one that is made here, so what it does is known whoever made it.
    assert kind == "stream_release" or said["page"].state == "ok"
    assert said["statement"].state == "unsure"
    assert "words are not known here" in said["statement"].sentence
    for check in ("manifest", "leftovers", "copies", "data"):
        assert said[check].state == "ok"
    assert said["budget"].state == ("ok" if kind != "log_release" else "not applicable")
    assert kind != "log_release" or said["property"].state == "ok"


def _gone(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "private-dfg")
    patch.setattr(METHODS, "_made", {})


def _without_a_parameter(patch: pytest.MonkeyPatch) -> None:
    class Fewer(contract.Params):
        """None of those that there were."""

    method = type(METHODS["private-dfg"])
    others = {"version": 3, "has_error_bars": not method.has_error_bars, "Params": Fewer}
    for name, value in others.items():
        patch.setattr(method, name, value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_gone, "does not know the method private-dfg."),
        (_without_a_parameter, "by version 2 of private-dfg"),
    ],
)
def test_what_this_installation_does_not_have_is_nobodys_fault(
    signed_release: Path,
    change: Callable[[pytest.MonkeyPatch], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a sound release that fails, whatever version of tracecloak the method is added to."""
    change(monkeypatch)
    found = verify(str(signed_release))
    assert failed(found) == {} and found.verdict == "unsure"
    said = {finding.check: finding for finding in found.findings}
    assert told in said["method"].sentence
    assert {check for check, one in said.items() if one.state == "unsure"} == {"method"}


def test_a_generator_that_is_not_installed_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = made(tmp_path, "private-log", 3)
    assert verify(str(release)).holds
    edited(release, lambda body: body["params"].update(variants="of-others"))
    said = {finding.check: finding for finding in verify(str(release)).findings}
    assert said["method"].state == "unsure"
    assert "name what this installation does not have" in said["method"].sentence
    edited(release, lambda body: body["params"].update(variants="auto", products="zeal"))
    assert states(verify(str(release)))["method"] == "failed"  # the control


def statement_has(old: str, new: str) -> Change:
    return lambda release: in_statement(release, old, new)


OLDER_CHANGES: dict[str, tuple[str, Change, set[str]]] = {
    "another version of the method": ("log", says(method_version=2), {"copies"}),
    "a larger k": ("log", says("params", k=50), {"copies", "property"}),
    "an epsilon in the statement of none": (
        "log", statement_has("# ", "# differential privacy with epsilon = 1 "), {"statement"}),
    "a statement of another name": ("log", statement_has("golden", "silver"), {"statement"}),
    "a name that begins as the release's": (
        "log", statement_has("golden", "golden2"), {"statement"}),
    "a smaller epsilon in the statement": (
        "signed", statement_has("epsilon = 9", "epsilon = 0.9"), {"signature", "statement"}),
    "a number that begins as epsilon does": (
        "signed", statement_has("epsilon = 9", "epsilon = 9.5"), {"signature", "statement"}),
    "another delta in the statement": (
        "signed", statement_has("delta = 0", "delta = 1"), {"signature", "statement"}),
    "less noise": ("signed", lambda r: edited(r, less_noise), {"signature", "copies", "budget"}),
    "a smaller epsilon": (
        "signed", says("guarantee", epsilon=0.5), {"signature", "statement", "copies", "budget"}),
}  # fmt: skip


@pytest.mark.usefixtures("of_another_version")
@pytest.mark.parametrize("name", OLDER_CHANGES)
def test_a_change_of_a_release_of_another_version_is_found(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    kind, change, checks = OLDER_CHANGES[name]
    release = copied(request.getfixturevalue(f"{kind}_release"), tmp_path)
    change(release)
    assert set(failed(verify(str(release)))) == checks


# --- Who signed -----------------------------------------------------------------------------------


def test_only_the_trusted_key_will_do(
    signed_release: Path, log_release: Path, tmp_path: Path
) -> None:
    own = signed_release.parents[1] / "sign.pub"
    other = new_pair(tmp_path / "other.pem", tmp_path / "other.pub")

    def signature(key: Path | None = None) -> Finding:
        found = verify(str(signed_release), None if key is None else str(key))
        return found.findings[CHECKS.index("signature")]

    alone, trusted = signature(), signature(own)
    assert alone.state == "ok" and "which you have not said you trust" in alone.sentence
    assert other.fingerprint not in alone.sentence
    assert trusted.state == "ok" and "by the key that you trust" in trusted.sentence
    with_another = copied(signed_release, tmp_path)
    shutil.copy(tmp_path / "other.pub", with_another / "manifest.json.pub")
    without_key = copied(signed_release, tmp_path / "without")
    (without_key / "manifest.json.pub").unlink()  # so the signature alone decides
    anew = copied(signed_release, tmp_path / "anew")
    signer = SigningReference.given(str(tmp_path / "other.pem"))
    signed, public = signer.sign((anew / "manifest.json").read_bytes())
    (anew / "manifest.json.sig").write_bytes(signed)
    (anew / "manifest.json.pub").write_bytes(public)
    assert failed(verify(str(anew))) == {}
    for release, key in (
        (anew, own),
        (without_key, tmp_path / "other.pub"),
        (signed_release, tmp_path / "other.pub"),
        (log_release, own),
        (with_another, own),
    ):
        assert set(failed(verify(str(release), str(key)))) == {"signature"}


# --- The command ----------------------------------------------------------------------------------


def test_the_command_prints_a_line_a_check_and_its_exit_code_says_whether_all_hold(
    log_release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_typed("verify", log_release.parent) == 0
    lines = capsys.readouterr().out.splitlines()
    assert tuple(line.split()[1] for line in lines[: len(CHECKS)]) == CHECKS
    release = copied(log_release, tmp_path)
    (release / "dfg.json").write_text("{}")
    assert as_typed("verify", release) == 5
    assert "FAILED files" in capsys.readouterr().out
    assert as_typed("verify", release, "--json") == 5
    printed = json.loads(capsys.readouterr().out)
    assert (printed["holds"], printed["verdict"]) == (False, "failed")
    assert printed["release"] == str(release)
    assert {c["check"] for c in printed["checks"] if c["state"] == "failed"} == {"files"}


@pytest.mark.parametrize(
    ("line", "code"),
    [(["none"], 3), (["."], 3), ([".", "--key", "none.pem"], 2), ([], 2), (["nowhere://x"], 2)],
)
def test_what_is_not_there_is_told(
    tmp_path: Path, line: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_typed("verify", *line) == code


@pytest.mark.parametrize("path", ["..", "/etc", "run_id=a/../..", "run_id=none", 7, None])
def test_a_pointer_leads_to_a_release_of_its_folder_alone(tmp_path: Path, path: object) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "latest.json").write_text(json.dumps({"path": path}))
    with pytest.raises(InputSchemaError, match="points at no release"):
        verify(str(tmp_path / "out"))


# --- Whatever is in it ----------------------------------------------------------------------------

_FUZZ = few_examples(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(data=st.data())
@_FUZZ
def test_bytes_that_changed_are_found_and_break_nothing(
    log_release: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    release = copied(log_release, tmp_path_factory.mktemp("fuzz"))
    names = sorted(str(p.relative_to(release)) for p in release.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names))
    before = (release / name).read_bytes()
    start = data.draw(st.integers(0, len(before) - 1))
    end = data.draw(st.integers(start, min(start + 40, len(before))))
    after = before[:start] + data.draw(st.binary(max_size=40)) + before[end:]
    if name == "manifest.json" or data.draw(st.booleans()):
        (release / name).write_bytes(after)
        found = verify(str(release))
        if name != "manifest.json":
            assert found.holds == (after == before)
    else:  # by somebody who also changes the manifest
        rewritten(release, name, after)
        verify(str(release))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@given(data=st.data())
@_FUZZ
def test_a_manifest_that_says_something_else_breaks_nothing(
    signed_release: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    release = copied(signed_release, tmp_path_factory.mktemp("fuzz"))

    def replace(body: Any) -> None:
        holder = body
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
            inner = holder[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                holder = inner
                continue
            holder[key] = data.draw(_JSON)
            return

    edited(release, replace)
    found = verify(str(release))
    assert states(found)["signature"] == "failed"
