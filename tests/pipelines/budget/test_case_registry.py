"""The book of counted units: no unit in two windows, whatever happens to runs, files and lakes."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import KEY, book_at, of_window, scope, units
from tests.support.keys import release_key
from tests.support.ledgers import account, execute, faults, in_memory, python, reservation
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger import case_registry, unit_index
from tracecloak.pipelines.ledger.case_registry import (
    CaseRegistry,
    CaseRegistryError,
    units_to_count,
)
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.unit_index import UnitIndex
from tracecloak.schemas.errors import UsageError

OFFICER = ("the officer", "its input is gone")
CASES = ("c1", "c2", "c3")


class World:
    """One ledger and one book in a folder of their own, and key stores with its index by name."""

    def __init__(self, folder: Path, max_cases: int | None = None, keys: str = "keys") -> None:
        self.folder, self.max_cases = folder, max_cases
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        store = KeyStore(folder / keys)
        self.ledger = Ledger(self.url, {"a": account("100")}, new=True, store=store)
        self.book = book_at(folder / "book", self.ledger, max_cases)

    def claim(self, number: int, label: str, of: CountedUnits, **changes: Any) -> CountedUnits:
        """Reserves for a window, claims, and returns what the release may count."""
        self.ledger.reserve(of_window(number, label, max_cases=self.max_cases, **changes))
        return self.book.claim("/out", f"r{number}", "k", of).units

    def files(self) -> list[Path]:
        """Those of the book, the earliest first."""
        paths = (self.folder / "book").rglob("*.units")
        return sorted(paths, key=lambda path: path.stat().st_mtime_ns)

    def count(self, number: int, cases: list[str]) -> int:
        """Claims cases for a window of their own; returns how many it may count."""
        return self.claim(number, f"w{number}", units(cases)).weight

    @property
    def index(self) -> Path:
        (index,) = (self.folder / "keys" / "units").glob("*.db")
        return index


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def world(folder: Path) -> World:
    return World(folder)


def rows(of: CountedUnits) -> set[tuple[int, ...]]:
    return set(map(tuple, of.digests.tolist()))


# What a release may count


def test_a_case_that_another_window_counted_is_left_out_and_told(world: World) -> None:
    assert rows(world.claim(1, "2026-11", units(["c1", "c2"]))) == rows(units(["c1", "c2"]))
    assert rows(world.claim(2, "2026-12", units(["c2", "c3"]))) == rows(units(["c3"]))
    found = world.book.frozen("/out", "r2", "k")
    assert found is not None and found.n_left_out == 1
    assert Path(found.path).read_bytes().endswith(units(["c3"]).to_bytes())
    assert world.book.frozen("/out", "r3", "k") is None
    world.book.check(scope())
    assert faults(world.ledger) == []


def test_a_release_keeps_what_it_claimed_also_of_another_lake(world: World) -> None:
    first = world.claim(1, "2026-11", units(["c1", "c2"]))
    for _ in range(2):
        again = book_at(world.folder / "book", world.ledger).claim("/out", "r1", "k", units(["c3"]))
        assert rows(again.units) == rows(first)
        world.ledger.draw("/out", "r1", "k")
    world.ledger.commit("/out", "r1", "k")
    assert rows(world.book.claim("/out", "r1", "k", units([])).units) == rows(first)
    assert [entry.action for entry in world.ledger.entries()] == [
        "reserve", "claim", "draw", "commit",
    ]  # fmt: skip
    assert rows(world.claim(2, "2026-12", units(CASES))) == rows(units(["c3"]))


def test_a_window_that_is_released_twice_pays_twice_and_counts_the_same_again(world: World) -> None:
    for number in (1, 2):
        assert rows(world.claim(number, "2026-11", units(["c1"]))) == rows(units(["c1"]))
    assert str(world.ledger.balance("a").spent_epsilon) == "1/5"
    # Two files of the same units: their digests in the ledger tell nobody that they are the same.
    assert len(world.files()) == 2


@pytest.mark.parametrize(
    "ending", ["void", "void and commit", "draw", "commit", "forfeit", "give up", "withdraw"]
)
def test_only_what_was_given_back_before_it_drew_is_free_again(world: World, ending: str) -> None:
    ledger = world.ledger
    world.claim(1, "2026-11", units(["c1"]))
    world.book.check(scope())  # which takes it in
    if ending.startswith("void"):
        assert ledger.void("/out", "r1", "k")
        assert world.book.frozen("/out", "r1", "k") is None
        with pytest.raises(UsageError, match="is voided"):
            world.book.claim("/out", "r1", "k", units(["c1"]))
        if ending == "void and commit":
            ledger.commit("/out", "r1", "k")
    elif ending == "give up":  # before it drew: nobody knows that it did not
        ledger.forfeit("/out", "r1", "k", *OFFICER)
    else:
        ledger.draw("/out", "r1", "k")
        assert not ledger.void("/out", "r1", "k")
        if ending == "forfeit":
            ledger.forfeit("/out", "r1", "k", *OFFICER)
        if ending in ("commit", "withdraw"):
            ledger.commit("/out", "r1", "k")
        if ending == "withdraw":
            ledger.withdraw("/out", "r1", *OFFICER)
    is_free = ending == "void"
    assert world.claim(2, "2026-12", units(["c1"])).weight == int(is_free)
    assert faults(ledger) == []


def test_what_was_claimed_before_a_void_is_not_of_the_next_reservation(world: World) -> None:
    world.claim(1, "2026-11", units(["c1", "c2"]))
    world.ledger.void("/out", "r1", "k")
    world.claim(2, "2026-12", units(["c1"]))
    world.ledger.reserve(of_window(1, "2026-11"))
    with pytest.raises(UsageError, match="of window 2026-11 and has not claimed"):
        world.ledger.draw("/out", "r1", "k")
    assert world.book.frozen("/out", "r1", "k") is None
    again = world.book.claim("/out", "r1", "k", units(["c1", "c2"]))
    assert rows(again.units) == rows(units(["c2"])) and again.n_left_out == 1
    world.ledger.draw("/out", "r1", "k")


def test_only_a_release_of_a_window_claims(world: World) -> None:
    world.ledger.reserve(reservation(1))
    with pytest.raises(UsageError, match="is reserved for no window"):
        world.book.claim("/out", "r1", "k", units(["c1"]))
    with pytest.raises(UsageError, match="was never reserved"):
        world.book.claim("/out", "r2", "k", units(["c1"]))
    world.ledger.draw("/out", "r1", "k")
    assert world.files() == []


# Individuals with several cases


def individuals(*pairs: str) -> CountedUnits:
    """Cases `p1` of individual `p`."""
    return units(pairs, {pair: pair[0] for pair in pairs})


def test_of_an_individual_so_many_cases_count_in_all_windows_together(folder: Path) -> None:
    world = World(folder, max_cases=2)
    first = world.claim(1, "2026-11", individuals("p1", "q1"))
    assert rows(first) == rows(individuals("p1", "q1"))
    second = world.claim(2, "2026-12", individuals("p2", "p3", "p4", "q1", "r1"))
    assert second.weight == 2  # one of p, none of q, whose case is counted, and r
    assert rows(individuals("r1")) < rows(second)
    assert world.claim(3, "2027-01", individuals("p2", "p3", "p4", "p5", "q2")).weight == 1
    # Its own window may count again what it counted, and the other case that is left of q is gone.
    again = world.claim(4, "2026-11", individuals("p1", "p6", "q1", "q3"))
    assert rows(again) == rows(individuals("p1", "q1"))


def test_which_cases_of_an_individual_count_depends_on_nobody_else() -> None:
    """Catches a choice by place in a batch, by which one individual would change another's."""
    own = [f"p{number}" for number in range(9)]
    alone = units_to_count(individuals(*own), "w1", [], 3)
    assert alone.weight == 3
    others = [f"{name}{number}" for name in "abcxyz" for number in range(5)]
    among = units_to_count(individuals(*own, *others), "w1", [("w0", individuals("a1"))], 3)
    assert rows(alone) < rows(among)
    assert among.weight == 3 + 2 + 5 * 3


