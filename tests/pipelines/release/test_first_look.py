"""What the first records say against a release: in its plan, on the screen, and in the folder.

The share of the records that count is one number, for the verdict, the profile and the operator.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.releasing import as_typed, operator_folder, placed, tracecloak
from tests.support.terminal import watch
from tests.support.tiers import each_row
from tracecloak.pipelines.configuration.plan import read_plan, source_of
from tracecloak.pipelines.planning.findings import FirstLook

# Case, step, time and phase.
Row = tuple[str, str, str, str]

SOUND: list[Row] = [
    (f"c{i}", name, f"2026-01-{1 + i % 28:02}T0{k}:00:00Z", "angelegt")
    for i in range(30)
    for k, name in enumerate("ABC")
]
# Three steps a case, 40 milliseconds apart.
QUICK = [(case, name, f"2026-01-01T00:00:00.{40 * 'ABC'.index(name):03}Z", "")
         for case, name, *_ in SOUND]  # fmt: skip


def rows_of(n: int, n_good: int) -> list[Row]:
    """`n` records, of which the good ones are spread evenly, the first among them."""
    good = {i * n // n_good for i in range(n_good)}
    stamp = "2026-01-{:02}T0{}:00:00Z"
    return [
        (f"c{i // 3}", "ABC"[i % 3], stamp.format(1 + i % 28, i % 3) if i in good else "soon", "")
        for i in range(n)
    ]


UNREAD = rows_of(900, 45)


def flags(
    folder: Path, rows: Sequence[Row], *more: object, method: str = "private-dfg"
) -> list[object]:
    folder.mkdir(exist_ok=True)
    text = "".join(",".join(row) + "\n" for row in [("case", "step", "at", "phase"), *rows])
    (log := folder / "log.csv").write_text(text, encoding="utf-8")
    (folder / "names.txt").write_text("A\nB\nC\n")
    known = ["--vocabulary", folder / "names.txt"] if "--buy_vocabulary" not in more else []
    columns = ("--log", log, "--case_id", "case", "--activity", "step", "--timestamp", "at")
    given = ("--method", method, "--epsilon", "50", *known, *more)
    return [*columns, *placed(folder, log, *given)[3:]]


def looked(given: list[object]) -> FirstLook:
    words = [*map(str, given), "--"]
    plan = read_plan(None, {
        word[2:]: True if after.startswith("--") else after
        for word, after in itertools.pairwise(words) if word.startswith("--") and word[2:]
    })  # fmt: skip
    return FirstLook.at(plan, source_of(plan))


def planned(
    capsys: pytest.CaptureFixture[str], given: Sequence[object]
) -> tuple[list[str], list[str]]:
    """The lines of a plan, and the verdicts of its JSON; it ends with 0."""
    assert tracecloak("plan", *given, "--expected_cases", "300", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    return body["plan"], [verdict["verdict"] for verdict in body["verdicts"]]


@each_row(
    ("rows", "more", "told"),
    [
        ([(*r[:2], f"day {i}", "") for i, r in enumerate(SOUND)], ["--buy_vocabulary"],
         "none of the first records can be read (timestamp not readable as ISO 8601; set"),
        ([(r[0], r[1].lower(), *r[2:]) for r in SOUND], [],
         "none of the first records has a declared activity"),
        ([(r[0], f"{r[0]} {r[1]}", *r[2:]) for r in SOUND], ["--buy_vocabulary"],
         "nearly all of the first records have an activity of their own"),
        (rows_of(902, 1), [], "901 of the first 902 records (99.9 %) cannot be read"),
        (UNREAD, [], "855 of the first 900 records (95 %) cannot be read"),
        (SOUND, ["--lifecycle", "phase", "--where", "lifecycle=complete"], "90 dropped by"),
        (SOUND, ["--where", "step=Z"], "records passes: 90 dropped by a filter"),
        (SOUND, [], ""),
    ],
)  # fmt: skip
def test_what_makes_a_release_worthless(
    rows: list[Row], more: list[object], told: str, tmp_path: Path
) -> None:
    look = looked(flags(tmp_path, rows, *more))
    assert (told or "nothing") in (look.obstacle or "nothing")
    assert bool(look.warnings) == bool(told)


def test_it_is_said_before_and_after_and_published_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "855 of the first 900 records (95 %) cannot be read"
    given = flags(tmp_path / "unread", UNREAD)
    lines, verdicts = planned(capsys, given)
    assert verdicts == ["no"] and lines[0].startswith("No: ") and told in lines[0]
    assert "Worth it" not in "\n".join(lines)
    sound = flags(tmp_path / "sound", SOUND)
    lines, verdicts = planned(capsys, sound)
    assert verdicts == ["worth_it"] and "watch out" not in "\n".join(lines).lower()
    assert tracecloak("release", *given) == 0
    shown = capsys.readouterr()
    assert told not in shown.out + shown.err
    watch(monkeypatch)
    assert tracecloak("release", *given, "--release_id", "s", "--yes") == 0
    assert f"watch out the release may be of little use: {told}" in " ".join(
        capsys.readouterr().out.split()
    )
    assert tracecloak("release", *sound) == 0
    assert "watch out" not in capsys.readouterr().out
    for folder in (tmp_path / "unread" / "keys" / "operator").iterdir():
        assert told[:30] in (folder / "statement.md").read_text()
    for path in (tmp_path / "unread" / "out").rglob("*.*"):
        assert path.is_dir() or told[:30].encode() not in path.read_bytes()


def test_a_range_that_was_bought_is_marked_wherever_times_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Days that the log does not have are in it, and nobody could tell them from the others."""
    bought = "dates at its ends may be made up"
    given = flags(tmp_path, SOUND, method="private-log")
    public = ["--first_date", "2026-01-01", "--last_date", "2026-01-31"]
    for name, more in (("r", []), ("s", public)):
        assert tracecloak("release", *given, "--release_id", name, *more) == 0
        assert (bought in capsys.readouterr().out) == (name == "r")
        for file in ("report.html", "statement.md", "manifest.json"):
            text = (tmp_path / f"out/run_id={name}" / file).read_text(encoding="utf-8")
            assert (bought in text) == (name == "r")
            assert "the durations of shorter steps are not kept" in text
    assert tracecloak("verify", tmp_path / "out/run_id=r") == 0


