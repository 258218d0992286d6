"""The counted units: which cases each window counted, so that no unit counts in two.

A case of November that is corrected in December may belong to December then, and was counted in
November already. So before a window's release counts anything, its units are *claimed*: those that
another window of the same scope has are left out, and the rest goes into a table of the ledger's
database, together with the ledger's entry `claim`, which has the SHA-256 of it. The release counts
what is in the table and nothing else, also where it is run again. What a release claimed stays
claimed for ever, unless its charge was given back before it drew noise.

A window that is released twice may count the same units again, as it pays twice. Where individuals
are the units, all windows together count as many cases of an individual as one release may. Which
cases these are depends only on the individual's own cases and on what was claimed before.

An index finds what earlier windows have of the same units, however many windows there are. Each
release compares its own units and those of the last window with the ledger, and none of the scope
is released if these are gone or were changed; `ledger verify` and `windows --verify` compare all.
As nobody could tell what was counted, the key of the digests is never replaced.

Whoever reads the table and has the key can ask of any case whether it was counted. How many units
were left out is for the operator alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.anonymizers.noise.randomness import ReleaseKey, text_digest
from tracecloak.pipelines.ledger.balance import KnownCharge, charge_states, claims_of
from tracecloak.pipelines.ledger.database import UNITS, Asks, LedgerError
from tracecloak.pipelines.ledger.entries import Entry, Step, WindowCharge
from tracecloak.pipelines.ledger.ledger import Ledger, steps_of
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError

# Words of one query; and the bytes of a salt, which no row of a unit has.
_N_WORDS, _N_SALT = 5_000, 16
_REMEDY = (
    "Nothing of this schedule is released until the ledger's database is restored from a backup; "
    "if they are lost, release under another schedule, whose windows are charged in addition"
)


class CaseRegistryError(LedgerError):
    """It is not known what was counted, so nothing may be released."""


@dataclass(frozen=True, eq=False)
class Claimed:
    """What a release claimed.

    Attributes:
        scope: Of the window.
        label: The window's.
        n_left_out: How many more cases it would have counted if no other window had claimed them
            and no individual had too many. For the operator alone.
        salt: Hex digits drawn at random. The SHA-256 is in the ledger, which others may read; by
            the salt it does not show them that a claim has no units, or that two have the same.
        units: What the release counts, and nothing else.
    """

    scope: str
    label: str
    n_left_out: int
    salt: str
    units: CountedUnits

    def to_bytes(self) -> bytes:
        """Returns a line of JSON, then the units."""
        names = "label", "n_left_out", "salt", "scope"
        head = json.dumps({name: getattr(self, name) for name in names})
        return head.encode() + b"\n" + self.units.to_bytes()

    @property
    def sha256(self) -> str:
        """What the ledger has of it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def rows(self, seq: int) -> list[dict[str, Any]]:
        """Returns its rows of the table: one of how many were left out and the salt, one a unit.

        Args:
            seq: Number of its entry.
        """
        words = self.units.digests[:, 0].view(np.int64).tolist()
        rests = np.ascontiguousarray(self.units.digests[:, 1:], "<u8")
        units = zip(words, (rest.tobytes() for rest in rests), strict=True)
        head = self.n_left_out, bytes.fromhex(self.salt)
        return [{"seq": seq, "word": word, "rest": rest} for word, rest in (head, *units)]

    @classmethod
    def from_rows(cls, scope: str, label: str, rows: Sequence[tuple[int, bytes]]) -> Claimed:
        """Returns the claim of these rows.

        Raises:
            ValueError: They are not the rows of one claim.
        """
        [(n_left_out, salt)] = [row for row in rows if len(row[1]) == _N_SALT]
        units = _units([row for row in rows if len(row[1]) != _N_SALT])
        return cls(scope, label, n_left_out, salt.hex(), units)


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
    return f"{digest[:32]}-{book_key_fingerprint}"


