"""Plans and releases as lines on a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.screen.results import duration, quantity
from tracecloak.schemas.errors import TracecloakError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.pipelines.configuration.plan import ReleasePlan
    from tracecloak.pipelines.ledger.balance import Balance
    from tracecloak.pipelines.ledger.ledger import Ledger
    from tracecloak.pipelines.planning.plan import Plan
    from tracecloak.pipelines.release.values import Outcome
    from tracecloak.transforms.sources import EventSource


# --- What `tracecloak plan` shows of the account that would pay, beside the plan itself. ----------


def plan_lines(config: ReleaseConfig) -> Iterator[str]:
    """Yields all of a plan, a line at a time; see `planned`."""
    from tracecloak.pipelines.configuration.plan import resolve

    yield from planned(resolve(config)).lines


def planned(plan: ReleasePlan, source: EventSource | None = None, goal: str = "") -> Plan:
    """Returns the plan of a release with what its account has left; see `plan_of`.

    Neither a ledger nor a key store is made for it.
    """
    from tracecloak.pipelines.planning.plan import plan_of  # as a release loads none of it

    cost = f"Costs {cost_text(plan)}; {_left(plan.keys)}."
    return plan_of(plan.of_named_window(), source, cost, goal)


def remaining_text(ledger: Ledger, account: str) -> str:
    """Returns what an account has left, for somebody who is about to take some of it."""
    try:
        balance = ledger.balance(account)
    except UsageError:  # it is neither declared nor charged yet
        return f"nothing was spent of account {account} before"
    return f"left before it: {remains_text(balance)}"


def _left(keys: ReleaseConfig) -> str:
    from tracecloak.pipelines.budget.opening import open_ledger, store_of

    store = store_of(keys)
    if keys.ledger is None and not store.has_ledger_file:
        return "nothing was spent before, as there is no ledger yet"
    try:
        ledger = open_ledger(keys.model_copy(update={"new_ledger": False}), store)
        return remaining_text(ledger, keys.account)
    except TracecloakError as error:
        return f"what is left is not known, as {error}"


# --- What `tracecloak release` shows of a release, as rows of a screen and as JSON. ---------------


def left_out_text(n_units: int) -> str:
    """Returns how many units a window left out, and why."""
    return f"{quantity(n_units, 'unit')}, as they counted in other windows"


def release_rows(
    plan: ReleasePlan, outcome: Outcome, elapsed_s: float, is_private: bool
) -> Iterator[tuple[str, str]]:
    """Yields the rows that a release is shown with: what each is of, and its text.

    Args:
        plan: Its plan.
        outcome: How it ended.
        elapsed_s: Seconds that it took.
        is_private: Whether the operator alone reads the rows; others are shown nothing that was
            counted on the input.
    """
    from tracecloak.schemas.published.manifest import SIGNATURE_NAMES
    from tracecloak.transforms.publish.statement import (
        came_out_in_words,
        caution,
        promise_in_short,
    )

    is_new, held = not outcome.was_released_before, outcome.came_out
    folder, method, params, keys = outcome.folder.final, plan.method, plan.params, plan.keys
    yield "released" if is_new else "already released", folder
    yield "method", method.name
    limits = ("max_cases_per_individual", "max_trace_length")
    said = came_out_in_words(held, {name: getattr(params, name, None) for name in limits})
    if "held" in said:
        yield "holds", said["held"]
    if is_new and (caveats := method.time_caveats(params)):
        yield "times", " ".join(caveats)
    for reason in outcome.warnings if is_private else ():
        yield "watch out", f"the release may be of little use: {reason}"
    n_cases = held.n_cases or (keys.expected_cases if held.usability == "not_usable" else 0)
    if is_new and n_cases and plan.guarantee.kind == "rigorous":
        from tracecloak.pipelines.planning.verdict import advice_on

        if advice := advice_on(method, params, n_cases):
            yield "advice", advice
    if "cut" in said:
        yield "watch out", said["cut"]
    yield "promise", promise_in_short(plan.guarantee)
    if warning := caution(plan.guarantee):
        yield "caution", warning
    payer = keys.account if outcome.balance is None else outcome.balance.account
    beside = "" if payer == keys.account else f"; account {payer} paid for it"
    before = f"nothing, as it was released before{beside}"
    yield "cost", cost_text(plan) if is_new else before
    if outcome.balance is not None:
        yield "remains", remains_text(outcome.balance, plan)
    if is_private and is_new and outcome.tally is not None:
        from tracecloak.pipelines.planning.findings import share_text

        where = f"; {outcome.dead_letter} says where each malformed one is"
        yield "records", share_text(outcome.tally) + where * bool(outcome.tally.n_rejects)
    if is_private and outcome.n_left_out:
        yield "left out", left_out_text(outcome.n_left_out)
    if outcome.formulas:
        names = f"{len(outcome.formulas)} activities begin as formulas of a spreadsheet do"
        yield "formulas", f"{names}; the format spreadsheet has an apostrophe in front of them"
    signature = f"{folder}/{SIGNATURE_NAMES[0]}"
    if outcome.signature == "there":
        yield "signature", signature
    elif outcome.signature == "by another key":
        yield "signature", f"{signature} is by another key than sign, and stays"
    elif keys.sign is not None:
        yield "signature", "missing: the release was made without sign, and stays as it is"
    yield "open first", f"{folder}/{open_first(outcome.outputs)}"
    yield "took", duration(elapsed_s)


def cost_text(plan: ReleasePlan) -> str:
    """Returns what a release costs, and which account pays."""
    from tracecloak.anonymizers.accounting.composition import exact_text

    account, epsilon, delta = plan.keys.account, exact_text(plan.epsilon), exact_text(plan.delta)
    if epsilon is None:
        return f"no finite epsilon, which account {account} bears"
    beside = ""
    if plan.windows_add_up:
        beside = "; windows add up"
    elif plan.schedule is not None:
        beside = "; all windows together cost what the dearest costs"
    return f"epsilon {epsilon} and delta {delta} of account {account}{beside}"


def remains_text(balance: Balance, plan: ReleasePlan | None = None) -> str:
    """Returns what an account has left, and how a cap is declared where it has none.

    Args:
        balance: Of the account.
        plan: Of a release, to say how many more like it fit; None: of none.
    """
    from tracecloak.anonymizers.accounting.account_caps import loss_of
    from tracecloak.anonymizers.accounting.composition import decimal_text
    from tracecloak.pipelines.ledger.balance import NAMES

    if "pure_epsilon" in balance.caps:
        room = balance.room(loss_of(() if plan is None else plan.spends)._asdict())
        like = "" if room is None else f"room for {room} more like this one: "
        *first, last = (f"{1 - share:.1%} of {NAMES[n]}" for n, share in balance.shares.items())
        return f"{like}{', '.join(first)} and {last} in account {balance.account}"
    left = [f"{name} {decimal_text(n)}" for name, n in balance.remaining.items()]
    if not left:
        cap = f"`tracecloak ledger declare {balance.account}` declares one"
        return f"account {balance.account} has no cap; {cap}"
    return f"{' and '.join(left)} in account {balance.account}"


# What a newcomer looks at, the best first: the whole report, a picture, a log, or the promise.
_FIRST = ("report.html", ".svg", ".xes.gz", ".csv.gz", "statement.md")


def open_first(outputs: Sequence[str]) -> str:
    """Returns which file of a release to look at first."""
    for ending in _FIRST:
        for path in sorted(outputs):
            if path.endswith(ending):
                return path
    return "manifest.json"


def release_data(plan: ReleasePlan, outcome: Outcome, elapsed_s: float) -> dict[str, Any]:
    """Returns the JSON of a release, in which nothing was counted on the input.

    A scheduler may keep it where others read it, so it does not say how many records were left out.
    """
    from tracecloak.anonymizers.accounting.composition import exact_text
    from tracecloak.pipelines.outcomes.lineage import PROMISED

    balance, folder = outcome.balance, outcome.folder.final
    return {
        "status": "already_released" if outcome.was_released_before else "released",
        "release_id": outcome.folder.release_id,
        "folder": folder,
        "manifest": f"{folder}/manifest.json",
        "open_first": f"{folder}/{open_first(outcome.outputs)}",
        "method": plan.method.name,
        "guarantee": {name: getattr(plan.guarantee, name) for name in PROMISED},
        "came_out": outcome.came_out.to_json(),
        "usability": outcome.came_out.usability,
        "operator_folder": outcome.dead_letter,
        "account": plan.keys.account if balance is None else balance.account,
        "charged": {"epsilon": exact_text(plan.epsilon), "delta": exact_text(plan.delta)},
        "remaining": None
        if balance is None
        else {
            "epsilon": exact_text(balance.remaining_epsilon),
            "delta": exact_text(balance.remaining_delta),
            "shares": balance.shares,
        },
        "names_like_formulas": list(outcome.formulas),
        "elapsed_s": round(elapsed_s, 3),
    }
