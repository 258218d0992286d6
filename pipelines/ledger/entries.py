"""What a ledger says: its entries, and the chain that binds them.

A charge is one release's claim on an account. An entry `reserve` opens it before the release runs.
`claim` says which units a release of a window counts, see `pipelines.ledger.case_registry`; `draw`,
that noise may be drawn from now on, so what was reserved is never given back; `commit`,
that the release is visible; `void`, that it ended before it could draw anything; `forfeit`, that
somebody gave it up after that, which leaves it spent. `pipelines.ledger.balance` adds charges up,
`pipelines.ledger.snapshot` says what is wrong, and `pipelines.ledger.ledger` keeps the entries.

An entry `step` changes no charge: it says that a step of a stream is decided, with a digest of what
it released, before anybody sees a byte of that; see `pipelines.stream.epoch`. An entry `checkpoint`
says what follows from all before it; see `pipelines.ledger.snapshot`.

Each entry holds the SHA-256 of its own columns and of the entry before. So an entry that is
changed, removed, inserted or moved is noticed. Entries removed from the end, and a chain that was
computed anew from some entry on, are noticed only by who knows a hash of an earlier day: note the
last one elsewhere.

Decimals as they are written: exact, and never binary floating point.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import operator
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION, Adjacency, Unit

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.plan import ReleasePlan
    from tracecloak.pipelines.stream.plan import StreamPlan
    from tracecloak.transforms.publish.release_folder import ReleaseFolder

# Short enough that no text stands for a number that fills the memory, like 1e999999999.
_DECIMAL = re.compile(r"(?:\d{1,400}(?:\.\d{0,1200})?|\.\d{1,1200})(?:[eE][+-]?\d{1,3})?", re.ASCII)


@lru_cache(maxsize=1024)
def parse_decimal(text: str) -> Fraction:
    """Returns the exact value of a decimal that is not negative, such as 10, 0.1 or 1e-5.

    Raises:
        UsageError: The text is no such decimal, or far too long for one.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise UsageError(f"expected a decimal such as 0.1 or 1e-5, got {text[:80]!r}")
    return Fraction(text)


ActionOnCharge = Literal["reserve", "claim", "draw", "commit", "void", "forfeit", "withdraw"]
Declaration = Literal["account", "dataset", "accept", "erase", "restore", "positions"]
Note = Literal["step", "checkpoint"]
Action = ActionOnCharge | Declaration | Note

Charge = tuple[str | None, ...]
# Which release is made under which key: (output, release_id, key_fingerprint).
KeyedRelease = tuple[str, str, str]

# An action, the columns of what it is about, and its details.
Step = tuple[Action, Mapping[str, Any], Mapping[str, Any] | None]

DECLARATIONS = get_args(Declaration)
NOTES = get_args(Note)
ACTIONS = (*get_args(ActionOnCharge), *DECLARATIONS, *NOTES)

# The last actions on a charge for which no noise was drawn yet, so that it can be given back.
UNDRAWN: tuple[Action, ...] = ("reserve", "claim")
# The last actions on a charge that is not finished.
OPEN: tuple[Action, ...] = (*UNDRAWN, "draw")
SHA256 = re.compile("[0-9a-f]{64}")

# The hash before the first entry.
FIRST_HASH = "0" * 64
# The columns that together identify a charge.
_CHARGE = (
    "account", "output", "release_id", "key_fingerprint", "config_digest",
    "epsilon", "delta", "unit", "adjacency",
)  # fmt: skip
_charge_of = operator.attrgetter(*_CHARGE)
# The columns of an entry, which stay empty in a declaration but for those that it is about.
NO_COLUMNS: Mapping[str, Any] = {
    "account": "", "release_id": "", "output": "", "epsilon": None, "delta": None, "unit": "",
    "adjacency": "", "method": "", "spends": "[]", "config_digest": "", "key_fingerprint": "",
}  # fmt: skip
# The attributes of a reservation that stand in the details of its entry.
_FACTS = ("dataset", "window", "staging_area", "whole")


