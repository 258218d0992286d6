"""What a log holds, told to its operator alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.record_files import ALL_WRITERS
from tests.support.releasing import as_typed
from tests.support.terminal import watch
from tracecloak.pipelines.configuration.plan import load

NAMED = ("--case_id", "id", "--activity", "what", "--timestamp", "at")
SPELT = ["Aufnahme", "Untersuchung", "Ende"]


def rows() -> list[dict[str, Any]]:
    """Eighty cases of forty people, with everything that a profile looks for."""
    listed = []
    for case in range(80):
        for hour, name in enumerate(SPELT):
            activity = "aufnahme " if name == "Aufnahme" and case % 8 == 0 else name
            activity = "Untersuchnug" if name == "Untersuchung" and case == 3 else activity
            day = f"2026-01-{1 + case % 9:02}" if case < 70 else "2026-03-01"
            row = {
                "id": f"{case}.0" if case % 2 else str(case),
                "what": activity,
                "begin": f"{day}T{8 + hour:02}:00:00Z",
                "at": f"{day}T{9 + hour:02}:00:00Z" if case != 5 else "",
                "mail": f"secret-{case // 2}@clinic.example",
                "state": "start" if hour == 0 else "complete",
            }
            listed += [row] * (2 if case in (1, 2) and hour == 1 else 1)
    return listed


def write(path: Path) -> None:
    """Writes the rows in a format; one that has nested columns has one more."""
    records = [tuple(row.values()) for row in rows()]
    path.write_bytes(ALL_WRITERS[path.suffix[1:]](records, list(rows()[0])))
    if path.suffix == ".parquet":
        nested = pa.array([{"list": [1]}] * len(records))
        pq.write_table(pq.read_table(path).append_column("nested", nested), path)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return tmp_path


def profiled(form: str, *more: str) -> tuple[int, dict[str, Any]]:
    write(Path(f"log.{form}"))
    case = "case:concept:name" if form == "xes" else "id"
    flags = ["--case_id", case, "--activity", "what", "--timestamp", "at", *more]
    code = as_typed("profile", "--log", f"log.{form}", *flags, "--output", "p.json")
    return code, json.loads(Path("p.json").read_text())


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "xes"])
def test_every_format_tells_the_same(form: str) -> None:
    """Catches a reader whose columns are not all looked at, and a fact that hangs on the format."""
    code, body = profiled(form)
    assert code == 0 and body["publishable"] is False and body["is_whole"]
    assert body["spellings"] == {"aufnahme ": "Aufnahme"}
    assert body["misspellings"] == [["Untersuchnug", "Untersuchung"]]
    assert body["records"]["records"] == 242
    assert [f["records"] for f in body["records"]["findings"] if "time" in f["what"]] == [3]
    cases = body["cases"]
    assert (cases["n_cases"], cases["n_duplicates"], cases["n_cases_with_duplicates"]) == (79, 2, 2)
    assert cases["granularity"] == "hour" and cases["n_out_of_order"] == 0
    assert (cases["longest_gap_days"], cases["gap_begins"]) == (50, "2026-01-10")
    columns = {one["column"]: one for one in body["columns"]}
    assert "nested" not in columns
    assert columns["mail"]["looks_like_persons"] and columns["mail"]["one_value_for_each_case"]
    places = [columns[name]["place_of_time"] for name in ("begin", "at")]
    assert places == ["start", None]  # of what begins the events, and of what their time is
    assert columns["at"]["empty"] == 3 and columns["what"]["distinct"] == 5
    pasted = yaml.safe_load(body["to_paste"])
    assert pasted["drop_duplicates"] is True
    assert pasted["columns"]["individual_id"] == "mail"
    assert any("start_timestamp: begin" in one["reason"] for one in body["suggestions"])


def test_what_is_pasted_is_a_configuration() -> None:
    """Catches a suggestion that no release takes, or that a profile makes again of its own log."""
    _, body = profiled("csv")
    pasted = yaml.safe_load(body["to_paste"])
    assert pasted["columns"]["whole_numbers"] == ["id"]
    named = {"case_id": "id", "activity": "what", "timestamp": "at"}
    whole = {
        **pasted, "columns": {**pasted["columns"], **named}, "log": "log.csv", "output": "o",
        "method": "private-dfg", "release_id": "r",
        "params": {"epsilon": 1, "vocabulary": SPELT},
    }  # fmt: skip
    Path("c.yaml").write_text(yaml.safe_dump(whole))
    assert load("c.yaml", {}).drop_duplicates
    renames = json.dumps(pasted["rename"])
    _, again = profiled("csv", "--rename", renames, "--individual_id", "mail")
    assert not again["spellings"] and "individual_id" not in again["to_paste"]


def test_it_is_for_the_operator_alone(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """Catches an id or a person in it, a file that others read, and one beside releases."""
    _, body = profiled("csv")
    shown = capsys.readouterr().out
    assert "secret-" not in json.dumps(body) and "secret-" not in shown
    assert "not covered by epsilon" in shown and "not for publication" in shown
    assert stat.S_IMODE(Path("p.json").stat().st_mode) == 0o600
    assert as_typed("profile", "--log", "log.csv", *NAMED, "--quiet") == 0
    (default,) = (place / "keys" / "operator").glob("profile-*.json")
    assert stat.S_IMODE(default.stat().st_mode) == 0o600
    Path("releases/run_id=r").mkdir(parents=True)
    Path("releases/run_id=r/manifest.json").write_text('{"tool": {"name": "tracecloak"}}')
    for output in ("releases/p.json", "releases/below/p.json", "releases/run_id=r/p.json"):
        assert as_typed("profile", "--log", "log.csv", "--output", output) == 2
        assert "whose readers would find exact numbers" in capsys.readouterr().err
        assert not Path(output).exists()


def test_no_more_is_read_than_was_asked_for() -> None:
    code, body = profiled("jsonl", "--max_records", "50")
    assert code == 0 and body["columns"][0]["records"] == 50
    Path("more").mkdir()
    for name in ("a", "b"):
        write(Path(f"more/{name}.csv"))
    flags = [*NAMED, "--output", "q.json"]
    for n, is_whole in ((242, False), (484, True)):
        assert as_typed("profile", "--log", "more", "--max_records", n, *flags) == 0
        body = json.loads(Path("q.json").read_text())
        assert (body["is_whole"], body["records"]["records"]) == (is_whole, n)
    assert as_typed("profile", "--log", "more", "--max_records", "0", *flags) == 2


def test_a_plan_names_it_where_it_sees_such_a_thing(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a hint that is never given, one that is always given, and one with a name in it."""
    write(Path("log.csv"))
    method = ("--method", "private-dfg", "--epsilon", "1", "--vocabulary", '["Aufnahme"]')
    command = ["plan", "--log", "log.csv", *NAMED, "--output", "o", *method]
    assert as_typed(*command) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "tracecloak profile" in x)
    assert "case, blanks or signs" in line and "equal an earlier one" in line and "5.0" in line
    assert "aufnahme" not in line.lower()
    renamed = json.dumps({"aufnahme ": "Aufnahme"})
    more = ["--rename", renamed, "--drop_duplicates", "--whole_numbers", "id"]
    assert as_typed(*command, *more) == 0
    assert "tracecloak profile" not in capsys.readouterr().out


