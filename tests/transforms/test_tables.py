"""Files of a Delta, Iceberg or Hudi table are no log, wherever the input names them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from apache_beam.io.filesystem import FileMetadata

from tests.support.object_store import ObjectStore
from tests.support.releasing import csv_log, placed, small_rows, tracecloak
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.inputs.source_files import match_files

MARKERS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Iceberg": "metadata/00000-5f1c.metadata.json",
}
MENDS = {
    "Delta": "delta:{place}lake/claims",
    "Hudi": "write its current rows",
    "Iceberg": "iceberg:CATALOG.TABLE",
}
kinds = pytest.mark.parametrize("kind", MARKERS)


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions of a day, in a folder that may be made a table."""
    for day in (1, 2):
        put(tmp_path / f"lake/claims/day={day}/part-0.csv")
    return tmp_path


@dataclass
class Counted:
    """What a store is asked to list, and how many objects that shows."""

    questions: list[str] = field(default_factory=list)
    n_shown: int = 0


@pytest.fixture
def counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Makes objects:// of the folder."""
    counted, listed = Counted(), ObjectStore._list

    def counting(self: ObjectStore, prefix: str) -> Iterator[FileMetadata]:
        counted.questions.append(prefix)
        for found in listed(self, prefix):
            counted.n_shown += 1
            yield found

    monkeypatch.setattr(ObjectStore, "root", folder)
    monkeypatch.setattr(ObjectStore, "_list", counting)
    return counted


PATTERNS = (
    "lake/claims", "lake/claims/", "lake/claims/**", "lake/claims/*/*.csv", "lake/claims/day=1",
    "lake/claims/day=1/", "lake/claims/day=1/*.csv", "lake/claims/day=1/part-0.csv",
    "lake/claims/day=1/part-?.csv", "lake/claims/d*/part-0.csv", "lake/**", "lake/*/day=1/*",
    "l*/claims/day=[12]/*", "lake/", "**/part-0.csv",
)  # fmt: skip


@pytest.mark.by_day(15)
@kinds
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_table_is_refused_however_its_files_are_named(
    folder: Path, kind: str, pattern: str, counted: Counted
) -> None:
    for place in (f"{folder}/", "objects://"):
        assert match_files([place + pattern])
    marker = put(folder / "lake/claims" / MARKERS[kind])
    for place in (f"{folder}/", "objects://"):
        with pytest.raises(InputSchemaError, match=f"a table of {kind}") as raised:
            match_files([place + pattern])
        told = str(raised.value)
        assert repr(place + pattern) in told and "deleted" in told
        assert MENDS[kind].format(place=place) in told
        relative = marker.relative_to(folder).as_posix()
        assert any(f"{place}{name}" in told for name in (relative, os.path.dirname(relative)))


@kinds
def test_two_folders_above_are_looked_into_and_partitions_do_not_count(
    tmp_path: Path, kind: str, counted: Counted
) -> None:
    deep = "lake/claims/data/year=2026/month=11/day=1"
    put(tmp_path / "t" / deep / "a.csv")
    put(tmp_path / "t/lake/claims" / MARKERS[kind])
    # The same three folders further up: too far to be of a table.
    far = "u/table/x/y/z/year=2026"
    put(tmp_path / far / "a.csv")
    put(tmp_path / "u/table" / MARKERS[kind])
    for place in (f"{tmp_path}/", "objects://"):
        for pattern in (f"t/{deep}", f"t/{deep}/*", f"t/{deep}/a.csv"):
            with pytest.raises(InputSchemaError, match=kind):
                match_files([place + pattern])
        for pattern in (far, f"{far}/*", f"{far}/a.csv"):
            assert match_files([place + pattern])


