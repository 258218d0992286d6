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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.entries import (
    Charge,
    Entry,
    Reservation,
    WindowCharge,
    windowed,
)
from tracecloak.schemas.errors import BudgetExhausted, UsageError


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


@dataclass(frozen=True)
class ScopeBalance:
    """What the windows of one scope add to an account.

    Attributes:
        scope: Its name, see `entries.WindowCharge`.
        n_windows: How many windows have an open or committed charge.
        n_releases: Charges of these windows.
        epsilon: The largest of the windows' sums; None: one of them has no finite epsilon.
        epsilon_window: Label of the window that has it, the first one reserved of several.
        delta: Likewise.
        delta_window: Likewise; the same as `epsilon_window` where that has it, too.
    """

    scope: str
    n_windows: int
    n_releases: int
    epsilon: Fraction | None
    epsilon_window: str
    delta: Fraction
    delta_window: str


_T = TypeVar("_T")
# What a charge costs, and its window; None: it is of none, or adds up as if it were.
_Cost = tuple[Fraction | None, Fraction | None, WindowCharge | None]


def charges(entries: Sequence[Entry]) -> dict[Charge, Entry]:
    """Returns the last entry of each charge, in the order in which they were last reserved."""
    last: dict[Charge, Entry] = {}
    for entry in entries:
        if not entry.is_of_charge:
            continue
        if entry.action == "reserve":
            last.pop(entry.charge, None)
        last[entry.charge] = entry
    return last


def counting(entries: Sequence[Entry], account: str) -> list[Entry]:
    """Returns the last entries of the charges of an account that count as spent."""
    return [
        entry
        for entry in charges(entries).values()
        if entry.account == account and entry.action != "void"
    ]


def balance_of(entries: Sequence[Entry], name: str, account: Account | None) -> Balance:
    """Returns what an account's charges add up to.

    Args:
        entries: All entries of a ledger.
        name: The account's name.
        account: Its caps; None: it has none.

    Raises:
        UsageError: A number is no decimal.
    """
    spent = counting(entries, name)
    costs = _costs(entries, spent)
    epsilon, delta = _totals(costs)
    still_open = [entry for entry in spent if entry.is_open]
    open_epsilon, open_delta = _open_part(
        costs, [cost for cost, entry in zip(costs, spent, strict=True) if not entry.is_open]
    )
    caps = (None, None) if account is None else (account.epsilon_cap, account.delta_cap)
    remaining_epsilon, is_above = _left(caps[0], epsilon)
    # Where no finite epsilon holds, no delta below 1 goes with any.
    remaining_delta, is_delta_above = _left(caps[1], None if epsilon is None else delta)
    return Balance(
        name, epsilon, delta, open_epsilon, open_delta, len(spent), len(still_open),
        remaining_epsilon, remaining_delta, is_above or is_delta_above,
    )  # fmt: skip


def _left(cap: Fraction | None, spent: Fraction | None) -> tuple[Fraction | None, bool]:
    """Returns what a cap leaves, and whether it is exceeded."""
    if cap is None:
        return None, False
    if spent is None:
        return Fraction(0), True
    return max(cap - spent, Fraction(0)), spent > cap


def _costs(entries: Sequence[Entry], spent: Sequence[Entry]) -> list[_Cost]:
    """Returns what each charge costs, and in which window it does.

    Args:
        entries: All entries of a ledger.
        spent: The last entries of some charges.
    """
    of_windows = windowed(entries)
    costs = []
    for entry in spent:
        epsilon, delta = entry.values()
        charged = of_windows.get(entry.charge)
        costs.append((epsilon, delta, None if charged is None else _counted(charged.window)))
    return costs


def _counted(window: WindowCharge | None) -> WindowCharge | None:
    return None if window is None or window.adds_up else window


def _by_window(costs: Sequence[_Cost]) -> dict[str, dict[str, list[_Cost]]]:
    """Returns the costs by scope and by label, those that are of no window left out."""
    scopes: dict[str, dict[str, list[_Cost]]] = {}
    for cost in costs:
        if (window := cost[2]) is not None:
            scopes.setdefault(window.scope, {}).setdefault(window.label, []).append(cost)
    return scopes


