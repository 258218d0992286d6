"""The share of the records that count: one number, for the verdict, the profile and the operator.

Most records of each log below cannot be read, so a release of it would be paid for and be noise.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.releasing import as_typed, operator_folder, tracecloak
from tests.support.terminal import watch

Row = tuple[str, str, str, str]


def rows_of(n: int, n_good: int) -> list[Row]:
    """`n` records, of which the good ones are spread evenly, the first among them."""
    good = {i * n // n_good for i in range(n_good)}
    stamp = "2026-01-{:02}T0{}:00:00Z"
    return [
        (f"c{i // 3}", "ABC"[i % 3], stamp.format(1 + i % 28, i % 3) if i in good else "soon", "")
        for i in range(n)
    ]


def flags(folder: Path, rows: Sequence[Row], *more: object) -> list[object]:
    text = "".join(",".join(row) + "\n" for row in [("case", "step", "at", "phase"), *rows])
    (folder / "log.csv").write_text(text, encoding="utf-8")
    (folder / "names.txt").write_text("A\nB\nC\n")
    return [
        "--log", folder / "log.csv", "--case_id", "case", "--activity", "step", "--timestamp", "at",
        *more,
    ]  # fmt: skip


def of_release(folder: Path, method: str = "private-dfg") -> list[object]:
    return [
        "--output", folder / "out", "--key_store", folder / "keys", "--method", method,
        "--epsilon", "50", "--release_id", "r", "--vocabulary", folder / "names.txt",
    ]  # fmt: skip


def planned(
    capsys: pytest.CaptureFixture[str], given: Sequence[object]
) -> tuple[list[str], list[str]]:
    """The lines of a plan, and the verdicts of its JSON; it ends with 0."""
    assert tracecloak("plan", *given, "--expected_cases", "300", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    return body["plan"], [verdict["verdict"] for verdict in body["verdicts"]]


def tally_of(folder: Path) -> dict[str, object]:
    """What the operator's folder says of the records of the release."""
    text = (operator_folder(folder / "keys") / "tally.json").read_text()
    return dict(json.loads(text))


def with_phases(rows: Sequence[Row], phases: Sequence[str]) -> list[Row]:
    return [(*row[:3], phases[i % len(phases)]) for i, row in enumerate(rows)]


ALL_GOOD = rows_of(1_800, 1_800)
UNKNOWN = with_phases(ALL_GOOD, ("angelegt", "erledigt"))
LIFECYCLE = ("--lifecycle", "phase")


