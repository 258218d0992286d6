"""What the charges of an account add up to, and whether its caps leave enough for another.

Epsilons and deltas of one account add up (basic composition: Dwork and Roth, The Algorithmic
Foundations of Differential Privacy, 2014, Theorem 3.16). That holds for one unit and one adjacency,
so a release with another is refused, and no sum holds once a release without a finite epsilon is
among them. Finer accounting happens inside a release, before it asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.entries import Charge, Entry, Reservation
from tracecloak.schemas.errors import BudgetExhausted, UsageError


@dataclass(frozen=True)
class Balance:
    """What the charges of an account add up to.

    Attributes:
        account: The account's name.
        spent_epsilon: Sum over open and committed charges; None: one of them has no finite epsilon.
        spent_delta: Likewise; charges without a finite epsilon add nothing.
        open_epsilon: The part of it that is reserved and neither committed nor voided; None: no
            finite epsilon.
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
    still_open = [entry for entry in spent if entry.is_open]
    epsilon, delta = _sums(spent)
    open_epsilon, open_delta = _sums(still_open)
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


def _sums(spent: Sequence[Entry]) -> tuple[Fraction | None, Fraction]:
    values = [entry.values() for entry in spent]
    deltas = sum((delta for _, delta in values if delta is not None), Fraction(0))
    epsilons = [epsilon for epsilon, _ in values if epsilon is not None]
    if len(epsilons) < len(values):
        return None, deltas
    return sum(epsilons, Fraction(0)), deltas


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
    short = [
        line
        for name, cap, spent, still_open, asked, remaining in (
            (
                "epsilon", account.epsilon_cap, balance.spent_epsilon, balance.open_epsilon,
                reservation.epsilon, balance.remaining_epsilon,
            ),
            (
                "delta", account.delta_cap, balance.spent_delta, balance.open_delta,
                reservation.delta, balance.remaining_delta,
            ),
        )
        for line in _shortfall(name, cap, spent, still_open, asked, remaining)
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
    remaining: Fraction | None,
) -> Iterator[str]:
    if cap is None or spent is None or remaining is None or spent + asked <= cap:
        return
    opened = f" (of it {decimal_text(still_open)} not committed)" if still_open else ""
    yield (
        f"{name} cap {decimal_text(cap)}, spent {decimal_text(spent)}{opened}, "
        f"asked {decimal_text(asked)}, remaining {decimal_text(remaining)}"
    )