STAMPS = {
    "2026-01-31 08:00": [],  # ISO 8601
    "31.01.2026 08:00": [{"timestamp_format": "%d.%m.%Y %H:%M"}],
    "01/31/26 08:00:00 PM": [{"timestamp_format": "%m/%d/%y %I:%M:%S %p"}],
    "2026-01-31 08:00:00 +01:00": [{"timestamp_format": "%Y-%m-%d %H:%M:%S %z"}],
    "2026-01-31 08:00:00.1234567 +01:00": [{"timestamp_format": "%Y-%m-%d %H:%M:%S.%f %z"}],
    "20260131T080000": [{"timestamp_format": "%Y%m%dT%H%M%S"}],
    "31-Jan-2026": [{"timestamp_format": "%d-%b-%Y"}],
    "05/06/2026": [{"timestamp_format": "%d/%m/%Y"}, {"timestamp_format": "%m/%d/%Y"}],
    "1769846400": [{"timestamp_unit": "s"}],
    "1769846400000": [{"timestamp_unit": "ms"}],
    "soon": [],
}


@pytest.mark.parametrize("stamp", STAMPS)
def test_it_says_how_stamps_can_be_read(stamp: str) -> None:
    """Also where one in ten says something else; what is suggested reads them."""
    rows = [f"c{n},A,{stamp if n % 20 else 'open'}" for n in range(200)]
    Path("log.csv").write_text("\n".join(["id,what,at", *rows]) + "\n")
    flags = [*NAMED, "--output", "p.json"]
    assert as_typed("profile", "--log", "log.csv", *flags) == 0
    body = json.loads(Path("p.json").read_text())
    expected = [f"{key}: {value}" for one in STAMPS[stamp] for key, value in one.items()]
    reasons = [one["reason"] for one in body["suggestions"] if "can be read by" in one["reason"]]
    assert bool(reasons) == bool(expected) and all(one in reasons[0] for one in expected)
    keys = (yaml.safe_load(body["to_paste"]) or {}).get("columns", {})
    assert keys == (STAMPS[stamp][0] if len(expected) == 1 else {})
    if keys:
        more = [part for key, value in keys.items() for part in (f"--{key}", value)]
        assert as_typed("profile", "--log", "log.csv", *flags, *more) == 0
        again = json.loads(Path("p.json").read_text())
        assert again["cases"]["n_events"] == 190 and not again["to_paste"]