@dataclass(frozen=True)
class WindowCharge:
    """Which window of which schedule a release is of.

    A case counts in one window of a scope only. So all windows of the scope together cost what the
    dearest of them costs, and what is charged within one window adds up.

    Attributes:
        scope: Names the schedule, the columns of its units and the book that counts them; see
            `pipelines.ledger.case_registry.scope_of`.
        label: The window's, such as 2026-11.
        adds_up: Whether it counts as if it were of no window, as where one individual's cases lie
            in several, and the method asks the whole price for each.
    """

    scope: str
    label: str
    adds_up: bool = False

    def __post_init__(self) -> None:
        require_text("scope", self.scope)
        require_text("label", self.label)
        if not isinstance(self.adds_up, bool):
            raise UsageError(f"adds_up must be true or false, got {self.adds_up!r}")

    @property
    def place(self) -> tuple[str, str]:
        """The scope and the label, which together identify the window."""
        return self.scope, self.label


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
        config_digest: Digest of the configuration without its filters, as in the manifest.
        key_fingerprint: Tells release keys apart.
        dataset: What the configuration calls the data, or None: it says nothing. Kept in the
            details of the entry; it tells no charge from another.
        window: The window that the release is of, or None: of none. Kept likewise;
            `balance.charge_states` finds it for every entry of the charge.
        staging_area: Where the release is built; None: beside the output. Kept likewise, for who
            ends it with another key store.
        whole: The epsilon and delta of all windows or steps of which it is one; None: it is of
            none, or they have none. They are caps of an account that it begins.
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
    dataset: str | None = None
    window: WindowCharge | None = None
    staging_area: str | None = None
    whole: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str):
                require_text(name, value)
        for odd in odd_columns(self.entry):
            raise UsageError(odd)

    def columns(self) -> dict[str, Any]:
        """Returns the columns of an entry about this reservation: numbers and spends are text.

        Raises:
            UsageError: A number is no exact decimal.
        """
        columns = {name: value for name, value in vars(self).items() if name not in _FACTS}
        numbers = decimals_of(epsilon=self.epsilon, delta=self.delta)
        return {**columns, **numbers, "spends": canonical_json(self.spends)}

    def facts(self) -> dict[str, Any]:
        """Returns what only the entry that reserves has in its details."""
        window = self.window and asdict(self.window)
        named = {"dataset": self.dataset, "staging_area": self.staging_area, "window": window}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def entry(self) -> Entry:
        """The entry that would reserve it in an empty ledger."""
        return Entry.after(None, "reserve", self.columns(), self.facts())


def reservation_of(
    plan: ReleasePlan | StreamPlan, folder: ReleaseFolder, key_fingerprint: str
) -> Reservation:
    """Returns what a release, or all steps of an epoch together, take from their account.

    Args:
        plan: Its plan.
        folder: Where it goes.
        key_fingerprint: Tells release keys apart.
    """
    return Reservation(
        account=plan.keys.account,
        release_id=folder.release_id,
        output=folder.output,
        epsilon=plan.epsilon,
        delta=plan.delta,
        unit=plan.guarantee.unit,
        adjacency=plan.guarantee.adjacency,
        method=plan.method_name,
        spends=tuple(part.to_json() for part in plan.spends),
        config_digest=plan.published_digest,  # others may read the ledger
        key_fingerprint=key_fingerprint,
        dataset=plan.keys.dataset,
        staging_area=folder.staging_area,
        whole=plan.whole_cost,
    )


