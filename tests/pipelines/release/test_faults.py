"""A release whose run fails at any step: never unpaid, never drawn twice, finished by the next run.

The failed run and the next one are given different keys, so a second draw shows by its bytes.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apache_beam.io.filesystem import BeamIOError

from tests.support.releasing import (
    Place,
    check_finished,
    counting_charges,
    digests,
    fix_key,
    key_files,
    operator_folder,
    visible,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.budget import opening as opening_module
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners import on_beam
from tracecloak.transforms import files
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

FIRST, SECOND = b"1" * 32, b"2" * 32
FULL = "/dev/full"  # the kernel's: every write ends with ENOSPC
FLAGS = ("--epsilon", "8", "--delta", "1e-5", "--parts", 2)
BEAM = ("--runner", "FnApiRunner")
LOCKED = "is locked by another process; wait for that process or end it, and run again"
SPENT = "Its budget stays spent: run the same command again"
RESERVED, VOIDED, DRAWN = ("reserve",), ("reserve", "void"), ("reserve", "draw")


class Faulty(Place):
    """A log, and where its release and its keys are."""

    @property
    def built(self) -> ReleaseFolder:
        return ReleaseFolder(str(self.out), "r", store=KeyStore(self.keys).identity())

    @property
    def workplace(self) -> Path:
        return Path(self.built.workplace)

    def check_finished(self) -> None:
        check_finished(self.out, self.keys)
        folder = operator_folder(self.keys)
        assert {path.name for path in folder.iterdir()} == {"statement.md", "tally.json"}


Patch = pytest.MonkeyPatch
Inject = Callable[[Faulty, Patch], AbstractContextManager[None] | None]


class Fault(NamedTuple):
    """What fails, and what it leaves."""

    inject: Inject  # as long as the patch holds and in what it returns
    code: int  # 7 where the release is visible, and nothing is otherwise
    told: str
    actions: tuple[str, ...] | None
    n_keys: int | None  # under which the next run goes on; None: either
    flags: tuple[str, ...] = ()  # of both runs


def raising(target: str, error: Callable[[], BaseException], after: bool = False) -> Inject:
    """Has a function raise an error, in place of what it does or after it."""

    def inject(place: Faulty, patch: Patch) -> None:
        module, _, name = _of(target)
        original = getattr(module, name)

        def fail(*given: Any, **named: Any) -> None:
            if after:
                original(*given, **named)
            raise error()

        patch.setattr(module, name, fail)

    return inject


def _of(target: str) -> tuple[Any, str, str]:
    owners = {"EventSource": EventSource, "ReleaseFolder": ReleaseFolder, "Ledger": Ledger}
    owners |= {"KeyStore": KeyStore, "files": files, "on_beam": on_beam}
    owner, _, name = target.rpartition(".")
    if owner in owners:
        return owners[owner], owner, name
    return __import__(owner, fromlist=["x"]), owner, name


def disk(number: int = errno.ENOSPC) -> Callable[[], BaseException]:
    return lambda: OSError(number, "x")


def both(*injects: Inject) -> Inject:
    def inject(place: Faulty, patch: Patch) -> None:
        for one in injects:
            one(place, patch)

    return inject


def elsewhere(place: Faulty, patch: Patch) -> None:
    """Has Beam's runner count as one whose workers are on other machines."""
    patch.setattr(on_beam, "is_local", lambda _: False)


def unreadable_output(place: Faulty, patch: Patch) -> None:
    original, calls = ReleaseFolder.committed, []

    def committed(self: ReleaseFolder) -> dict[str, Any] | None:
        calls.append(self)
        if len(calls) > 2:  # after the look before the run, and the one before the commit
            raise OSError(errno.EIO, "x")
        return original(self)

    patch.setattr(ReleaseFolder, "committed", committed)


def full_file(number: int) -> Inject:
    """Lets the disk be full for the file of the release that is created as number so many."""

    def inject(place: Faulty, patch: Patch) -> None:
        original, n_made = files.create, 0

        def create(path: str, *given: Any, **named: Any) -> Any:
            nonlocal n_made
            n_made += 1
            made = original(path, *given, **named)
            if n_made != number:
                return made
            made.close()  # the name still fits
            return open(FULL, "wb")

        patch.setattr(files, "create", create)

    return inject