def test_a_record_without_its_individual_is_told_as_in_a_release() -> None:
    lines = ["id,what,at,who", *(f"c{n},A,2026-01-01,{n % 4 or ''}" for n in range(80))]
    Path("log.csv").write_text("\n".join(lines) + "\n")
    flags = [*NAMED, "--output", "p.json"]
    assert as_typed("profile", "--log", "log.csv", *flags, "--individual_id", "who") == 0
    body = json.loads(Path("p.json").read_text())
    assert body["cases"]["n_events"] == 60
    assert [f["records"] for f in body["records"]["findings"]] == [20]


NEAR = ["K0", "k0 ", "Z\u00fcrich", "Zu\u0308rich", "A\xa0b", "ab", "5", "5.0", "a-1", "a1"]


@pytest.mark.parametrize("column", ["case_id", "individual_id"])
def test_ids_that_may_be_one_are_named_on_a_terminal_alone(
    column: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches two spellings that go unseen, and an id that a scheduler shows to others."""
    lines = [
        f"{i if column == 'individual_id' else name},A,2026-01-01,{name}"
        for i, name in enumerate(NEAR)
    ]
    Path("near.csv").write_text(
        "\n".join(["case_id,activity,timestamp,who", *lines, lines[0]]) + "\n"
    )
    flags = ["profile", "--log", "near.csv", "--output", "near.json"]
    flags += ["--individual_id", "who"] if column == "individual_id" else []
    what = "individual" if column == "individual_id" else "case id"
    assert as_typed(*flags) == 0
    shown = capsys.readouterr().out
    assert f"3 {what}s like another one but for case" in shown and "a terminal shows which" in shown
    assert as_typed(*flags, "--json") == 0
    shown += capsys.readouterr().out + Path("near.json").read_text()
    assert json.loads(Path("near.json").read_text())["near_ids"][what] == 3
    assert not any(name in shown for name in ("K0", "k0", "rich", "\xa0"))
    watch(monkeypatch)
    assert as_typed(*flags) == 0
    shown = capsys.readouterr().out
    for text in (
        "'k0 ' is like 'K0'",
        "'Z\\xfcrich' is like 'Zu\\u0308rich'",
        "'ab' is like 'A\\xa0b'",
    ):
        assert text in shown
    assert "a-1" not in shown and "5.0'" not in shown
