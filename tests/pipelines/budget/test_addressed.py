"""Files named after their SHA-256: what is damaged is told."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.object_store import ObjectStore
from tracecloak.pipelines.units import addressed
from tracecloak.pipelines.units.addressed import AddressedFiles, Damage

PARTS = [f"part {number}".encode() * (1 + number % 3) for number in range(12)]
NAMES = [hashlib.sha256(part).hexdigest() for part in PARTS]


@pytest.fixture(params=["here", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with these files."""
    monkeypatch.setattr(ObjectStore, "root", tmp_path)
    folder = "objects://book" if request.param == "objects" else str(tmp_path / "book")
    files = AddressedFiles(folder)
    assert [files.write(part) for part in PARTS] == NAMES
    return folder


def test_files_are_read_in_any_number_and_order(place: str) -> None:
    for names in (NAMES, NAMES[::-1], NAMES[:1], [NAMES[3], NAMES[3]], []):
        contents = AddressedFiles(place).read(names)
        assert contents == {name: PARTS[NAMES.index(name)] for name in names}


@pytest.mark.parametrize("change", ["a bit", "longer", "empty", "gone"])
def test_a_file_that_is_not_what_its_name_says_is_told(
    place: str, tmp_path: Path, change: str
) -> None:
    path = tmp_path / "book" / f"{NAMES[7]}.units"
    data = path.read_bytes()
    path.write_bytes({"a bit": bytes([data[0] ^ 1]) + data[1:], "longer": data + b"more"}.get(
        change, b""
    ))  # fmt: skip
    if change == "gone":
        path.unlink()
    found = AddressedFiles(place).read(NAMES)
    assert isinstance(found, Damage)
    assert (found.sha256, found.is_there) == (NAMES[7], change != "gone")
    assert found.path.endswith(path.name)


@pytest.mark.parametrize("place", ["objects"], indirect=True)
def test_what_is_not_read_back_as_it_was_written_is_an_error(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store; this machine's files are written as a whole."""
    write = addressed.write_anew
    monkeypatch.setattr(addressed, "write_anew", lambda path, data: write(path, data[:-1]))
    with pytest.raises(OSError, match="not what is read back"):
        AddressedFiles(place).write(b"another")


def test_a_file_that_cannot_be_read_is_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise OSError("no")

    monkeypatch.setattr(addressed, "read_if_there", broken)
    found = AddressedFiles(place).read(NAMES)
    assert isinstance(found, Damage) and isinstance(found.error, OSError)