def full_private_file(number: int) -> Inject:
    """Lets the disk of the key store be full for its private file of that number."""

    def inject(place: Faulty, patch: Patch) -> None:
        original, n_made = tempfile.mkstemp, 0

        def mkstemp(*given: Any, **named: Any) -> tuple[int, str]:
            nonlocal n_made
            n_made += 1
            descriptor, name = original(*given, **named)
            if n_made == number:
                os.close(descriptor)
                descriptor = os.open(FULL, os.O_WRONLY)
            return descriptor, name

        patch.setattr(tempfile, "mkstemp", mkstemp)

    return inject


@contextlib.contextmanager
def locked(place: Faulty, patch: Patch | None = None) -> Iterator[None]:
    """Holds the ledger's file as another process would that writes into it."""
    connection = sqlite3.connect(place.keys / "ledger.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


def locked_after(target: str, error: Callable[[], BaseException] | None = None) -> Inject:
    """Locks the ledger once a function has returned, or where it fails."""

    @contextlib.contextmanager
    def inject(place: Faulty, patch: Patch) -> Iterator[None]:
        module, _, name = _of(target)
        original, holder = getattr(module, name), contextlib.ExitStack()

        def locking(*given: Any, **named: Any) -> Any:
            result = None if error is not None else original(*given, **named)
            holder.enter_context(locked(place))
            if error is not None:
                raise error()
            return result

        patch.setattr(module, name, locking)
        with holder:
            yield

    return inject


READ, COMMIT = "EventSource.read", "ReleaseFolder.commit"
SILENT = functools.partial(LedgerError, "does not answer")
NOTHING = "nothing was released"
COMPLETE = "is complete, but a step after it failed"
AFTERWARDS = (
    "tracecloak.pipelines.release.run.log_findings", "ReleaseFolder.point_latest",
    "Ledger.commit", "KeyStore.commit", "tracecloak.pipelines.release.run.Yield",
    "tracecloak.transforms.publish.statement.internal_statement",
)  # fmt: skip
# Private files in their order: the secret of the store, that of the deployment, the key, its
# receipt, the count of its reservations, the gate.
PRIVATE = range(1, 7)
FILES = range(1, 10)  # of a release, in their order, the manifest last
UNCLEARED = BeamIOError("Delete operation failed", {"case-7": OSError(errno.EACCES, "y")})
FAULTS = {
    "a read is interrupted": Fault(raising(READ, KeyboardInterrupt), 6, NOTHING, VOIDED, 0),
    "a read fails": Fault(raising(READ, ValueError), 6, NOTHING, VOIDED, 0),
    "a disk fails": Fault(raising(READ, disk(errno.EIO)), 6, NOTHING, VOIDED, 0),
    "a read fails on Beam": Fault(raising(READ, ValueError), 6, NOTHING, VOIDED, 0, BEAM),
    "a workplace stays": Fault(
        both(raising("ReleaseFolder.clear", lambda: UNCLEARED), raising(READ, ValueError)),
        6, "which was not recorded: BeamIOError", VOIDED, 1,
    ),
    "the ledger is locked at the void": Fault(
        locked_after(READ, disk(errno.EIO)), 6, LOCKED, RESERVED, 1
    ),
    "a commit is interrupted": Fault(raising(COMMIT, KeyboardInterrupt), 6, SPENT, DRAWN, 1),
    "a commit fails": Fault(raising(COMMIT, ValueError), 6, SPENT, DRAWN, 1),
    "a commit fails on Beam": Fault(raising(COMMIT, ValueError), 6, SPENT, DRAWN, 1, BEAM),
    "a disk is too full to rename": Fault(
        raising("files.rename", disk()), 6, "OSError (No space left on device)", DRAWN, 1
    ),
    **{f"file {n}": Fault(full_file(n), 6, NOTHING, DRAWN, 1) for n in FILES},
    "a disk of a worker is full": Fault(full_file(FILES[-1]), 6, NOTHING, DRAWN, 1, BEAM),
    "a job elsewhere fails": Fault(
        both(elsewhere, raising("on_beam.build_release", ValueError)), 6, SPENT, DRAWN, 1, BEAM
    ),
    "nobody can tell": Fault(
        both(unreadable_output, raising(COMMIT, ValueError)),
        6, "cannot be told (OSError (Input/output error))", DRAWN, 1,
    ),
    "interrupted once it is visible": Fault(
        raising(COMMIT, KeyboardInterrupt, after=True), 7, COMPLETE, DRAWN, 1
    ),
    "failed once it is visible": Fault(
        raising(COMMIT, ValueError, after=True), 7, COMPLETE, DRAWN, 1, BEAM
    ),
    **{f"interrupted: {step}": Fault(raising(step, KeyboardInterrupt), 7, COMPLETE, None, None)
       for step in AFTERWARDS},
    **{f"failed: {step}": Fault(raising(step, disk()), 7, COMPLETE, None, None)
       for step in AFTERWARDS},
    "the ledger is locked at the commit": Fault(
        locked_after("ReleaseFolder.point_latest"), 7, LOCKED, DRAWN, 1
    ),
    "the ledger is locked at the reservation": Fault(
        locked_after("KeyStore.reserve"), 75, LOCKED, (), 1
    ),
    "the ledger does not answer, and has it": Fault(
        raising("Ledger.reserve", SILENT, after=True), 6, "does not answer", RESERVED, 1
    ),
    **{f"private file {n}": Fault(
        full_private_file(n), 6, "cannot be used: No space left on device; check its disk",
        None, None,
    ) for n in PRIVATE},
}  # fmt: skip
NIGHTLY = (
    "a read is interrupted", "a disk fails", *(f"interrupted: {s}" for s in AFTERWARDS[1:]),
    *(f"file {n}" for n in FILES[1:-1]),
)  # fmt: skip


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, dict[str, str]]:
    """The files of releases that nobody disturbed, by their keys."""
    made = {}
    for secret in (FIRST, SECOND):
        place = Faulty(tmp_path_factory.mktemp("expected"), *FLAGS)
        with pytest.MonkeyPatch.context() as patch:
            fix_key(patch, secret)
            assert place.run() == 0
        place.check_finished()
        made[secret] = digests(place.release)
    return made