def test_individuals_without_a_cap_are_refused_but_where_their_price_adds_up(folder: Path) -> None:
    world = World(folder)
    with pytest.raises(UsageError, match="set max_cases_per_individual"):
        world.claim(1, "2026-11", individuals("p1"))
    assert world.claim(2, "2026-12", individuals("p1", "p2"), adds_up=True).weight == 2
    with pytest.raises(UsageError, match="at least 1"):
        CaseRegistry(str(folder), KEY, world.ledger, 0)


def test_a_claim_of_a_release_that_is_ended_meanwhile_counts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CaseRegistry, "frozen", lambda *_: None)
    with pytest.raises(UsageError, match=r"was ended in .* while it claimed its"):
        world.claim(1, "2026-11", units(["c1"]))


def _fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_file_is_of_the_window_that_the_ledger_names_it_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    [file] = world.files()
    data = file.read_bytes()

    def verified(content: bytes, label: str) -> Any:
        sha256 = hashlib.sha256(content).hexdigest()
        (file.parent / f"{sha256}.units").write_bytes(content)
        return world.book._verified_file(scope(), sha256, label)

    assert verified(data, "2026-11").label == "2026-11"
    with pytest.raises(CaseRegistryError, match=r"is of window 2026-11 of scope .* names"):
        verified(data, "x")
    for wrong in (b"", b"{}\n", b"[]", data.partition(b"\n")[2]):
        with pytest.raises(CaseRegistryError, match="is not a file of counted units"):
            verified(wrong, "2026-11")
    monkeypatch.setattr(case_registry, "read_if_there", _fail)
    with pytest.raises(CaseRegistryError, match="cannot be read"):
        verified(data, "2026-11")


