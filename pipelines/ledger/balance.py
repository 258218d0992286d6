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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from tracecloak.pipelines.ledger.entries import Action, Charge, Entry, WindowCharge

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


_T = TypeVar("_T")
# What a charge costs, and its window; None: it has none, or adds up as if it had none. Without a
# finite epsilon it has no delta, either.
Cost = tuple[Fraction | None, Fraction | None, WindowCharge | None]


@dataclass(frozen=True)
class Spent:
    """What the charges of an account cost that count as spent.

    Attributes:
        closed: What those cost that count for ever; several may be one sum here.
        still_open: What each of the others costs.
        n_closed: How many count for ever.
        kinds: The units and adjacencies of all.
    """

    closed: tuple[Cost, ...]
    still_open: tuple[Cost, ...]
    n_closed: int
    kinds: frozenset[tuple[str, str]]

    @property
    def costs(self) -> tuple[Cost, ...]:
        """What all of them cost."""
        return self.closed + self.still_open


def spent_in(entries: Sequence[Entry], account: str) -> Spent:
    """Returns what the charges of an account cost, each by itself.

    Args:
        entries: All entries of a ledger.
        account: The account's name.

    Raises:
        UsageError: A number is no decimal.
    """
    counted = counting(entries, account)
    closed = tuple(state.cost for state in counted if not state.last.is_open)
    still_open = tuple(state.cost for state in counted if state.last.is_open)
    kinds = frozenset((state.last.unit, state.last.adjacency) for state in counted)
    return Spent(closed, still_open, len(closed), kinds)


@dataclass
class ChargeState:
    """What the entries of a ledger say of one charge.

    Attributes:
        reserved: The entry that reserved it last, whose details are those of the charge.
        last: The last entry about it.
        actions: All that happened to it, in order.
        window: The window that it is of, as it was reserved last; None: it is of none.
        claimed: The entry by which it claimed its units since; None: there is none.
    """

    reserved: Entry
    last: Entry
    actions: list[Action]
    window: WindowCharge | None = None
    claimed: Entry | None = None

    @property
    def claim(self) -> Entry | None:
        """The entry by which it claimed its units, if that counts: it was not given back since."""
        return None if self.last.action == "void" else self.claimed

    @property
    def cost(self) -> Cost:
        """What it costs, and in which window it does.

        Raises:
            UsageError: A number is no decimal.
        """
        epsilon, delta = self.last.values()
        return epsilon, None if epsilon is None else delta, counting_window(self.window)


def charge_states(entries: Iterable[Entry]) -> dict[Charge, ChargeState]:
    """Returns what each charge is, in the order in which they were last reserved.

    What a charge claimed before it was given back and reserved again is not its claim any more.
    """
    states: dict[Charge, ChargeState] = {}
    for entry in entries:
        if not entry.is_of_charge:
            continue
        state = states.get(entry.charge)
        if state is None or entry.action == "reserve":
            actions = [] if state is None else states.pop(entry.charge).actions
            window = entry.window if entry.action == "reserve" else None
            state = states[entry.charge] = ChargeState(entry, entry, actions, window)
        state.last = entry
        state.actions.append(entry.action)
        if entry.action == "claim" and state.window is not None:
            state.claimed = entry
            # A charge that was restored to a ledger may count twice by now; see `memory`.
            if entry.window is not None and entry.window.adds_up:
                state.window = replace(state.window, adds_up=True)
    return states


def charges(entries: Iterable[Entry]) -> dict[Charge, Entry]:
    """Returns the last entry of each charge, in the order in which they were last reserved."""
    return {charge: state.last for charge, state in charge_states(entries).items()}


def windowed(entries: Iterable[Entry]) -> dict[Charge, ChargeState]:
    """Returns the charges of windows, those that were given back among them."""
    return {c: state for c, state in charge_states(entries).items() if state.window is not None}


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
    epsilon, delta = total_of(spent.costs)
    open_epsilon, open_delta = _open_part(spent.costs, spent.closed)
    n_open = len(spent.still_open)
    caps = (None, None) if account is None else (account.epsilon_cap, account.delta_cap)
    remaining_epsilon, is_above = _left(caps[0], epsilon)
    # If no finite epsilon holds, then no delta below 1 holds with a finite epsilon either.
    remaining_delta, is_delta_above = _left(caps[1], None if epsilon is None else delta)
    return Balance(
        name, epsilon, delta, open_epsilon, open_delta, spent.n_closed + n_open, n_open,
        remaining_epsilon, remaining_delta, is_above or is_delta_above,
    )  # fmt: skip


