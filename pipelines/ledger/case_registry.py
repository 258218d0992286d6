"""The book of counted units: which cases each window counted, so that no unit counts in two.

A case of November that is corrected in December may belong to December then, and was counted in
November already. So before a window's release counts anything, its units are *claimed*, under the
ledger's lock: those that another window of the same scope has are left out, and the rest is written
to a file, whose SHA-256 stands in the ledger's entry `claim`. The release counts what is in that
file and nothing else, also where it is run again. What a release claimed stays claimed for ever,
unless its charge was given back before it drew noise.

A window that is released twice may count the same units again, as it pays twice. Where individuals
are the units, all windows together count as many cases of an individual as one release may. Which
cases these are depends only on the individual's own cases and on what was claimed before.

The files are named after their content, and each is complete before the ledger names it. A file
that the ledger does not name comes from a run that was cut off, and means nothing. A key store
reads each file that the ledger names once, compares it with the ledger, and has what was counted in
an index from then on (`pipelines.ledger.unit_index`). If a file that it has not read, or the
last window's, is missing or different, no window of the scope is released; `windows --verify` reads
all of them. As nobody could tell what was counted, the key of the digests is never replaced.

Whoever reads the folder and has the key can ask of any case whether it was counted. How many units
were left out is for the operator alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.anonymizers.noise.randomness import ReleaseKey, text_digest
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry, WindowCharge
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.pipelines.ledger.unit_index import UnitIndex, asked_of_index, index_name
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import is_on_this_machine, read_if_there, sync_folder, write_anew

_Answer = TypeVar("_Answer")
# Digits of a scope before the key's fingerprint.
_SCOPE_DIGITS = 32
# Of many files so many are read together, until so many units are taken in together; files on
# another file system so many at a time.
_N_FILES, _N_UNITS, _N_READERS = 64, 1 << 20, 8
_REMEDY = (
    "Nothing of this schedule is released until the book is restored from a backup; if it is lost, "
    "release under another schedule, whose windows are charged in addition"
)


class CaseRegistryError(LedgerError):
    """The book of counted units does not say what was counted, so nothing may be released."""


@dataclass(frozen=True, eq=False)
class Claimed:
    """What a release claimed, as a file of the book says.

    Attributes:
        path: The file with the units.
        sha256: Of all that is in the file; it is in the ledger, too.
        scope: Of the window.
        label: The window's.
        n_left_out: How many more cases it would have counted if no other window had claimed them
            and no individual had too many. For the operator alone.
        units: What the release counts, and nothing else.
    """

    path: str
    sha256: str
    scope: str
    label: str
    n_left_out: int
    units: CountedUnits


def scope_of(
    schedule_digest: str,
    dataset: str,
    unit: str,
    unit_columns: Sequence[str],
    max_cases_per_individual: int | None,
    book_key_fingerprint: str,
) -> str:
    """Returns the name of a scope: windows that together cost what the dearest of them costs.

    Args:
        schedule_digest: Of the schedule; another period or zone is another scope.
        dataset: What the configuration calls the data.
        unit: The unit of privacy.
        unit_columns: Columns of the source that say whose an event is.
        max_cases_per_individual: How many cases of an individual count in all windows together.
        book_key_fingerprint: Of the key of the book, see `KeyStore.book_key`.

    Returns:
        32 hex digits of all but the key, a hyphen, and the key's fingerprint, by which the book
        notices that the same windows were counted under another key.
    """
    digest = text_digest(
        "scope of windows", schedule_digest, dataset, unit, len(unit_columns), *unit_columns,
        max_cases_per_individual,
    )  # fmt: skip
    return f"{digest[:_SCOPE_DIGITS]}-{book_key_fingerprint}"


class CaseRegistry:
    """The book in one folder, under one key; safe for any number of processes."""

    def __init__(
        self, folder: str, key: ReleaseKey, ledger: Ledger, max_cases_per_individual: int | None
    ) -> None:
        """Reads nothing yet.

        Args:
            folder: On this machine or any Beam file system; the same one for all who share the
                ledger.
            key: Of the digests, never replaced.
            ledger: Has an entry for each claim; its key store has the index of the units.
            max_cases_per_individual: How many cases of an individual count in all windows together;
                None: the units are cases, or what is charged adds up.

        Raises:
            UsageError: That is below 1.
        """
        if max_cases_per_individual is not None and max_cases_per_individual < 1:
            raise UsageError(
                f"max_cases_per_individual must be at least 1, got {max_cases_per_individual}"
            )
        self._folder = folder.rstrip("/") if len(folder) > 1 else folder
        self._key_fingerprint = key.fingerprint
        self._ledger = ledger
        self._max_cases = max_cases_per_individual
        self._index = index_name(self._folder)

    def claim(
        self, output: str, release_id: str, key_fingerprint: str, units: CountedUnits
    ) -> Claimed:
        """Claims the units of a release; a release that has claimed keeps the units that it has.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            key_fingerprint: Tells release keys apart.
            units: All that belong to its window, under the key of this book.

        Returns:
            What it may count: those of the units that no other window has.

        Raises:
            UsageError: The release is not reserved, or not any more, or it is of no window; or its
                units are individuals without a cap on their cases, although only the dearest window
                is to be charged.
            CaseRegistryError: The book was changed, lacks a file, or is not that of the release's
                scope.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        # Earlier claims are taken in before the ledger is locked; under the lock, only those made
        # since.
        release = output, release_id, key_fingerprint
        past = self._ledger.past(is_sound=True)
        for scope in {window.scope for window, _ in _charged(past, *release)}:
            self._check_known(past, scope)

        def freeze(past: LedgerSnapshot, window: WindowCharge) -> str:
            self._check_known(past, window.scope)
            if units.is_of_individuals and self._max_cases is None and not window.adds_up:
                raise UsageError(
                    "individuals are the units of windows that are paid by the dearest, and no "
                    "number bounds their cases in all of them; set max_cases_per_individual"
                )
            by_file = self._asked(past, window.scope, lambda index: index.files_with_same(units))
            labels = {sha256: label for label, _, sha256 in past.claims(window.scope)}
            claims = [(labels[one], units) for one, units in by_file.items() if one in labels]
            to_count = units_to_count(units, window.label, claims, self._max_cases)
            return self._written(*window.place, units.weight - to_count.weight, to_count)

        sha256 = self._ledger.claim(release, freeze)
        frozen = self.frozen(*release)
        if frozen is None or frozen.sha256 != sha256:
            raise UsageError(
                f"release {release_id!r} in {output} was ended in {self._ledger.place} while it "
                "claimed its units; run the command again, which reserves anew"
            )
        return frozen

    def frozen(self, output: str, release_id: str, key_fingerprint: str) -> Claimed | None:
        """Returns what a release claimed; None: nothing, or its charge was given back.

        Raises:
            CaseRegistryError: The file is missing, or is not what the ledger says, or the book is
                not that of the release's scope.
            LedgerError: The ledger cannot be read, or somebody changed what it said.
        """
        past = self._ledger.past(is_sound=True)
        charged = _charged(past, output, release_id, key_fingerprint)
        live = [(window, claim) for window, claim in charged if claim is not None]
        if not live:
            return None
        window, last_claim = live[-1]
        sha256 = last_claim.units_sha256
        assert sha256 is not None  # of a claim in a sound ledger
        self._check_scope(past, window.scope)
        return self._verified_file(window.scope, sha256, window.label)

    def check(self, scope: str) -> None:
        """Makes sure that the units of all claims of a scope are known, see `scope_of`.

        Raises:
            CaseRegistryError: A file that was not read before, or that of the last window, is
                missing or was changed; or the windows of the scope were counted under another key,
                which this book does not have.
            LedgerError: The ledger cannot be read, or somebody changed what it said.
            KeyStoreError: The index cannot be used.
        """
        past = self._ledger.past(is_sound=True)
        self._check_known(past, scope)

    def verify(self, scope: str) -> int:
        """Compares every file of a scope, and what is known of it, with the ledger.

        Returns:
            The number of files.

        Raises:
            CaseRegistryError: A file is missing or was changed, or the index does not say what it
                says; or as for `check`.
            LedgerError: The ledger cannot be read, or somebody changed what it said.
            KeyStoreError: The index cannot be used.
        """
        past = self._ledger.past(is_sound=True)
        self._check_known(past, scope)
        labels = {sha256: label for label, _, sha256 in past.claims(scope)}
        weights = self._asked(past, scope, UnitIndex.weights)
        for files in self._read(scope, labels):
            every = CountedUnits.merge([file.units for file in files.values()])
            indexed = self._asked(past, scope, partial(UnitIndex.files_with_same, units=every))
            for sha256, file in files.items():
                in_file = indexed.get(sha256, CountedUnits.merge(()))
                if weights.get(sha256, 0) != file.units.weight or not np.array_equal(
                    in_file.digests, file.units.digests
                ):
                    raise CaseRegistryError(
                        f"the key store's index of the book, {self._index}, differs from what "
                        f"window {file.label} counted; remove it, and the next release makes "
                        "it anew. Releases since may have counted units twice"
                    )
        return len(labels)

    def _asked(
        self, past: LedgerSnapshot, scope: str, ask: Callable[[UnitIndex], _Answer]
    ) -> _Answer:
        """Returns an answer of the index, which has all claims of a scope by then."""

        def asked(index: UnitIndex) -> _Answer:
            there = index.files()
            new = {sha256: label for label, _, sha256 in past.claims(scope) if sha256 not in there}
            for files in self._read(scope, new):
                index.take_in({sha256: file.units for sha256, file in files.items()})
            return ask(index)

        assert self._ledger.memory is not None  # whoever claims units has a key store
        return asked_of_index(self._ledger.memory.store, self._index, asked)

    def _check_known(self, past: LedgerSnapshot, scope: str) -> None:
        """Has the index know all claims of a scope, and makes sure that the last one is there."""
        self._check_scope(past, scope)
        self._asked(past, scope, lambda index: None)
        for label, _, sha256 in past.claims(scope)[-1:]:
            self._verified_file(scope, sha256, label)

    def _check_scope(self, past: LedgerSnapshot, scope: str) -> None:
        """Makes sure that a scope has this book's key, and was never counted under another key."""
        if _key_of(scope) != self._key_fingerprint:
            raise CaseRegistryError(
                f"scope {scope} is of the book with key {_key_of(scope) or 'none'}, and this book "
                f"has key {self._key_fingerprint}; set book_key to that of the reservation"
            )
        digits = scope[:_SCOPE_DIGITS]  # before characters that are none
        other = past.other_claims(scope, digits)
        if other is not None:
            raise CaseRegistryError(
                f"windows of this schedule were counted under book key {_key_of(other)}, not "
                f"{self._key_fingerprint}: name that key with book_key, or restore book.secret of "
                f"its key store. {_REMEDY}"
            )

    def _written(self, scope: str, label: str, n_left_out: int, units: CountedUnits) -> str:
        """Writes a file as a whole, unless it is there; returns its SHA-256.

        Two who write one write the same, so neither need know of the other. Where files are not
        written by this machine it is read back.
        """
        data = file_of(scope, label, n_left_out, units)
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._path(scope, sha256)
        try:
            if read_if_there(path) != data:
                write_anew(path, data)
                if not is_on_this_machine(path) and read_if_there(path) != data:
                    raise OSError(errno.EIO, "what was written is not what is read back", path)
            if is_on_this_machine(self._folder):
                for folder in (Path(path).parent, Path(self._folder)):
                    with contextlib.suppress(OSError):  # some file systems have nothing to do
                        sync_folder(folder)
        except Exception as error:  # each file system has its own
            raise CaseRegistryError(
                f"the book of counted units in {self._folder} cannot be written: {_reason(error)}; "
                "check its disk and its permissions, and run again"
            ) from error
        return sha256

    def _read(self, scope: str, labels: Mapping[str, str]) -> Iterator[dict[str, Claimed]]:
        """Reads the files that claims name, a piece of them at a time, and compares each.

        Args:
            scope: Of the windows.
            labels: The label of each file's window, by its SHA-256.

        Yields:
            Files' content, by SHA-256.

        Raises:
            CaseRegistryError: One is missing, or not what the ledger says.
        """
        files: dict[str, Claimed] = {}
        names = list(labels)
        with ThreadPoolExecutor(_N_READERS) as readers:
            for at in range(0, len(names), _N_FILES):
                some = {sha256: labels[sha256] for sha256 in names[at : at + _N_FILES]}
                read = readers.map(partial(self._verified_file, scope), some, some.values())
                files |= dict(zip(some, read, strict=True))
                if sum(file.units.weight for file in files.values()) >= _N_UNITS:
                    yield files
                    files = {}
        if files:
            yield files

    def _verified_file(self, scope: str, sha256: str, label: str) -> Claimed:
        path, what = self._path(scope, sha256), ""
        try:
            data = read_if_there(path)
        except Exception as error:  # each file system has its own
            data, what = b"", f"cannot be read ({_reason(error)})"
        if data is None:
            what = "is not there"
        elif not what and hashlib.sha256(data).hexdigest() != sha256:
            what = f"was changed: it is not what {self._ledger.place} says"
        if what or data is None:
            raise CaseRegistryError(
                f"{path}, the file of the book of what window {label} counted, {what}. {_REMEDY}"
            )
        try:
            head, _, body = data.partition(b"\n")
            said = json.loads(head)
            said.pop("salt")
            file = Claimed(path, sha256, **said, units=CountedUnits.from_bytes(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CaseRegistryError(
                f"{path}, which {self._ledger.place} names, is not a file of counted units "
                f"({type(error).__name__}); use the version that wrote it, or a later one"
            ) from None
        if (file.scope, file.label) != (scope, label):
            raise CaseRegistryError(
                f"{path} is of window {file.label} of scope {file.scope}, and "
                f"{self._ledger.place} names it for window {label}. {_REMEDY}"
            )
        return file

    def _path(self, scope: str, sha256: str) -> str:
        # A scope is hex digits and a hyphen where `scope_of` made it; no other text is a path.
        place = scope if _key_of(scope) else text_digest(scope)[:_SCOPE_DIGITS]
        return f"{self._folder}/{place}/{sha256}.units"


def units_to_count(
    units: CountedUnits,
    label: str,
    claims: Sequence[tuple[str, CountedUnits]],
    max_cases: int | None,
) -> CountedUnits:
    """Returns which units a window may count, given all claims.

    It may not count units that other windows claimed. Of an individual it may count new cases up to
    `max_cases`, less those that any window has claimed, this one included. Of several new cases it
    takes those with the smallest digests: a choice by chance that depends on the individual's own
    cases alone. Cases that this window claimed before count again, and take up no more of that
    number.

    Args:
        units: All that belong to the window.
        label: The window's.
        claims: (Label, units) of all claims that count, this window's own among them; what they
            have of other cases and individuals does not matter.
        max_cases: How many cases of an individual count in all windows together; None: any number.
    """
    windows: dict[str, list[CountedUnits]] = {}
    for name, claimed in claims:
        windows.setdefault(name, []).append(claimed)
    this_window = _union(windows.pop(label, []))
    others = [_union(parts) for parts in windows.values()]
    # Rows are sorted by their digests, so an individual's rows lie together, in the order of the
    # cases' digests. Where a case is its own unit, it is that unit's only row.
    whose = units.digests[:, :2]
    begins = np.flatnonzero(np.append(True, np.any(whose[1:] != whose[:-1], axis=1))[: len(whose)])
    n_cases = np.diff(begins, append=units.weight)
    n_claimed = np.zeros(len(begins), np.int64)
    is_left = np.ones(units.weight, bool)
    for other in others:
        n_there = other.cases_of(whose[begins])
        n_claimed += n_there
        rows = np.flatnonzero(np.repeat(n_there > 0, n_cases))
        is_left[rows] &= ~other.holds(units.digests[rows])
    if max_cases is None or not units.is_of_individuals:
        return units.take(is_left)
    n_claimed += this_window.cases_of(whose[begins])
    is_new = is_left & ~this_window.holds(units.digests)
    n_new = np.cumsum(is_new)
    rank = n_new - np.repeat(n_new[begins] - is_new[begins], n_cases)
    has_room = rank + np.repeat(n_claimed, n_cases) <= max_cases
    return units.take(is_left & (~is_new | has_room))


def _union(pieces: Sequence[CountedUnits]) -> CountedUnits:
    return pieces[0] if len(pieces) == 1 else CountedUnits.merge(pieces)


def file_of(scope: str, label: str, n_left_out: int, units: CountedUnits) -> bytes:
    """Returns a file of the book: a line of JSON, then the units; see `Claimed`.

    Its SHA-256 is in the ledger, which others may read. Because of the salt the SHA-256 does not
    show them that a claim has no units, or that two claims have the same.
    """
    salt = secrets.token_hex(16)
    head = {"label": label, "n_left_out": n_left_out, "salt": salt, "scope": scope}
    return json.dumps(head).encode() + b"\n" + units.to_bytes()


def _charged(
    past: LedgerSnapshot, output: str, release_id: str, key_fingerprint: str
) -> list[tuple[WindowCharge, Entry | None]]:
    """Returns (window, claim) of the charges of a release of windows, the latest one last."""
    states = past.states(output, release_id, key_fingerprint)
    return [(state.window, state.claim) for state in states if state.window is not None]


def _key_of(scope: str) -> str:
    """Returns the fingerprint of the key in a scope; empty: `scope_of` did not make it."""
    digest, _, key = scope.partition("-")
    is_hex = not set(digest + key) - set("0123456789abcdef")
    return key if is_hex and len(digest) == _SCOPE_DIGITS and key else ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