def test_a_book_that_cannot_be_written_claims_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_registry, "write_anew", _fail)
    with pytest.raises(CaseRegistryError, match=r"cannot be written: .*run again"):
        world.claim(1, "2026-11", units(["c1"]))
    assert world.ledger.entries()[-1].action == "reserve"


# Many at once


def test_who_claims_between_reading_and_locking_is_not_overlooked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ledger.reserve(of_window(1, "2026-11"))
    other = World(world.folder)
    check = CaseRegistry._check_known

    def late(book: CaseRegistry, *asked: Any) -> None:
        check(book, *asked)
        monkeypatch.setattr(CaseRegistry, "_check_known", check)
        other.claim(2, "2026-12", units(["c1"]))

    monkeypatch.setattr(CaseRegistry, "_check_known", late)
    claimed = world.book.claim("/out", "r1", "k", units(["c1", "c2"]))
    assert rows(claimed.units) == rows(units(["c2"]))


# Runs that are cut off


def test_a_file_that_the_ledger_does_not_name_means_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is cut off between the file and the entry."""

    def cut_off(self: CaseRegistry, *file: Any) -> str:
        write(self, *file)
        raise KeyboardInterrupt

    write = CaseRegistry._written
    monkeypatch.setattr(CaseRegistry, "_written", cut_off)
    with pytest.raises(KeyboardInterrupt):
        world.claim(1, "2026-11", units(["c1"]))
    monkeypatch.undo()
    assert len(world.files()) == 1
    assert [entry.action for entry in world.ledger.entries()] == ["reserve"]
    world.book.check(scope())
    assert world.claim(2, "2026-12", units(["c1"])).weight == 1
    assert world.book.claim("/out", "r1", "k", units(["c1"])).units.weight == 0


def test_a_part_of_a_file_that_a_run_left_is_in_nobodys_way(world: World) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    [path] = world.files()
    world.ledger.void("/out", "r1", "k")
    path.write_bytes(path.read_bytes()[:-3])
    assert world.claim(1, "2026-11", units(["c1"])).weight == 1
    assert len(world.files()) == 2
    book_at(world.folder / "book", world.ledger).check(scope())


def test_a_release_that_is_reserved_for_another_window_is_refused(world: World) -> None:
    world.ledger.reserve(of_window(1, "2026-11"))
    for other in (of_window(1, "2026-12"), reservation(1), of_window(1, "2026-11", adds_up=True)):
        with pytest.raises(UsageError, match="is charged to window 2026-11"):
            world.ledger.reserve(other)


# What is lost, changed, or of another key


@pytest.mark.parametrize("change", ["a bit", "cut", "another's", "empty", "gone"])
def test_a_file_that_was_changed_or_is_gone_stops_the_scope(world: World, change: str) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    [path] = world.files()
    world.claim(2, "2026-12", units(["c2"]))
    [other] = set(world.files()) - {path}
    elsewhere = scope(schedule_digest="1" * 32)
    world.claim(4, "2026-11", units(["c1"]), scope=elsewhere)
    data = path.read_bytes()
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes({
            "a bit": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:-16],
            "another's": other.read_bytes(), "empty": b"",
        }[change])  # fmt: skip
    fresh = World(world.folder, keys="fresh").book
    for ask in (
        lambda: fresh.check(scope()),
        lambda: fresh.claim("/out", "r2", "k", units([])),
        lambda: fresh.verify(scope()),
        lambda: world.book.verify(scope()),
        lambda: world.book.frozen("/out", "r1", "k"),
    ):
        with pytest.raises(
            CaseRegistryError, match=r"window 2026-11 counted.*restored from a"
        ) as e:
            ask()
        assert e.value.exit_code == LedgerError.exit_code
    fresh.check(elsewhere)
    # Who has compared it with the ledger before knows what was counted.
    world.book.check(scope())
    assert rows(world.claim(3, "2027-01", units(["c1", "c3"]))) == rows(units(["c3"]))
    path.write_bytes(data)
    assert book_at(world.folder / "book", world.ledger).verify(scope()) == 3


def test_a_claim_that_was_changed_in_the_ledger_stops_all(world: World) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    world.ledger.draw("/out", "r1", "k")
    world.ledger.reserve(of_window(2, "2026-12"))
    execute(world.folder / "ledger.sqlite", "DELETE FROM tracecloak_ledger WHERE action = 'claim'")
    fresh = World(world.folder, keys="fresh").book
    for ask in (
        lambda: fresh.claim("/out", "r2", "k", units(["c1"])),
        lambda: fresh.check(scope()),
        lambda: fresh.frozen("/out", "r1", "k"),
    ):
        with pytest.raises(LedgerError, match="does not say what tracecloak wrote"):
            ask()


def test_a_key_that_was_lost_stops_the_schedule_and_is_not_made_anew_unseen(world: World) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    fresh = release_key(8)
    lost = CaseRegistry(str(world.folder / "book"), fresh, world.ledger, None)
    now = scope(book_key_fingerprint=fresh.fingerprint)
    with pytest.raises(CaseRegistryError, match=r"under book key"):
        lost.check(now)
    world.ledger.reserve(of_window(2, "2026-12", scope=now))
    with pytest.raises(CaseRegistryError, match=r"restore book\.secret"):
        lost.claim("/out", "r2", "k", units(["c1"]))
    for ask in (
        lambda: lost.check(scope()),
        lambda: lost.frozen("/out", "r1", "k"),
        lambda: lost.claim("/out", "r1", "k", units(["c1"])),
    ):
        with pytest.raises(CaseRegistryError, match="set book_key to"):
            ask()
    elsewhere = scope(schedule_digest="1" * 32, book_key_fingerprint=fresh.fingerprint)
    lost.check(elsewhere)  # another schedule is paid beside it


def test_the_key_of_the_book_is_made_once_and_wrapped_as_the_others(tmp_path: Path) -> None:
    keys, path = tmp_path / "keys", tmp_path / "keys" / "book.secret"
    store = KeyStore(keys)
    key = store.own_key("book").resolve().hex()
    assert (
        store.own_key("book").resolve().hex() == key != store.own_key("deployment").resolve().hex()
    )
    assert path.stat().st_mode & 0o777 == 0o600
    first, second = (f"file:{tmp_path}/kek{digit}" for digit in "56")
    for digit in "56":
        (tmp_path / f"kek{digit}").write_text(digit * 64)
    wrapped = KeyStore(keys, key_encryption_key=first)
    assert wrapped.check_secrets()
    wrapped.rewrap()
    assert key not in path.read_text() and wrapped.own_key("book").resolve().hex() == key
    assert wrapped.rewrap(first, second) == 3
    assert KeyStore(keys, None, second).own_key("book").resolve().hex() == key


def test_a_scope_that_is_a_path_leads_nowhere(world: World) -> None:
    world.ledger.reserve(of_window(1, "2026-11", scope="../../elsewhere"))
    with pytest.raises(CaseRegistryError, match="of the book with key none"):
        world.book.claim("/out", "r1", "k", units(["c1"]))
    assert world.book._path("../x", "0" * 64).startswith(f"{world.folder}/book/")
    assert "/../" not in world.book._path("../x", "0" * 64)


@pytest.fixture
def kept(tmp_path: Path) -> World:
    """A world in which c0 to c4 are counted, and all but the last of them are in the index."""
    kept = World(tmp_path)
    for number in range(5):
        assert kept.count(number, [f"c{number}"]) == 1
    return kept


def still_knows(kept: World, number: int = 9) -> bool:
    return kept.count(number, [*(f"c{n}" for n in range(5)), f"own{number}"]) == 1


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
    found = index.files_with_same(units_asked)
    assert {name: of.digests.tolist() for name, of in found.items()} == {
        name: rows for name, rows in expected.items() if rows
    }
    assert index.weights() == {name: of.weight for name, of in files.items() if of.weight}
    assert index.files() == {*files}
    index.close()


def test_one_more_window_reads_no_more_files_than_the_one_before(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a night that takes longer each year."""
    opened: list[str] = []
    read = case_registry.read_if_there
    monkeypatch.setattr(
        case_registry, "read_if_there", lambda path: opened.append(path) or read(path)
    )
    n_read = []
    for number in range(5, 9):
        opened.clear()
        kept.book.check(scope())
        assert kept.count(number, ["c0", f"c{number}"]) == 1
        n_read.append(len(set(opened)))
    assert set(n_read) == {2}  # that of the window before, and its own
    assert kept.index.stat().st_mode & 0o777 == 0o600
    assert kept.index.parent.stat().st_mode & 0o777 == 0o700