@dataclass(frozen=True)
class Entry:
    """One row of a ledger; numbers are exact decimals as text, None is SQL's null.

    Attributes:
        seq: Its place, counted from 1 without gaps.
        account, release_id, output, unit, adjacency, method: See `Reservation`; empty where a
            declaration has no such thing. A `step` has the first three and `key_fingerprint` only,
            so whoever adds up epsilons by the columns does not count its charge again.
        config_digest, key_fingerprint: See `Reservation`.
        action: What happened to the charge, or what is declared.
        epsilon: None: no finite epsilon holds. Of an account: its cap, None: there is none.
        delta: None only where epsilon is. Of an account: its cap, None: there is none.
        spends: JSON, see `Reservation`.
        tool_version: Version of tracecloak that wrote the entry.
        recorded_at: When, ISO 8601 in UTC.
        previous_hash: The hash of the entry before; 64 zeros for the first.
        hash: SHA-256 of all other columns, see `digest`.
        details: What only some entries have, a JSON object as text: who did it and why, say. Empty
            where there is nothing.
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
            details: JSON values that this entry alone has.
        """
        further = {
            "seq": 1 if previous is None else previous.seq + 1,
            "action": action,
            "tool_version": TOOL_VERSION,
            "recorded_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "previous_hash": FIRST_HASH if previous is None else previous.hash,
            "hash": "",
            "details": canonical_json(details) if details else "",
        }
        entry = cls(**{**columns, **further})
        return replace(entry, hash=entry.digest())

    @cached_property
    def charge(self) -> Charge:
        """What tells one charge from another."""
        return _charge_of(self)

    @property
    def is_of_charge(self) -> bool:
        """Whether the entry changes a charge, and is no declaration or note."""
        return self.action not in (*DECLARATIONS, *NOTES)

    @property
    def of_account(self) -> dict[str, Any]:
        """What it declares of an account, or has of one that it begins; empty: nothing."""
        if self.action == "account":
            return {"epsilon": self.epsilon, "delta": self.delta, **self.facts}
        begins = self.facts.get("begins") if self.action == "reserve" else None
        return begins if isinstance(begins, dict) else {}

    @property
    def keyed_release(self) -> KeyedRelease:
        """Which release under which key the entry is about."""
        return self.output, self.release_id, self.key_fingerprint

    @property
    def facts(self) -> dict[str, Any]:
        """The details; empty where they are no JSON object, as no ledger writes them."""
        try:
            facts = json.loads(self.details or "{}")
        except ValueError:
            return {}
        return facts if isinstance(facts, dict) else {}

    @cached_property
    def window(self) -> WindowCharge | None:
        """The window that the details of this entry name; None: they name none.

        Of the entries of one charge, only the reservation has to name it; see
        `balance.charge_states`.
        """
        facts = self.facts.get("window") if self.details else None
        try:
            return None if facts is None else WindowCharge(**facts)
        except (TypeError, UsageError):
            return None

    @cached_property
    def units_sha256(self) -> str | None:
        """Of a `claim`: the SHA-256 of the file with the units; None: it has none."""
        digest = self.facts.get("units") if self.action == "claim" else None
        return digest if isinstance(digest, str) and SHA256.fullmatch(digest) else None

    @cached_property
    def decided(self) -> tuple[int, str] | None:
        """Of a `step`: (its number, the SHA-256 of what it released); None: it has none."""
        if self.action != "step":
            return None
        step, sha256 = (self.facts.get(name) for name in ("step", "sha256"))
        if type(step) is not int or step < 0 or not isinstance(sha256, str):
            return None
        return (step, sha256) if SHA256.fullmatch(sha256) else None

    @cached_property
    def loss(self) -> tuple[str | None, ...]:
        """What the release loses at most, see `account_caps.Loss`; None each: nothing bounds it."""
        if self.epsilon is None:
            return (None,) * 3
        if self.action == "reserve" and "lost" in self.facts:  # what a ledger has forgotten
            return tuple(self.facts["lost"] if _are_decimals(self.facts["lost"], 3) else "???")
        return _loss_of(self.epsilon, self.delta or "0", self.spends)

    @property
    def is_open(self) -> bool:
        """Whether the charge is neither given back, nor visible, nor given up."""
        return self.action in OPEN

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
        columns = {name: getattr(self, name) for name in _HASHED}
        if self.details:
            columns["details"] = self.details
        return hashlib.sha256(canonical_json(columns).encode()).hexdigest()