def _totals(costs: Sequence[_Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns what charges cost together: (epsilon, None if one has no finite one; delta)."""
    parts = [_sums([cost for cost in costs if cost[2] is None])]
    for windows in _by_window(costs).values():
        sums = [_sums(of_window) for of_window in windows.values()]
        parts.append((_largest(epsilon for epsilon, _ in sums), max(_each(d for _, d in sums))))
    return _sums([(epsilon, delta, None) for epsilon, delta in parts])


def _sums(costs: Sequence[_Cost]) -> tuple[Fraction | None, Fraction]:
    if len(costs) == 1:  # as most windows have one, and there are many
        (epsilon, delta, _), *_ = costs
        return epsilon, Fraction(0) if delta is None else delta
    deltas = sum((delta for _, delta, _ in costs if delta is not None), Fraction(0))
    epsilons = [epsilon for epsilon, _, _ in costs if epsilon is not None]
    if len(epsilons) < len(costs):
        return None, deltas
    return sum(epsilons, Fraction(0)), deltas


def _largest(epsilons: Iterable[Fraction | None]) -> Fraction | None:
    """Returns the largest epsilon; None: one of them is not finite."""
    found = _each(epsilons)
    finite = [epsilon for epsilon in found if epsilon is not None]
    return None if len(finite) < len(found) else max(finite)


def _each(values: Iterable[_T]) -> list[_T]:
    """Returns each object once: equal numbers of a ledger are one, see `parse_decimal`."""
    return list({id(value): value for value in values}.values())


def _open_part(costs: Sequence[_Cost], closed: Sequence[_Cost]) -> tuple[Fraction | None, Fraction]:
    """Returns what would be free again if all charges but the closed ones were voided.

    The epsilon is None where one of the open charges has no finite one.
    """
    n_not_finite = [sum(epsilon is None for epsilon, _, _ in some) for some in (costs, closed)]
    finite = [cost for cost in costs if cost[0] is not None]
    without = _totals([cost for cost in closed if cost[0] is not None])[0]
    total = _totals(finite)[0]
    deltas = _totals(costs)[1] - _totals(closed)[1]
    if n_not_finite[0] > n_not_finite[1] or total is None or without is None:
        return None, deltas
    return total - without, deltas


def scopes_of(entries: Sequence[Entry], name: str) -> list[ScopeBalance]:
    """Returns what the windows of each scope add to an account, in the order of their first charge.

    Charges that add up as if they were of no window are left out.

    Raises:
        UsageError: A number is no decimal.
    """
    found = []
    for scope, windows in _by_window(_costs(entries, counting(entries, name))).items():
        sums = {label: _sums(of_window) for label, of_window in windows.items()}
        epsilon = _largest(epsilon for epsilon, _ in sums.values())
        delta = max(delta for _, delta in sums.values())
        dearest = next(label for label, (one, _) in sums.items() if one == epsilon)
        by_delta = next(label for label, (_, one) in sums.items() if one == delta)
        found.append(
            ScopeBalance(
                scope,
                len(windows),
                sum(map(len, windows.values())),
                epsilon,
                dearest,
                delta,
                dearest if sums[dearest][1] == delta else by_delta,
            )
        )
    return found


def added_by(
    entries: Sequence[Entry], reservation: Reservation
) -> tuple[Fraction | None, Fraction]:
    """Returns how much more an account has spent once it paid for a release.

    That is its whole epsilon and delta, but for a window: one within the dearest of its scope adds
    nothing.

    Args:
        entries: All entries of a ledger; a charge that is among them adds nothing.
        reservation: What the release asks.

    Returns:
        (Epsilon, None if there is no finite one; delta).

    Raises:
        UsageError: A number in the ledger is no decimal.
    """
    spent = counting(entries, reservation.account)
    if any(entry.charge == reservation.charge for entry in spent):
        return Fraction(0), Fraction(0)
    costs = [cost for cost in _costs(entries, spent) if cost[0] is not None]
    asked = reservation.epsilon, reservation.delta, _counted(reservation.window)
    before, after = _totals(costs), _totals([*costs, asked])
    if before[0] is None or after[0] is None:
        return None, after[1] - before[1]
    return after[0] - before[0], after[1] - before[1]


def charges_of(
    entries: Sequence[Entry], output: str, release_id: str, key_fingerprint: str
) -> list[Entry]:
    """Returns the last entries of the charges of a release under a key, the latest one last."""
    return [
        entry
        for entry in charges(entries).values()
        if entry.is_of(output, release_id, key_fingerprint)
    ]


def check_affordable(entries: Sequence[Entry], reservation: Reservation, account: Account) -> None:
    """Makes sure that an account can pay for a release beside all that it paid for.

    Args:
        entries: All entries of a ledger, without the reservation.
        reservation: What the release asks.
        account: The caps.

    Raises:
        UsageError: Its epsilon does not add up with the account's: another unit or adjacency, or
            no finite one.
        BudgetExhausted: The sum of epsilons or of deltas would exceed its cap.
    """
    where = f"account {account.name!r}"
    if account.unit != reservation.unit:
        raise UsageError(
            f"{where} has caps per {account.unit}, and the release's epsilon is per "
            f"{reservation.unit}; use an account per {reservation.unit}"
        )
    if account.epsilon_cap is None and account.delta_cap is None:
        return
    if reservation.epsilon is None or reservation.delta is None:
        raise UsageError(
            f"{where} has a cap, and no finite epsilon holds for a release with "
            f"{reservation.method}; choose a rigorous method, or an account without caps"
        )
    for entry in counting(entries, account.name):
        for name in ("unit", "adjacency"):
            past, now = getattr(entry, name), getattr(reservation, name)
            if past != now:
                raise UsageError(
                    f"{where} holds releases with {name} {past}, and their epsilons do not add up "
                    f"with one of {name} {now}; use another account"
                )
    balance = balance_of(entries, account.name, account)
    added_epsilon, added_delta = added_by(entries, reservation)
    short = [
        line
        for name, cap, spent, still_open, asked, added, remaining in (
            (
                "epsilon", account.epsilon_cap, balance.spent_epsilon, balance.open_epsilon,
                reservation.epsilon, added_epsilon, balance.remaining_epsilon,
            ),
            (
                "delta", account.delta_cap, balance.spent_delta, balance.open_delta,
                reservation.delta, added_delta, balance.remaining_delta,
            ),
        )
        for line in _shortfall(
            name, cap, spent, still_open, asked, added, remaining, _counted(reservation.window)
        )
    ]  # fmt: skip
    if balance.spent_epsilon is None:
        short = ["no finite epsilon holds for a release that it paid for already"]
    if short:
        unfinished = (
            f" ({balance.n_open} of {balance.n_releases} releases are reserved and not committed; "
            "run those again to finish them)"
            if balance.n_open
            else ""
        )
        raise BudgetExhausted(
            f"{where} cannot pay for release {reservation.release_id!r}: {'; '.join(short)}"
            f"{unfinished}. Ask for less, use another account, or have the privacy officer raise "
            "the cap"
        )


def _shortfall(
    name: str,
    cap: Fraction | None,
    spent: Fraction | None,
    still_open: Fraction | None,
    asked: Fraction,
    added: Fraction | None,
    remaining: Fraction | None,
    window: WindowCharge | None,
) -> Iterator[str]:
    if cap is None or spent is None or remaining is None or added is None or spent + added <= cap:
        return
    opened = f" (of it {decimal_text(still_open)} not committed)" if still_open else ""
    more = ""
    if window is not None:
        more = (
            f" for window {window.label} (which adds {decimal_text(added)} to the dearest window "
            "of its schedule; one that stays within that adds nothing)"
        )
    yield (
        f"{name} cap {decimal_text(cap)}, spent {decimal_text(spent)}{opened}, "
        f"asked {decimal_text(asked)}{more}, remaining {decimal_text(remaining)}"
    )