# What became of it


def test_an_index_that_is_damaged_is_made_anew(kept: World) -> None:
    index = kept.index
    data = index.read_bytes()
    changes: tuple[Callable[[], object], ...] = (
        index.unlink,
        lambda: index.write_bytes(b""),
        lambda: index.write_bytes(data[:5000]),
        lambda: index.write_bytes(b"x" * 9000),
        lambda: index.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096)),
        lambda: execute(index, "PRAGMA user_version = 7"),
        lambda: execute(index, "DROP TABLE units"),
        lambda: shutil.rmtree(index.parent),
        lambda: index.write_bytes(data),  # of a backup
    )
    for number, change in enumerate(changes, start=6):
        change()
        assert still_knows(kept, number)
        assert kept.book.verify(scope()) == number


def test_an_index_that_is_damaged_again_and_again_is_an_error(tmp_path: Path) -> None:
    tries: list[UnitIndex] = []

    def ask(index: UnitIndex) -> None:
        tries.append(index)
        damaged = sqlite3.DatabaseError("malformed")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT if len(tries) < 5 else 0
        raise damaged

    with pytest.raises(KeyStoreError, match="cannot be used: malformed; check its disk"):
        unit_index.asked_of_index(KeyStore(tmp_path), unit_index.index_name("out"), ask)
    assert len(tries) == 2