class CaseRegistry:
    """The counted units of one ledger, under one key; safe for any number of processes."""

    def __init__(
        self, key: ReleaseKey, ledger: Ledger, max_cases_per_individual: int | None
    ) -> None:
        """Reads nothing yet.

        Args:
            key: Of the digests, never replaced.
            ledger: In whose database the units are.
            max_cases_per_individual: How many cases of an individual count in all windows together;
                None: the units are cases, or what is charged adds up.
        """
        self._key_fingerprint = key.fingerprint
        self._ledger = ledger
        self._max_cases = max_cases_per_individual

    def claim(
        self, output: str, release_id: str, key_fingerprint: str, units: CountedUnits
    ) -> Claimed:
        """Claims the units of a release; a release that has claimed keeps the units that it has.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            key_fingerprint: Tells release keys apart.
            units: All that belong to its window, under this key.

        Returns:
            What it may count: those of the units that no other window has.

        Raises:
            UsageError: The release is not reserved, or not any more, or it is of no window; or its
                units are individuals without a cap on their cases, although only the dearest window
                is to be charged.
            CaseRegistryError: What was counted is gone or was changed, or is of another key.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        claimed: Claimed

        def steps(past: LedgerSnapshot) -> list[Step]:
            nonlocal claimed
            live = self._ledger.live(past, (output, release_id, key_fingerprint))
            places = {state.window and state.window.place for state in live}
            window = live[-1].window
            if window is None or len(places) > 1:
                what = "several windows" if any(places) else "no window"
                raise UsageError(
                    f"release {release_id!r} in {output} is reserved for {what}: use `tracecloak "
                    "ledger forfeit`, and choose another release_id"
                )
            self.check(window.scope, past)
            before = claims_of(map(KnownCharge.of, live))[-1:]
            claimed = (
                _claimed(past.ask, before[0]) if before else self._to_claim(past, window, units)
            )
            unclaimed = (state for state in live if state.last.action == "reserve")
            return steps_of("claim", unclaimed, {"units": claimed.sha256})

        self._ledger.append(steps, units=lambda seq: claimed.rows(seq))
        return claimed

    def _to_claim(self, past: LedgerSnapshot, window: WindowCharge, units: CountedUnits) -> Claimed:
        """Returns what a release of a window claims at first: units that no other window has."""
        if units.is_of_individuals and self._max_cases is None and not window.adds_up:
            raise UsageError(
                "individuals are the units of windows that are paid by the dearest, and no number "
                "bounds their cases in all of them; set max_cases_per_individual"
            )
        claims = _same(past, window.scope, units)
        to_count = units_to_count(units, window.label, claims, self._max_cases)
        n_left_out = len(units.digests) - len(to_count.digests)
        return Claimed(*window.place, n_left_out, secrets.token_hex(_N_SALT), to_count)

    def frozen(self, output: str, release_id: str, key_fingerprint: str) -> Claimed | None:
        """Returns what a release claimed; None: nothing, or its charge was given back.

        Raises:
            CaseRegistryError: It is gone or was changed; or as for `check`.
            LedgerError: The ledger cannot be read, or somebody changed what it said.
        """
        past = self._ledger.past(is_sound=True)
        for state in reversed(past.states(output, release_id, key_fingerprint)):
            if state.window is not None and state.claim is not None:
                self.check(state.window.scope, past)
                return _claimed(past.ask, KnownCharge.of(state))
        return None

    def check(
        self, scope: str, past: LedgerSnapshot | None = None, compares_all: bool = False
    ) -> int:
        """Makes sure that it is known what the windows of a scope counted.

        Args:
            scope: See `scope_of`.
            past: What the ledger says; None: it is read.
            compares_all: Whether what all windows counted is compared, and not the last one alone.

        Returns:
            The number of claims.

        Raises:
            CaseRegistryError: What a window counted is gone or was changed; or the windows of the
                scope were counted under another key.
            LedgerError: The ledger cannot be read, or somebody changed what it said.
        """
        past = past or self._ledger.past(is_sound=True)
        digits, _, key = scope.partition("-")
        if key != self._key_fingerprint:
            raise CaseRegistryError(
                f"scope {scope} is of the book with key {key or 'none'}, and this book has key "
                f"{self._key_fingerprint}; set book_key to that of the reservation"
            )
        other = past.other_claims(scope, f"{digits}-")
        if other is not None:
            raise CaseRegistryError(
                f"windows of this schedule were counted under book key {other.partition('-')[2]}: "
                f"name it with book_key, or restore book.secret of its key store. {_REMEDY}"
            )
        claims = past.claims(scope)
        for claim in claims if compares_all else claims[-1:]:
            _claimed(past.ask, claim)
        return len(claims)


def units_of(ledger: Ledger, entries: Sequence[Entry]) -> Iterator[Claimed | CaseRegistryError]:
    """Yields what each claim that counts has in a ledger's table, or what is wrong with that.

    Args:
        ledger: The ledger.
        entries: All its entries.

    Raises:
        LedgerError: The table cannot be read.
    """
    for claim in claims_of(map(KnownCharge.of, charge_states(entries).values())):
        try:
            yield _claimed(ledger.ask, claim)
        except CaseRegistryError as error:
            yield error


def claim_in(data: bytes, sha256: str) -> Claimed | None:
    """Returns what `Claimed.to_bytes` wrote; None: the ledger names something else."""
    head, _, body = data.partition(b"\n")
    try:
        claimed = Claimed(**json.loads(head), units=CountedUnits.from_bytes(body))
    except (ValueError, TypeError):
        return None
    return claimed if claimed.sha256 == sha256 else None


def _claimed(ask: Asks, known: KnownCharge) -> Claimed:
    """Returns what a claim has in the table.

    Raises:
        CaseRegistryError: It is gone, or is not what the ledger says.
    """
    asked = sa.select(UNITS).where(UNITS.c.seq == known.claim)
    rows = [(word, rest) for _, word, rest in ask(asked)]
    with contextlib.suppress(ValueError):
        claimed = Claimed.from_rows(known.scope, known.label, rows)
        if claimed.sha256 == known.units:
            return claimed
    raise CaseRegistryError(
        f"the units that window {known.label} counted (entry {known.claim} of the ledger) "
        f"{'were changed' if rows else 'are gone'}. `tracecloak ledger migrate` takes in the files "
        f"of earlier versions. {_REMEDY}"
    )


def _same(past: LedgerSnapshot, scope: str, units: CountedUnits) -> list[tuple[str, CountedUnits]]:
    """Returns what claims of a scope have of the same cases or individuals as some units.

    Returns:
        (Label, units) of each claim that has any; by chance with a few others, too.
    """
    labels = {known.claim: known.label for known in past.claims(scope)}
    words = [*{*units.digests[:, 0].view(np.int64).tolist()}] if labels else []
    found: dict[int, list[tuple[int, bytes]]] = {}
    for at in range(0, len(words), _N_WORDS):
        asked = sa.select(UNITS).where(UNITS.c.word.in_(words[at : at + _N_WORDS]))
        for seq, word, rest in past.ask(asked):
            if seq in labels and len(rest) != _N_SALT:
                found.setdefault(seq, []).append((word, rest))
    return [(labels[seq], _units(rows)) for seq, rows in found.items()]


def _units(rows: Sequence[tuple[int, bytes]]) -> CountedUnits:
    if not rows:
        return CountedUnits.merge(())
    words = np.array([word for word, _ in rows], np.int64).view(np.uint64)
    rests = np.frombuffer(b"".join(rest for _, rest in rows), "<u8").astype(np.uint64)
    return CountedUnits.of(np.column_stack([words, rests.reshape(len(rows), -1)]))


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
    this_window = CountedUnits.merge(windows.pop(label, []))
    others = [CountedUnits.merge(parts) for parts in windows.values()]
    # Rows are sorted by their digests, so an individual's rows lie together, in the order of the
    # cases' digests. Where a case is its own unit, it is that unit's only row.
    whose = units.digests[:, :2]
    begins = np.flatnonzero(np.append(True, np.any(whose[1:] != whose[:-1], axis=1))[: len(whose)])
    n_cases = np.diff(begins, append=len(units.digests))
    n_claimed = np.zeros(len(begins), np.int64)
    is_left = np.ones(len(units.digests), bool)
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
