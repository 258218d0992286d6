"""Files named after their SHA-256: what is damaged is told, and packs are trusted with nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.object_store import ObjectStore
from tracecloak.pipelines.units import addressed
from tracecloak.pipelines.units.addressed import AddressedFiles, Damage

PARTS = [f"part {number}".encode() * (1 + number % 3) for number in range(40)]
NAMES = [hashlib.sha256(part).hexdigest() for part in PARTS]


@pytest.fixture(params=["here", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with these files, in which so few are packed."""
    monkeypatch.setattr(addressed, "_N_PACKED", 10)
    monkeypatch.setattr(ObjectStore, "root", tmp_path)
    folder = "objects://book" if request.param == "objects" else str(tmp_path / "book")
    files = AddressedFiles(folder)
    assert [files.write(part) for part in PARTS] == NAMES
    return folder


def there(tmp_path: Path, ending: str) -> list[Path]:
    return sorted((tmp_path / "book").glob(f"*.{ending}"))


def whole(files: AddressedFiles, every_file: bool = False) -> bool:
    found = files.read(NAMES, every_file)
    return not isinstance(found, Damage) and [bytes(found[n]) for n in NAMES] == PARTS


def test_packs_hold_the_same_and_the_files_need_not_be_opened(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = AddressedFiles(place)
    for n in (8, 12, 30, 40):  # too few, the first pack, another, and one of all
        assert not isinstance(files.read(NAMES[:n]), Damage)
        files.pack(NAMES[:n])
    packs = there(tmp_path, "pack")
    assert 1 <= len(packs) <= 2
    opened = []
    read = addressed.read_if_there
    monkeypatch.setattr(addressed, "read_if_there", lambda path: opened.append(path) or read(path))
    fresh = AddressedFiles(place)
    assert whole(fresh) and all(path.endswith(".pack") for path in opened)
    assert len(opened) == len(packs)
    opened.clear()
    assert whole(fresh) and opened == []  # nothing changed since
    assert whole(fresh, every_file=True) and len(opened) == len(NAMES)


@pytest.mark.parametrize("change", ["a bit", "cut", "no head", "gone", "another's"])
def test_a_pack_that_was_changed_is_passed_over(place: str, tmp_path: Path, change: str) -> None:
    files = AddressedFiles(place)
    assert whole(files)
    files.pack(NAMES)
    (path,) = there(tmp_path, "pack")
    data = path.read_bytes()
    end = data.index(b"\n") + 1
    changed = {
        "a bit": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:-9], "no head": data[end:],
        "gone": None, "another's": data[:end] + bytes(len(data) - end),
    }[change]  # fmt: skip
    path.unlink() if changed is None else path.write_bytes(changed)
    assert whole(AddressedFiles(place))


def test_a_file_that_is_gone_or_of_another_length_is_told_whatever_a_pack_holds(
    place: str, tmp_path: Path
) -> None:
    files = AddressedFiles(place)
    assert whole(files)
    files.pack(NAMES)
    path = tmp_path / "book" / f"{NAMES[7]}.units"
    path.write_bytes(PARTS[7] + b"more")
    for looking in (files, AddressedFiles(place)):
        found = looking.read(NAMES)
        assert isinstance(found, Damage) and (found.sha256, found.is_there) == (NAMES[7], True)
    path.unlink()
    for looking in (files, AddressedFiles(place)):
        found = looking.read(NAMES)
        assert isinstance(found, Damage) and (found.sha256, found.is_there) == (NAMES[7], False)


def test_a_file_of_the_same_length_is_told_by_who_reads_every_file(
    place: str, tmp_path: Path
) -> None:
    """Where a pack has what was claimed, releases go on: nothing that was counted is unknown."""
    files = AddressedFiles(place)
    assert whole(files)
    files.pack(NAMES)
    (tmp_path / "book" / f"{NAMES[7]}.units").write_bytes(bytes(len(PARTS[7])))
    fresh = AddressedFiles(place)
    assert whole(fresh)
    found = fresh.read(NAMES, every_file=True)
    assert isinstance(found, Damage) and found.is_there
    few = AddressedFiles(place).read([NAMES[7]])  # as every release reads its own
    assert isinstance(few, Damage)


@pytest.mark.parametrize("place", ["objects"], indirect=True)
def test_what_is_not_read_back_as_it_was_written_is_an_error(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store; this machine's files are written as a whole."""
    write = addressed.write_anew
    monkeypatch.setattr(addressed, "write_anew", lambda path, data: write(path, data[:-1]))
    with pytest.raises(OSError, match="not what is read back"):
        AddressedFiles(place).write(b"another")


def test_a_folder_that_cannot_be_listed_is_told(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: str) -> None:
        raise OSError("no")

    monkeypatch.setattr(addressed, "listed_in", broken)
    found = AddressedFiles(place).read(NAMES)
    assert isinstance(found, Damage) and isinstance(found.error, OSError)
