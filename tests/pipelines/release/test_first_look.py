"""What the first records say against a release: in its plan, on the screen, and in the folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, operator_folder, tracecloak
from tests.support.terminal import watch

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
    assert tracecloak("plan", *given, "--expected_cases", "1000", "--json") == 0
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
    plan, verdicts = planned(capsys, given)
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


def test_a_published_method_is_told_of_it_without_a_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = flags(tmp_path, IDS, "tlkc", "--buy_vocabulary")
    without = [flag for flag in given if flag not in ("--epsilon", "50", "--buy_vocabulary")]
    plan, verdicts = planned(capsys, without)
    assert f"A RELEASE WOULD BE WORTH NOTHING: {ALL_DIFFERENT}" in plan
    assert plan.startswith("No: ") and verdicts == []


@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "no terminal"])
def test_programs_are_not_told_what_the_records_say(
    tmp_path: Path, form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = flags(tmp_path, IDS, "private-dfg", "--buy_vocabulary")
    assert tracecloak("release", *given, *form) == 0
    shown = capsys.readouterr()
    assert ALL_DIFFERENT not in shown.out + shown.err and "watch out" not in shown.out


def test_a_sound_log_has_nothing_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = flags(tmp_path, SOUND, "private-log")
    plan, verdicts = planned(capsys, given)
    assert "their times lie from 2026-01-01 to 2026-01-28" in plan
    assert verdicts == ["worth_it"] and "watch out" not in plan.lower()
    watch(monkeypatch)
    assert tracecloak("release", *given) == 0
    assert "watch out" not in capsys.readouterr().out


def test_an_input_without_records_has_nothing_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That nothing happened is released like anything else."""
    plan, verdicts = planned(capsys, flags(tmp_path, [], "private-dfg"))
    assert "no record was tried" in plan and verdicts == ["worth_it"]


def test_a_range_that_was_bought_is_marked_wherever_times_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Days that the log does not have are in it, and nobody could tell them from the others."""
    bought = "dates at its ends may be made up"
    kept = "the durations of shorter steps are not kept"
    given = flags(tmp_path, SOUND, "private-log")
    assert bought in planned(capsys, given)[0]
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


def test_a_manifest_that_hides_what_times_do_not_show_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak("release", *flags(tmp_path, SOUND, "private-log")) == 0
    path = tmp_path / "out/run_id=r/manifest.json"
    body = json.loads(path.read_text())
    del body["time_caveats"]
    path.write_text(json.dumps(body))
    capsys.readouterr()
    assert tracecloak("verify", path.parent) == 5
    assert "time_caveats in manifest.json are not those" in capsys.readouterr().out


def test_steps_within_a_second_are_warned_of_where_seconds_are_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the steps of cases: of the same stamps in cases of their own nothing is lost."""
    warning, seconds = "stamps are released as whole seconds", ("--granularity", "second")
    assert warning in planned(capsys, flags(tmp_path, QUICK, "private-log", *seconds))[0]
    assert "released as whole" not in planned(capsys, flags(tmp_path, QUICK, "private-log"))[0]
    finer = flags(tmp_path, QUICK, "private-log", "--granularity", "millisecond")
    assert "released as whole" not in planned(capsys, finer)[0]
    with monkeypatch.context() as terminal:
        watch(terminal)
        assert tracecloak("release", *flags(tmp_path, QUICK, "private-log", *seconds)) == 0
    assert warning in " ".join(capsys.readouterr().out.split())
    assert warning not in planned(capsys, flags(tmp_path, QUICK, "private-dfg"))[0]
    apart = [(f"{case} {name}", name, stamp) for case, name, stamp in QUICK]
    assert warning not in planned(capsys, flags(tmp_path, apart, "private-log", *seconds))[0]
