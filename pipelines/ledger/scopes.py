"""What the windows of each schedule add to an account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tracecloak.pipelines.ledger.balance import by_window, costs_of, counting, largest, summed
from tracecloak.pipelines.ledger.entries import Entry


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


def scopes_of(entries: Sequence[Entry], name: str) -> list[ScopeBalance]:
    """Returns what the windows of each scope add to an account, in the order of their first charge.

    Charges that add up as if they were of no window are left out.

    Raises:
        UsageError: A number is no decimal.
    """
    balances = []
    for scope, windows in by_window(costs_of(entries, counting(entries, name))).items():
        sums = {label: summed(of_window) for label, of_window in windows.items()}
        epsilon = largest(epsilon for epsilon, _ in sums.values())
        delta = max(delta for _, delta in sums.values())
        dearest = next(label for label, (one, _) in sums.items() if one == epsilon)
        by_delta = next(label for label, (_, one) in sums.items() if one == delta)
        balances.append(
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
    return balances
