"""What `tracecloak plan` shows of the account that would pay, beside the plan itself."""

from __future__ import annotations

from collections.abc import Iterator

from tracecloak.pipelines.budget.opening import open_ledger, store_of
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.planning.plan import Plan, plan_of
from tracecloak.pipelines.screen.release_text import cost_text, remains_text
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.sources import EventSource


def plan_lines(config: ReleaseConfig) -> Iterator[str]:
    """Yields all of a plan, a line at a time; see `planned`."""
    yield from planned(config).lines


def planned(config: ReleaseConfig, source: EventSource | None = None, goal: str = "") -> Plan:
    """Returns the plan of a release with what its account has left; see `plan_of`.

    Neither a ledger nor a key store is made for it.
    """
    return plan_of(config, source, f"Costs {cost_text(config)}; {_left(config)}.", goal)


def left_text(ledger: Ledger, account: str) -> str:
    """Returns what an account has left, for somebody who is about to take some of it."""
    try:
        balance = ledger.balance(account)
    except UsageError:  # it is neither declared nor charged yet
        return f"nothing was spent of account {account} before"
    return f"left before it: {remains_text(balance)}"


def _left(config: ReleaseConfig) -> str:
    store = store_of(config)
    if config.ledger is None and not store.has_ledger_file:
        return "nothing was spent before, as there is no ledger yet"
    try:
        ledger = open_ledger(config.model_copy(update={"new_ledger": False}), store)
        return left_text(ledger, config.account)
    except TracecloakError as error:
        return f"what is left is not known, as {error}"
