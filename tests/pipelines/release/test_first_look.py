"""What the first records say against a release: in its plan, on the screen, and in the folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, operator_folder, tracecloak
from tests.support.terminal import watch
from tracecloak.pipelines.configuration.config import load
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.planning.findings import FirstLook

Row = tuple[str, str, str]

SOUND = [(f"c{i}", name, f"2026-01-{1 + i % 28:02}T0{k}:00:00Z") for i in range(30) for k, name in
         enumerate("ABC")]  # fmt: skip
# Three steps a case, 40 milliseconds apart.
QUICK = [(case, name, f"2026-01-01T00:00:00.{40 * 'ABC'.index(name):03}Z")
         for case, name, _ in SOUND]  # fmt: skip
IDS = [(case, f"{case} {name}", stamp) for case, name, stamp in SOUND]
UNREADABLE = [(case, name, f"day {i}") for i, (case, name, _) in enumerate(SOUND)]

NOT_DECLARED = "none of the first records has a declared activity"
NOT_READ = "none of the first records can be read (timestamp not readable as ISO 8601; set"
ALL_DIFFERENT = "nearly all of the first records have an activity of their own"


EXPECTED = ("--expected_cases", "1000")


def flags(folder: Path, rows: Sequence[Row], method: str, *more: object) -> list[object]:
    names = folder / "names.txt"
    names.write_text("A\nB\nC\n")
    known = ["--vocabulary", names] if "--buy_vocabulary" not in more else []
    return [
        "--log", csv_log(folder / "log.csv", rows), "--output", folder / "out", "--key_store",
        folder / "keys", "--method", method, "--epsilon", "50", "--release_id", "r", "--runner",
        "InMemory", *known, *more,
    ]  # fmt: skip


def planned(capsys: pytest.CaptureFixture[str], given: list[object]) -> tuple[str, list[str]]:
    """The lines of the plan, and the verdicts of its JSON."""
    assert tracecloak("plan", *given, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    return "\n".join(body["plan"]), [verdict["verdict"] for verdict in body["verdicts"]]


@pytest.mark.parametrize(
    ("rows", "more", "told"),
    [
        (UNREADABLE, ["--buy_vocabulary"], NOT_READ),
        ([(case, name.lower(), stamp) for case, name, stamp in SOUND], [], NOT_DECLARED),
        (IDS, ["--buy_vocabulary"], ALL_DIFFERENT),
    ],
    ids=["unreadable", "none declared", "all different"],
)
def test_what_makes_a_release_worthless_is_said_before_and_after(
    rows: list[Row], more: list[object], told: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = flags(tmp_path, rows, "private-dfg", *more)
    plan, verdicts = planned(capsys, [*given, *EXPECTED])
    assert f"PAID FOR AND HOLD NOISE ALONE: {told}" in plan
    assert plan.startswith("No: IF ALL RECORDS ARE LIKE THE FIRST, ") and "Worth it" not in plan
    assert verdicts == ["no"]
    watch(monkeypatch)
    assert tracecloak("release", *given) == 0
    shown = capsys.readouterr()
    said = " ".join(shown.out.split())
    assert f"watch out the release may be of little use: {told}" in said
    assert told not in " ".join(shown.err.split())
    internal = operator_folder(tmp_path / "keys") / "statement.md"
    assert told[:30] in internal.read_text()
    for path in (tmp_path / "out").rglob("*.*"):
        assert path.is_dir() or told[:30].encode() not in path.read_bytes()


def test_a_sound_log_has_nothing_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = flags(tmp_path, SOUND, "private-dfg")
    plan, verdicts = planned(capsys, [*given, *EXPECTED])
    assert "their times lie from 2026-01-01 to 2026-01-28" in plan
    assert verdicts == ["worth_it"] and "watch out" not in plan.lower()
    watch(monkeypatch)
    assert tracecloak("release", *given) == 0
    assert "watch out" not in capsys.readouterr().out


def test_a_range_that_was_bought_is_marked_wherever_times_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Days that the log does not have are in it, and nobody could tell them from the others."""
    bought = "dates at its ends may be made up"
    kept = "the durations of shorter steps are not kept"
    given = flags(tmp_path, SOUND, "private-log")
    assert bought in planned(capsys, [*given, *EXPECTED])[0]
    assert tracecloak("release", *given) == 0
    told = capsys.readouterr().out
    assert bought in told and kept in told
    folder = tmp_path / "out/run_id=r"
    for name in ("report.html", "statement.md", "manifest.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert bought in text and kept in text
    assert tracecloak("verify", folder) == 0
    public = ["--first_date", "2026-01-01", "--last_date", "2026-01-31", "--release_id", "s"]
    assert tracecloak("release", *given, *public) == 0
    for name in ("report.html", "statement.md", "manifest.json"):
        text = (tmp_path / "out/run_id=s" / name).read_text(encoding="utf-8")
        assert bought not in text and kept in text


def test_steps_within_a_second_are_warned_of_where_seconds_are_declared(
    tmp_path: Path,
) -> None:
    """By the steps of cases: of the same stamps in cases of their own nothing is lost."""
    warning, seconds = "are shorter than a second", ("--granularity", "second")
    apart = [(f"{case} {name}", name, stamp) for case, name, stamp in QUICK]
    for rows, is_told in ((QUICK, True), (apart, False)):
        given = list(map(str, flags(tmp_path, rows, "private-log", *seconds)))
        values = {one[2:]: value for one, value in zip(given[::2], given[1::2], strict=True)}
        config = load(None, values)
        warnings = FirstLook.at(config, source_of(config)).warnings
        assert any(warning in one for one in warnings) == is_told
