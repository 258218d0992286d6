"""The page of exit codes has a section for whatever the last line of a command names."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.releasing import as_typed
from tracecloak.pipelines.runners.failures import DISK_IS_FULL, section_of
from tracecloak.schemas.errors import TracecloakError

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
