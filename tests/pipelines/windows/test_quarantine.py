"""A file that cannot be read is left out of windows by a person, and by nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipelines.windows.test_releases_of_windows import Lake
from tests.support.releasing import as_typed, digests, fix_key, ledger_entries, manifest
from tracecloak.pipelines.release import opening
from tracecloak.transforms.sources import EventSource

DECIDED = ("--by", "A. Operator", "--reason", "ticket 17")


class Damaged(Lake):
    """A lake whose file of February is no file of its kind."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        super().__init__(folder, **changes)
        self.file = folder / "lake" / "month-2.csv"
        self.whole = self.file.read_bytes()
        self.damage()

    def damage(self) -> None:
        self.file.write_bytes(b"\x1f\x8bnot what its name says")

    def quarantine(self, window: str, *flags: object, file: object = None) -> int:
        path = self.file if file is None else file
        flags = flags or DECIDED
        asked = ("--window", window, "--quarantine", path, "--new_ledger")
        return as_typed("windows", self.config, *asked, *flags)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Damaged:
    fix_key(monkeypatch)
    return Damaged(tmp_path)


def test_a_window_leaves_a_file_out_that_a_person_named(
    lake: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lake.release("2026-02") == 3
    assert lake.quarantine("2026-02") == 0
    assert "left out" in capsys.readouterr().out
    assert lake.release("2026-02") == 0
    without = Lake(lake.folder / "without")
    (without.folder / "lake" / "month-2.csv").unlink()
    assert without.release("2026-02") == 0
    logs = [pq.read_table(one.released("2026-02") / "log") for one in (lake, without)]
    assert logs[0].equals(logs[1])
    claims = [
        [entry.units_sha256 for entry in ledger_entries(one.folder / "keys") if entry.units_sha256]
        for one in (lake, without)
    ]
    assert len(claims[0]) == len(claims[1]) == 1
    assert lake.release("2026-03") == 3  # a decision is about the windows that were named
    # What is public says that files are left out, and neither which nor why.
    release = lake.released("2026-02")
    sentence = manifest(release)["window"]["sentence"]
    assert "left out by decision" in sentence and "compares logs after this decision" in sentence
    assert sentence in (release / "statement.md").read_text()
    for path in filter(Path.is_file, release.rglob("*")):
        for private in (b"month-2", b"A. Operator", b"ticket 17"):
            assert private not in path.read_bytes(), path
    for entry in ledger_entries(lake.folder / "keys"):
        assert "month-2" not in str(entry) and "A. Operator" not in str(entry)
    [noted] = (lake.folder / "keys" / "operator").glob("ward-2026-02-*/left-out.json")
    [one] = json.loads(noted.read_text())
    assert (one["path"], one["by"], one["reason"]) == (str(lake.file), DECIDED[1], DECIDED[3])
    assert noted.stat().st_mode & 0o777 == 0o600


def test_releases_of_neighbouring_lakes_say_the_same_of_files_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a case more in the file that is left out, or one file more: the same bytes."""
    fix_key(monkeypatch)
    made = []
    for name in ("one", "other"):
        lake = Damaged(tmp_path / name)
        if name == "other":
            lake.file.write_bytes(lake.file.read_bytes() + b" and more of it")
            (second := lake.folder / "lake" / "more.csv").write_bytes(b"\x1f\x8bnothing")
            assert lake.quarantine("2026-02", file=second) == 0
        assert lake.quarantine("2026-02") == 0
        assert lake.release("2026-02") == 0
        made.append(digests(lake.released("2026-02")))
    assert made[0] == made[1]


def test_after_the_claim_nothing_is_decided_any_more(
    lake: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.file.write_bytes(lake.whole)
    assert lake.release("2026-02") == 0
    before = digests(lake.released("2026-02"))
    lake.damage()
    capsys.readouterr()
    assert lake.quarantine("2026-02") == 2
    assert (
        "the cases of window 2026-02 are claimed, and what it reads is fixed"
        in capsys.readouterr().err
    )
    assert lake.quarantine("2026-01..2026-03") == 0  # of several, for those that can still be
    assert "2026-02: they have claimed their cases" in capsys.readouterr().out
    assert lake.release("2026-01..2026-03") == 0
    assert digests(lake.released("2026-02")) == before
    assert lake.spent == "3"


@pytest.mark.parametrize(
    ("name", "flags", "remedy"),
    [
        ("lake/month-1.csv", DECIDED, "can be read, and is not left out"),
        ("nothing.csv", DECIDED, "is no file that one of these windows reads"),
        ("lake/month-2.csv", ("--by", "", "--reason", "ticket 17"), "by is missing"),
        ("lake/month-2.csv", ("--by", "A. Operator"), "reason is missing"),
        ("lake/month-2.csv", (*DECIDED, "--readmit", "x"), "exclude each other"),
    ],
)
def test_what_can_be_read_or_nobody_decides_is_not_left_out(
    lake: Damaged,
    capsys: pytest.CaptureFixture[str],
    name: str,
    flags: tuple[str, ...],
    remedy: str,
) -> None:
    assert lake.quarantine("2026-02", *flags, file=lake.folder / name) == 2
    assert remedy in capsys.readouterr().err
    assert not list((lake.folder / "keys").rglob("left-out.json"))


def test_a_store_that_does_not_answer_makes_no_file_unreadable(
    lake: Damaged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(EventSource, "read", away)
    assert lake.quarantine("2026-02") == 75
    assert "its store does not answer" in capsys.readouterr().err
    assert not list((lake.folder / "keys").rglob("left-out.json"))


def test_a_file_that_is_mended_before_the_claim_is_readmitted(
    lake: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lake.quarantine("2026-02") == 0
    lake.file.write_bytes(lake.whole)
    readmit = (
        "windows", lake.config, "--window", "2026-02", "--readmit", lake.file, "--new_ledger",
    )  # fmt: skip
    assert as_typed(*readmit) == 0
    assert lake.release("2026-02") == 0
    assert "left out" not in manifest(lake.released("2026-02"))["window"]["sentence"]
    assert as_typed(*readmit) == 2
    assert "is left out of none of these windows" in capsys.readouterr().err


def test_a_run_that_had_looked_before_the_decision_does_not_pay(
    lake: Damaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.file.write_bytes(lake.whole)
    opened = opening.source_of

    def decided_meanwhile(*given: Any) -> Any:
        source = opened(*given)
        lake.damage()
        assert lake.quarantine("2026-02") == 0
        lake.file.write_bytes(lake.whole)
        return source

    with monkeypatch.context() as patch:
        patch.setattr(opening, "source_of", decided_meanwhile)
        assert lake.release("2026-02") == 75
    assert not ledger_entries(lake.folder / "keys")
    assert lake.release("2026-02") == 0
    assert "left out" in manifest(lake.released("2026-02"))["window"]["sentence"]
