"""Configurations that pages show of a method make a release, on a log that has what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import tracecloak as face
from tests.support.documents import DOCUMENTS, PYTHON, YAML, blocks
from tests.support.releasing import small_rows, tracecloak

OF_METHODS = [
    block
    for document in DOCUMENTS
    for block in blocks(document)
    if block.kind == YAML and not block.files and "method" in yaml.safe_load(block.text)
]


def log_with_attributes(folder: Path) -> Path:
    """A log that has whatever attribute the configurations declare, and its names."""
    header = "case_id,activity,timestamp,org:resource,org:group,case:amount,case:Diagnose"
    rows = []
    for case, activity, stamp in small_rows(60):
        n = int(case.removeprefix("case-"))
        rows.append(f"{case},{activity},{stamp},R{1 + n % 3},R{1 + n % 2},{n * 100},{'ABC'[n % 3]}")
    path = folder / "log.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    (folder / "activities.txt").write_text("A\nB\nC\nD\n")
    return path


@pytest.mark.parametrize("block", OF_METHODS, ids=lambda block: block.place)
def test_a_configuration_makes_a_release(block: Any, place: Path) -> None:
    log = log_with_attributes(place)
    (place / "release.yaml").write_text(block.text)
    body = yaml.safe_load(block.text)
    given = {"log": log, "output": "out", "runner": "InMemory", "release_id": "r"}
    places = [word for n, v in given.items() if n not in body for word in (f"--{n}", v)]
    assert tracecloak("release", "release.yaml", *places) == 0


def test_the_frame_of_the_readme_is_released(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code as it stands, with a frame and a ledger of the test's own."""
    monkeypatch.chdir(place)
    shown = [block.text for block in blocks("README.md") if block.kind == PYTHON]
    (code,) = (text for text in shown if "tracecloak.release" in text)
    assert tracecloak("ledger", "begin") == 0
    n_cases = 3000  # so many that noise leaves the edge out once in more runs than there will be
    stamps = ["2026-01-01", "2026-01-02"] * n_cases
    cases = [f"c{n // 2}" for n in range(2 * n_cases)]
    frame = pa.table(
        {"case_id": cases, "activity": ["Register", "Pay"] * n_cases, "timestamp": stamps}
    )
    names: dict[str, Any] = {"frame": frame, "tracecloak": face}
    exec(code, names)
    assert names["released"].graph.num_rows