def test_steps_within_a_second_are_warned_of_where_seconds_are_declared(tmp_path: Path) -> None:
    """By the steps of cases: of the same stamps in cases of their own nothing is lost."""
    apart = [(f"{case} {name}", name, *more) for case, name, *more in QUICK]
    for rows, is_told in ((QUICK, True), (apart, False)):
        given = flags(tmp_path, rows, "--granularity", "second", method="private-log")
        found = [one for one in looked(given).warnings if "are shorter than a second" in one]
        assert bool(found) == is_told


def test_one_number_for_plan_profile_and_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    more = ("--lifecycle", "phase", "--where", "step=A,B", "--drop_duplicates")
    given = flags(tmp_path, rows, *more, method="private-log")
    look = looked(given)
    assert "30 of the first 90 records (33.3 %)" in look.doubt and not look.unread
    transitions = list(look.transition_lines())
    assert transitions[1:] == [
        "  'complete': 115 (complete)", "  'schedule': 30 (not an event)",
        "  'angelegt': 20 (not known)",
    ]  # fmt: skip
    profile = tmp_path / "profile.json"
    assert tracecloak("profile", *given[:8], *more, "--output", profile) == 0
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
    for runner in ("InMemory", "FnApiRunner"):
        assert tracecloak("release", *given, "--runner", runner, "--release_id", runner) == 0
        [folder] = (tmp_path / "keys" / "operator").glob(f"{runner}*")
        told = json.loads((folder / "tally.json").read_text())
        assert {name: told[name] for name in expected} == expected


# --- Where a person looks, most of whose records do not count -------------------------------------


class Person(io.StringIO):
    """Standard input on a terminal, with an answer."""

    def isatty(self) -> bool:
        return True


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> Person:
    watch(monkeypatch)
    person = Person(text)
    monkeypatch.setattr(sys, "stdin", person)
    return person


def test_no_reserves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = flags(tmp_path, UNREAD)
    for text in ("n\n", "\n", "", "yesterday\n"):
        answer(monkeypatch, text)
        assert tracecloak("release", *given) == 2
        shown = capsys.readouterr().err
        assert "855 of the first 900 records" in shown and "nothing was reserved or paid" in shown
        assert "855" not in shown.split("[y/N]")[1]  # the error has no number of the data
        assert not (tmp_path / "out" / "run_id=r").exists()
        assert as_typed("ledger", "show", "--key_store", tmp_path / "keys", "--json") == 0
        assert not re.search(r'"release_id": "r"', capsys.readouterr().out)
    assert tracecloak("release", *given, "--yes") == 0  # as if nothing had been


@pytest.mark.parametrize(("text", "more"), [("Yes\n", ()), ("", ("--yes",))])
def test_yes_releases_and_a_release_that_is_there_is_not_asked_for(
    text: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = flags(tmp_path, UNREAD)
    person = answer(monkeypatch, text)
    assert tracecloak("release", *given, *more) == 0
    assert ("[y/N]" in capsys.readouterr().err) == bool(text) and not person.read()
    assert tracecloak("release", *given) == 0  # nobody is asked what is paid
    assert "[y/N]" not in capsys.readouterr().err
    assert (
        json.loads((operator_folder(tmp_path / "keys") / "tally.json").read_text())["share"] == 0.05
    )


def test_programs_are_not_asked_and_see_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody looks, the share decides nothing, and what is written is the same."""
    said = []
    for name, rows in (("unread", UNREAD), ("good", rows_of(900, 900))):
        given = flags(tmp_path / name, rows)
        assert tracecloak("release", *given) == 0  # no terminal
        shown = capsys.readouterr()
        said.append(re.sub(r"operator/\S+|[\d.:,-]+|unread|good", "", shown.err))
        with monkeypatch.context() as terminal:
            answer(terminal, "n\n")
            assert tracecloak("release", *given, "--json", "--release_id", "s") == 0
        assert "[y/N]" not in shown.err + capsys.readouterr().err
    assert said[0] == said[1]
