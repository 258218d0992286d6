"""What a ledger says: its entries, and the chain that binds them.

A charge is one release's claim on an account. An entry `reserve` opens it before the release runs.
`draw` says that noise may be drawn from now on, so what was reserved is never given back; `commit`,
that the release is visible; `void`, that it ended before it could draw anything; `forfeit`, that
somebody gave it up after that, which leaves it spent. `pipelines.budget.balance` adds charges up,
`pipelines.budget.ledger` keeps the entries.

Each entry holds the SHA-256 of its own columns and of the entry before. So an entry that is
changed, removed, inserted or moved is noticed. Entries removed from the end, and a chain that was
computed anew from some entry on, are noticed only by who knows a hash of an earlier day: note the
last one elsewhere.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.budget.accounts import parse_decimal
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Adjacency, Unit
from tracecloak.schemas.published.manifest import TOOL_VERSION

Action = Literal["reserve", "draw", "commit", "void", "forfeit"]

Charge = tuple[str | None, ...]

# The hash before the first entry.
_FIRST_HASH = "0" * 64
# What tells one charge from another.
_CHARGE = (
    "account", "output", "release_id", "key_fingerprint", "config_digest",
    "epsilon", "delta", "unit", "adjacency",
)  # fmt: skip
_charge_of = operator.attrgetter(*_CHARGE)


@dataclass(frozen=True)
class Reservation:
    """What a release asks of an account.

    Attributes:
        account: The account's name.
        release_id: The release's name.
        output: The folder of all releases that it goes to.
        epsilon: What the whole release costs, an exact decimal; None: no finite epsilon holds.
        delta: The delta that goes with it; may be None only where epsilon is.
        unit: The unit of privacy that epsilon is about.
        adjacency: The change of the input that epsilon is about.
        method: Name of the method.
        spends: How epsilon and delta are shared within the release, JSON values; fractions may
            stand for decimals.
        config_digest: Digest of the configuration.
        key_fingerprint: Tells release keys apart.
    """

    account: str
    release_id: str
    output: str
    epsilon: Fraction | None
    delta: Fraction | None
    unit: Unit
    adjacency: Adjacency
    method: str
    spends: tuple[dict[str, Any], ...]
    config_digest: str
    key_fingerprint: str

    def __post_init__(self) -> None:
        for name in (
            "account", "release_id", "output", "method", "config_digest", "key_fingerprint"
        ):  # fmt: skip
            text = getattr(self, name)
            if not isinstance(text, str) or not text or not text.isprintable():
                raise UsageError(f"{name} must be printable text and not empty, got {text!r}")
        for name, value, largest in (("epsilon", self.epsilon, None), ("delta", self.delta, 1)):
            if value is None:
                continue
            if not isinstance(value, Fraction):
                raise UsageError(f"{name} must be an exact fraction, got {value!r}")
            if value < 0 or (largest is not None and value > largest):
                above = "" if largest is None else f" and at most {largest}"
                raise UsageError(f"{name} must be at least 0{above}, got {value}")
        if self.epsilon is not None and self.delta is None:
            raise UsageError("a finite epsilon needs a delta; give 0 if there is none")
        if self.unit not in get_args(Unit):
            raise UsageError(f"unit must be one of {', '.join(get_args(Unit))}, got {self.unit!r}")
        if self.adjacency not in get_args(Adjacency):
            raise UsageError(
                f"adjacency must be one of {', '.join(get_args(Adjacency))}, got {self.adjacency!r}"
            )
        self.columns()  # for its errors

    def columns(self) -> dict[str, Any]:
        """Returns the columns of an entry about this reservation: numbers and spends are text.

        Raises:
            UsageError: A number is no exact decimal, or the spends hold what JSON cannot.
        """
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("epsilon", "delta"):
            value = columns[name]
            try:
                columns[name] = None if value is None else decimal_text(value)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
        try:
            columns["spends"] = canonical_json(self.spends)
        except (TypeError, ValueError):
            raise UsageError(
                "spends must be JSON values: text, finite numbers, lists, mappings"
            ) from None
        return columns

    @property
    def charge(self) -> Charge:
        """What tells one charge from another."""
        columns = self.columns()
        return tuple(columns[name] for name in _CHARGE)


@dataclass(frozen=True)
class Entry:
    """One row of a ledger; numbers are exact decimals as text, None is SQL's null.

    Attributes:
        seq: Its place, counted from 1 without gaps.
        account, release_id, output, unit, adjacency, method: See `Reservation`.
        config_digest, key_fingerprint: See `Reservation`.
        action: What happened to the charge.
        epsilon: None: no finite epsilon holds.
        delta: None only where epsilon is.
        spends: JSON, see `Reservation`.
        tool_version: Version of tracecloak that wrote the entry.
        recorded_at: When, ISO 8601 in UTC.
        previous_hash: The hash of the entry before; 64 zeros for the first.
        hash: SHA-256 of all other columns, see `digest`.
        details: What only some entries have, a JSON object as text: who did it and why, say. Empty
            where there is nothing, as in all entries of version 0.1.
    """

    seq: int
    account: str
    release_id: str
    output: str
    action: Action
    epsilon: str | None
    delta: str | None
    unit: Unit
    adjacency: Adjacency
    method: str
    spends: str
    config_digest: str
    key_fingerprint: str
    tool_version: str
    recorded_at: str
    previous_hash: str
    hash: str
    details: str = ""

    @classmethod
    def after(
        cls,
        previous: Entry | None,
        action: Action,
        columns: Mapping[str, Any],
        details: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Returns the entry that follows another.

        Args:
            previous: The last entry; None: there is none.
            action: What happened to the charge.
            columns: Its columns, of a reservation or of an earlier entry.
            details: What only this entry has, JSON values.
        """
        own = {
            "seq": 1 if previous is None else previous.seq + 1,
            "action": action,
            "tool_version": TOOL_VERSION,
            "recorded_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "previous_hash": _FIRST_HASH if previous is None else previous.hash,
            "hash": "",
            "details": canonical_json(details) if details else "",
        }
        entry = cls(**{**columns, **own})
        return replace(entry, hash=entry.digest())

    @property
    def charge(self) -> Charge:
        """What tells one charge from another."""
        return _charge_of(self)

    @property
    def is_open(self) -> bool:
        """Whether the charge is neither given back, nor visible, nor given up."""
        return self.action in ("reserve", "draw")

    def is_of(self, output: str, release_id: str, key_fingerprint: str) -> bool:
        """Says whether the entry is about a release under a key."""
        return (
            self.output == output
            and self.release_id == release_id
            and self.key_fingerprint == key_fingerprint
        )

    def values(self) -> tuple[Fraction | None, Fraction | None]:
        """Returns epsilon and delta as numbers.

        Raises:
            UsageError: One is no decimal.
        """
        epsilon = None if self.epsilon is None else parse_decimal(self.epsilon)
        return epsilon, None if self.delta is None else parse_decimal(self.delta)

    def digest(self) -> str:
        """Returns the hash that the columns ask for.

        It is the SHA-256 of a JSON object of all columns but `hash`, and but empty `details`: keys
        in alphabetical order, no spaces, characters beyond ASCII escaped.
        """
        left_out = ("hash",) if self.details else ("hash", "details")
        columns = {name: value for name, value in vars(self).items() if name not in left_out}
        return hashlib.sha256(canonical_json(columns).encode()).hexdigest()


