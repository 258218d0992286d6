"""An error says what the file is, and who does what it says gets further."""

from __future__ import annotations

import gzip
import re
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.releasing import as_typed
from tests.transforms.inputs.test_decompression import packed
from tracecloak.transforms.formats.registry import CODECS
from tracecloak.transforms.inputs.file_kind import describe_file
from tracecloak.transforms.inputs.source_files import SourceFile

CSV = (
    "case_id,activity,timestamp\n"
    + "".join(f"{case},{name},2026-01-0{case}T0{hour}:00:00Z\n" for case in (1, 2)
              for hour, name in enumerate("AB"))
)  # fmt: skip
EVENTS = "".join(
    f'<event><string key="concept:name" value="{name}"/>'
    f'<date key="time:timestamp" value="2026-01-01T0{hour}:00:00Z"/></event>'
    for hour, name in enumerate("AB")
)
XES = f'<log><trace><string key="concept:name" value="1"/>{EVENTS}</trace></log>'
MXML = (
    '<WorkflowLog><Process id="p"><ProcessInstance id="1"><AuditTrailEntry>'
    "<WorkflowModelElement>A</WorkflowModelElement><Timestamp>2026-01-01T00:00:00Z</Timestamp>"
    "</AuditTrailEntry></ProcessInstance></Process></WorkflowLog>"
)
BPMN = (
    '<?xml version="1.0"?><!-- <log> --><b:definitions '
    'xmlns:b="http://www.omg.org/spec/BPMN/20100524/MODEL"/>'
)


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pacsv.read_csv(pa.BufferReader(CSV.encode())), sink)
    return sink.getvalue().to_pybytes()


def database(folder: Path) -> bytes:
    path = folder / "made.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE log (case_id TEXT, activity TEXT, timestamp TEXT)")
        rows = [line.split(",") for line in CSV.splitlines()[1:]]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
    connection.close()
    return path.read_bytes()


