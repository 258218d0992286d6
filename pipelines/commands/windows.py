"""`tracecloak windows`: the calendar of a schedule, and files that its windows leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Form, Result, show
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.plan import ReleasePlan
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.ledger import Ledger
    from tracecloak.pipelines.windows.batch import Day

_DECISION = ("quarantine", "readmit", "by", "reason")


def run(given: Given) -> int:
    """Shows the calendar, or notes a decision about a file.

    Raises:
        LedgerError: The counted units are to be verified, and some are gone or were changed.
    """
    from tracecloak.anonymizers.accounting.composition import exact_text
    from tracecloak.pipelines.budget.opening import open_ledger, open_store
    from tracecloak.pipelines.configuration.plan import read_plan
    from tracecloak.pipelines.release.window import verify_book
    from tracecloak.pipelines.windows.batch import calendar_of

    flags = dict(given.flags)
    is_verified = flags.pop("verify", False)
    decision = {name: flags.pop(name, None) for name in _DECISION}
    plan = read_plan(given.config, flags)
    schedule, keys = plan.schedule, plan.keys
    if schedule is None:
        raise UsageError("schedule is missing: a calendar is of the windows of a schedule")
    store = open_store(keys)
    # A calendar makes no ledger: where a release would begin one, nothing was spent yet.
    is_new = keys.new_ledger and keys.ledger is None and not store.has_ledger_file
    ledger = None if is_new else open_ledger(keys.model_copy(update={"new_ledger": False}), store)
    if decision["quarantine"] is not None or decision["readmit"] is not None:
        _decide(plan, store, ledger, decision, given.form)
        return 0
    n_claims = verify_book(plan, store, ledger) if is_verified and ledger is not None else 0
    days = calendar_of(plan, store, ledger)
    if keys.window is None:
        begun = [day for day in days if day.status != "waiting" or day.releases]
        waiting = [day for day in days if day.status == "waiting" and not day.releases]
        shown = sorted([*begun, *waiting[:1]], key=lambda day: day.window.number)
    else:
        asked = {window.number for window in schedule.ranged(keys.window)}
        shown = [day for day in days if day.window.number in asked]
    balance = None
    if ledger is not None and any(day.releases for day in days):
        balance = ledger.balance(keys.account)
    sums = {
        name: None if balance is None else exact_text(getattr(balance, name))
        for name in ("spent_epsilon", "spent_delta", "remaining_epsilon", "remaining_delta")
    }
    data: dict[str, Any] = {
        "dataset": schedule.dataset,
        "account": keys.account,
        "windows": [day.to_json() for day in shown],
        "counts": dict(Counter(day.status for day in days)),
        **sums,
    }
    rows = list(_rows(keys.account, days, sums["spent_epsilon"], sums["remaining_epsilon"]))
    if is_verified:
        data["verified_files"] = n_claims
        claims = "1 claim is" if n_claims == 1 else f"{n_claims:,} claims are"
        rows.append(("book", f"the units of {claims} what the ledger says"))
        from tracecloak.pipelines.windows.quarantine import NAME, compare_inputs

        n_compared = compare_inputs(plan, store, days)
        data["compared_inputs"] = n_compared
        of = "1 release" if n_compared == 1 else f"{n_compared:,} releases"
        where = f"{NAME} of each window's operator folder says whether it changed"
        rows.append(("inputs", f"those of {of} were compared; {where}"))
    show(Result(rows, data, [*_lines(shown), ""]), given.form)
    return 0


def _decide(
    plan: ReleasePlan,
    store: KeyStore,
    ledger: Ledger | None,
    decision: Mapping[str, str | None],
    form: Form,
) -> None:
    """Leaves a file out of windows, or reads it again, and shows of which."""
    from tracecloak.pipelines.ledger.entries import signed
    from tracecloak.pipelines.windows.batch import windows_asked
    from tracecloak.pipelines.windows.quarantine import decide
    from tracecloak.transforms.files import absolute

    path, readmitted = decision["quarantine"], decision["readmit"]
    if path is not None and readmitted is not None:
        raise UsageError("quarantine and readmit exclude each other; give one of them")
    windows, signature = windows_asked(plan), None
    if path is not None:
        missing = next((name for name in ("by", "reason") if not decision[name]), None)
        if missing is not None:
            raise UsageError(
                f"{missing} is missing: who leaves a file out, and why, is noted; give --{missing}"
            )
        signature = signed(str(decision["by"]), str(decision["reason"]))
    named = str(path or readmitted)
    labels, claimed = decide(plan, store, ledger, windows, named, signature)
    what, file = "read again" if path is None else "left out", absolute(named)
    rows = [(what, file), ("windows", ", ".join(labels))]
    if claimed:
        rows.append(("unchanged", f"{', '.join(claimed)}: they have claimed their cases"))
    data = {"file": file, "decision": what, "windows": labels, "unchanged": claimed}
    show(Result(rows, data), form)


def _lines(days: Sequence[Day]) -> Iterator[str]:
    from tracecloak.anonymizers.accounting.composition import exact_text
    from tracecloak.pipelines.release.window import moment

    width = max((len(day.window.label) for day in days), default=0)
    first_with: dict[str, str] = {}  # the window that failed first for a reason, which is said once
    for day in days:
        epsilon = exact_text(day.epsilon) if day.releases else ""
        spent = f"epsilon {epsilon}" if epsilon else "no finite epsilon" if day.releases else ""
        what = ", ".join(day.releases)
        if day.status == "waiting":
            what = f"from {moment(day.window.due_us)} on"
        elif day.attempt is not None and day.status in ("refused", "failed", "cut_off"):
            reason, label = day.attempt.reason, day.window.label
            first = first_with.setdefault(reason, label)
            reason = reason if first == label else f"as window {first}"
            what = f"exit code {day.attempt.exit_code} at {day.attempt.at}: {reason}"
        elif day.status == "cut_off":
            what = f"{what}: the same command finishes it for nothing"
        status = day.status.replace("_", " ")
        yield f"{day.window.label:<{width}}  {status:<8}  {spent:<17}  {what}".rstrip()


def _rows(
    account: str, days: Sequence[Day], spent: str | None, remaining: str | None
) -> Iterator[tuple[str, str]]:
    n_by_status = Counter(day.status for day in days)
    counts = [f"{n} {status.replace('_', ' ')}" for status, n in sorted(n_by_status.items())]
    yield "windows", f"{len(days)}: {', '.join(counts)}"
    if not any(day.releases for day in days):
        yield "spent", "nothing yet"
        return
    text = f"account {account} holds releases without a finite epsilon"
    if spent is not None:
        text = f"epsilon {spent} of account {account}, with all else that it paid for"
    yield "spent", text
    if remaining is not None:
        yield "remains", f"epsilon {remaining}"
