"""The index of the book: the same answers as the book read whole, whatever became of the index."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import book_at, of_window, scope, units
from tests.support.ledgers import account, python
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger import unit_book, unit_index
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.unit_book import BookError, UnitBook
from tracecloak.pipelines.ledger.unit_index import UnitIndex


class World:
    """A ledger, a book, and a key store that has the index of the book."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        self.opened(new=True)

    def opened(self, keys: str = "keys", **named: Any) -> Ledger:
        return Ledger(self.url, {"a": account("100")}, store=KeyStore(self.folder / keys), **named)

    def book(self, keys: str = "keys") -> UnitBook:
        return book_at(self.folder / "book", self.opened(keys))

    def claim(self, number: int, cases: list[str], keys: str = "keys") -> int:
        """Claims cases for a window of their own; returns how many it may count."""
        self.opened(keys).reserve(of_window(number, f"w{number}"))
        return self.book(keys).claim("/out", f"r{number}", "k", units(cases)).units.weight

    @property
    def index(self) -> Path:
        (index,) = (self.folder / "keys" / "units").glob("*.db")
        return index


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world in which c0 to c4 are counted, and all but the last of them are in the index."""
    world = World(tmp_path)
    for number in range(5):
        assert world.claim(number, [f"c{number}"]) == 1
    return world


def still_knows(world: World, number: int = 9) -> bool:
    return world.claim(number, [*(f"c{n}" for n in range(5)), f"own{number}"]) == 1


# What it answers

_rows = st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=6)


@given(st.lists(st.tuples(_rows, st.booleans()), max_size=5), _rows, st.sampled_from([2, 4]))
def test_it_finds_the_same_as_who_looks_through_all_files(
    drawn: list[tuple[list[tuple[int, ...]], bool]], asked: list[tuple[int, ...]], n_columns: int
) -> None:
    # Words at both ends of their range, which SQLite takes for negative numbers.
    def made(rows: list[tuple[int, ...]]) -> CountedUnits:
        words = np.array([0, 2**63, 2**64 - 1], np.uint64)
        return CountedUnits.of(words[np.array(rows, np.int64).reshape(-1, 4)[:, :n_columns]])

    index = UnitIndex(None)
    files, piece = {}, {}
    for number, (rows, ends) in enumerate(drawn):
        piece[f"f{number}"] = files[f"f{number}"] = made(rows)
        if ends:
            index.take_in(piece)
            piece = {}
    index.take_in(piece)
    units_asked = made(asked)
    whose = set(units_asked.digests[:, 0].tolist())
    expected = {
        name: [row for row in of.digests.tolist() if row[0] in whose] for name, of in files.items()
    }
    found = index.of_the_same(units_asked)
    assert {name: of.digests.tolist() for name, of in found.items()} == {
        name: rows for name, rows in expected.items() if rows
    }
    assert index.weights() == {name: of.weight for name, of in files.items() if of.weight}
    assert all(index.has(name) for name in files) and not index.has("another")
    index.close()


def test_one_more_window_reads_no_more_files_than_the_one_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a night that takes longer each year."""
    opened: list[str] = []
    read = unit_book.read_if_there
    monkeypatch.setattr(unit_book, "read_if_there", lambda path: opened.append(path) or read(path))
    n_read = []
    for number in range(5, 9):
        opened.clear()
        world.book().check(scope())
        assert world.claim(number, ["c0", f"c{number}"]) == 1
        n_read.append(len(set(opened)))
    assert set(n_read) == {2}  # that of the window before, and its own


# What became of it


def _changed(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "gone", "empty", "cut", "garbage", "garbage within", "another version", "no table",
        "another ledger", "a folder gone",
    ],
)  # fmt: skip
def test_an_index_that_is_damaged_is_made_anew(world: World, change: str) -> None:
    data = world.index.read_bytes()
    match change:
        case "gone":
            world.index.unlink()
        case "empty" | "cut" | "garbage":
            world.index.write_bytes({"empty": b"", "cut": data[:5000]}.get(change, b"x" * 9000))
        case "garbage within":
            world.index.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
        case "another version":
            _changed(world.index, "PRAGMA user_version = 7")
        case "no table":
            _changed(world.index, "DROP TABLE units")
        case "another ledger":
            _changed(world.index, "UPDATE complete SET hash = 'x', seq = 1000")
        case _:
            shutil.rmtree(world.index.parent)
    assert still_knows(world)
    assert world.book().verify(scope()) == 6