def test_a_file_that_is_gone_before_it_was_taken_in_stops_the_scope(kept: World) -> None:
    kept.files()[-1].unlink()
    for ask in (lambda: kept.book.check(scope()), lambda: kept.count(7, ["c4"])):
        with pytest.raises(CaseRegistryError, match="is not there"):
            ask()


def test_an_index_that_says_something_else_is_told_by_who_verifies(kept: World) -> None:
    for change in (
        "DELETE FROM units WHERE file = 2",
        "UPDATE units SET rest = zeroblob(8) WHERE file = 2",
        "INSERT INTO units SELECT word + 1, rest, file FROM units WHERE file = 2",
    ):
        assert kept.book.verify(scope()) == 5
        execute(kept.index, change)
        with pytest.raises(CaseRegistryError, match=r"index of the book, .*units.*counted"):
            kept.book.verify(scope())
        kept.index.unlink()
    assert kept.book.verify(scope()) == 5 and still_knows(kept)


@pytest.mark.parametrize("at", ["_insert", "files"])
@pytest.mark.parametrize("way", [at_night("an interrupt"), "a kill"])
def test_a_run_that_is_cut_off_leaves_what_was_there(kept: World, at: str, way: str) -> None:
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from tests.pipelines.budget.test_case_registry import *\n"
        "from tracecloak.pipelines.ledger.unit_index import UnitIndex\n"
        f"plain = UnitIndex.{at}\n"
        "def cut_off(*asked):\n"
        "    plain(*asked)\n"
        f"    {'os._exit(9)' if way == 'a kill' else 'raise KeyboardInterrupt'}\n"
        f"UnitIndex.{at} = cut_off\n"
        f"book = book_at({str(kept.folder / 'book')!r}, Ledger({kept.url!r}, "
        f"store=KeyStore(Path({str(kept.folder / 'keys')!r}))))\n"
        "book.check(scope())\n"
    )
    assert python(code).returncode != 0
    assert still_knows(kept)
    assert kept.book.verify(scope()) == 6


# What it says


def test_a_disk_that_fails_is_no_reason_to_begin_anew(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept.index.read_bytes()

    def full(index: UnitIndex, *asked: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(unit_index.UnitIndex, "take_in", full)
    with pytest.raises(KeyStoreError, match=r"index of the book.*units.*is full; check"):
        kept.count(5, ["d"])
    monkeypatch.undo()
    assert kept.index.read_bytes() == before and still_knows(kept)