def test_an_empty_partition_of_a_table_is_no_empty_log(folder: Path) -> None:
    (folder / "lake/claims/day=3").mkdir()
    assert match_files([f"{folder}/lake/claims/day=3/"], may_be_none=True) == []
    put(folder / "lake/claims" / MARKERS["Delta"])
    with pytest.raises(InputSchemaError, match="Delta"):
        match_files([f"{folder}/lake/claims/day=3/"], may_be_none=True)


def test_a_partition_tells_of_its_table_where_hudi_names_no_column(
    tmp_path: Path, counted: Counted
) -> None:
    put(tmp_path / "claims/2026/11/22/part-0.csv")
    put(tmp_path / "claims/2026/11/22/.hoodie_partition_metadata")
    for place in (f"{tmp_path}/", "objects://"):
        for pattern in ("claims/2026/11/22/", "claims/2026/11/22/*.csv"):
            with pytest.raises(InputSchemaError, match="Hudi"):
                match_files([place + pattern])


@pytest.mark.parametrize(
    "beside",
    [
        "lake/claims/metadata/readme.json", "lake/claims/metadata/a.csv", "metadata/day=1/a.csv",
        "lake/claims/day=1/v1.metadata.json", "lake/claims/metadata/old/v1.metadata.json",
        "lake/other/_delta_log/0.json", "lake/other/.hoodie/a", "lake/b/metadata/v1.metadata.json",
        "lake/claims/day=3/_delta_log/0.json", "lake/claims/my_delta_log/0.json",
        "lake/claims/_delta_log.csv", "lake/claims/.hoodie.txt",
    ],
)  # fmt: skip
def test_a_folder_without_a_table_is_read(folder: Path, beside: str, counted: Counted) -> None:
    put(folder / beside)
    for place in (f"{folder}/", "objects://"):
        for pattern in ("lake/claims/day=1/*.csv", "lake/claims/day=[12]/*", "lake/claims/day=1"):
            assert match_files([place + pattern])


def test_files_are_listed_once_and_what_lies_above_is_not(folder: Path, counted: Counted) -> None:
    """However many folders there are: a lake is listed as often as one file."""
    for day in range(3, 60):
        put(folder / f"lake/claims/day={day}/part-0.csv")
    for number in range(300):
        put(folder / f"lake/other/{number}.csv")
    assert len(match_files(["objects://lake/claims/"])) == 59
    (first, *others) = counted.questions
    assert first == "objects://lake/claims/"
    # Above is asked for the first object of each marker, in folders that can be two or one.
    assert len(others) <= 6 and counted.n_shown == 59
    assert all(any(name in asked for name in ("_delta", ".hoodie", "metadata")) for asked in others)

    counted.questions, counted.n_shown = [], 0
    paths = [f"objects://lake/claims/day=1/part-{number}.csv" for number in range(40)]
    for path in paths:
        put(folder / path.removeprefix("objects://"))
    assert len(match_files(paths)) == 40
    assert len(counted.questions) <= 12  # once for all files of a folder


@pytest.mark.parametrize("command", ["release", "plan", "vocabulary"])
def test_every_command_that_reads_a_log_refuses_before_anything_is_paid(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Delta keeps of a case that was deleted is a file beside those of the table's rows."""
    table = tmp_path / "claims"
    table.mkdir()
    csv_log(table / "part-0.csv", list(small_rows()))
    csv_log(table / "part-1.csv", [("deleted", "A", "2026-01-01T10:00:00+00:00")])
    added = [{"add": {"path": "part-0.csv"}}, {"remove": {"path": "part-1.csv"}}]
    put(table / MARKERS["Delta"], "\n".join(map(json.dumps, added)))
    graph = ("--method", "private-dfg", "--epsilon", 1, "--buy_vocabulary")
    _, *flags = placed(tmp_path, table, *graph)
    assert tracecloak(command, *(flags[:2] if command == "vocabulary" else flags)) == 3
    assert "a table of Delta" in capsys.readouterr().err
    assert not (tmp_path / "keys").exists() and not (tmp_path / "out").exists()
