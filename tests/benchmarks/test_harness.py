"""A ratio says whether it keeps its bound and how it changed; a record keeps what was not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import harness
from tests.benchmarks.harness import Ratio, ratio, read_ratios, write_ratios


def test_a_ratio_is_kept_on_its_side_of_the_bound() -> None:
    assert Ratio(2, 3, at_most=True).kept and not Ratio(4, 3, at_most=True).kept
    assert Ratio(4, 3, at_most=False).kept and not Ratio(2, 3, at_most=False).kept


def test_ratios_are_printed_beside_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "LAST", tmp_path / "last.json")
    monkeypatch.setattr(harness, "RATIOS", {})
    write_ratios(tmp_path / "last.json", {"a / b": Ratio(2, 3, True), "other": Ratio(1, 1, True)})
    ratio("a / b", 2.5, 2.4)
    ratio("new", 1, 2)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("2.50   (at most 2.4: NOT KEPT; +25%)")
    assert second.endswith("1.00   (at most 2: kept; no earlier one)")
    write_ratios(tmp_path / "last.json", harness.RATIOS)
    assert read_ratios(tmp_path / "last.json") == {"a / b": 2.5, "new": 1, "other": 1}
