"""What a ledger notes of the cases that were read: who is told, what is kept, what is erased."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
from pathlib import Path

import pytest

from tests.support.releasing import (
    Place,
    as_typed,
    csv_log,
    digests,
    fix_key,
    ledger_entries,
    small_rows,
)
from tests.support.searching import files_with
from tracecloak.pipelines.ledger import noted_cases
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.noted_cases import NotedCases
from tracecloak.transforms.publish.release_folder import ReleaseFolder

ROWS = list(small_rows(60))
# Of other people, whose cases are numbered as theirs, from another year.
OTHERS = [(case, activity, stamp.replace("2026", "2025")) for case, activity, stamp in ROWS]


class Ward(Place):
    """A place of releases, and what was logged meanwhile."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(folder)
        self._caplog = caplog

    def told(self, log: Path, name: str, account: str, *more: object, code: int = 0) -> str:
        """Makes a release, and returns the warnings."""
        self._caplog.clear()
        named = ("--formats", "parquet", "--release_id", name, "--account", account, *more)
        assert self.run(*named, log=log) == code
        return "\n".join(
            record.getMessage()
            for record in self._caplog.records
            if record.name.startswith("tracecloak") and record.levelno >= logging.WARNING
        )

    def fails(self, name: str, account: str) -> None:
        """A release that drew noise, and fails as it writes."""

        def full(*_: object) -> None:
            raise OSError("no space left")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReleaseFolder, "write", full)
            self.told(self.log, name, account, code=6)

    def ledger(self, *arguments: object, code: int = 0) -> None:
        assert as_typed("ledger", *arguments, "--key_store", self.keys) == code

    @property
    def noted(self) -> list[str]:
        return [noted.release_id for noted in self.table.all()]

    @property
    def table(self) -> NotedCases:
        return NotedCases(f"sqlite:///{self.keys / 'ledger.db'}")


@pytest.fixture
def place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Ward:
    made = Ward(tmp_path, caplog)
    assert not made.told(made.log, "r1", "research")
    return made


# --- who is told ----------------------------------------------------------------------------------


def test_a_copy_is_recognised_whatever_its_file(place: Ward) -> None:
    (elsewhere := place.folder / "elsewhere").mkdir()
    in_another_order = csv_log(elsewhere / "renamed.csv", ROWS[::-1])
    in_another_format = elsewhere / "log.jsonl"
    keys = ("case_id", "activity", "timestamp")
    lines = (json.dumps(dict(zip(keys, row, strict=True))) for row in ROWS)
    in_another_format.write_text("\n".join(lines))
    more = [(f"x{case}", *others) for case, *others in OTHERS]
    superset = csv_log(elsewhere / "more.csv", [*ROWS, *more])
    for number, log in enumerate((in_another_order, in_another_format, superset)):
        told = place.told(log, f"c{number}", "care")
        assert "nearly all with release r1 in" in told and "(account research, epsilon 1)" in told
        assert "epsilons add up" in told
        assert str(superset) not in told and "case-" not in told
    # A refusal by what is in the log would tell what is in it.
    place.told(csv_log(place.folder / "neighbour.csv", ROWS[3:]), "r3", "care")
    assert {e.action for e in charges(ledger_entries(place.keys)).values()} == {"commit"}


def test_other_people_whose_cases_are_numbered_alike_are_no_alarm(place: Ward) -> None:
    assert not place.told(csv_log(place.folder / "other.csv", OTHERS), "r2", "care")
    assert place.noted == ["r1", "r2"]