def ended(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The exit code of a command, and the last line that it wrote of an error."""
    capsys.readouterr()
    code = as_typed(*arguments)
    lines = capsys.readouterr().err.strip().splitlines()
    return code, lines[-1] if lines else ""


# --- remedies that are a flag or a name -----------------------------------------------------------


def flags_of(message: str) -> list[str]:
    [(name, value)] = re.findall(r"set (\w+) to ([\w-]+)", message)
    return [f"--{name}", value]


JSON_ROWS = [
    f'{{"case_id": "1", "activity": "{name}", "timestamp": "2026-01-01T0{hour}:00:00Z"}}'
    for hour, name in enumerate("AB")
]
FLAGGED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "Parquet": ("log.csv", parquet, "a Parquet file"),
    "XES": ("log.csv", XES.encode, "an XES log"),
    "XES in UTF-16": ("log.csv", lambda: XES.encode("utf-16"), "an XES log"),
    "CSV": ("log.xes", CSV.encode, "delimited text"),
    "CSV as Parquet": ("log.parquet", CSV.encode, "delimited text"),
    "CSV of no ending": ("log.txt", CSV.encode, "delimited text"),
    "UTF-16": ("log.csv", lambda: CSV.encode("utf-16"), "text in UTF-16"),
    "UTF-16 without a mark": ("log.csv", lambda: CSV.encode("utf-16-be"), "text in UTF-16-BE"),
    "UTF-32": ("log.csv", lambda: CSV.encode("utf-32"), "text in UTF-32"),
    "JSON lines": ("log.csv", "\n".join(JSON_ROWS).encode, "JSON lines"),
    "JSON": ("log.csv", f"[\n{JSON_ROWS[0]}\n]\n".replace(",", ",\n").encode, "a JSON document"),
}


@pytest.mark.parametrize("kind", FLAGGED)
def test_the_flag_that_is_named_reads_the_file(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, made, told = FLAGGED[kind]
    path = tmp_path / name
    path.write_bytes(made())
    for command in ("vocabulary", "profile"):
        where = ["--output", tmp_path / "out.json"] if command == "profile" else []
        code, message = ended(capsys, command, "--log", path, *where)
        assert code in (2, 3) and f"{path}: this is {told}" in message, message
        assert ended(capsys, command, "--log", path, *where, *flags_of(message)) == (0, "")


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".lz4"])
def test_a_new_name_reads_the_file(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in (
        ("log.csv", packed(CSV.encode(), CODECS[ending])),
        (f"log.csv{ending}", CSV.encode()),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        code, message = ended(capsys, "vocabulary", "--log", path)
        assert code == 3 and "[exit code 3: A file is of another format]" in message, message
        [(action, end)] = re.findall(r"(add|remove) (\.\w+) (?:to|from) its name", message)
        new = f"{path}{end}" if action == "add" else str(path).removesuffix(end)
        assert ended(capsys, "vocabulary", "--log", path.rename(new)) == (0, "")
        Path(new).unlink()


PLAN = (
    "plan", "--method", "private-dfg", "--epsilon", "1", "--vocabulary", '["A", "B"]',
    "--max_trace_length", "5", "--expected_cases", "900", "--expected_variants", "10",
)  # fmt: skip


def verdict(capsys: pytest.CaptureFixture[str], log: Path, *arguments: object) -> str:
    capsys.readouterr()
    assert as_typed(*PLAN, "--output", log.parent / "out", "--log", log, *arguments) == 0
    return capsys.readouterr().out.splitlines()[0]


def test_the_verdict_says_what_the_file_is_and_the_flag_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    path = tmp_path / "log.jsonl"
    path.write_bytes(FLAGGED["JSON"][1]())
    line = verdict(capsys, path)
    assert line.startswith("No: ") and "(this is a JSON document, and was read as jsonl" in line
    assert verdict(capsys, path, *flags_of(line)).startswith("Worth it")
    # One record of the first is damaged: the file is what it was read as.
    row = '{"case_id": "1", "activity": "A", "timestamp": "2026-01-01"}\n'
    path.write_text(f"{{\n{row * 2}")
    assert "(no whole record" in verdict(capsys, path)
    (tmp_path / "log.csv").write_bytes(CSV.replace("A", "\xc4").encode("cp1252"))
    line = verdict(capsys, tmp_path / "log.csv")
    (encoding,) = re.findall(r"set encoding, such as (\w+)", line)
    args = "--encoding", encoding
    assert "no whole record" not in verdict(capsys, tmp_path / "log.csv", *args)
    (tmp_path / "log.xes").write_text(f"<log><trace>{EVENTS}</trace></log>")
    line = verdict(capsys, tmp_path / "log.xes")
    assert "no case id; " in line
    assert verdict(capsys, tmp_path / "log.xes", *flags_of(line)).startswith("Worth it")


# --- files in which the log is, or was ------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.parquet", "log.parquet.gz"])
def test_parquet_that_is_compressed_is_decompressed(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(parquet()))
    code, message = ended(capsys, "vocabulary", "--log", path)
    assert code == 3 and message.partition(" [")[0].endswith(
        "this is compressed by gzip, and was read as parquet; decompress it"
    )
    (tmp_path / "out.parquet").write_bytes(gzip.decompress(path.read_bytes()))
    assert ended(capsys, "vocabulary", "--log", tmp_path / "out.parquet") == (0, "")


def test_what_is_damaged_is_not_said_to_be_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode())[:-9])
    code, message = ended(capsys, "vocabulary", "--log", path)
    assert code == 3 and "truncated" in message and "[exit code 3: A file is damaged]" in message
    path.write_bytes(gzip.compress(gzip.compress(CSV.encode())))
    code, message = ended(capsys, "vocabulary", "--log", path)
    assert code == 3 and "compressed by gzip twice" in message
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert ended(capsys, "vocabulary", "--log", path) == (0, "")


def test_a_database_is_read_by_its_address_and_a_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    path = tmp_path / "log.db"
    path.write_bytes(database(tmp_path))
    code, message = ended(capsys, "vocabulary", "--log", path)
    address = re.findall(r"set database to (\S+) and, in place of log, a query", message)
    assert code == 3 and address
    (tmp_path / "names.txt").write_text("A\nB\n")
    release = [
        "--database", address[0], "--query", "SELECT * FROM log", "--method", "private-dfg",
        "--epsilon", 1, "--vocabulary", tmp_path / "names.txt", "--output", tmp_path / "out",
        "--new_ledger", "true", "--release_id", "r",
    ]  # fmt: skip
    assert ended(capsys, "release", *release)[0] == 0


def test_what_is_no_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, told in (
        (BPMN, "a model in BPMN or DMN"),
        ('<?xml version="1.0"?><pnml/>', "a Petri net"),
        ("\n<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
        (MXML, "MXML"),
        ("<order/>", "XML, but not an XES log"),
        ("%PDF-1.7\n", "a PDF document"),
        ("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ):
        for name in ("log.csv", "log.xes", "log.jsonl", "log.dat"):
            path = tmp_path / name
            path.write_text(text)
            code, message = ended(capsys, "vocabulary", "--log", path)
            assert code == 3 and f"{path}: this is" in message and told in message, message


# --- object-centric logs --------------------------------------------------------------------------


@pytest.fixture
def pm4py() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pm4py")


def ocel(pm4py: Any) -> Any:
    from pm4py.objects.ocel.obj import OCEL

    times = pd.to_datetime(["2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z", "2024-01-02T10:00:00Z"])
    events = {"ocel:eid": ["e1", "e2", "e3"], "ocel:activity": ["A", "B", "A"]}
    events = pd.DataFrame({**events, "ocel:timestamp": times})
    objects = pd.DataFrame({"ocel:oid": ["o1", "o2"], "ocel:type": ["order", "order"]})
    relations = events.assign(**{"ocel:oid": ["o1", "o1", "o2"], "ocel:type": "order"})
    return OCEL(events=events, objects=objects, relations=relations)


OCELS = {
    "OCEL 1.0 as CSV": ("write_ocel_csv", ".csv"),
    "OCEL 1.0 as JSON": ("write_ocel_json", ".jsonocel"),
    "OCEL 1.0 as XML": ("write_ocel_xml", ".xmlocel"),
    "OCEL 1.0 as SQLite": ("write_ocel_sqlite", ".sqlite"),
    "OCEL 2.0 as JSON": ("write_ocel2_json", ".json"),
    "OCEL 2.0 as XML": ("write_ocel2_xml", ".xml"),
    "OCEL 2.0 as SQLite": ("write_ocel2_sqlite", ".sqlite"),
    "OCEL 2.0 as a bundle": ("write_ocel2_bundle", ".ocel.zip"),
}


@pytest.mark.filterwarnings("ignore")  # of pm4py and its dependencies
@pytest.mark.parametrize("form", OCELS)
def test_an_object_centric_log_is_flattened_as_the_error_says(
    pm4py: Any, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The expressions of the error are evaluated as they are, and its last flag is given."""
    monkeypatch.chdir(tmp_path)
    write, ending = OCELS[form]
    made = tmp_path / f"made{ending}"
    objects = [str(tmp_path / "objects.csv")] if ending == ".csv" else []
    getattr(pm4py, write)(ocel(pm4py), str(made), *objects)
    for name in (made.name, "log.xes", "log.csv", "log.jsonl", "log.parquet"):
        path = Path(name)
        if name != made.name:
            shutil.copy(made, path)
        code, message = ended(capsys, "vocabulary", "--log", path)
        assert code == 3 and f"this is an object-centric log ({form})" in message, message
        for copy in re.findall(r"copy it to '([^']+)'", message):
            shutil.copy(path, copy)
        made_flat = re.search(r"frame = (pm4py.*?\)\), ?|pm4py.*'order'\))", message)
        frame = eval(re.findall(r"frame = (pm4py\..*?'order'\))", message)[0], {"pm4py": pm4py})
        assert made_flat is not None and len(frame) == 3
        [written] = re.findall(r"(pm4py\.write_xes\(.*?\))", message)
        eval(written, {"pm4py": pm4py, "frame": frame})
        assert ended(capsys, "vocabulary", "--log", "flat.xes") == (0, "")


# --- the rules of the detector --------------------------------------------------------------------


def words(folder: Path, data: bytes, read_as: str, encoding: str = "utf-8") -> str:
    path = folder / "log"
    path.write_bytes(data)
    return describe_file(SourceFile(0, str(path), len(data)), read_as, encoding)


def test_a_file_of_the_format_that_it_was_read_as_is_not_explained(tmp_path: Path) -> None:
    """So that what is wrong in it is said, and not what it is."""
    line = b'{"case_id": 1}\n'
    for data, read_as in (
        (CSV.encode(), "csv"), (XES.encode(), "xes"), (parquet(), "parquet"), (line, "jsonl"),
        (XES.encode("utf-16"), "xes"), (b"\xef\xbb\xbf" + CSV.encode(), "csv"),
        (b"", "csv"), (b"\x00\x01\x02", "xes"),
    ):  # fmt: skip
        assert words(tmp_path, data, read_as) == ""
    assert words(tmp_path, CSV.encode("utf-16"), "csv", "UTF_16") == ""
    assert words(tmp_path, CSV.encode("utf-16-le"), "csv", "utf-16-le") == ""
    assert describe_file(SourceFile(0, str(tmp_path / "gone"), 1), "csv") == ""


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"<log", b"<?", b"PK\x03\x04", b"{", b"\xff\xfe"]),
)
def test_nothing_that_a_file_holds_is_repeated_or_fails(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, begin: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    known = words(folder, begin + data, "csv")
    assert known == "" or known.startswith("this is ")
    secret = f"{begin.decode('latin-1')}zq8j7w,x\n".encode("latin-1") * 20
    assert "zq8j7w" not in words(folder, secret, "parquet")
