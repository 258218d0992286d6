"""Whether an account may pay for a release, and whether its caps leave enough for it."""

from __future__ import annotations

from fractions import Fraction

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.accounts import Account
from tracecloak.pipelines.ledger.balance import Spent, balance_of, counting_window, total_of
from tracecloak.pipelines.ledger.declarations import check_dataset, check_declared
from tracecloak.pipelines.ledger.entries import Reservation
from tracecloak.pipelines.ledger.past import Past
from tracecloak.schemas.errors import BudgetExhausted, UsageError


def check_caps(past: Past, reservation: Reservation, in_file: Account | None) -> None:
    """Makes sure that the account of a release may pay for it, and can.

    Args:
        past: What the ledger says, without the reservation.
        reservation: What the release asks.
        in_file: The caps of the accounts file; None: it has none.

    Raises:
        UsageError: The data set is bound to another account, the account is not declared where
            others are, or the release's epsilon does not add up with the account's.
        BudgetExhausted: The sum of epsilons or of deltas would exceed a cap.
    """
    declarations = past.declarations()
    check_dataset(declarations, reservation.dataset, reservation.account)
    for account in (check_declared(declarations, reservation.account), in_file):
        if account is not None:
            spent = past.spent(reservation.account, reservation.window)
            check_affordable(spent, reservation, account)


def added_by(spent: Spent, reservation: Reservation) -> tuple[Fraction | None, Fraction]:
    """Returns how much more an account has spent once it paid for a release.

    That is its whole epsilon and delta, but for a window: one within the dearest of its scope adds
    nothing.

    Args:
        spent: What the account spent, without the release.
        reservation: What the release asks.

    Returns:
        (Epsilon, None if there is no finite one; delta).
    """
    costs = [cost for cost in spent.costs if cost[0] is not None]
    asked = reservation.epsilon, reservation.delta, counting_window(reservation.window)
    before, after = total_of(costs), total_of([*costs, asked])
    if before[0] is None or after[0] is None:
        return None, after[1] - before[1]
    return after[0] - before[0], after[1] - before[1]


def check_affordable(spent: Spent, reservation: Reservation, account: Account) -> None:
    """Makes sure that an account can pay for a release beside all that it paid for.

    Args:
        spent: What the account spent, without the release.
        reservation: What the release asks.
        account: The caps.

    Raises:
        UsageError: Its epsilon does not add up with the account's: another unit or adjacency, or
            no finite one.
        BudgetExhausted: The sum of epsilons or of deltas would exceed its cap.
    """
    _check_adds_up(spent, reservation, account)
    if account.epsilon_cap is None and account.delta_cap is None:
        return
    balance = balance_of(spent, account.name, account)
    window, added = counting_window(reservation.window), added_by(spent, reservation)
    short = []
    for name, more in zip(("epsilon", "delta"), added, strict=True):
        cap, total = getattr(account, f"{name}_cap"), getattr(balance, f"spent_{name}")
        if cap is None or total is None or more is None or total + more <= cap:
            continue
        still_open = getattr(balance, f"open_{name}")
        opened = f" (of it {decimal_text(still_open)} not committed)" if still_open else ""
        of_window = ""
        if window is not None:
            of_window = (
                f" for window {window.label} (which adds {decimal_text(more)} to the dearest "
                "window of its schedule; one that stays within that adds nothing)"
            )
        asked = decimal_text(getattr(reservation, name) or Fraction(0))
        short.append(
            f"{name} cap {decimal_text(cap)}, spent {decimal_text(total)}{opened}, asked "
            f"{asked}{of_window}, remaining {_text(getattr(balance, f'remaining_{name}'))}"
        )
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
            f"account {account.name!r} cannot pay for release {reservation.release_id!r}: "
            f"{'; '.join(short)}{unfinished}. Ask for less, use another account, or have the "
            "privacy officer raise the cap"
        )


def _check_adds_up(spent: Spent, reservation: Reservation, account: Account) -> None:
    """Makes sure that what a release asks and what its account has spent are of one kind."""
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
    for kind in sorted(spent.kinds):
        for name, past in zip(("unit", "adjacency"), kind, strict=True):
            now = getattr(reservation, name)
            if past != now:
                raise UsageError(
                    f"{where} holds releases with {name} {past}, and their epsilons do not add up "
                    f"with one of {name} {now}; use another account"
                )


def _text(value: Fraction | None) -> str:
    return "" if value is None else decimal_text(value)