def problems(entries: Sequence[Entry], known_hash: str | None = None) -> list[str]:
    """Returns what is wrong with a ledger, a sentence each; nothing if it is sound.

    Args:
        entries: All entries in the order of their seq.
        known_hash: The hash of an entry as it was noted elsewhere at an earlier time.
    """
    found = []
    previous = _FIRST_HASH
    states: dict[Charge, list[Action]] = defaultdict(list)
    for place, entry in enumerate(entries, start=1):
        if entry.seq != (place if place == 1 else entries[place - 2].seq + 1):
            found.append(f"entry {entry.seq}: entries before it are missing")
        if entry.hash != entry.digest():
            found.append(f"entry {entry.seq}: it was changed, its hash is of other columns")
        if entry.previous_hash != previous:
            found.append(f"entry {entry.seq}: it does not follow the entry before it")
        previous = entry.hash
        found += [f"entry {entry.seq}: {what}" for what in _odd_columns(entry)]
        past = states[entry.charge]
        if not _may_follow(entry.action, past):
            after = f"after {past[-1]}" if past else "without reserve"
            found.append(f"entry {entry.seq}: {entry.action} {after}")
        past.append(entry.action)
    if known_hash is not None and known_hash not in {_FIRST_HASH, *(e.hash for e in entries)}:
        found.append(
            "the known hash is of no entry: entries were removed from the end, or the chain was "
            "computed anew"
        )
    return found


def _may_follow(action: Action, past: Sequence[Action]) -> bool:
    if action == "reserve":
        return not past or past[-1] == "void"
    if action == "commit":
        # Also after void: of two runs of one release, one may fail and the other go through.
        return bool(past) and past[-1] != "commit"
    before = ("reserve", "draw") if action == "forfeit" else ("reserve",)
    return bool(past) and past[-1] in before


def _odd_columns(entry: Entry) -> list[str]:
    found = []
    for name in ("epsilon", "delta"):
        text = getattr(entry, name)
        try:
            if text is not None and decimal_text(parse_decimal(text)) != text:
                found.append(f"{name} is not in its one form")
        except UsageError:
            found.append(f"{name} is no decimal")
    if entry.epsilon is not None and entry.delta is None:
        found.append("delta is missing")
    for name, known in (("action", Action), ("unit", Unit), ("adjacency", Adjacency)):
        if getattr(entry, name) not in get_args(known):
            found.append(f"{name} is none of {', '.join(get_args(known))}")
    return found


def canonical_json(value: Any) -> str:
    """Returns the one JSON text of a value; a fraction becomes its decimal text.

    Raises:
        TypeError: A value has no JSON.
        ValueError: A number is not finite.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_decimal_of
    )


def _decimal_of(value: Any) -> str:
    if isinstance(value, Fraction):
        return decimal_text(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
