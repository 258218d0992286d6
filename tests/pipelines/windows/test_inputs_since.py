"""That the input of a released window changed since is said to its operator, and to nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.windows.test_releases_of_windows import ROWS, Lake
from tests.support.releasing import as_typed, csv_log, digests, fix_key


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    fix_key(monkeypatch)
    lake = Lake(tmp_path)
    assert lake.release("2026-01..2026-02") == 0
    return lake


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
    before, notes = compared(lake, capsys)
    assert "those of 2 releases were compared" in before
    assert notes == {f"ward-2026-0{i}": {"is_as_it_was": True} for i in (1, 2)}
    released = digests(lake.released("2026-02"))
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
    assert digests(lake.released("2026-02")) == released


def test_what_another_key_store_released_is_not_compared(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for receipt in (lake.folder / "keys" / "releases").glob("*.json"):
        if "2026-01" in receipt.read_text():
            receipt.unlink()
    said, notes = compared(lake, capsys)
    assert "those of 1 release were compared" in said
    assert set(notes) == {"ward-2026-02"}
