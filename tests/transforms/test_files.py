"""Files of this machine are found without Beam, and they are those that Beam would find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import SourceFile, is_on_this_machine, match_files

NAMES = (
    "a.csv", "b.csv", "b.csv.gz", ".hidden.csv", "[a].csv", "a^b.csv", "a b.csv", "é.csv", "ab",
    "x/a.csv", "x/y/a.csv", "x/y/b.xes", "x^/!.csv", "x-z/]a.csv",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("logs")
    for number, name in enumerate(NAMES):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(b"x" * number)
    return made


def found(pattern: str) -> list[tuple[str, int]]:
    try:
        return [(file.path, file.n_bytes) for file in match_files([pattern])]
    except UsageError:
        return []


def found_by_beam(pattern: str) -> list[tuple[str, int]]:
    try:
        files = FileSystems.match([pattern])[0].metadata_list
    except Exception:  # whatever it cannot list
        return []
    return sorted((file.path, file.size_in_bytes) for file in files)


@pytest.mark.parametrize(
    "pattern",
    [
        "a.csv", "none.csv", "*", "**", "*.csv", "*.csv*", "?.csv", "x?a.csv", "**/a.csv", "x/*",
        "x/**", "x*/*.csv", "*/y/*", "[ab].csv", "[!a].csv", "[^a].csv", "[a-b].csv", "[]a]*",
        "[!]a]*", "[a.csv", "[]", "[!]", "[z-a].csv", "x[", "a[ ^]b.csv", "", "x", "x/", "x//*",
        "./*.csv", "x/../*.csv", "{a,b}.csv", r"a\*", "(a|b).csv", "x-z/[]]a.csv", "none/*",
    ],
)  # fmt: skip
def test_what_a_pattern_matches_is_what_beam_matches(folder: Path, pattern: str) -> None:
    whole = f"{folder}/{pattern}"
    assert found(whole) == found_by_beam(whole)


@pytest.mark.filterwarnings("ignore:Possible (nested set|set difference):FutureWarning")
@given(pattern=st.text("ab.csv/xy*?[]!^-\\ ", max_size=9))
def test_so_is_it_for_any_pattern(folder: Path, pattern: str) -> None:
    whole = f"{folder}/{pattern}"
    assert found(whole) == found_by_beam(whole)


def test_a_pattern_of_the_working_folder_is_looked_for_in_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam finds nothing there."""
    monkeypatch.chdir(folder)
    assert [path for path, _ in found("[ab].csv")] == ["a.csv", "b.csv"]
    assert [path for path, _ in found("x/*.csv")] == ["x/a.csv"]
    assert os.path.exists(found("**/y/a.csv")[0][0])


def test_files_are_ranked_by_path_and_each_is_there_once(folder: Path) -> None:
    a, b = f"{folder}/a.csv", f"{folder}/b.csv"
    assert match_files([b, f"{folder}/[ab].csv", a]) == [
        SourceFile(0, a, NAMES.index("a.csv")),
        SourceFile(1, b, NAMES.index("b.csv")),
    ]


@pytest.mark.parametrize("path", ["gs://b/a.csv", "s3://b/*", "hdfs://a", "x+y.z-1://a", " gs://b"])
def test_paths_of_other_file_systems_are_those_that_beam_takes_for_them(path: str) -> None:
    assert FileSystems.get_scheme(path) is not None
    assert not is_on_this_machine(path)


@pytest.mark.parametrize("path", ["a.csv", "/a/b", "C:/a", "1gs://b", "a//b", ":a", ""])
def test_and_those_of_this_machine_too(path: str) -> None:
    assert FileSystems.get_scheme(path) is None
    assert is_on_this_machine(path)
