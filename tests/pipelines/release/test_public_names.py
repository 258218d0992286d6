"""Which activities a release counts by: declared, declared to be all, or bought."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, placed, tracecloak
from tests.support.searching import files_with
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.flags import read_vocabulary
from tracecloak.schemas.events.events import OTHER

LISTED = sorted(name for name, m in METHODS.items() if "buy_vocabulary" in m.Params.model_fields)
NEEDED = {
    "amun-rigorous": ["--guessing_advantage", "0.4"],
    "pripel-rigorous": ["--epsilon", "1", "--max_prefix_length", "4"],
}


def log(folder: Path, n_cases: int = 60) -> Path:
    rows = []
    for case in range(n_cases):
        names = ["A", "B", "C"] if case % 3 else ["A", "C"]
        rows += [(f"c{case}", name, f"2026-01-01T00:0{i}:00Z") for i, name in enumerate(names)]
    rows.append(("c0", "Visit of Dr Odd", "2026-01-01T00:09:00Z"))
    return csv_log(folder / "log.csv", rows)


def release(folder: Path, method: str, *flags: object) -> int:
    needed = NEEDED.get(method, ["--epsilon", "1"])
    return tracecloak(*placed(folder, log(folder), "--method", method, *needed, *flags))


def released(folder: Path, name: str) -> dict[str, object]:
    body: dict[str, object] = json.loads((folder / "out/run_id=r" / name).read_text())
    return body


# --- neither declared nor bought --------------------------------------------------------------


@pytest.mark.parametrize("method", LISTED)
def test_without_a_list_nothing_is_spent_and_the_price_of_buying_is_said(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release(tmp_path, method) == 2
    told = capsys.readouterr().err
    for said in ("vocabulary is not declared", "`tracecloak vocabulary`", "max_activities"):
        assert said in told
    assert "buy_vocabulary: it finds activities of about" in told and "budget" not in told
    assert not (tmp_path / "keys").exists() and not (tmp_path / "out").exists()


# --- the names of a log -----------------------------------------------------------------------


HARMFUL = ["\x1b[2J\x1b[31mred", "\u202egnihton", "no\u200bwidth", "C1\x9b31m", "a\\b", "tab\there"]
FORMULAS = ["=HYPERLINK(0)", "+1", "-1", "@SUM(A1)"]


def harmful_log(tmp_path: Path) -> Path:
    path = tmp_path / "harmful.jsonl"
    events = [
        {"case_id": "1", "activity": name, "timestamp": f"2026-01-01T00:00:{i:02}Z"}
        for i, name in enumerate([*HARMFUL, *FORMULAS, "A"])
    ]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


@pytest.mark.parametrize("is_file", [False, True])
def test_a_list_steers_no_terminal_tells_of_formulas_and_is_read_as_the_same_names(
    is_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "names.txt"
    output = ["--output", path] if is_file else []
    assert tracecloak("vocabulary", "--log", harmful_log(tmp_path), *output) == 0
    printed = capsys.readouterr().out
    text = path.read_text() if is_file else printed
    assert text.replace("\n", "").isprintable() and printed.replace("\n", "").isprintable()
    assert sorted(read_vocabulary(text.encode())) == sorted([*HARMFUL, *FORMULAS, "A"])
    head = text.partition("\n\n")[0]
    assert "# 4 begin as formulas of a spreadsheet do" in head
    # Each name by its first line alone, so that none is struck out in the place of another.
    assert len(text.partition("\n\n")[2].splitlines()) == len([*HARMFUL, *FORMULAS, "A"])


# --- a closed list ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["private-dfg", "markov-log"])
def test_a_closed_list_has_no_others_and_what_is_not_on_it_is_a_reject(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\nC\n")
    flags = ["--epsilon", "50", "--vocabulary", names, "--closed_vocabulary"]
    flags += ["--max_trace_length", "4", "--max_error_ratio", "0.01"]
    assert release(tmp_path, method, *flags) == 0
    rejects = "".join(
        path.read_text() for path in (tmp_path / "keys/operator").rglob("*") if path.is_file()
        and path.suffix != ".md"
    )  # fmt: skip
    assert "activity outside the closed vocabulary" in rejects
    product = released(tmp_path, "dfg.json")
    assert product["activities"] == ["A", "B", "C"]
    # The statement and the page speak of others where they explain what there is none of.
    others = files_with(OTHER.encode(), tmp_path / "out/run_id=r")
    assert others <= {"statement.md", "report.html"}
