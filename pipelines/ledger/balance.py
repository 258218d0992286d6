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

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from tracecloak.pipelines.ledger.entries import Charge, Entry, WindowCharge

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
_NOTHING = Fraction(0)


class Cost(NamedTuple):
    """What a charge costs.

    Attributes:
        epsilon: None: there is no finite one.
        delta: None: there is none, as where epsilon is not finite.
        place: (Scope, label) of the window; empty: none, or it adds up as if of none.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    place: tuple[str, str] = ("", "")

    def beside(self, total: Total | None) -> Total:
        """Returns what it and other charges of the same place cost."""
        own = {
            "n": 1, "n_boundless": int(self.epsilon is None),
            "epsilon": self.epsilon or _NOTHING, "delta": self.delta or _NOTHING,
        }  # fmt: skip
        # Few numbers are those of thousands of windows, which `_numbers` makes use of.
        return own if total is None else {name: total[name] + more for name, more in own.items()}


@dataclass(frozen=True)
class Spent:
    """What the charges of an account cost that count as spent.

    Attributes:
        closed: What those cost that count for ever.
        still_open: What the others cost, each.
        kinds: The units and adjacencies of all.
    """

    closed: Sums
    still_open: tuple[Cost, ...]
    kinds: frozenset[tuple[str, str]]

    @property
    def all(self) -> Sums:
        """What all of them cost."""
        return added(self.closed, self.still_open)


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


def counting(entries: Iterable[Entry], account: str) -> list[ChargeState]:
    """Returns the charges of an account that count as spent."""
    return [
        state
        for state in charge_states(entries).values()
        if state.last.account == account and state.last.action != "void"
    ]


def balance_of(spent: Spent, name: str, account: Account | None) -> Balance:
    """Returns what an account's charges add up to.

    Args:
        spent: What they cost.
        name: The account's name.
        account: Its caps; None: it has none.
    """
    sums = [total for labels in spent.all.values() for total in labels.values()]
    # What would be free again if all that is open were given back.
    open_epsilon, open_delta = increase(spent.closed, spent.still_open)
    epsilon, delta = total_of(spent.all)
    caps = (None, None) if account is None else (account.epsilon_cap, account.delta_cap)
    remaining_epsilon, is_above = _left(caps[0], epsilon)
    # If no finite epsilon holds, then no delta below 1 holds with a finite epsilon either.
    remaining_delta, is_delta_above = _left(caps[1], None if epsilon is None else delta)
    return Balance(
        name, epsilon, delta, open_epsilon, open_delta, sum(total["n"] for total in sums),
        len(spent.still_open), remaining_epsilon, remaining_delta, is_above or is_delta_above,
    )  # fmt: skip


def _left(cap: Fraction | None, spent: Fraction | None) -> tuple[Fraction | None, bool]:
    """Returns what a cap leaves, and whether it is exceeded."""
    if cap is None:
        return None, False
    if spent is None:
        return Fraction(0), True
    return max(cap - spent, Fraction(0)), spent > cap


def paid_place(window: WindowCharge | None) -> tuple[str, str]:
    """Returns (scope, label) of the window in which a charge is paid; empty: it adds up."""
    return ("", "") if window is None or window.adds_up else window.place


def added(sums: Sums, costs: Iterable[Cost]) -> Sums:
    """Returns sums with further charges."""
    merged = dict(sums)
    for cost in costs:
        scope, label = cost.place
        labels = merged.get(scope, {})
        merged[scope] = {**labels, label: cost.beside(labels.get(label))}
    return merged


def total_of(sums: Sums) -> tuple[Fraction | None, Fraction]:
    """Returns what charges cost together: (epsilon; None if one of them is not finite, delta)."""
    epsilon, delta = _numbers(sums)
    is_finite = not any(total["n_boundless"] for one in sums.values() for total in one.values())
    return epsilon if is_finite else None, delta


def increase(before: Sums, further: Iterable[Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns how much more further charges cost beside others, of which some may not be finite.

    That is their whole epsilon and delta, but for windows: one within the dearest of its scope adds
    nothing.

    Args:
        before: What the others cost.
        further: What these cost.

    Returns:
        (Epsilon, None if one of these is not finite; delta).
    """
    further = tuple(further)
    (less_epsilon, less_delta), (epsilon, delta) = map(_numbers, (before, added(before, further)))
    is_finite = all(cost.epsilon is not None for cost in further)
    return epsilon - less_epsilon if is_finite else None, delta - less_delta


def _numbers(sums: Sums) -> list[Fraction]:
    """Returns (epsilon, delta) of what is finite: of each scope that of its dearest window."""
    return [
        sum((largest(name, labels) for labels in sums.values()), Fraction(0))
        for name in COORDINATES
    ]


def largest(name: str, labels: Mapping[str, Total]) -> Fraction:
    """Returns the largest of the windows' sums of a coordinate."""
    # Thousands of windows have few numbers, and to compare fractions takes long.
    numbers: list[Fraction] = [total[name] for total in labels.values()]
    return max(dict(zip(map(id, numbers), numbers, strict=True)).values())


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
        most = largest(name, labels)
        alike = (one for one, t in labels.items() if t[name] is most or t[name] == most)
        kept.add(min(filter(None, alike)))
    n_rest = sum(total["n"] for label, total in labels.items() if label not in kept)
    rest = {**dict.fromkeys((*COORDINATES, "n_boundless"), 0), "n": n_rest}
    return {**{label: labels[label] for label in sorted(kept)}, "": rest}
