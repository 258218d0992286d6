"""Windows of a lake by the command: the same bytes on Beam, in any order, each paid for once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.ledgers import execute
from tests.support.object_store import ObjectStore
from tests.support.releasing import (
    as_typed,
    csv_log,
    digests,
    fix_key,
    ledger_entries,
    manifest,
    tracecloak,
)
from tests.support.terminal import watch
from tests.support.tiers import at_night, each_row
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.windows.batch import exit_code_of
from tracecloak.schemas.errors import RetryLater

ROWS = {
    # Two whole cases of January, and one that begins in it and is over in February.
    1: [("a", "A", "2026-01-05T08:00Z"), ("a", "B", "2026-01-06T08:00Z"),
        ("b", "A", "2026-01-09T08:00Z"), ("c", "A", "2026-01-30T08:00Z")],
    2: [("c", "B", "2026-02-01T08:00Z"), ("d", "A", "2026-02-10T08:00Z"),
        ("d", "C", "2026-02-11T08:00Z")],
    3: [("e", "A", "2026-03-02T08:00Z")],
}  # fmt: skip
METHOD = {
    "method": "variant-histogram", "params": {"epsilon": "3", "delta": "1e-5"},
}  # fmt: skip


class Lake:
    """A lake of CSV files, one a month, and the configuration of its windows."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        (folder / "lake").mkdir(parents=True)
        for month, rows in ROWS.items():
            self.write(month, rows)
        self.config = folder / "release.yaml"
        self.body = {
            "log": str(folder / "lake"), "output": str(folder / "out"),
            "key_store": str(folder / "keys"), "release_id": "ward", "runner": "InMemory", **METHOD,
            "parts": 1,
            "schedule": {
                "dataset": "hospital", "origin": "2026-01-01", "period": "month",
                "gap": "5d", "max_lifetime": "20d", "release_delay": "2d", "horizon": 4,
            },
            **changes,
        }  # fmt: skip
        self.configure()

    def configure(self, **changes: Any) -> None:
        self.config.write_text(yaml.safe_dump({**self.body, **changes}))

    def write(self, month: int, rows: list[tuple[str, str, str]]) -> None:
        csv_log(self.folder / "lake" / f"month-{month}.csv", rows)

    def move_a_case(self) -> None:
        """A correction moves a case of January into February."""
        self.write(1, [row for row in ROWS[1] if row[0] != "b"])
        self.write(2, [*ROWS[2], ("b", "A", "2026-02-09T08:00Z")])

    def release(self, window: str, *flags: object) -> int:
        return tracecloak("release", self.config, "--window", window, *flags)

    def released(self, window: str) -> Path:
        return self.folder / "out" / f"run_id=ward-{window}"

    @property
    def spent(self) -> str:
        ledger = Ledger(f"sqlite:///{self.folder / 'keys' / 'ledger.db'}")
        return str(ledger.balance("default").spent_epsilon)

    def calendar(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        capsys.readouterr()
        assert as_typed("windows", self.config, "--json") == 0
        found = json.loads(capsys.readouterr().out)["windows"]
        return {window["label"]: window["status"] for window in found}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    fix_key(monkeypatch)
    return Lake(tmp_path)


def test_a_name_that_no_file_system_takes_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is added to it: run_id=, the window, and digests, in the output and beside keys."""
    for n_characters in (201, 300):
        wrong = Lake(tmp_path / str(n_characters), release_id="r" * n_characters)
        assert wrong.release("2026-01") == 2
        assert "release_id: must have at most 200 characters, got 'rr" in capsys.readouterr().err
        assert not (wrong.folder / "keys").exists() and not (wrong.folder / "out").exists()
    longest = Lake(tmp_path / "200", release_id="r" * 200)
    assert longest.release("2026-01") == 0
    names = [path.name for path in longest.folder.rglob("*")]
    assert 200 < max(len(name) for name in names) <= 240


def test_windows_cost_what_the_dearest_costs_in_any_order_and_what_is_there_is_not_made_again(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lake.release("2026-03") == 0
    before = digests(lake.released("2026-03"))
    assert lake.release("2026-01..2026-03") == 0
    latest = json.loads((lake.folder / "out" / "latest.json").read_text())
    assert latest["run_id"] == "ward-2026-03"  # the latest window, not the one made last
    assert digests(lake.released("2026-03")) == before
    n_entries = len(ledger_entries(lake.folder / "keys"))
    assert lake.release("2026-01..2026-03") == 0
    assert len(ledger_entries(lake.folder / "keys")) == n_entries
    assert lake.spent == "3"
    assert lake.release("2026-02", "--release_id", "again") == 0
    assert lake.spent == "6"  # what is paid within a window adds up
    assert [*lake.calendar(capsys).values()] == ["released"] * 3 + ["late"]
    said = manifest(lake.released("2026-02"))["window"]
    assert (said["label"], said["composition"]) == ("2026-02", "largest")
    assert (said["begin"], said["end"]) == ("2026-02-01 00:00:00Z", "2026-03-01 00:00:00Z")


@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_on_beam_a_window_has_the_bytes_of_the_in_memory_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    fix_key(monkeypatch)
    found = {}
    for runner in ("InMemory", "FnApiRunner"):
        lake = Lake(tmp_path / runner)
        key = tmp_path / "book.key"
        key.write_text("b0" * 32)
        lake.configure(runner=runner, shards=shards, book_key=f"file:{key}")
        assert lake.release("2026-02") == 0
        assert lake.release("2026-01") == 0
        found[runner] = [digests(lake.released(window)) for window in ("2026-01", "2026-02")]
    assert found["InMemory"] == found["FnApiRunner"]


def test_a_process_that_is_killed_is_told_and_the_next_run_makes_its_windows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "key-service"
    killing = f'[ "$PPID" = {os.getpid()} ] || kill -9 "$PPID"'
    program.write_text(f"#!/bin/sh\n{killing}\necho {'c0' * 32}\n")
    program.chmod(0o700)
    lake = Lake(tmp_path / "ward", key_encryption_key=f"command:{program}")
    assert lake.release("2026-01..2026-02", "--jobs", 2) == RetryLater.exit_code
    told = capsys.readouterr()
    cause = "was killed; run the same command again"
    assert (told.out + told.err).count(cause) == 1
    assert "window 2026-01 and 1 more up to 2026-02: " in told.err
    assert not lake.released("2026-01").exists() and not lake.released("2026-02").exists()
    program.write_text(program.read_text().replace(killing, ""))
    assert lake.release("2026-01..2026-02") == 0
    assert lake.spent == "3"


def test_windows_of_a_syntactic_method_share_no_case_and_one_released_twice_does(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator is told of releases that may have the same cases, and of no others."""

    def warned(*arguments: object) -> list[str]:
        capsys.readouterr()
        assert lake.release(*arguments) == 0
        lines = capsys.readouterr().err.splitlines()
        return [line.split(" WARNING ")[1] for line in lines if "may have cases of" in line]

    lake.configure(method="k-anonymous-variants", params={"k": 1})
    assert not warned("2026-01")
    assert not warned("2026-02")
    assert not warned("2026-02")  # there already
    (told,) = warned("2026-02", "--release_id", "again")
    assert told.startswith(f"{lake.released('2026-02')} may have cases of this release, too")
    assert "Releases of a log that grows" in told
    # Another schedule, and a release without one: whatever window the cases were in.
    lake.configure(
        method="k-anonymous-variants", params={"k": 1}, release_id="other",
        schedule={**lake.body["schedule"], "horizon": 5},
    )  # fmt: skip
    (told,) = warned("2026-03")
    assert "again-2026-02 and 2 before it may have" in told
    lake.configure(**METHOD, release_id="noisy")
    assert not warned("2026-01")


@pytest.mark.parametrize("is_watched", [False, True])
def test_what_was_counted_and_moved_is_left_out(
    lake: Lake,
    is_watched: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How many is told to the operator alone."""
    if is_watched:
        watch(monkeypatch)
    assert lake.release("2026-01") == 0
    lake.move_a_case()
    capsys.readouterr()
    assert lake.release("2026-02") == 0
    printed = capsys.readouterr()
    assert ("1 unit, as they counted in other windows" in printed.out) == is_watched
    assert ("left out" in printed.out + printed.err) == is_watched
    [kept] = (lake.folder / "keys" / "operator").glob("ward-2026-02-*/operator.log")
    assert "units that are left out, as they counted in other windows: 1\n" in kept.read_text()


def test_a_window_that_was_withdrawn_is_made_again_by_its_name_alone(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lake.release("2026-01") == 0
    signed = ("--output", lake.body["output"], "--by", "officer", "--reason", "wrong")
    withdraw = ("ledger", "withdraw", lake.config, "--release_id", "ward-2026-01", *signed)
    assert as_typed(*withdraw) == 0  # in the ledger of the configuration
    metrics = lake.folder / "ward.prom"
    assert lake.release("due", "--metrics", metrics) == 0
    for name in ("due", "late"):
        assert f'tracecloak_windows_{name}{{config="{lake.config}",dataset="hospital"}} 0.0' in (
            metrics.read_text()
        )
    assert lake.spent == "3"  # what was withdrawn is spent, and not bought again
    assert lake.calendar(capsys) == {
        "2026-01": "withdrawn", "2026-02": "released", "2026-03": "released", "2026-04": "released",
    }  # fmt: skip
    assert not lake.released("2026-01").exists()
    assert lake.release("2026-01", "--release_id", "anew") == 0  # by name it is
    assert lake.spent == "6"


def test_a_ledger_that_is_older_than_the_windows_stops_all_of_them(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Key store and ledger of one old backup agree; what is published tells of what they lack."""
    assert lake.release("2026-01") == 0
    shutil.copytree(lake.folder / "keys", lake.folder / "backup")
    assert lake.release("2026-02") == 0
    shutil.rmtree(lake.folder / "keys")
    (lake.folder / "backup").rename(lake.folder / "keys")
    capsys.readouterr()
    for window in ("2026-02", "2026-03", "due"):
        assert lake.release(window) == 6
        assert "does not know of it" in capsys.readouterr().err
    assert not lake.released("2026-03").exists()
    assert as_typed("doctor", lake.config) == 6
    looked = capsys.readouterr().out
    assert "restore a newer ledger" in looked and "choose another release_id" not in looked


def test_the_ledger_does_not_tell_whether_anybody_counted(lake: Lake) -> None:
    """Two claims of the same units, none here, have two digests, which nobody can guess."""
    assert lake.release("2026-04") == 0
    assert lake.release("2026-04", "--release_id", "again") == 0
    claims = [e.units_sha256 for e in ledger_entries(lake.folder / "keys") if e.action == "claim"]
    assert len(set(claims)) == 2


def test_an_account_that_cannot_pay_refuses_and_says_so(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = lake.folder / "accounts.yaml"
    accounts.write_text("accounts: {default: {epsilon: 3, delta: 1e-5, unit: case}}\n")
    assert lake.release("2026-01..2026-03", "--accounts", accounts) == 0
    more = ("--accounts", accounts, "--release_id", "more", "--json")
    capsys.readouterr()
    assert lake.release("2026-03", *more) == 4
    (window,) = json.loads(capsys.readouterr().out)["windows"]
    assert (window["status"], window["exit_code"]) == ("refused", 4)
    assert lake.release("2026-04", *more) == 0  # within the dearest, and so for nothing
    assert lake.spent == "3"


@pytest.mark.parametrize("jobs", [1, at_night(2)])
def test_a_window_that_fails_stops_no_other(
    lake: Lake, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    (place := lake.released("2026-02")).mkdir(parents=True)
    (place / "manifest.json").write_text("{}")
    assert lake.release("2026-01..2026-03", "--json", "--jobs", jobs) == 2
    windows = json.loads(capsys.readouterr().out)["windows"]
    assert [(one["status"], one["exit_code"]) for one in windows] == [
        ("released", 0), ("failed", 2), ("released", 0),
    ]  # fmt: skip
    assert "'ward-2026-02' in" in windows[1]["reason"]


@each_row(
    ("codes", "expected"),
    [([], 0), ([0, 75, 0], 75), ([75, 0, 3], 3), ([75, 4, 3], 4), ([0, 0], 0)],
)
def test_the_exit_code_is_the_first_that_somebody_must_look_at(
    codes: list[int], expected: int
) -> None:
    """Catches a scheduler that tries for ever, as one of several windows only waits."""
    ended: list[Any] = [SimpleNamespace(exit_code=code) for code in codes]
    assert exit_code_of(ended) == expected


def test_on_an_object_store_a_window_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_key(monkeypatch)
    monkeypatch.setattr(ObjectStore, "root", tmp_path / "objects")
    here, there = Lake(tmp_path / "here"), Lake(tmp_path / "there")
    there.configure(output="objects://out")
    for window in ("2026-01", "2026-02"):
        assert here.release(window) == there.release(window) == 0
        made = tmp_path / "objects" / "out" / f"run_id=ward-{window}"
        assert digests(made) == digests(here.released(window))
    assert there.spent == "3"


def test_a_book_that_cannot_be_reached_is_refused_before_anything_is_spent(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.configure(runner="FlinkRunner", ledger="postgresql+psycopg://nobody@localhost:1/none")
    assert lake.release("2026-01", "--job_endpoint=localhost:1") == 2
    assert "book_key is missing" in capsys.readouterr().err
    assert not (lake.folder / "keys" / "book.secret").exists()
    assert ledger_entries(lake.folder / "keys") == []


def test_the_whole_book_is_verified_where_that_is_asked_for(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_typed("windows", lake.config, "--verify", "--new_ledger") == 0
    assert "0 claims are" in capsys.readouterr().out
    assert lake.release("2026-01..2026-02") == 0
    capsys.readouterr()
    assert as_typed("windows", lake.config, "--verify", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verified_files"] == 2
    execute(lake.folder / "keys" / "ledger.db", "UPDATE tracecloak_units SET word = 0")
    assert as_typed("windows", lake.config, "--verify") == 6
    assert "were changed" in capsys.readouterr().err
    assert as_typed("ledger", "verify", lake.config) == 6
    assert capsys.readouterr().out.count("were changed") == 2


def compared(lake: Lake, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    """(what the screen says, what each window's operator reads)."""
    capsys.readouterr()
    assert as_typed("windows", lake.config, "--verify") == 0
    said = capsys.readouterr()
    folder = lake.folder / "keys" / "operator"
    notes = {
        path.parent.name[:12]: json.loads(path.read_text())
        for path in folder.glob("*/input-since.json")
    }
    return said.out + said.err, notes


def test_only_the_operator_is_told_what_changed(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lake.release("2026-01..2026-02") == 0
    before, notes = compared(lake, capsys)
    assert "those of 2 releases were compared" in before
    assert notes == {f"ward-2026-0{i}": {"is_as_it_was": True} for i in (1, 2)}
    lake.write(2, [*ROWS[2], ("z", "A", "2026-02-12T08:00Z")])
    late = csv_log(lake.folder / "lake" / "late.csv", [("y", "A", "2026-02-13T08:00Z")])
    (lake.folder / "lake" / "month-3.csv").unlink()
    after, notes = compared(lake, capsys)
    assert after == before  # whoever keeps it learns nothing of the data
    files = {
        "changed": [str(lake.folder / "lake" / "month-2.csv")],
        "gone": [str(lake.folder / "lake" / "month-3.csv")],
        "came": [str(late)],
    }
    assert notes["ward-2026-02"] == {"is_as_it_was": False, **files}
    # What another key store released is not compared.
    for receipt in (lake.folder / "keys" / "releases").glob("*.json"):
        if "2026-01" in receipt.read_text():
            receipt.unlink()
    assert "those of 1 release were compared" in compared(lake, capsys)[0]
