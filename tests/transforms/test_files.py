"""Files of this machine are found without Beam, and they are those that Beam would find.

But for folders, whose files count, and for hidden files.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from hypothesis import given
from hypothesis import strategies as st

from tests.support.object_store import ObjectStore
from tests.support.tiers import each_row
from tracecloak.schemas.errors import InputSchemaError, NoSuchFile, UsageError
from tracecloak.transforms.files import require_file_system, require_writable
from tracecloak.transforms.inputs.source_files import match_files

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
    except (UsageError, InputSchemaError):
        return []


def found_by_beam(pattern: str) -> list[tuple[str, int]]:
    try:
        files = FileSystems.match([pattern])[0].metadata_list
    except Exception:  # whatever it cannot list
        return []
    all_of_them = re.search(r"/\.(?![./])", pattern)  # who says a hidden name means it
    return sorted(
        (file.path, file.size_in_bytes)
        for file in files
        if all_of_them or "/.hidden" not in file.path
    )


@each_row(
    "pattern",
    [
        "a.csv", "none.csv", "*", "**", "*.csv", "*.csv*", "?.csv", "x?a.csv", "**/a.csv", "x/*",
        "x/**", "x*/*.csv", "*/y/*", "[ab].csv", "[!a].csv", "[^a].csv", "[a-b].csv", "[]a]*",
        "[!]a]*", "[a.csv", "[]", "[!]", "[z-a].csv", "x[", "a[ ^]b.csv", "x//*",
        "./*.csv", "x/../*.csv", "?/", "x*/", "{a,b}.csv", r"a\*", "(a|b).csv", "x-z/[]]a.csv",
        "none/*",
    ],
)  # fmt: skip
def test_what_a_pattern_matches_is_what_beam_matches(folder: Path, pattern: str) -> None:
    whole = f"{folder}/{pattern}"
    assert found(whole) == found_by_beam(whole)


PIECES = (
    "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-x]", "[]a]", "[", "]", "!", "^", "-", "\\", "/", "",
)  # fmt: skip
PLACES = st.dictionaries(st.integers(0, 8), st.sampled_from(PIECES), max_size=3)


@pytest.mark.filterwarnings("ignore:Possible (nested set|set difference):FutureWarning")
@given(name=st.sampled_from(NAMES), pieces=PLACES)
def test_so_is_it_for_any_pattern(folder: Path, name: str, pieces: dict[int, str]) -> None:
    """Of a name of which some characters are something else: about every third one matches."""
    whole = f"{folder}/{''.join(pieces.get(i, own) for i, own in enumerate(name))}"
    if not os.path.isdir(whole):
        assert found(whole) == found_by_beam(whole)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder as Spark leaves it."""
    for name in (
        "_SUCCESS", ".part-0.csv.crc", "part-0.csv", "_temporary/0/part-9.csv", ".staging/a.csv",
        "day=1/part-1.csv", "day=1/_SUCCESS", "day=2/_SUCCESS",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    return tmp_path


def below(lake: Path, pattern: str) -> list[str]:
    return [path.removeprefix(f"{lake}/") for path, _ in found(f"{lake}/{pattern}")]


def test_a_folder_is_its_files_less_those_that_are_hidden(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spelled in ("", ".", "./"):
        assert [os.path.basename(p) for p in below(lake, spelled)] == ["part-1.csv", "part-0.csv"]
    assert below(lake, "day=1") == below(lake, "day=1/") == ["day=1/part-1.csv"]
    monkeypatch.setattr(ObjectStore, "root", lake)
    for spelled in ("day=1", "day=1/", "day=1/*"):
        assert found(f"objects://{spelled}") == [("objects://day=1/part-1.csv", 1)]
    assert [path for path, _ in found("objects://**")] == [
        "objects://day=1/part-1.csv", "objects://part-0.csv",
    ]  # fmt: skip
    assert below(lake, "*") == ["part-0.csv"]
    assert below(lake, "**") == ["day=1/part-1.csv", "part-0.csv"]
    assert below(lake, "day=*/*") == ["day=1/part-1.csv"]
    # Who says a hidden name means it.
    assert below(lake, "_temporary/0/*") == ["_temporary/0/part-9.csv"]
    assert below(lake, "_temp*/0/*") == ["_temporary/0/part-9.csv"]
    assert below(lake, "_SUCCESS") == ["_SUCCESS"]


@each_row(
    ("pattern", "is_source"),
    [
        ("empty", True), ("empty/", True), ("empty/*.csv", True), ("day=2", True),
        ("day=2/*.csv", True), ("*.parquet", True), ("day=3/", True), ("day=3/*.csv", True),
        ("day=3/hour=4/", True), ("day=3/hour=4/*", True), ("day=3", False), ("none", False),
        ("none/", False), ("none/*.csv", False), ("none/day=1/", False), ("none/day=*/*", False),
        ("part-7.csv", False), ("day=1/part-7.csv", False), ("day=3/part-7.csv", False),
    ],
)  # fmt: skip
def test_a_folder_or_a_glob_may_hold_nothing_and_a_file_must_be_there(
    lake: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, is_source: bool
) -> None:
    """Here, and but for empty folders in a store of objects, which has none."""
    monkeypatch.setattr(ObjectStore, "root", lake.parent)
    if not pattern.startswith("empty") and pattern != "day=2":
        at = [f"objects://{lake.name}/{name}" for name in (pattern, "part-0.csv")]
        if is_source:
            assert [file.path for file in match_files(at, may_be_none=True)] == at[1:]
        else:
            with pytest.raises(NoSuchFile, match="correct the"):
                match_files(at, may_be_none=True)
    whole = f"{lake}/{pattern}"
    if is_source:
        assert match_files([whole], may_be_none=True) == []
        both = match_files([whole, f"{lake}/part-0.csv"], may_be_none=True)
        assert [file.path for file in both] == [f"{lake}/part-0.csv"]
    else:
        with pytest.raises(NoSuchFile, match="correct the") as raised:
            match_files([whole, f"{lake}/part-0.csv"], may_be_none=True)
        assert repr(whole) in str(raised.value)
    with pytest.raises(NoSuchFile, match=r"^No such file: log"):
        match_files([whole])


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "gs://bucket/a.csv",
            r"google-cloud-storage.*pip install 'apache-beam\[gcp\]<2.*the extra gcp",
        ),
        ("s3://bucket/a/", r"boto3.*pip install 'apache-beam\[aws\]<2.*the extra aws"),
        ("azfs://account/logs/a.csv", r"azure-storage-blob.*the extra azure|nothing is written"),
        ("hdfs://host/a.csv", r"cannot open here.*untested.*'apache-beam\[hadoop\]'"),
        ("floppy://a", "cannot open here.*one of gs:// and s3://"),
    ],
)
def test_a_file_system_whose_library_is_missing_names_the_extra(
    path: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("google.cloud.storage", "boto3", "azure.storage.blob", "hdfs"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, look in {
        "log": lambda: match_files([path]),
        "output": lambda: require_file_system("output", path),
        "dead_letter": lambda: require_writable("dead_letter", path),
    }.items():
        with pytest.raises(UsageError, match=told) as raised:
            look()
        assert str(raised.value).startswith(f"{name} {path!r}")


def test_what_a_file_system_says_of_a_pattern_is_told_by_its_class_and_not_by_beams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beam wraps it, once or twice; its text could be of the data."""

    def refused(self: ObjectStore, path: str) -> bool:
        raise BeamIOError("exists", {path: PermissionError("of patient-4711")})

    monkeypatch.setattr(ObjectStore, "exists", refused)
    with pytest.raises(UsageError, match=r"listed: PermissionError") as raised:
        match_files(["objects://bucket/a.csv"])
    assert "4711" not in str(raised.value)


def test_a_pattern_of_the_working_folder_is_looked_for_in_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam finds nothing there."""
    monkeypatch.chdir(folder)
    assert [path for path, _ in found("[ab].csv")] == ["a.csv", "b.csv"]
    assert [path for path, _ in found("x/*.csv")] == ["x/a.csv"]
    assert os.path.exists(found("**/y/a.csv")[0][0])
