"""What a command lacks is told before it opens a log, with what pip is to be given."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.releasing import csv_log, small_rows, tracecloak
from tracecloak.schemas.errors import missing_extra
from tracecloak.transforms import sources

_ASKS = "release --query SELECT --method amun --output o --release_id r"
# Command lines, each with a module that it needs, and the extra that has it.
LACKING = [
    ("evaluate --log LOG OUT --output page.json", "ot", "measures"),
    ("report OUT --log LOG --output page.html", "ot", "measures"),
    ("compare --log LOG --methods privtree --output page.html", "ot", "measures"),
    ("compare --log LOG --methods privtree --output page.html --mine", "pm4py", "mining"),
    ("experiment pretsa --log LOG --output page", "ot", "measures"),
    ("experiment sacofa-sapa --log LOG --output page", "sklearn.ensemble", "mining"),
    ("experiment sacofa-sapa --log LOG --output page", "pm4py", "mining"),
    ("experiment sacofa-sapa --log LOG --output page", "matplotlib.figure", "report"),
    ("plan --log delta:t --method amun --output o", "deltalake", "delta"),
    ("plan --log iceberg:a.b.c --method amun --output o", "pyiceberg.catalog", "iceberg"),
    (f"{_ASKS} --database duckdb:///x.db", "adbc_driver_manager", "sql"),
    (f"{_ASKS} --database duckdb:///x.db", "adbc_driver_duckdb", "sql"),
    (f"{_ASKS} --database postgresql://host/db", "adbc_driver_postgresql.dbapi", "sql"),
    (f"{_ASKS} --database snowflake://host/db", "adbc_driver_snowflake.dbapi", "snowflake"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log, LOG, and a release of it, OUT; commands run in it."""
    monkeypatch.chdir(tmp_path)
    log = csv_log(tmp_path / "LOG", list(small_rows(40))).rename(tmp_path / "LOG.csv")
    given = ["--log", log, "--output", "OUT", "--method", "pretsa", "--k", 1, "--t", 1]
    assert tracecloak("release", *given, "--runner", "InMemory", "--formats", "csv") == 0
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the logs that were opened since."""
    found = []
    own = sources.open_source

    def noted(path: str, *arguments: Any) -> Any:
        found.append(path)
        return own(path, *arguments)

    monkeypatch.setattr(sources, "open_source", noted)
    return found


@pytest.mark.parametrize(("line", "module", "extra"), LACKING)
def test_a_missing_library_is_told_before_a_log_is_opened(
    folder: Path,
    opened: list[str],
    line: str,
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for table in ("delta", "iceberg"):  # which import their libraries at once
        monkeypatch.delitem(sys.modules, f"tracecloak.transforms.lakes.{table}", raising=False)
    typed = ["LOG.csv" if word == "LOG" else word for word in line.split()]
    assert tracecloak(*typed) == 2
    told = capsys.readouterr().err
    assert f"(the extra {extra})" in told and "Traceback" not in told
    assert not opened
    assert not [*folder.glob("page*")]


@pytest.mark.parametrize(
    "extra", importlib.metadata.metadata("tracecloak").get_all("Provides-Extra")
)
def test_the_mend_is_what_the_extra_needs(extra: str) -> None:
    """So it serves where tracecloak was installed from a wheel, too, and asks no index for it."""
    told = str(missing_extra("this", "gensim", extra))
    shown = told.split("run pip install ")[1].split(" (the extra")[0].split("' '")
    named = {str(Requirement(one.strip("'"))) for one in shown}
    if extra == "embedding" and sys.version_info >= (3, 14):  # nothing of it is there
        assert named == {"gensim"}
        return
    needs = map(Requirement, importlib.metadata.requires("tracecloak") or ())
    wanted = set()
    for need in needs:
        if f'extra == "{extra}"' in str(need.marker) and need.marker.evaluate({"extra": extra}):
            need.marker = None
            wanted.add(str(need))
    assert named == wanted and named


def test_without_metadata_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert "run pip install pm4py (the extra mining)" in str(missing_extra("x", "pm4py", "mining"))
