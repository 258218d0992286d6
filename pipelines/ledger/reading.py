"""What a privacy officer reads of a ledger: what was spent, on what, and whether its chain holds.

These only read, and return text; `tracecloak ledger` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import COORDINATES, Sums, counting, paid_place
from tracecloak.pipelines.ledger.caps import accounts_that_paid, bound_datasets, declared_accounts
from tracecloak.pipelines.ledger.entries import NOTES, Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import Accepted
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot

# How many characters of a long text a table shows, and of one in the last column; `export` has all.
_WIDEST = 40
_WIDEST_LAST = 120


def show(ledger: Ledger, account: str | None = None) -> tuple[str, dict[str, Any]]:
    """Returns what the accounts may spend, what they spent, and on what: as text, as JSON values.

    Numbers are exact decimals as text.

    Args:
        ledger: The ledger, with the accounts whose caps are compared.
        account: The one account to show; None: all of the accounts file and of the ledger.

    Raises:
        UsageError: The account is not known.
        LedgerError: The ledger cannot be read, or holds what no ledger writes.
    """
    entries, forgotten = ledger.entries(), ledger.complaints()
    past = LedgerSnapshot.of(entries)
    named = [*ledger.accounts, *(entry.account for entry in entries if entry.account)]
    names = dict.fromkeys(named if account is None else [account])
    accounts = [_account_facts(ledger, past, entries, name) for name in names]
    own = [one for one in entries if account in (None, one.account)]
    owners = {n: of for n, of in bound_datasets(past.declared).items() if account in (None, of)}
    shown = {
        "accounts": [facts for facts, _ in accounts],
        "datasets": [
            {"dataset": name, "account": owner, "also_paid_by": _others(entries, name, owner)}
            for name, owner in owners.items()
        ],
        "entries": [asdict(entry) for entry in own],
        "forgotten": forgotten,
    }
    parts = [f"{_upper(complaint)}.\n" for complaint in forgotten]
    if past.faults:
        parts.append(f"This ledger is not sound; problems found by `verify`: {len(past.faults)}\n")
    parts += [text for _, text in accounts]
    parts += ["".join(dataset_text(entries, name) for name in owners)] * bool(owners)
    parts += [_entries_text(own)] * bool(own)
    return "\n".join(parts) or "The ledger is empty, and no account is declared.\n", shown


def verify(ledger: Ledger) -> tuple[str, bool]:
    """Checks the chain of a ledger; returns a text for the reader, and whether it is sound.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    forgotten = ledger.complaints()
    entries = ledger.entries()
    whole = LedgerSnapshot.of(entries)
    faults = [*whole.faults, *forgotten]
    if not faults and whole.rows != ledger.window_rows(whole.seq):
        faults.append(
            f"the table of windows of {ledger.place} was changed: it does not follow from the "
            "entries, which are sound. `tracecloak ledger migrate` makes it anew"
        )
    if not faults:
        from tracecloak.pipelines.ledger.case_registry import CaseRegistryError, units_of

        units = units_of(ledger, entries)
        faults = [str(one) for one in units if isinstance(one, CaseRegistryError)]
    if faults:
        return "".join(f"{problem}\n" for problem in faults), False
    if not entries:
        return "The ledger is sound: it has no entries.\n", True
    last, n = entries[-1], len(entries)
    text = (
        f"The ledger is sound: {n} {'entry' if n == 1 else 'entries'}, the last of "
        f"{last.recorded_at} with hash\n{last.hash}\nKeep this hash elsewhere: a later `tracecloak "
        "ledger export` without it is of a ledger that was cut off or written anew.\n"
    )
    return text, True


