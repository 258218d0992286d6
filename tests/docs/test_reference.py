"""The reference says what the code does: what is made is complete, what is written is true."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.hooks import commands, methods, python
from tests.support.documents import ROOT
from tests.support.releasing import tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.step_figures import with_intervals
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.pipelines.commands.verify import UNSURE_EXIT_CODE
from tracecloak.schemas import errors
from tracecloak.schemas.published.step import StepRelease
from tracecloak.schemas.streams.message_reasons import MESSAGE_REASONS
from tracecloak.transforms.formats.messages import MESSAGE_REJECT_SCHEMA


def test_every_command_and_action_has_a_section_with_its_flags() -> None:
    page = commands.page()
    sections = set(re.findall(r"^##+ `([^`]+)`", page, re.MULTILINE))
    assert {*COMMANDS, "ledger withdraw", "key rewrap", "attack linkage"} <= sections
    assert page.count("<code>--release_id</code>") >= 5
    assert "# `release` {" in page and "<code>--max_error_ratio</code>" in page


def test_every_method_has_a_page_with_its_parameters_and_its_promise() -> None:
    pages = dict(methods.pages())
    assert pages.keys() == {"index.md", *(f"{name}.md" for name in METHODS.ours)}
    for name in METHODS.ours:
        page = pages[f"{name}.md"]
        assert f"--method {name}" in " ".join(page.split()), name
        for param in METHODS[name].Params.model_fields:
            assert f"<code>--{param}</code>" in page, (name, param)
        assert "How it works" in page, name


def test_every_method_is_explained_once() -> None:
    """Under a heading of its own in a page of the methods."""
    found = [
        name
        for path in (ROOT / "docs" / "explanation" / "methods").glob("*.md")
        for heading in re.findall(r"^##+ (.*)$", path.read_text(), re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", heading)
    ]
    assert sorted(found) == sorted(METHODS.ours)


def test_a_parameter_that_no_page_explains_is_listed_with_a_decision() -> None:
    page = ROOT / "docs" / "reference" / "parameters.md"
    rows = re.findall(
        r"^\| (`\w+`[^|]*) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page.read_text(), re.M
    )
    listed = {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    others = (path for path in (ROOT / "docs").rglob("*.md") if path != page)
    told = set(re.findall(r"(?:`|--)(\w+)", " ".join(path.read_text() for path in others)))
    owners: dict[str, set[str]] = {}
    for name, method in METHODS.ours.items():
        for param in method.Params.model_fields:
            owners.setdefault(param, set()).add(name)
    assert owners.keys() - told <= listed.keys()
    assert len(listed) > 40
    for param, (_, where, decision, how) in listed.items():
        assert decision in ("told", "of a paper"), param
        assert len(how) > 20, param
        named = set(re.findall(r"`([a-z-]+)`", where)) & METHODS.ours.keys()
        assert owners[param] & named, param


def test_a_method_is_chosen_by_five_questions() -> None:
    """Each answer ends at a method, or at a later question; none leads round in a circle."""
    page = (ROOT / "docs" / "how-to" / "choose-a-method.md").read_text()
    questions = re.findall(r"^## (\d)\. .*\? \{ #([a-z]+) \}\n\n((?:\* .*\n)+)", page, re.MULTILINE)
    places = {anchor: int(number) for number, anchor, _ in questions}
    assert list(places.values()) == [1, 2, 3, 4, 5]
    for number, _, listed in questions:
        answers = listed.splitlines()
        assert 2 <= len(answers) <= 3, number
        for answer in answers:
            later = [places[anchor] for anchor in re.findall(r"\]\(#([a-z]+)\)", answer)]
            named = set(re.findall(r"\[`([a-z -]+)`\]", answer))
            assert bool(later) != bool(named), answer
            assert all(place > int(number) for place in later), answer
            assert named <= {*METHODS.ours, "tracecloak stream"}, answer


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


def test_what_a_guess_can_rise_to_is_as_the_page_says() -> None:
    page = (ROOT / "docs" / "explanation" / "promise.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|", page, re.M)
    assert len(rows) == 6
    for epsilon, *shares in rows:
        for prior, share in zip((0.5, 0.1, 0.01), shares, strict=True):
            odds = math.exp(float(epsilon)) * prior / (1 - prior)
            digits = len(share.partition(".")[2])
            assert abs(100 * odds / (1 + odds) - float(share)) <= 0.51 * 10**-digits, epsilon