def _left(cap: Fraction | None, spent: Fraction | None) -> tuple[Fraction | None, bool]:
    """Returns what a cap leaves, and whether it is exceeded."""
    if cap is None:
        return None, False
    if spent is None:
        return Fraction(0), True
    return max(cap - spent, Fraction(0)), spent > cap


def counting_window(window: WindowCharge | None) -> WindowCharge | None:
    """Returns the window in which a charge counts; None: it adds up like one without a window."""
    return None if window is None or window.adds_up else window


def by_window(costs: Sequence[Cost]) -> dict[str, dict[str, list[Cost]]]:
    """Returns the costs by scope and by label, without those that have no window."""
    scopes: dict[str, dict[str, list[Cost]]] = {}
    for cost in costs:
        if (window := cost[2]) is not None:
            scopes.setdefault(window.scope, {}).setdefault(window.label, []).append(cost)
    return scopes


def total_of(costs: Sequence[Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns what charges cost together: (epsilon; None if one of them is not finite, delta)."""
    parts = [summed([cost for cost in costs if cost[2] is None])]
    for windows in by_window(costs).values():
        sums = [summed(of_window) for of_window in windows.values()]
        parts.append((largest(epsilon for epsilon, _ in sums), max(_each(d for _, d in sums))))
    return summed([(epsilon, delta, None) for epsilon, delta in parts])


def summed(costs: Sequence[Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns the sums of epsilons, None if one is not finite, and of deltas."""
    if len(costs) == 1:  # as most windows have one, and there are many
        (epsilon, delta, _), *_ = costs
        return epsilon, Fraction(0) if delta is None else delta
    deltas = sum((delta for _, delta, _ in costs if delta is not None), Fraction(0))
    epsilons = [epsilon for epsilon, _, _ in costs if epsilon is not None]
    if len(epsilons) < len(costs):
        return None, deltas
    return sum(epsilons, Fraction(0)), deltas


def largest(epsilons: Iterable[Fraction | None]) -> Fraction | None:
    """Returns the largest epsilon; None: one of them is not finite."""
    sums = _each(epsilons)
    finite = [epsilon for epsilon in sums if epsilon is not None]
    return None if len(finite) < len(sums) else max(finite)


def _each(values: Iterable[_T]) -> list[_T]:
    """Returns each object once: equal numbers of a ledger are one, see `parse_decimal`."""
    return list({id(value): value for value in values}.values())


def _open_part(costs: Sequence[Cost], closed: Sequence[Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns what would be free again if all charges but the closed ones were voided.

    The epsilon is None where one of the open charges has no finite one.
    """
    n_not_finite = [sum(epsilon is None for epsilon, _, _ in some) for some in (costs, closed)]
    finite = [cost for cost in costs if cost[0] is not None]
    without = total_of([cost for cost in closed if cost[0] is not None])[0]
    total = total_of(finite)[0]
    deltas = total_of(costs)[1] - total_of(closed)[1]
    if n_not_finite[0] > n_not_finite[1] or total is None or without is None:
        return None, deltas
    return total - without, deltas


def states_of(
    entries: Iterable[Entry], output: str, release_id: str, key_fingerprint: str
) -> list[ChargeState]:
    """Returns the charges of a release under a key, the latest one last."""
    of_key = output, release_id, key_fingerprint
    return [one for one in charge_states(entries).values() if one.last.is_of(*of_key)]


def charges_of(
    entries: Iterable[Entry], output: str, release_id: str, key_fingerprint: str
) -> list[Entry]:
    """Returns the last entries of the charges of a release under a key, the latest one last."""
    return [one.last for one in states_of(entries, output, release_id, key_fingerprint)]
