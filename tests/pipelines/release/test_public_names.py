"""Which activities a release counts by: declared in a file, declared to be all, or bought.

And which names of a log may be one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.releasing import csv_log, placed, tracecloak
from tests.support.searching import files_with
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.flags import read_vocabulary
from tracecloak.pipelines.planning.names import misspellings, normalized_id, spellings
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ESCAPES_REMARK, OTHER

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


# --- files of names -------------------------------------------------------------------------------


def test_a_file_has_one_name_a_line():
    files = {
        b"b\na\n": ("b", "a"), b"a": ("a",), b"\xef\xbb\xbfa\r\nb\r\n": ("a", "b"),
        b"\n \t\na\n\n\nb\n\n": ("a", "b"), b" a \n\ta b\n": (" a ", "\ta b"),
        "é\n\u2028x\x0by\n".encode(): ("é", "\u2028x\x0by"),  # no line ends of ours
        b"a\na ": ("a", "a "), b"# remark\n# another\n\n# a name\nb\n": ("# a name", "b"),
        b"\n# a name\n": ("# a name",), b"a\n#b\n": ("a", "#b"),
    }  # fmt: skip
    assert {data: read_vocabulary(data) for data in files} == files


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"canary\n\nb\ncanary\n", "line 4 .* repeats line 1"),
        (b"canary\r\ncanary", "line 2 .* repeats line 1"),
        (b"a\n__other__\n", "line 2 .* is __other__"),
        (b"a\nb\n\xffcanary", "line 3 .* not UTF-8"),
        (b"", "no name"),
        (b"\xef\xbb\xbf\n  \r\n", "no name"),
        *((f"{ESCAPES_REMARK}\n\n{line}\n".encode(), "line 3 of the activity")
          for line in ("A\\B", "\\", "\\ud800", "\\x1B")),
    ],
)  # fmt: skip
def test_a_file_that_is_no_vocabulary_is_refused_with_its_line(data, message):
    with pytest.raises(UsageError, match=message) as caught:
        read_vocabulary(data)
    assert "canary" not in str(caught.value)


def test_escapes_are_read_where_a_remark_says_so_and_nowhere_else():
    lines = "A\\\\B\n\\x1b[2J\n\\u202egnihton\nplain\n"
    assert read_vocabulary(f"# names\n{ESCAPES_REMARK}\n\n{lines}".encode()) == (
        "A\\B",
        "\x1b[2J",
        "\u202egnihton",
        "plain",
    )
    assert read_vocabulary(lines.encode()) == ("A\\\\B", "\\x1b[2J", "\\u202egnihton", "plain")
    # A name that is called like the remark is none.
    assert read_vocabulary(f"a\n{ESCAPES_REMARK}\n\\x1b\n".encode())[2] == "\\x1b"


# --- names that may be one ------------------------------------------------------------------------


def test_ids_are_alike_by_case_blanks_and_forms_and_not_by_signs() -> None:
    alike = ["K0", "k0 ", "K\xa00", "\uff2b0", "k\u200b0", "\u212a0", "\ufeffK 0"]
    assert len(set(map(normalized_id, alike))) == 1
    assert len(set(map(normalized_id, ["a-1", "a1", "a.1", "a_1", "05", "5", "5.0", " ", ""]))) == 9


@given(st.dictionaries(st.text(max_size=5), st.integers(1, 9), max_size=9))
def test_no_name_is_renamed_to_one_that_is_renamed(counts: dict[str, int]) -> None:
    """Catches a chain, which a rename does not follow."""
    other = spellings(counts)
    assert not set(other) & set(other.values())
    assert all(counts[name] >= counts[old] for old, name in other.items())


def test_one_letter_of_a_long_word_is_told_and_numbers_and_short_words_are_not() -> None:
    names = [
        "Untersuchung", "Untersuchnug", "Release A", "Release B", "Check 12345", "Check 12346",
        "CODE OK", "CODE NOK", "Untersuchung zwei",
    ]  # fmt: skip
    assert misspellings(names) == [("Untersuchnug", "Untersuchung")]
    assert misspellings([f"abcdefgh{i}" for i in range(3000)]) == []