@lru_cache(maxsize=256)
def _loss_of(epsilon: str, delta: str, spends: str) -> tuple[str, ...]:
    """Returns what a release of these parts loses; without them, what (epsilon, delta)-DP says."""
    from tracecloak.anonymizers.accounting.account_caps import loss_of
    from tracecloak.anonymizers.accounting.composition import Spend, total

    with contextlib.suppress(UsageError, KeyError, TypeError, ValueError):
        parts = [Spend.from_json(part) for part in json.loads(spends)]
        if total(parts) == (parse_decimal(epsilon), parse_decimal(delta)):
            return tuple(map(decimal_text, loss_of(parts)))
    return "0", epsilon, delta


# The columns that every hash covers; `details` is another where there are some.
_HASHED = tuple(field.name for field in fields(Entry) if field.name not in ("hash", "details"))


_KNOWN = {"unit": get_args(Unit), "adjacency": get_args(Adjacency)}


def odd_columns(entry: Entry) -> list[str]:
    """Returns what is wrong with the columns of an entry; nothing: a ledger may have written it."""
    numbers = {name: getattr(entry, name) for name in ("epsilon", "delta")}
    found = {f"{n} {what}": True for n, text in numbers.items() if (what := _odd_decimal(text))}
    found[f"action is not one of {', '.join(ACTIONS)}"] = entry.action not in ACTIONS
    known = _KNOWN if entry.is_of_charge else {}
    if entry.is_of_charge:
        found["delta is missing"] = entry.epsilon is not None and entry.delta is None
        found["delta is above 1"] = not any(found.values()) and (entry.values()[1] or 0) > 1
        found["units is not a SHA-256"] = entry.action == "claim" and entry.units_sha256 is None
        found["window is not valid"] = "window" in entry.facts and entry.window is None
        lost = entry.facts.get("lost", ("0", "0", "0"))
        found["lost is not valid"] = entry.action == "reserve" and not _are_decimals(lost, 3)
    elif entry.action == "step":
        found["step or sha256 is not valid"] = entry.decided is None
    elif entry.action in DECLARATIONS:
        known = {"unit": _KNOWN["unit"]} if entry.action == "account" else {}
        found |= {f"{name} is missing": name not in entry.facts for name in ("by", "reason")}
    if begins := entry.of_account:
        for name, n in (("caps", 3), ("largest", 2)):
            found[f"{name} is not valid"] = not _are_decimals(begins.get(name, ["0"] * n), n)
        of_first = [begins.get(name) for name in numbers]
        found["begins is not valid"] = entry.action == "reserve" and not _are_decimals(of_first, 2)
    for name, values in known.items():
        found[f"{name} is not one of {', '.join(values)}"] = getattr(entry, name) not in values
    return [what for what, is_so in found.items() if is_so]


def _are_decimals(given: Any, n: int) -> bool:
    """Returns whether something is so many exact decimals, as texts."""
    texts = given if isinstance(given, list | tuple) and len(given) == n else [0]
    return all(isinstance(text, str) and not _odd_decimal(text) for text in texts)


@lru_cache(maxsize=1024)
def _odd_decimal(text: str | None) -> str:
    """Returns what is wrong with an exact decimal; empty: nothing. Ledgers repeat the same few."""
    try:
        is_odd = text is not None and decimal_text(parse_decimal(text)) != text
        return "is not in its one form" if is_odd else ""
    except UsageError:
        return "is no decimal"


def decimals_of(**numbers: Fraction | None) -> dict[str, str | None]:
    """Returns numbers as the columns of an entry have them.

    Raises:
        UsageError: One is no exact decimal.
    """
    return {name: None if n is None else decimal_text(n) for name, n in numbers.items()}


def require_text(name: str, text: object) -> None:
    """Makes sure that a column or a detail is text that can be shown.

    Raises:
        UsageError: It is no printable text, or empty.
    """
    if not isinstance(text, str) or not text or not text.isprintable():
        raise UsageError(f"{name} must be printable text and not empty, got {text!r}")


def signed(by: str, reason: str) -> dict[str, str]:
    """Returns the details of what somebody does by hand.

    Raises:
        UsageError: One is no printable text, or empty.
    """
    require_text("by", by)
    require_text("reason", reason)
    return {"by": by, "reason": reason}


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
