"""The book of counted units: no unit in two windows, whatever happens to runs, rows and lakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import book_of, of_window, scope, units
from tests.support.keys import release_key
from tests.support.ledgers import account, execute, faults, in_memory, reservation
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.budget import migration
from tracecloak.pipelines.budget.migration import units_of_files
from tracecloak.pipelines.budget.opening import back_up, restore
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import case_registry
from tracecloak.pipelines.ledger.balance import KnownCharge
from tracecloak.pipelines.ledger.case_registry import (
    CaseRegistry,
    CaseRegistryError,
    Claimed,
    units_of,
    units_to_count,
)
from tracecloak.pipelines.ledger.database import UNITS, Database, LedgerError
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.reading import verify
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError

OFFICER = ("the officer", "its input is gone")
CASES = ("c1", "c2", "c3")


class World:
    """One ledger in a folder of its own, and key stores by name."""

    def __init__(self, folder: Path, max_cases: int | None = None, keys: str = "keys") -> None:
        self.folder, self.max_cases = folder, max_cases
        self.file = folder / "ledger.sqlite"
        self.store = KeyStore(folder / keys)
        url = f"sqlite:///{self.file}"
        self.ledger = Ledger(url, {"a": account("100")}, new=True, store=self.store)
        self.book = book_of(self.ledger, max_cases)

    def claim(self, number: int, label: str, of: CountedUnits, **changes: Any) -> CountedUnits:
        """Reserves for a window, claims, and returns what the release may count."""
        self.ledger.reserve(of_window(number, label, max_cases=self.max_cases, **changes))
        return self.book.claim("/out", f"r{number}", "k", of).units

    def count(self, number: int, cases: list[str]) -> int:
        """Claims cases for a window of their own; returns how many it may count."""
        return len(self.claim(number, f"w{number}", units(cases)).digests)

    def n_rows(self) -> int:
        asked = sa.select(sa.func.count()).select_from(UNITS)
        return Database(self.ledger.url).transact(lambda one: one.scalar(asked) or 0, writes=False)


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
    assert rows(found.units) == rows(units(["c3"]))
    assert world.book.frozen("/out", "r3", "k") is None
    world.book.check(scope())
    assert faults(world.ledger) == []


def test_a_release_keeps_what_it_claimed_also_of_another_lake(world: World) -> None:
    first = world.claim(1, "2026-11", units(["c1", "c2"]))
    for _ in range(2):
        again = book_of(world.ledger).claim("/out", "r1", "k", units(["c3"]))
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
    # Two claims of the same units: their digests in the ledger tell nobody that they are the same.
    assert len({e.units_sha256 for e in world.ledger.entries() if e.action == "claim"}) == 2


@pytest.mark.parametrize(
    "ending", ["void", "void and commit", "draw", "commit", "forfeit", "give up", "withdraw"]
)
def test_only_what_was_given_back_before_it_drew_is_free_again(world: World, ending: str) -> None:
    ledger = world.ledger
    world.claim(1, "2026-11", units(["c1"]))
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
    assert len(world.claim(2, "2026-12", units(["c1"])).digests) == int(is_free)
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
    assert world.n_rows() == 0


# Individuals with several cases


def individuals(*pairs: str) -> CountedUnits:
    """Cases `p1` of individual `p`."""
    return units(pairs, {pair: pair[0] for pair in pairs})


def test_of_an_individual_so_many_cases_count_in_all_windows_together(folder: Path) -> None:
    world = World(folder, max_cases=2)
    first = world.claim(1, "2026-11", individuals("p1", "q1"))
    assert rows(first) == rows(individuals("p1", "q1"))
    second = world.claim(2, "2026-12", individuals("p2", "p3", "p4", "q1", "r1"))
    assert len(second.digests) == 2  # one of p, none of q, whose case is counted, and r
    assert rows(individuals("r1")) < rows(second)
    assert len(world.claim(3, "2027-01", individuals("p2", "p3", "p4", "p5", "q2")).digests) == 1
    # Its own window may count again what it counted, and the other case that is left of q is gone.
    again = world.claim(4, "2026-11", individuals("p1", "p6", "q1", "q3"))
    assert rows(again) == rows(individuals("p1", "q1"))


def test_which_cases_of_an_individual_count_depends_on_nobody_else() -> None:
    """Catches a choice by place in a batch, by which one individual would change another's."""
    own = [f"p{number}" for number in range(9)]
    alone = units_to_count(individuals(*own), "w1", [], 3)
    assert len(alone.digests) == 3
    others = [f"{name}{number}" for name in "abcxyz" for number in range(5)]
    among = units_to_count(individuals(*own, *others), "w1", [("w0", individuals("a1"))], 3)
    assert rows(alone) < rows(among)
    assert len(among.digests) == 3 + 2 + 5 * 3


