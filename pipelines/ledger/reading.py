"""What a privacy officer reads of a ledger: what was spent, on what, and whether its chain holds.

These only read, and return text; `tracecloak ledger` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from typing import Any

from tracecloak.anonymizers.accounting.account_caps import Loss
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import (
    NAMES,
    KnownCharge,
    Sums,
    charge_states,
)
from tracecloak.pipelines.ledger.caps import bound_datasets, is_shut
from tracecloak.pipelines.ledger.database import read_windows
from tracecloak.pipelines.ledger.entries import NOTES, Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.texts import templates_of

# How many characters of a long text a table shows, and of one in the last column; `export` has all.
_WIDEST = 40
_WIDEST_LAST = 120
# What is shown of a balance, and the numbers that a release claims.
_CLAIMED = ("epsilon", "delta")
_SHOWN = (
    "spent_epsilon", "spent_delta", "open_epsilon", "open_delta", "n_releases", "n_open",
    "remaining_epsilon", "remaining_delta",
)  # fmt: skip
_MANY = {"entry": "entries", "release": "releases", "window": "windows"}


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
        "datasets": [_bound(entries, name) for name in owners],
        "entries": [asdict(entry) for entry in own],
        "forgotten": forgotten,
    }
    said = {
        "accounts": [{**facts, **beside} for facts, beside in accounts],
        "entries": _entries_table(own) if own else [],
        "n_faults": len(past.faults),
    }
    return text_of("show", **{**shown, **said}), shown


def verify(ledger: Ledger) -> tuple[str, bool]:
    """Checks the chain of a ledger; returns a text for the reader, and whether it is sound.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    forgotten = ledger.complaints()
    entries = ledger.entries()
    whole = LedgerSnapshot.of(entries)
    faults = [*whole.faults, *forgotten]
    rows = [row for row in read_windows(ledger.ask) if row["seq"] <= whole.seq]
    if not faults and whole.rows != rows:
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
    return text_of("sound", entries=entries), True


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
    return text_of("bound", datasets=[_bound(entries, dataset)])


def _bound(entries: Sequence[Entry], dataset: str) -> dict[str, Any]:
    owner = bound_datasets(entries)[dataset]
    others = {
        one.last.account
        for one in charge_states(entries).values()
        if one.reserved.facts.get("dataset") == dataset and one.last.action != "void"
    } - {owner}
    return {"dataset": dataset, "account": owner, "also_paid_by": sorted(others)}


@cache
def _templates() -> Any:
    templates = templates_of("tracecloak.pipelines.ledger")
    templates.filters |= {
        "many": lambda n, one: f"{n} {one if n == 1 else _MANY[one]}",
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",
        "short": _shortened,
    }
    return templates


def text_of(template: str, **values: Any) -> str:
    """Returns what a template of this package says, which ends with one end of a line."""
    return _templates().get_template(f"{template}.txt.j2").render(values).rstrip("\n") + "\n"


def _account_facts(
    ledger: Ledger, past: LedgerSnapshot, entries: Sequence[Entry], name: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what an account may spend and spent, as JSON values; and what the text has beside."""
    account, spent = ledger.account_in(past, name), past.spent(name)
    states = charge_states(entries).values()
    paid = [one for one in states if one.last.account == name and one.last.action != "void"]
    balance, left = ledger.balance(name, past), None
    no_more = is_shut(past.declared, name)
    last = KnownCharge.of(paid[-1]) if paid else None
    is_of_window = last is not None and any(last.place)
    # How many more that cost what the last one costs the caps allow; None: any number, because no
    # cap limits them, or as one like it of each further window costs nothing more.
    if no_more or (is_of_window and balance.exceeded):
        left = 0
    elif last is not None and not is_of_window:
        left = balance.room(last.cost) if last.epsilon is not None or not balance.caps else 0
    caps = {f"{n}_cap": None if account is None else getattr(account, f"{n}_cap") for n in _CLAIMED}
    facts = _numbers_as_text({
        "account": name,
        "unit": account and account.unit,
        **caps,
        **{key: getattr(balance, key) for key in _SHOWN},
        "is_exceeded": bool(balance.exceeded),
        "composition": account and account.composition,
        "caps": _numbers_as_text(dict(balance.caps)),
        "spent": _numbers_as_text({name: balance.spent[name] for name in balance.caps}),
        "shares": balance.shares,
        "releases_like_the_last_left": left,
        "windows": [_numbers_as_text(scope) for scope in scopes_of(spent.all)],
    })  # fmt: skip
    rows: list[Sequence[str]] = [("", "cap", "spent", "of it open", "remaining")]
    for column in _CLAIMED:
        remaining = facts[f"remaining_{column}"] or "no cap"
        if column in balance.exceeded:
            remaining = "exceeded"
        spent_open = (facts[f"{of}_{column}"] or "not finite" for of in ("spent", "open"))
        rows.append((column, facts[f"{column}_cap"] or "no cap", *spent_open, remaining))
    beside: dict[str, Any] = {"is_shut": no_more, "is_of_window": is_of_window, "largest": None}
    if account is not None and account.three_caps is not None and account.largest is not None:
        of = (balance.caps, balance.spent, balance.opened)
        rows = [(*rows[0][:-1], "share spent")]
        for n, share in balance.shares.items():
            rows.append((NAMES[n], *(f"{float(values[n]):.4g}" for values in of), f"{share:.1%}"))
        so_far = Loss(*(balance.spent[n] for n in balance.caps)).epsilon(account.largest[1])
        beside["largest"] = [*map(decimal_text, account.largest)]
        beside["so_far"] = f"{so_far:.4g}" if balance.is_finite else "not finite"
    is_odd = len(spent.kinds) > 1 or any(account and account.unit != one for one, _ in spent.kinds)
    beside |= {
        "sums": _table(rows),
        "odd": sorted(map(", ".join, spent.kinds)) if is_odd else [],
    }
    return facts, beside


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
            max(totals, key=lambda label: totals[label][name]) for name in _CLAIMED
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


def _entries_table(entries: Sequence[Entry]) -> list[str]:
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
    return _table([header, *rows])


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
        "begins" in facts and "begins the account",
        "by" in facts and f"{facts['by']}: {facts.get('reason')}",
    ]
    return "; ".join(text for text in said if text)


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
