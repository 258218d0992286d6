"""The reference says what the code does: what is made is complete, what is written is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.hooks import python
from tests.support.documents import ROOT
from tests.support.releasing import tracecloak
from tracecloak.anonymizers.streams.dfg_steps import with_intervals
from tracecloak.pipelines.commands.verify import UNSURE_EXIT_CODE
from tracecloak.schemas import errors
from tracecloak.schemas.events.tally import MESSAGE_REASONS
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.formats.messages import MESSAGE_REJECT_SCHEMA


def test_every_name_of_the_face_is_on_the_page_of_python() -> None:
    listed = [name for names in python.SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert {*listed, *python.IN_THE_HEAD} == python.names().keys()
    page = python.page()
    for name in python.names("plugins"):
        row = re.search(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
        assert row and len(row[1]) > 10, name


def test_the_exit_codes_are_those_of_the_errors() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TracecloakError)
    }
    # 0 is no error, 7 is returned by what follows a commit, and the other one by `verify`.
    assert codes == sorted({0, 7, UNSURE_EXIT_CODE, *raised})


def test_every_reason_of_a_dead_letter_has_what_to_do() -> None:
    page = (ROOT / "docs" / "reference" / "release-files.md").read_text()
    _, table = page.split("| Reason | What to do |")
    listed = [
        reason
        for row in table.splitlines()
        if row.startswith("| `")
        for reason in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    assert sorted(listed) == sorted(MESSAGE_REASONS)
    keys = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`.*?) \|", page, re.MULTILINE)))
    assert set(MESSAGE_REJECT_SCHEMA.names) <= set(keys)


@pytest.mark.parametrize(
    ("method", "further"),
    [
        ("private-dfg", ["--durations", "true", "--vocabulary", "activities.txt"]),
        ("variant-histogram", ["--formats", "parquet,xes,csv"]),
        ("process-tree", ["--vocabulary", "activities.txt"]),
    ],
)
def test_every_file_and_column_of_a_release_is_on_its_page(
    method: str, further: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    sampled = ("--cases", "300", "--output", "log.csv", "--vocabulary", "activities.txt")
    assert tracecloak("sample", *sampled) == 0
    places = ("--log", "log.csv", "--output", "out", "--release_id", "r", "--runner", "InMemory")
    assert tracecloak("release", *places, "--method", method, "--epsilon", "4", *further) == 0
    page = (ROOT / "docs" / "reference" / "release-files.md").read_text()
    files = [path for path in (tmp_path / "out" / "run_id=r").rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        name = path.relative_to(tmp_path / "out" / "run_id=r").as_posix()
        assert f"`{re.sub(r'-[0-9]{5}', '-00000', name)}`" in page, name
        if path.suffix == ".parquet":
            for column in pq.read_schema(path).names:
                assert f"`{column}`" in page, (name, column)
        elif path.suffix == ".json" and path.name != "manifest.json":
            for key in json.loads(path.read_text()):
                assert f"`{key}`" in page, (name, key)


def test_every_field_of_a_step_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "release-files.md").read_text()
    empty = np.zeros(0)
    ends = {"start_us": 0, "end_us": 1, "n_steps_left": 3, "epsilon": "1", "delta": "0"}
    step = StepRelease.of([], empty, empty, release_id="a", epoch="b", product="dfg",
                          view="total", step=0, **ends)  # fmt: skip
    release = with_intervals(step)
    assert release.figures is not None
    figures = {figure.name for figure in release.figures.rows()}
    for name in {
        *pa.table(release.to_rows()).column_names,
        *json.loads(release.to_json()),
        *figures,
    }:
        assert name == "cells" or f"`{name}`" in page, name
