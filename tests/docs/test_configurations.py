"""Configurations that pages show of a method make a release, on a log that has what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml
from apache_beam.io.textio import WriteToText

from tests.support.documents import DOCUMENTS, PYTHON, YAML, blocks
from tests.support.releasing import small_rows, tracecloak
from tracecloak.examination.demo.example_pipeline import CLAIMS

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


def test_there_are_such_configurations() -> None:
    assert {yaml.safe_load(block.text)["method"] for block in OF_METHODS} >= {"private-log", "tlkc"}


def test_the_pipeline_of_the_readme_anonymises(place: Path) -> None:
    """Its code as it stands, with claims and a ledger of the test's own."""
    shown = [block.text for block in blocks("README.md") if block.kind == PYTHON]
    (code,) = (text for text in shown if "AnonymizeEventLog" in text)
    assert tracecloak("ledger", "begin") == 0
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        names: dict[str, Any] = {"claims": pipeline | beam.Create(CLAIMS)}
        exec(code, names)
        _ = names["released"] | WriteToText(str(place / "released"))
    (text,) = (path.read_text() for path in place.glob("released-*"))
    assert all("case_id=" in line and "timestamp=" in line for line in text.splitlines())
    assert "activity='Register'" in text