@pytest.mark.parametrize(
    ("rows", "more", "told"),
    [
        (rows_of(902, 1), (), "901 of the first 902 records (99.9 %) cannot be read"),
        (rows_of(900, 45), (), "855 of the first 900 records (95 %) cannot be read"),
        (UNKNOWN, LIFECYCLE, "none of the first records can be read (lifecycle transition"),
        (ALL_GOOD, ("--where", "step=Z"), "records passes: 1,800 dropped by a filter"),
    ],
    ids=["1 of 902", "45 of 900", "0 of 1,800", "filtered"],
)  # fmt: skip
def test_what_can_hardly_be_read_is_not_worth_it(
    rows: list[Row], more: tuple[str, ...], told: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    method = "private-log" if more == LIFECYCLE else "private-dfg"
    lines, verdicts = planned(
        capsys, [*flags(tmp_path, rows, *more), *of_release(tmp_path, method)]
    )
    assert verdicts == ["no"] and lines[0].startswith("No: ") and told in lines[0]
    assert "Worth it" not in "\n".join(lines)


def test_one_number_for_plan_profile_and_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filtered records, duplicates and known transitions are counted, and not in the share."""
    rows = [
        *((f"c{i}", "A", f"2026-01-01T0{i % 9}:00:00Z", "complete") for i in range(60)),
        *((f"c{i}", "A", "soon", "complete") for i in range(10)),
        *((f"c{i}", "A", "2026-01-01T00:00:00Z", "angelegt") for i in range(20)),
        *((f"c{i}", "A", "2026-01-01T00:00:00Z", "schedule") for i in range(30)),
        *((f"c{i}", "Z", "2026-01-01T00:00:00Z", "complete") for i in range(40)),
        *((f"c{i}", "A", f"2026-01-01T0{i % 9}:00:00Z", "complete") for i in range(5)),
    ]
    more = (*LIFECYCLE, "--where", "step=A,B", "--drop_duplicates")
    log = flags(tmp_path, rows, *more)
    given = [*log, *of_release(tmp_path, "private-log")]
    lines, verdicts = planned(capsys, given)
    assert verdicts == ["worth_it"] and "30 of the first 90 records (33.3 %)" in lines[0]
    assert "  'schedule': 30 (not an event)" in lines and "  'angelegt': 20 (not known)" in lines
    profile = tmp_path / "profile.json"
    assert tracecloak("profile", *log, "--output", profile) == 0
    capsys.readouterr()
    expected = {
        "records": 90,
        "used": 60,
        "share": 60 / 90,
        "lost": {"of an unknown lifecycle transition": 20, "malformed": 10},
        "set_aside": {
            "dropped by a filter": 40,
            "equal to an earlier event of its case": 5,
            "transition other than start and complete": 30,
        },
    }
    told = json.loads(profile.read_text())["records"]
    assert {name: told[name] for name in expected} == expected
    watch(monkeypatch)
    for runner in ("InMemory", "FnApiRunner"):
        assert tracecloak("release", *given, "--runner", runner, "--release_id", runner) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "records 60 of 90 records are used (66.7 %); lost: 20 of an unknown" in shown
        [folder] = (tmp_path / "keys" / "operator").glob(f"{runner}*")
        told = json.loads((folder / "tally.json").read_text())
        assert {name: told[name] for name in expected} == expected


class Person(io.StringIO):
    """Standard input on a terminal, with an answer."""

    def isatty(self) -> bool:
        return True


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> Person:
    watch(monkeypatch)
    person = Person(text)
    monkeypatch.setattr(sys, "stdin", person)
    return person


UNREAD = rows_of(900, 45)


@pytest.mark.parametrize("text", ["n\n", "\n", "", "yesterday\n"])
def test_no_reserves_nothing(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*flags(tmp_path, UNREAD), *of_release(tmp_path)]
    answer(monkeypatch, text)
    assert tracecloak("release", *given) == 2
    shown = capsys.readouterr()
    assert "855 of the first 900 records (95 %) cannot be read" in shown.err
    assert "Release it all the same? [y/N]" in shown.err
    assert "nothing was reserved or paid" in shown.err
    assert "855" not in shown.err.split("[y/N]")[1]  # the error has no number of the data
    assert not (tmp_path / "out" / "run_id=r").exists()
    assert as_typed("ledger", "show", "--key_store", tmp_path / "keys", "--json") == 0
    assert not re.search(r'"release_id": "r"', capsys.readouterr().out)
    assert tracecloak("release", *given, "--yes") == 0  # as if nothing had been


@pytest.mark.parametrize(("text", "more"), [("y\n", ()), ("Yes\n", ()), ("", ("--yes",))])
def test_yes_releases_and_a_release_that_is_there_is_not_asked_for(
    text: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = [*flags(tmp_path, UNREAD), *of_release(tmp_path)]
    person = answer(monkeypatch, text)
    assert tracecloak("release", *given, *more) == 0
    assert ("[y/N]" in capsys.readouterr().err) == bool(text) and not person.read()
    assert tracecloak("release", *given) == 0  # nobody is asked what is paid
    assert "[y/N]" not in capsys.readouterr().err
    assert tally_of(tmp_path)["share"] == 0.05


def test_programs_are_not_asked_and_see_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody looks, the share decides nothing, and what is written is the same."""
    said = []
    for name, rows in (("unread", UNREAD), ("good", rows_of(900, 900))):
        folder = tmp_path / name
        folder.mkdir()
        given = [*flags(folder, rows), *of_release(folder)]
        assert tracecloak("release", *given) == 0  # no terminal
        shown = capsys.readouterr()
        said.append(re.sub(r"operator/\S+|[\d.:,-]+|unread|good", "", shown.err))
        with monkeypatch.context() as terminal:
            answer(terminal, "n\n")
            assert tracecloak("release", *given, "--json", "--release_id", "s") == 0
        assert "[y/N]" not in shown.err + capsys.readouterr().err
    assert said[0] == said[1]
