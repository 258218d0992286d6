"""The reference says what the code does: what is made is complete, what is written is true."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.hooks import python
from tests.support.command_lines import acts_on, flags_of, parsers
from tests.support.documents import ROOT
from tests.support.releasing import as_typed, tracecloak
from tracecloak.anonymizers.streams.dfg_steps import with_intervals
from tracecloak.pipelines.commands.main import REMOVED
from tracecloak.pipelines.commands.verify import UNSURE_EXIT_CODE
from tracecloak.pipelines.runners.failures import DISK_IS_FULL, section_of
from tracecloak.schemas import errors
from tracecloak.schemas.errors import TracecloakError
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


# --- Exit codes -----------------------------------------------------------------------------------


PAGE = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
TITLES = re.findall(r"^### (.+?) \{", PAGE, re.MULTILINE)


def _errors() -> list[type[TracecloakError]]:
    """All classes of our errors, of all rooms."""
    for room in ("schemas", "anonymizers", "transforms", "pipelines"):
        package = importlib.import_module(f"tracecloak.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    classes = [TracecloakError]
    for kind in classes:
        classes += kind.__subclasses__()
    return [kind for kind in classes if kind.__module__.startswith("tracecloak.")]


def test_every_error_names_a_section_that_is_there() -> None:
    sections = {kind.section for kind in _errors()}
    assert len(sections) >= 10
    assert sections | {DISK_IS_FULL} <= set(TITLES)


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (["release", "--no_such_flag"], "[exit code 2: A key or a flag is wrong]"),
        (["vocabulary", "--log", "no-such.csv"], "[exit code 3: No such file]"),
        (["vocabulary", "--log", "no-such-*.csv"], "[exit code 3: No such file]"),
        (["vocabulary", "--log", "nowhere/"], "[exit code 3: No such file]"),
        (["vocabulary", "--log", "log.csv"], "[exit code 3: A column is missing]"),
        (["vocabulary", "--log", "log.xes"], "[exit code 3: A column is missing]"),
        (["vocabulary", "--log", "log*.csv"], "[exit code 3: The schema changed]"),
        (["vocabulary", "--log", "log.parquet"], "[exit code 3: A file is of another format]"),
    ],
)
def test_the_last_line_names_its_section(
    arguments: list[str], ending: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, columns in (("log.csv", "case,step"), ("log2.csv", "case_id,activity,timestamp")):
        Path(name).write_text(f"{columns}\n")
    Path("log.xes").write_text("<log><trace><event/></trace></log>")
    Path("log.parquet").write_text("<html>log in</html>")
    as_typed(*arguments)
    assert capsys.readouterr().err.strip().endswith(ending)


def test_a_full_disk_is_known_through_what_was_made_of_it() -> None:
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise TracecloakError("key store cannot be used") from error
    except TracecloakError as error:
        assert section_of(error) == DISK_IS_FULL


# --- Verbs and flags ------------------------------------------------------------------------------


PARSERS = parsers()


@functools.cache
def tables() -> tuple[dict[str, str], dict[str, set[str]]]:
    """(what each command acts on, commands of each flag), as CONTRIBUTING.md has them."""
    part = (ROOT / "CONTRIBUTING.md").read_text().split("<!-- grammar -->")[1]
    verbs, flags = part.split("<!-- /grammar -->")[0].strip().split("\n\n")
    groups: dict[str, set[str]] = {"all": set(PARSERS)}
    objects = {}
    for names, on in _rows(verbs):
        found = set(re.findall(r"`([^`]+)`", names))
        if (group := re.match(r"([A-Z]+): ", names)) is not None:
            groups[group[1]] = found
        objects |= dict.fromkeys(found, on)
    commands_by_flag: dict[str, set[str]] = {}
    for names, where, meaning in _rows(flags):
        commands = set(re.findall(r"`([^`]+)`", where))
        for word in re.findall(r"[A-Z]+|\ball\b", re.sub("`[^`]+`", "", where)):
            commands |= groups[word]
        for flag in re.findall(r"`(--\w+)`", names):
            assert flag not in commands_by_flag, f"{flag} has two rows, and means one thing"
            assert len(meaning) > 8, flag
            commands_by_flag[flag] = commands
    return objects, commands_by_flag


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_what_every_command_acts_on_and_every_flag_with_its_commands() -> None:
    objects, commands_by_flag = tables()
    assert objects == {name: " ".join(acts_on(name, parser)) for name, parser in PARSERS.items()}
    taken: dict[str, set[str]] = {}
    for name, parser in PARSERS.items():
        for flag in flags_of(parser):
            taken.setdefault(flag, set()).add(name)
    assert commands_by_flag == taken


def test_lists_are_separated_by_commas() -> None:
    """No flag takes several words; filters and formats may be repeated, as they have commas."""
    for name, parser in PARSERS.items():
        for action in parser._actions:
            assert action.nargs in (None, 0, "?"), (name, action.dest)
            is_repeated = "may be repeated" in (action.help or "")
            assert is_repeated == (action.dest in ("where", "timestamp_format")), (name, action)


@pytest.mark.parametrize("word", REMOVED)
def test_a_removed_word_is_an_error_that_says_what_to_do(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any(word in {name, *flags_of(parser)} for name, parser in PARSERS.items())
    typed = f"release {word}=x" if word.startswith("--") else f"{word} x"
    assert tracecloak(*typed.split()) == 2
    assert f"{word} is gone: {REMOVED[word]}" in capsys.readouterr().err