def test_individuals_without_a_cap_are_refused_but_where_their_price_adds_up(folder: Path) -> None:
    world = World(folder)
    with pytest.raises(UsageError, match="set max_cases_per_individual"):
        world.claim(1, "2026-11", individuals("p1"))
    assert len(world.claim(2, "2026-12", individuals("p1", "p2"), adds_up=True).digests) == 2


def test_a_claim_and_its_units_are_there_both_or_neither(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is cut off between the entry and its units, or somebody else was first."""
    insert = Claimed.rows

    def cut_off(claimed: Claimed, seq: int) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Claimed, "rows", cut_off)
    with pytest.raises(KeyboardInterrupt):
        world.claim(1, "2026-11", units(["c1"]))
    assert [entry.action for entry in world.ledger.entries()] == ["reserve"]
    other = World(world.folder)

    def late(claimed: Claimed, seq: int) -> Any:
        monkeypatch.setattr(Claimed, "rows", insert)
        raise sa.exc.IntegrityError("", None, Exception())  # another has taken that number

    monkeypatch.setattr(Claimed, "rows", late)
    assert len(other.claim(2, "2026-12", units(["c1"])).digests) == 1
    assert world.n_rows() == 2
    assert len(world.book.claim("/out", "r1", "k", units(["c1"])).units.digests) == 0
    assert world.book.check(scope(), compares_all=True) == 2


def test_a_release_that_is_reserved_for_another_window_is_refused(world: World) -> None:
    world.ledger.reserve(of_window(1, "2026-11"))
    for other in (of_window(1, "2026-12"), reservation(1), of_window(1, "2026-11", adds_up=True)):
        with pytest.raises(UsageError, match="is charged to window 2026-11"):
            world.ledger.reserve(other)


# What is lost, changed, or of another key


_OF = "tracecloak_units WHERE seq = (SELECT min(seq) FROM tracecloak_units)"
CHANGES = (
    f"DELETE FROM {_OF}",
    f"DELETE FROM {_OF} AND length(rest) = 8",
    f"DELETE FROM {_OF} AND length(rest) = 16",
    f"UPDATE {_OF.replace(' WHERE', ' SET word = word + 1 WHERE')} AND length(rest) = 8",
    f"UPDATE {_OF.replace(' WHERE', ' SET word = word + 1 WHERE')} AND length(rest) = 16",
    f"UPDATE {_OF.replace(' WHERE', ' SET rest = zeroblob(7) WHERE')} AND length(rest) = 8",
    f"INSERT INTO tracecloak_units SELECT seq, word + 1, rest FROM {_OF} AND length(rest) = 8",
    "UPDATE tracecloak_units SET seq = seq + 100",
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_or_is_gone_is_found(world: World, change: str) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    world.ledger.reserve(of_window(2, "2026-12"))
    # That of the last window is found by every release, ...
    before = world.file.read_bytes()
    elsewhere = scope(schedule_digest="1" * 32)
    execute(world.file, change)
    for ask in (
        lambda: world.book.check(scope()),
        lambda: world.book.frozen("/out", "r1", "k"),
        lambda: world.book.claim("/out", "r1", "k", units(["c1"])),
        lambda: world.book.claim("/out", "r2", "k", units(["c1"])),
    ):
        with pytest.raises(CaseRegistryError, match=r"2026-11 counted .* restored from a") as e:
            ask()
        assert e.value.exit_code == LedgerError.exit_code
    world.book.check(elsewhere)
    # ... and that of any by who verifies.
    world.file.write_bytes(before)
    world.book.claim("/out", "r2", "k", units(["c2"]))
    assert world.book.check(scope(), compares_all=True) == 2 and verify(world.ledger)[1]
    execute(world.file, change)
    with pytest.raises(CaseRegistryError, match=r"window 2026-1\d counted .* restored from a"):
        world.book.check(scope(), compares_all=True)
    said, is_sound = verify(world.ledger)
    assert not is_sound and "window 2026-11 counted (entry 2" in said


def test_a_claim_that_was_changed_in_the_ledger_stops_all(world: World) -> None:
    world.claim(1, "2026-11", units(["c1"]))
    world.ledger.draw("/out", "r1", "k")
    world.ledger.reserve(of_window(2, "2026-12"))
    execute(world.file, "DELETE FROM tracecloak_ledger WHERE action = 'claim'")
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
    lost = CaseRegistry(fresh, world.ledger, None)
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
    store.write("book.secret", "00" * 32, replaces=False)  # as a process that was a little later
    book, deployment = store.own_key("book"), store.own_key("deployment")
    assert book.resolve().hex() == key != deployment.resolve().hex()
    assert path.stat().st_mode & 0o777 == 0o600
    first, second = (f"file:{tmp_path}/kek{digit}" for digit in "56")
    for digit in "56":
        (tmp_path / f"kek{digit}").write_text(digit * 64)
    wrapped = KeyStore(keys, key_encryption_key=first)
    assert wrapped.check_secrets()
    wrapped.rewrap()
    assert key not in path.read_text() and wrapped.own_key("book").resolve().hex() == key
    assert KeyStore(keys, None, second).rewrap(first) == 3
    assert KeyStore(keys, None, second).own_key("book").resolve().hex() == key


def test_a_scope_that_nobody_made_is_refused(world: World) -> None:
    world.ledger.reserve(of_window(1, "2026-11", scope="../../elsewhere"))
    with pytest.raises(CaseRegistryError, match="of the book with key none"):
        world.book.claim("/out", "r1", "k", units(["c1"]))


# What it answers

_rows = st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=6)


@given(st.lists(_rows, max_size=5), _rows, st.sampled_from([2, 4]))
def test_it_finds_the_same_as_who_looks_through_all_claims(
    drawn: list[list[tuple[int, ...]]], asked: list[tuple[int, ...]], n_columns: int
) -> None:
    # Words at both ends of their range, which databases take for negative numbers.
    def made(rows: list[tuple[int, ...]]) -> CountedUnits:
        words = np.array([0, 2**63, 2**64 - 1], np.uint64)
        return CountedUnits.of(words[np.array(rows, np.int64).reshape(-1, 4)[:, :n_columns]])

    past, there, units_asked = LedgerSnapshot(), [made(rows) for rows in drawn], made(asked)
    claims = [Claimed(scope(), f"w{i}", i, f"{i:032x}", of) for i, of in enumerate(there)]
    with (
        sa.create_engine("sqlite://").connect() as connection,
        pytest.MonkeyPatch.context() as patch,
    ):
        UNITS.create(connection)
        for seq, claim in enumerate(claims):
            connection.execute(sa.insert(UNITS), claim.rows(seq))
        past.ask = lambda asked: connection.execute(asked).all()
        named = [
            KnownCharge(
                "a",
                "1",
                "0",
                "0",
                "1",
                "0",
                claim.scope,
                claim.label,
                False,
                i,
                "",
                i,
                claim.sha256,
            )
            for i, claim in enumerate(claims)
        ]
        patch.setattr(past, "claims", lambda _: named)
        found = dict(case_registry._same(past, scope(), units_asked))
        for one, claim in zip(named, claims, strict=True):
            assert case_registry._claimed(past.ask, one).to_bytes() == claim.to_bytes()
    whose = set(units_asked.digests[:, 0].tolist())
    expected = {
        f"w{seq}": [row for row in of.digests.tolist() if row[0] in whose]
        for seq, of in enumerate(there)
    }
    assert {label: of.digests.tolist() for label, of in found.items()} == {
        label: rows for label, rows in expected.items() if rows
    }


def test_one_more_window_reads_no_more_than_the_one_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a night that takes longer each year."""
    n_read: list[int] = []
    ask = Database.ask

    def counted(database: Database, asked: Any) -> Any:
        found = ask(database, asked)
        n_read[-1] += len(found)
        return found

    monkeypatch.setattr(Database, "ask", counted)
    for number in range(9):
        n_read.append(0)
        world.book.check(scope())
        world.count(number, ["c0", f"c{number}", f"d{number}"])
    assert len(set(n_read[2:])) == 1


# What earlier versions kept


@pytest.fixture
def files(world: World) -> World:
    """A world in which an earlier version counted c0 to c4, each in a file; also one of another."""
    for number in range(5):
        assert world.count(number, [f"c{number}"]) == 1
    world.claim(9, "2026-11", units(["c1"]), scope=scope(schedule_digest="1" * 32))
    for claim in units_of(world.ledger, world.ledger.entries()):
        assert isinstance(claim, Claimed)
        path = world.folder / "keys" / "book" / claim.scope / f"{claim.sha256}.units"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(claim.to_bytes())
    execute(world.file, "DELETE FROM tracecloak_units")
    world.store.touch("units/x.db")
    return world


def test_the_files_of_an_earlier_version_are_taken_in(
    files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaseRegistryError, match="`tracecloak ledger migrate` takes in the files"):
        files.book.check(scope())
    insert, n_left = migration._insert, [2]

    def killed(*asked: Any, **named: Any) -> None:
        insert(*asked, **named)
        n_left[0] -= 1
        if n_left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(migration, "_insert", killed)
    with pytest.raises(KeyboardInterrupt):
        units_of_files(files.ledger, files.store, {})
    with pytest.raises(CaseRegistryError, match="ledger migrate"):
        files.book.check(scope())
    taken, index = units_of_files(files.ledger, files.store, {})
    assert "5 claims" in taken and "removed the index" in index
    assert units_of_files(files.ledger, files.store, {}) == []
    assert files.book.check(scope(), compares_all=True) == 5 and verify(files.ledger)[1]
    assert files.count(10, [f"c{number}" for number in range(6)]) == 1


@pytest.mark.parametrize("change", ["gone", "a bit", "another's"])
def test_a_file_that_is_gone_or_changed_keeps_its_scope_shut(files: World, change: str) -> None:
    claims = [e for e in files.ledger.entries() if e.action == "claim"]
    folder = files.folder / "keys" / "book"
    path, other = (folder / scope() / f"{claims[i].units_sha256}.units" for i in (2, 0))
    data = path.read_bytes()
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(other.read_bytes() if change != "a bit" else data[:-1] + b"\0")
    taken, fault = units_of_files(files.ledger, files.store, {})
    assert "3 claims" in taken and "window w2 counted" in fault
    with pytest.raises(CaseRegistryError, match=r"window w4 counted .* are gone"):
        files.book.check(scope())
    files.book.check(scope(schedule_digest="1" * 32))
    path.write_bytes(data)
    assert "3 claims" in units_of_files(files.ledger, files.store, {})[0]
    assert files.book.check(scope(), compares_all=True) == 5


def test_a_backup_of_the_ledger_has_what_was_counted(world: World, tmp_path: Path) -> None:
    for number in range(2):
        world.count(number, [f"c{number}"])
    world.ledger.void("/out", "r1", "k")
    path, url = str(tmp_path / "backup"), f"sqlite:///{tmp_path}/restored.sqlite"
    back_up(world.ledger, path)
    restore(world.store, url, path, *OFFICER)
    restored = Ledger(url, store=world.store)
    assert book_of(restored).check(scope(), compares_all=True) == 1
    restored.accept(*OFFICER)
    restored.reserve(of_window(7, "w7"))
    claimed = book_of(restored).claim("/out", "r7", "k", units(["c0", "c1"]))
    assert rows(claimed.units) == rows(units(["c1"]))
