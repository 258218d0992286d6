"""What the charges of an account add up to, and whether its caps leave enough for another.

Epsilons and deltas of one account add up (basic composition: Dwork and Roth, The Algorithmic
Foundations of Differential Privacy, 2014, Theorem 3.16). That holds for one unit and one adjacency,
so a release with another is refused, and no sum holds once a release without a finite epsilon is
among them. Finer accounting happens inside a release, before it asks.

Releases of windows add up within their window. Of the windows of one scope, of which no two count
the same unit, all together cost what the dearest costs (parallel composition: McSherry, Privacy
Integrated Queries, SIGMOD 2009). Twelve months at epsilon 1 each cost 1, and if one of them is
released twice, 2. The dearest by epsilon and the dearest by delta may be two windows: the pair of
both numbers bounds each window's loss, so it bounds them all.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tracecloak.pipelines.ledger.entries import Charge, Entry, WindowCharge, parse_decimal

if TYPE_CHECKING:
    from tracecloak.pipelines.ledger.caps import Account


@dataclass(frozen=True)
class Balance:
    """What the charges of an account add up to.

    Attributes:
        account: The account's name.
        spent_epsilon: Sum over open and committed charges, of the windows of a scope over the
            dearest one; None: one of the charges has no finite epsilon.
        spent_delta: Likewise; charges without a finite epsilon add nothing.
        open_epsilon: The part of it that is reserved and neither committed nor voided, and would be
            free again if all of that were voided; None: no finite epsilon.
        open_delta: Likewise.
        n_releases: Open and committed charges.
        n_open: Open charges.
        remaining_epsilon: What the cap leaves, at least 0; None: there is no cap.
        remaining_delta: Likewise.
        is_exceeded: Whether more is spent than a cap allows, as where the cap was lowered, or came
            after the releases.
    """

    account: str
    spent_epsilon: Fraction | None
    spent_delta: Fraction
    open_epsilon: Fraction | None
    open_delta: Fraction
    n_releases: int
    n_open: int
    remaining_epsilon: Fraction | None
    remaining_delta: Fraction | None
    is_exceeded: bool


# What charges cost together, by coordinate: `n`, how many they are; `n_boundless`, how many of them
# have no finite epsilon, and add nothing to it; and the sums of epsilon and of delta.
Total = Mapping[str, Any]
# By scope and label of the window; what adds up is under empty texts.
Sums = Mapping[str, Mapping[str, Total]]
# Of all windows of a scope, those with the largest sums of these count.
COORDINATES = ("epsilon", "delta")


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
        return cls(
            last.account, last.epsilon, last.delta,
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
        own = _cost(self.epsilon, self.delta)
        return own if total is None else {name: total[name] + more for name, more in own.items()}


@lru_cache(maxsize=1024)
def _cost(epsilon: str | None, delta: str | None) -> Total:
    """Returns what one charge costs: one value for thousands of windows, see `_distinct`."""
    if epsilon is None:
        return {**_cost("0", "0"), "n_boundless": 1}
    numbers = parse_decimal(epsilon or "0"), parse_decimal(delta or "0")
    return {"n": 1, "n_boundless": 0, **dict(zip(COORDINATES, numbers, strict=True))}


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


def balance_of(spent: Spent, name: str, account: Account | None) -> Balance:
    """Returns what an account's charges add up to.

    Args:
        spent: What they cost.
        name: The account's name.
        account: Its caps; None: it has none.
    """
    sums, caps = spent.all, (None, None) if account is None else account.caps
    total, pairs = total_of(sums), zip(caps, _numbers(sums), strict=False)
    # Without a finite epsilon no delta below 1 holds, either.
    left = (cap and max(cap - paid, Fraction(0)) * (total[0] is not None) for cap, paid in pairs)
    epsilon_left, delta_left = left
    return Balance(
        name, *total,
        *increase(spent.closed, spent.still_open),  # free again if all that is open were given back
        sum(one["n"] for labels in sums.values() for one in labels.values()),
        len(spent.still_open), epsilon_left, delta_left, bool(exceeded(sums, account)),
    )  # fmt: skip


def exceeded(sums: Sums, account: Account | None) -> list[str]:
    """Returns the coordinates in which charges cost more than the caps of their account allow."""
    caps = () if account is None else account.caps
    named = zip(COORDINATES, caps, _numbers(sums), strict=False)
    is_finite = total_of(sums)[0] is not None
    return [n for n, cap, paid in named if cap is not None and not (is_finite and paid <= cap)]


def added(sums: Sums, charges: Iterable[KnownCharge]) -> Sums:
    """Returns sums with further charges."""
    merged = dict(sums)
    for known in charges:
        scope, label = known.place
        labels = merged.get(scope, {})
        merged[scope] = {**labels, label: known.beside(labels.get(label))}
    return merged


def total_of(sums: Sums) -> tuple[Fraction | None, Fraction]:
    """Returns what charges cost together: (epsilon; None if one of them is not finite, delta)."""
    epsilon, delta, n_boundless = _numbers(sums)
    return None if n_boundless else epsilon, delta


def increase(before: Sums, further: Sequence[KnownCharge]) -> tuple[Fraction | None, Fraction]:
    """Returns how much more further charges cost beside others, of which some may not be finite.

    That is their whole epsilon and delta, but for windows: one within the dearest of its scope adds
    nothing.

    Args:
        before: What the others cost.
        further: What these cost.

    Returns:
        (Epsilon, None if one of these is not finite; delta).
    """
    epsilon, delta, _ = map(operator.sub, _numbers(added(before, further)), _numbers(before))
    return epsilon if all(one.epsilon is not None for one in further) else None, delta


def _numbers(sums: Sums) -> list[Fraction]:
    """Returns by name what is finite, of each scope that of its dearest window, and what is not."""
    alike = [_distinct(labels) for labels in sums.values()]
    names = (*COORDINATES, "n_boundless")
    return [sum((max(t[n] for t in totals) for totals in alike), Fraction(0)) for n in names]


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
