"""What the charges of an account add up to, and whether its caps leave enough for another.

Epsilons and deltas of one account add up (basic composition: Dwork and Roth, The Algorithmic
Foundations of Differential Privacy, 2014, Theorem 3.16), or its Gaussian noise, its pure parts and
its deltas do, each within a cap of its own (`accounting.account_caps`). That holds for one unit and
one adjacency, so a release with another is refused, and no sum holds once a release without a
finite epsilon is among them.

Releases of windows add up within their window. Of the windows of one scope, of which no two count
the same unit, all together cost what the dearest costs (parallel composition: McSherry, Privacy
Integrated Queries, SIGMOD 2009). Twelve months at epsilon 1 each cost 1, and if one of them is
released twice, 2. The dearest by epsilon and the dearest by delta may be two windows: the pair of
both numbers bounds each window's loss, so it bounds them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tracecloak.pipelines.ledger.entries import Charge, Entry, WindowCharge, parse_decimal

if TYPE_CHECKING:
    from tracecloak.pipelines.ledger.caps import Account


# What charges cost together: `n`, how many they are; `n_boundless`, how many of them have no finite
# epsilon, and add nothing else; and the sum of each coordinate.
Total = Mapping[str, Any]
# By scope and label of the window; what adds up is under empty texts.
Sums = Mapping[str, Mapping[str, Total]]
# Of all windows of a scope, those with the largest sums of these count: what a release claims, and
# what it loses at most, see `account_caps.Loss`. With their names for people.
NAMES = {
    "epsilon": "epsilon",
    "delta": "delta",
    "squared_mu": "squared mu of Gaussian noise",
    "pure_epsilon": "epsilon of pure parts",
    "leaked_delta": "delta of thresholds",
}
COORDINATES = tuple(NAMES)


@dataclass(frozen=True)
class Balance:
    """What the charges of an account add up to.

    Attributes:
        account: The account's name.
        caps: By coordinate, of those that have one.
        spent: By coordinate: sum over open and committed charges, of the windows of a scope over
            the dearest one; charges without a finite epsilon add nothing.
        opened: By coordinate the part of it that is reserved and neither committed nor voided, and
            would be free again if all of that were voided.
        is_finite: Whether all charges have a finite epsilon.
        n_releases: Open and committed charges.
        n_open: Open charges.
        n_open_boundless: Those of them without a finite epsilon.
    """

    account: str
    caps: Mapping[str, Fraction]
    spent: Mapping[str, Fraction]
    opened: Mapping[str, Fraction]
    is_finite: bool
    n_releases: int
    n_open: int
    n_open_boundless: int

    @property
    def spent_epsilon(self) -> Fraction | None:
        """The sum of epsilons; None: one of the charges has no finite epsilon."""
        return self.spent["epsilon"] if self.is_finite else None

    @property
    def spent_delta(self) -> Fraction:
        """The sum of deltas."""
        return self.spent["delta"]

    @property
    def open_epsilon(self) -> Fraction | None:
        """The part of the sum of epsilons that is open; None: no finite epsilon."""
        return None if self.n_open_boundless else self.opened["epsilon"]

    @property
    def open_delta(self) -> Fraction:
        """The part of the sum of deltas that is open."""
        return self.opened["delta"]

    @property
    def remaining_epsilon(self) -> Fraction | None:
        """What a cap on the sum of epsilons leaves; None: there is none."""
        return self.remaining.get("epsilon")

    @property
    def remaining_delta(self) -> Fraction | None:
        """What a cap on the sum of deltas leaves; None: there is none."""
        return self.remaining.get("delta")

    @property
    def remaining(self) -> dict[str, Fraction]:
        """By coordinate what a cap leaves, at least 0, and 0 without a finite epsilon."""
        return {
            name: max(cap - self.spent[name], Fraction(0)) * self.is_finite
            for name, cap in self.caps.items()
        }

    @property
    def exceeded(self) -> list[str]:
        """The coordinates in which more is spent than a cap allows.

        That is so where a cap was lowered, or came after the releases.
        """
        return [
            name
            for name, cap in self.caps.items()
            if not (self.is_finite and self.spent[name] <= cap)
        ]

    @property
    def shares(self) -> dict[str, float]:
        """By coordinate the share of its cap that is spent; 1 of a cap of 0."""
        return {n: float(self.spent[n] / cap) if cap else 1.0 for n, cap in self.caps.items()}

    def room(self, cost: Mapping[str, Fraction]) -> int | None:
        """Returns how many more that cost so much fit; None: no cap limits them."""
        left = [rest // cost[name] for name, rest in self.remaining.items() if cost[name]]
        if self.caps and not self.is_finite:
            return 0
        return min(map(int, left), default=None)


@dataclass
class ChargeState:
    """What the entries of a ledger say of one charge.

    Attributes:
        reserved: The entry that reserved it last, whose details are those of the charge.
        last: The last entry about it.
        window: The window that it is of, as it was reserved last; None: it is of none.
        claimed: The entry by which it claimed its units since; None: there is none.
    """

    reserved: Entry
    last: Entry
    window: WindowCharge | None = None
    claimed: Entry | None = None

    @property
    def claim(self) -> Entry | None:
        """The entry by which it claimed its units, if that counts: it was not given back since."""
        return None if self.last.action == "void" else self.claimed


class KnownCharge(NamedTuple):
    """What is known of a charge: what it costs, its window, its last entry, its claim.

    Scope and label are empty where it is of no window.
    """

    account: str
    epsilon: str | None
    delta: str | None
    squared_mu: str | None
    pure_epsilon: str | None
    leaked_delta: str | None
    scope: str
    label: str
    adds_up: bool
    last: int
    hash: str
    claim: int | None
    units: str | None

    @classmethod
    def of(cls, state: ChargeState) -> KnownCharge:
        """Returns what its entries say."""
        last, window, claim = state.last, state.window, state.claim
        squared_mu, pure_epsilon, leaked_delta = state.reserved.loss
        return cls(
            last.account, last.epsilon, last.delta, squared_mu, pure_epsilon, leaked_delta,
            *(("", "", False) if window is None else (*window.place, window.adds_up)),
            last.seq, last.hash,
            *((None, None) if claim is None else (claim.seq, claim.units_sha256)),
        )  # fmt: skip

    @property
    def place(self) -> tuple[str, str]:
        """(Scope, label) of the window in which it is paid; empty: none, or it adds up."""
        return ("", "") if self.adds_up else (self.scope, self.label)

    def beside(self, total: Total | None) -> Total:
        """Returns what it and other charges of the same place cost.

        Raises:
            UsageError: A number is no decimal.
        """
        own = self.cost
        return own if total is None else {name: total[name] + more for name, more in own.items()}

    @property
    def cost(self) -> Total:
        """What it costs by itself."""
        return _cost(self[1 : 1 + len(COORDINATES)])


@lru_cache(maxsize=1024)
def _cost(numbers: tuple[str | None, ...]) -> Total:
    """Returns what one charge costs: one value for thousands of windows, see `_distinct`."""
    is_finite = numbers[0] is not None
    values = (parse_decimal(one or "0") if is_finite else Fraction(0) for one in numbers)
    return {
        "n": 1,
        "n_boundless": int(not is_finite),
        **dict(zip(COORDINATES, values, strict=True)),
    }


def claims_of(charges: Iterable[KnownCharge]) -> list[KnownCharge]:
    """Returns the charges of windows that claimed units, the first claim first."""
    claims = [(known.claim, known) for known in charges if known.scope and known.claim is not None]
    return [known for _, known in sorted(claims)]


@dataclass(frozen=True)
class Spent:
    """What the charges of an account cost that count as spent.

    Attributes:
        closed: What those cost that count for ever.
        still_open: The others.
        kinds: The units and adjacencies of all.
    """

    closed: Sums
    still_open: tuple[KnownCharge, ...]
    kinds: frozenset[tuple[str, str]]

    @property
    def all(self) -> Sums:
        """What all of them cost."""
        return added(self.closed, self.still_open)


def charge_states(entries: Iterable[Entry]) -> dict[Charge, ChargeState]:
    """Returns what each charge is, in the order in which they were last reserved.

    What a charge claimed before it was given back and reserved again is not its claim any more.
    """
    states: dict[Charge, ChargeState] = {}
    for entry in entries:
        advance(states, entry)
    return states


def advance(states: dict[Charge, ChargeState], entry: Entry) -> None:
    """Has the states of charges be what they are after a further entry; see `charge_states`."""
    if not entry.is_of_charge:
        return
    state = states.get(entry.charge)
    if state is None or entry.action == "reserve":
        states.pop(entry.charge, None)
        window = entry.window if entry.action == "reserve" else None
        state = states[entry.charge] = ChargeState(entry, entry, window)
    state.last = entry
    if entry.action == "claim" and state.window is not None:
        state.claimed = entry
        # 0.1.0 had a charge that was restored to a ledger add up, as it may have counted twice.
        if entry.window is not None and entry.window.adds_up:
            state.window = replace(state.window, adds_up=True)


def charges(entries: Iterable[Entry]) -> dict[Charge, Entry]:
    """Returns the last entry of each charge, in the order in which they were last reserved."""
    return {charge: state.last for charge, state in charge_states(entries).items()}


def balance_of(spent: Spent, name: str, account: Account | None, *more: KnownCharge) -> Balance:
    """Returns what an account's charges add up to.

    Args:
        spent: What they cost.
        name: The account's name.
        account: Its caps; None: it has none.
        more: Charges that are not made yet.
    """
    sums = added(spent.all, more)
    total = total_of(sums)
    # What is open would be free again if all of it were given back.
    return Balance(
        name, {} if account is None else account.caps, total, increase(spent.closed, sums),
        not total["n_boundless"],
        sum(one["n"] for labels in sums.values() for one in labels.values()),
        len(spent.still_open), sum(known.epsilon is None for known in spent.still_open),
    )  # fmt: skip


def added(sums: Sums, charges: Iterable[KnownCharge]) -> Sums:
    """Returns sums with further charges."""
    merged = dict(sums)
    for known in charges:
        scope, label = known.place
        labels = merged.get(scope, {})
        merged[scope] = {**labels, label: known.beside(labels.get(label))}
    return merged


def total_of(sums: Sums) -> dict[str, Fraction]:
    """Returns by coordinate what charges cost together, and how many have no finite epsilon.

    Of the windows of a scope the dearest counts.
    """
    alike = [_distinct(labels) for labels in sums.values()]
    names = (*COORDINATES, "n_boundless")
    return {n: sum((max(t[n] for t in one) for one in alike), Fraction(0)) for n in names}


def increase(before: Sums, after: Sums) -> dict[str, Fraction]:
    """Returns by coordinate how much more some charges cost than a part of them.

    That is their whole epsilon and delta, but for windows: one within the dearest of its scope adds
    nothing.
    """
    was = total_of(before)
    return {name: number - was[name] for name, number in total_of(after).items()}


def _distinct(labels: Mapping[str, Total]) -> list[Total]:
    """Returns what windows cost, of those that share one value only one."""
    return [*dict(zip(map(id, labels.values()), labels.values(), strict=True)).values()]


def dearest(labels: Mapping[str, Total], others: Collection[str]) -> dict[str, Total]:
    """Returns of the windows of a scope those by which all windows' costs are known, and others.

    Args:
        labels: What the windows cost, by label.
        others: Labels of further windows that are wanted.

    Returns:
        The dearest ones, and under an empty label how many charges the rest has.
    """
    kept = labels.keys() & {*others}
    for name in (*COORDINATES, "n_boundless"):
        most = max(total[name] for total in _distinct(labels))
        alike = (one for one, t in labels.items() if t[name] is most or t[name] == most)
        kept.add(min(filter(None, alike)))
    n_rest = sum(total["n"] for label, total in labels.items() if label not in kept)
    rest = {**dict.fromkeys((*COORDINATES, "n_boundless"), 0), "n": n_rest}
    return {**{label: labels[label] for label in sorted(kept)}, "": rest}