def export(ledger: Ledger) -> str:
    """Returns the entries as JSON lines, all columns and hashes.

    A column that does not count in the hash because it is empty is left out.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    rows = map(asdict, ledger.entries())
    lines = ({n: cell for n, cell in row.items() if n != "details" or cell} for row in rows)
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def dataset_text(entries: Sequence[Entry], dataset: str) -> str:
    """Returns to which account a data set is bound, and which others paid for releases of it."""
    owner = bound_datasets(entries)[dataset]
    text = f"Data set {dataset} is bound to account {owner}\n"
    if others := _others(entries, dataset, owner):
        text += (
            f"  Releases that name it were paid by {' and '.join(others)}, too: what all of them "
            "spent on it adds up.\n"
        )
    return text


def accepted_text(accepted: Accepted) -> str:
    """Returns what an entry `accept` ended, and what counts as spent for it."""
    lines = [f"{_upper(complaint)}." for complaint in accepted.complaints]
    lines.append("That is written down as accepted, and releases go on.")
    for entry in accepted.counted:
        if entry.action == "account":
            lines.append(f"Account {entry.account} was declared and is lost: its caps are 0 now.")
        elif entry.action == "reserve":
            lines.append(
                f"Account {entry.account}: what was left counts as spent, epsilon {entry.epsilon} "
                f"and delta {entry.delta}."
            )
    if accepted.counted:
        lines.append(
            "Look which releases the ledger lacks, and declare caps and bind data sets again, with "
            "`tracecloak ledger declare` and `tracecloak ledger bind`; or restore a newer backup."
        )
    return "".join(f"{line}\n" for line in lines)


def _others(entries: Sequence[Entry], dataset: str, owner: str) -> list[str]:
    return [name for name in accounts_that_paid(entries, dataset) if name != owner]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _account_facts(
    ledger: Ledger, past: LedgerSnapshot, entries: Sequence[Entry], name: str
) -> tuple[dict[str, Any], str]:
    """Returns what an account may spend and spent, as JSON values and as text."""
    account, paid, spent = ledger.account_in(past, name), counting(entries, name), past.spent(name)
    balance, left = ledger.balance_in(past, name), None
    declared = declared_accounts(past.declared)
    is_shut = bool(declared) and name not in declared
    is_of_window = bool(paid) and any(paid_place(paid[-1].window))
    if paid:
        # How many more with the epsilon and delta of the last one the caps allow; None: any number,
        # because no cap limits them, or as one like it of each further window costs nothing more.
        asked = paid[-1].last.values()
        pairs = [(balance.remaining_epsilon, asked[0]), (balance.remaining_delta, asked[1])]
        if is_shut or (is_of_window and balance.is_exceeded):
            left = 0
        elif not is_of_window and None not in (*asked, balance.spent_epsilon):
            fitting = [int(rest // cost) for rest, cost in pairs if rest is not None and cost]
            left = min(fitting, default=None)
        elif not is_of_window and any(rest is not None for rest, _ in pairs):
            left = 0
    facts = _numbers_as_text({
        "account": name,
        "unit": account and account.unit,
        "epsilon_cap": account and account.epsilon_cap,
        "delta_cap": account and account.delta_cap,
        **asdict(balance),
        "releases_like_the_last_left": left,
        "windows": [_numbers_as_text(scope) for scope in scopes_of(spent.all)],
    })  # fmt: skip
    unit = "no caps" if account is None else f"per {account.unit}"
    rows = [("", "cap", "spent", "of it open", "remaining")]
    for column in ("epsilon", "delta"):
        cap, now = facts[f"{column}_cap"], facts[f"spent_{column}"]
        # Without a finite epsilon no delta is kept, either.
        is_exceeded = facts["spent_epsilon"] is None or Fraction(now) > Fraction(cap or now)
        remaining = "exceeded" if cap and is_exceeded else facts[f"remaining_{column}"] or "no cap"
        rows.append((column, cap or "no cap", _sum(now), _sum(facts[f"open_{column}"]), remaining))
    lines = [*_table(rows), *map(_scope_text, facts["windows"])]
    if balance.is_exceeded:
        lines.append("Exceeded: more is spent than the caps allow; nothing more can be released.")
    if balance.n_open:
        lines.append("Open: reserved, and neither committed nor voided; it counts as spent.")
    if paid:
        any_more = "any number, no cap limits them"
        if is_of_window:
            any_more = "one of each further window, which costs nothing more"
        more = any_more if left is None else left
        lines.append(f"Releases like the last one that still fit: {more}")
    if len(spent.kinds) > 1 or any(account and account.unit != one for one, _ in spent.kinds):
        odd = " and ".join(sorted(map(", ".join, spent.kinds)))
        lines.append(f"The sums are not a valid bound: the releases are about {odd}.")
    head = (
        f"Account {name} ({'not declared, so it pays no more' if is_shut else unit}): "
        f"{_releases(balance.n_releases)}, {balance.n_open} of them open\n"
    )
    return facts, head + "".join(f"  {line}\n" for line in lines)


def _numbers_as_text(facts: dict[str, Any]) -> dict[str, Any]:
    return {n: decimal_text(v) if isinstance(v, Fraction) else v for n, v in facts.items()}


def scopes_of(sums: Sums) -> list[dict[str, Any]]:
    """Returns what the windows of each scope add to an account, in the order of their first charge.

    Args:
        sums: What the charges of the account cost; what adds up as if of no window is left out.

    Returns:
        Of each scope its name, see `entries.WindowCharge`; how many windows and charges of these
        count; the largest of the windows' sums of epsilon, None: one has no finite one, and of
        delta; and the label of the window that has each, one of several.
    """
    scopes = []
    for scope, totals in sums.items():
        if not scope:
            continue
        boundless = [label for label, total in totals.items() if total["n_boundless"]]
        dearest, by_delta = (
            max(totals, key=lambda label: totals[label][name]) for name in COORDINATES
        )
        dearest = boundless[0] if boundless else dearest
        delta = totals[by_delta]["delta"]
        scopes.append({
            "scope": scope,
            "n_windows": len(totals),
            "n_releases": sum(total["n"] for total in totals.values()),
            "epsilon": None if boundless else totals[dearest]["epsilon"],
            "epsilon_window": dearest,
            "delta": delta,
            "delta_window": dearest if totals[dearest]["delta"] == delta else by_delta,
        })  # fmt: skip
    return scopes


def _scope_text(scope: dict[str, Any]) -> str:
    """Returns one line on all windows of a scope."""
    n, which = scope["n_windows"], scope["epsilon_window"]
    if scope["delta_window"] != which:
        which = f"{which} by epsilon, {scope['delta_window']} by delta"
    return (
        f"Windows of {_shortened(scope['scope'], 16)}: {n} {'window' if n == 1 else 'windows'}, "
        f"{_releases(scope['n_releases'])}; the dearest ({which}) is what all add: epsilon "
        f"{_sum(scope['epsilon'])}, delta {_sum(scope['delta'])}"
    )


def _entries_text(entries: Sequence[Entry]) -> str:
    header = (
        "seq", "recorded", "account", "action", "epsilon", "delta", "unit", "adjacency", "method",
        "release", "output", "details",
    )  # fmt: skip
    rows = [
        (
            str(e.seq), e.recorded_at[:19] + "Z", e.account or "-", e.action, *_numbers(e),
            e.unit or "-", e.adjacency or "-", e.method or "-", e.release_id or "-",
            e.output or "-", _details(e),
        )
        for e in _last_steps(entries)
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in ["Entries", *_table([header, *rows])])


def _last_steps(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries, of the steps of an epoch only the last: there are thousands."""
    last = {entry.keyed_release: entry.seq for entry in entries if entry.action in NOTES}
    return [e for e in entries if e.action not in NOTES or e.seq == last[e.keyed_release]]


