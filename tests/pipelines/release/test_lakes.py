"""Releases of folders of a data lake: filters on partitions, many small files, several folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.releasing import csv_log, release_of

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two folders of three days, of two cases a day; of the first day nobody can read anything."""
    for name in ("claims", "bills"):
        for number, day in enumerate(DAYS):
            part = tmp_path / "lake" / name / f"day={day}"
            part.mkdir(parents=True)
            rows = [
                (f"{name}-{number}-{case}", activity, f"{day}T0{hour}:00:00")
                for case in range(2)
                for hour, activity in enumerate("ABC")
            ]
            csv_log(part / "log.csv", rows)
    (tmp_path / "lake" / "claims" / f"day={DAYS[0]}" / "log.csv").write_text("nothing of the kind")
    return tmp_path / "lake"


def release(folder: Path, name: str, log: Path, *flags: object) -> int:
    return release_of(folder, *flags, log=str(log), release_id=name, formats=["csv"])


def test_what_does_not_pass_is_not_opened_and_is_no_part_of_the_input(
    tmp_path: Path, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a file that a filter leaves out, and that is read or digested for all that."""
    claims = lake / "claims"
    assert release(tmp_path, "all", claims) == 3
    since = ("--where", f"day >= {DAYS[1]}")
    assert release(tmp_path, "since", claims, *since) == 0
    capsys.readouterr()
    # It changes, and the release is the same and there already.
    (claims / f"day={DAYS[0]}" / "log.csv").write_text("nothing of another kind")
    assert release(tmp_path, "since", claims, *since) == 0
    assert capsys.readouterr().out
    csv_log(claims / f"day={DAYS[2]}" / "more.csv", [("x", "A", f"{DAYS[2]}T00:00:00")])
    assert release(tmp_path, "since", claims, *since) == 2
    assert "the input" in capsys.readouterr().err