@pytest.mark.parametrize("name", [at_night(n) if n in NIGHTLY else n for n in FAULTS])
def test_a_run_that_fails_leaves_nothing_or_all_and_the_next_one_finishes_it_for_nothing(
    name: str,
    tmp_path: Path,
    expected: dict[bytes, dict[str, str]],
    monkeypatch: Patch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault, place = FAULTS[name], Faulty(tmp_path / "place", *FLAGS)
    impatient = functools.partial(Ledger, patience_seconds=0.2)
    monkeypatch.setattr(opening_module, "Ledger", impatient)
    fix_key(monkeypatch, FIRST)
    with pytest.MonkeyPatch.context() as patch:
        with fault.inject(place, patch) or contextlib.nullcontext():
            assert place.run(*fault.flags) == fault.code
    told = " ".join(capsys.readouterr().err.split())
    assert fault.told in told and "case-7" not in told
    is_visible = fault.code == 7
    if is_visible:
        assert digests(place.release) == expected[FIRST]
        assert len(counting_charges(place.keys)) == 1
    else:
        assert visible(place.out) == []
    if fault.actions is not None:
        assert tuple(place.actions) == fault.actions
    if fault.n_keys is not None:
        assert len(key_files(place.keys)) == fault.n_keys
    if fault.n_keys == 0:
        assert not place.workplace.exists()
    elif fault.actions == DRAWN:
        assert stat.S_IMODE(place.workplace.stat().st_mode) == 0o700
    assert not list(place.keys.rglob("tmp*"))

    fix_key(monkeypatch, SECOND)
    with pytest.MonkeyPatch.context() as patch:
        if any(Path(place.built.decisions).rglob("*/*")):  # it is not decided again
            patch.setattr(METHODS["variant-histogram"], "decide", _decided_again)
        assert place.run(*fault.flags) == 0
    assert ("already released" in capsys.readouterr().out) == is_visible
    if fault.n_keys is not None or is_visible:
        same = is_visible or fault.n_keys
        assert digests(place.release) == expected[FIRST if same else SECOND]
    place.check_finished()


def _decided_again(*_: object) -> None:
    raise AssertionError("decided again")