def _numbers(entry: Entry) -> tuple[str, str]:
    if entry.action == "account":
        return entry.epsilon or "no cap", entry.delta or "no cap"
    return (entry.epsilon or "not finite" if entry.is_of_charge else "-"), entry.delta or "-"


def _details(entry: Entry) -> str:
    """Returns what an entry says beside its columns, and not for machines only."""
    facts, window = entry.facts, entry.window
    said = [
        "dataset" in facts and f"dataset {facts['dataset']}",
        window and f"window {window.label}",
        window and window.adds_up and "adds up",
        entry.units_sha256 and f"units {entry.units_sha256[:16]}…",
        entry.decided and f"step {entry.decided[0]}",
        facts.get("again") and "again",
        "by" in facts and f"{facts['by']}: {facts.get('reason')}",
    ]
    return "; ".join(text for text in said if text)


def _sum(value: str | None) -> str:
    return "not finite" if value is None else value


def _releases(n: int) -> str:
    return f"{n} {'release' if n == 1 else 'releases'}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines with the columns aligned, two spaces apart."""
    widest = [*[_WIDEST] * (len(rows[0]) - 1), _WIDEST_LAST]
    short = [[*map(_shortened, row, widest)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in short
    ]


def _shortened(text: str, widest: int) -> str:
    if not text.isprintable():  # no ledger writes such text, which could steer a terminal
        text = ascii(text)
    return text if len(text) <= widest else text[: widest - 1] + "…"