def test_an_index_of_a_backup_takes_in_what_came_since(world: World) -> None:
    earlier = world.index.read_bytes()
    assert world.claim(5, ["d"]) == world.claim(6, ["e"]) == 1
    world.index.write_bytes(earlier)
    assert world.claim(7, ["c0", "c4", "d", "e"]) == 0
    assert world.book().verify(scope()) == 8


def test_who_writes_the_book_cannot_move_what_was_taken_in(world: World) -> None:
    """Catches cases that count again since somebody changed or removed a file."""
    paths = sorted((world.folder / "book").rglob("*.units"), key=lambda one: one.stat().st_mtime_ns)
    paths[0].write_bytes(paths[1].read_bytes())
    paths[2].unlink()
    assert still_knows(world)
    with pytest.raises(BookError, match=r"was changed|is not there"):
        world.book().verify(scope())
    with pytest.raises(BookError, match=r"was changed|is not there"):
        world.claim(8, ["x"], keys="another key store")
    last = max((world.folder / "book").rglob("*.units"), key=lambda one: one.stat().st_mtime_ns)
    last.unlink()  # which nobody has read yet
    for ask in (lambda: world.book().check(scope()), lambda: world.claim(7, ["c4"])):
        with pytest.raises(BookError, match="is not there"):
            ask()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM units WHERE file = 2",
        "UPDATE units SET rest = zeroblob(8) WHERE file = 2",
        "INSERT INTO units SELECT word + 1, rest, file FROM units WHERE file = 2",
    ],
)
def test_an_index_that_says_something_else_is_told_by_who_verifies(
    world: World, change: str
) -> None:
    assert world.book().verify(scope()) == 5
    _changed(world.index, change)
    with pytest.raises(BookError, match=r"index of the book, .*units.*counted units twice"):
        world.book().verify(scope())
    world.index.unlink()
    assert world.book().verify(scope()) == 5 and still_knows(world)


@pytest.mark.parametrize("ending", ["void", "void and commit", "claim"])
def test_what_was_given_back_is_free_also_where_it_was_taken_in(world: World, ending: str) -> None:
    assert world.claim(5, ["d"]) == 1
    world.book().check(scope())  # which takes it in
    ledger = world.opened()
    if ending != "claim":
        assert ledger.void("/out", "r5", "k")
    if ending == "void and commit":
        assert world.claim(6, []) == 0
        ledger.commit("/out", "r5", "k")
    assert world.claim(7, ["d"]) == int(ending == "void")


@pytest.mark.parametrize("at", ["_insert", "note_complete", "has"])
@pytest.mark.parametrize("way", ["an interrupt", "a kill"])
def test_a_run_that_is_cut_off_leaves_what_was_there(world: World, at: str, way: str) -> None:
    """Catches an index that takes itself for complete, and lacks the units of a file."""
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from tests.pipelines.budget.test_unit_index import *\n"
        "from tracecloak.pipelines.ledger.unit_index import UnitIndex\n"
        f"plain = UnitIndex.{at}\n"
        "def cut_off(*asked):\n"
        "    plain(*asked)\n"
        f"    {'os._exit(9)' if way == 'a kill' else 'raise KeyboardInterrupt'}\n"
        f"UnitIndex.{at} = cut_off\n"
        f"book = book_at({str(world.folder / 'book')!r}, Ledger({world.url!r}, "
        f"store=KeyStore(Path({str(world.folder / 'keys')!r}))))\n"
        "book.check(scope())\n"
    )
    assert python(code).returncode != 0
    assert still_knows(world)
    assert world.book().verify(scope()) == 6


# What it says


def test_a_disk_that_fails_is_no_reason_to_begin_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.index.read_bytes()

    def full(index: UnitIndex, *asked: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(unit_index.UnitIndex, "take_in", full)
    with pytest.raises(KeyStoreError, match=r"index of the book.*units.*is full; mend its disk"):
        world.claim(5, ["d"])
    monkeypatch.undo()
    assert world.index.read_bytes() == before and still_knows(world)


def test_only_its_owner_reads_it(world: World) -> None:
    assert world.index.stat().st_mode & 0o777 == 0o600
    assert world.index.parent.stat().st_mode & 0o777 == 0o700