def test_what_is_released_does_not_depend_on_what_is_noted(
    place: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One release twice, under one key: every file is the same, the manifest too."""
    fix_key(monkeypatch)

    def released(name: str, *more: object) -> dict[str, str]:
        out, keys = place.folder / name, place.folder / f"{name}-keys"
        where = ("--output", out, "--key_store", keys)
        place.told(place.log, "n", "a", *where, *more)
        made = out / "run_id=n"
        assert files_with(b"sketch", made) == set()
        noted = NotedCases(f"sqlite:///{keys / 'ledger.db'}").all()
        assert [each.release_id for each in noted] == ([] if more else ["n"])
        whole = hashlib.sha256((made / "manifest.json").read_bytes()).hexdigest()
        return digests(made) | {"manifest.json": whole}

    assert released("noted") == released("unnoted", "--cases_kept_days", 0)


def test_keys_of_a_deployment_recognise_across_key_stores(
    place: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ["--ledger", f"sqlite:///{place.keys / 'ledger.db'}"]
    log = place.log
    other_store = ["--key_store", place.folder / "keys2", *ledger]
    told = place.told(log, "r2", "care", *other_store)
    assert "are not compared" in told
    assert "add up" not in told
    monkeypatch.setenv("TRACECLOAK_DEPLOYMENT_KEY", "env:OUR_KEY")
    monkeypatch.setenv("OUR_KEY", "ab" * 32)
    place.told(log, "r3", "research", *ledger)
    assert "with release r3" in place.told(log, "r4", "care", *other_store)
    monkeypatch.setenv("OUR_KEY", "no key")
    assert not place.told(log, "r5", "care", code=2)  # before anything is reserved
    assert "r5" not in {entry.release_id for entry in ledger_entries(place.keys)}


# --- what is noted of runs that fail --------------------------------------------------------------


def test_what_drew_noise_is_noted_though_it_is_given_up(place: Ward) -> None:
    place.fails("r2", "care")
    assert place.noted == ["r1", "r2"]
    assert place.officer("forfeit", "--release_id", "r2") == 0
    assert "with release r2" in place.told(place.log, "r3", "controlling")


def test_what_was_erased_stays_erased_when_the_run_goes_on(place: Ward) -> None:
    place.fails("r2", "care")
    signed = ["--by", "me", "--reason", "x"]
    place.ledger("erase", "--release_id", "r1", *signed)
    place.told(place.log, "r2", "care")
    assert place.noted == ["r2"]
    place.fails("r3", "care")
    assert place.noted == ["r2", "r3"]
    place.ledger("erase", "--output", place.out, *signed)
    place.told(place.log, "r3", "care")
    assert place.noted == []
    place.told(place.log, "r4", "care")
    assert place.noted == ["r4"]


# --- what is kept, and for how long ---------------------------------------------------------------


def test_what_is_noted_is_listed_with_who_shares(
    place: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    place.told(place.log, "r2", "care")
    capsys.readouterr()
    place.ledger("list-cases")
    text = capsys.readouterr().out
    assert text.count("about 60 cases") == 2 and "The same cases under several accounts" in text
    assert "nearly all of the smaller: r1 (research, epsilon 1) and r2 (care, epsilon 1)" in text
    assert "case-" not in text and "not compared" not in text
    place.told(place.log, "r3", "care", "--cases_kept_days", 0)
    capsys.readouterr()
    place.ledger("list-cases")
    text = capsys.readouterr().out
    assert "not noted, and not compared:\n  r3 in " in text


def test_it_is_erased_after_its_day(place: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    place.told(place.log, "r2", "research", "--cases_kept_days", 1)
    today = datetime.datetime.now(datetime.UTC).date()
    for days, left in ((1, ["r1", "r2"]), (2, ["r1"]), (1095, ["r1"]), (1096, [])):
        later = (today + datetime.timedelta(days=days)).isoformat()
        monkeypatch.setattr(noted_cases, "today", lambda later=later: later)
        assert place.noted == left


def test_an_officer_erases_and_the_ledger_says_so(
    place: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    place.told(place.log, "r2", "research")
    erased: list[tuple[list[str], list[str]]] = [
        (["--output", "nowhere"], ["r1", "r2"]),
        (["--before", "2000-01-01"], ["r1", "r2"]),
        (["--before", "2999-01-01", "--release_id", "r2"], ["r1"]),
        ([], []),
    ]
    n_noted = 2
    for which, left in erased:
        capsys.readouterr()
        place.ledger("erase", *which, "--by", "A. Officer", "--reason", "asked to")
        assert f"of the cases of {n_noted - len(left)} releases" in capsys.readouterr().out
        assert place.noted == left
        n_noted = len(left)
        last = ledger_entries(place.keys)[-1]
        assert (last.action, last.facts["by"], last.facts["reason"]) == (
            "erase", "A. Officer", "asked to",
        )  # fmt: skip
    place.ledger("verify")
    place.ledger("show")
    place.ledger("list-cases")
