"""The record of a tier's last run, and the table that the page on testing has of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.hooks import tiers
from tests.support.tier_record import record


def test_the_last_run_of_each_tier_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tiers.json"
    record("slow", {"passed": [1], "error": [2]}, 100, file)
    record("engines", {"passed": [1, 2, 3], "skipped": [4]}, 1800, file)
    record("slow", {"passed": [1, 2], "failed": [3], "error": [4]}, 7200, file)
    assert list(json.loads(file.read_text())) == ["engines", "slow"]
    monkeypatch.setattr(tiers, "FILE", file)
    text = tiers.with_table("Before.\n\n<!-- last runs of tiers.json -->\n\nAfter.")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| `")]
    assert [(row[0], *row[2:6]) for row in rows] == [
        ("| `make test-engines`", "3", "0", "1", "30"),
        ("| `make test-slow`", "2", "2", "0", "120"),
    ]
    assert "Flink" in rows[0][6] and "Flink" not in rows[1][6] and "Python" in rows[1][6]
    assert tiers.with_table("no table") == "no table"
