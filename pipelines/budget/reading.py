"""What a privacy officer reads of a ledger: what was spent, on what, and whether its chain holds.

These only read, and return text; `tracecloak ledger` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.balance import Balance, counting
from tracecloak.pipelines.budget.entries import Entry, problems
from tracecloak.pipelines.budget.ledger import Ledger

# How many characters of a long text a table shows; `export` has all.
_WIDEST = 40


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes:
        text: For the reader.
        is_sound: Whether there are no problems.
    """

    text: str
    is_sound: bool


def show(ledger: Ledger, account: str | None = None, as_json: bool = False) -> str:
    """Returns what the accounts may spend, what they spent, and on what.

    Args:
        ledger: The ledger, with the accounts whose caps are compared.
        account: The one account to show; None: all of the accounts file and of the ledger.
        as_json: Whether to return one JSON object, in which numbers are exact decimals as text.

    Raises:
        UsageError: The account is not known.
        LedgerError: The ledger cannot be read, or holds what no ledger writes.
    """
    entries = ledger.entries()
    names = [account] if account is not None else list(dict.fromkeys([
        *ledger.accounts, *(entry.account for entry in entries),
    ]))  # fmt: skip
    balances = [ledger.balance_in(entries, name) for name in names]
    shown = [entry for entry in entries if entry.account in names]
    if as_json:
        accounts = [_as_json(ledger, entries, balance) for balance in balances]
        rows = [asdict(entry) for entry in shown]
        return json.dumps({"accounts": accounts, "entries": rows}, indent=2)
    if not names:
        return "The ledger is empty, and no account is declared.\n"
    parts = [_account_text(ledger, entries, balance) for balance in balances]
    found = problems(entries)
    if found:
        parts.insert(0, f"This ledger is not sound; problems found by `verify`: {len(found)}\n")
    if shown:
        parts.append(_entries_text(shown))
    return "\n".join(parts)


def verify(ledger: Ledger, known_hash: str | None = None) -> Verification:
    """Checks the chain of a ledger.

    Args:
        ledger: The ledger.
        known_hash: The last hash as it was noted elsewhere at an earlier time. Without one,
            entries removed from the end and a chain computed anew go unnoticed.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    entries = ledger.entries()
    found = problems(entries, known_hash)
    if found:
        return Verification("".join(f"{problem}\n" for problem in found), False)
    if not entries:
        return Verification("The ledger is sound: it has no entries.\n", True)
    last = entries[-1]
    return Verification(
        f"The ledger is sound: {len(entries)} {_plural(len(entries), 'entry', 'entries')}, the "
        f"last of {last.recorded_at} with hash\n{last.hash}\nKeep this hash elsewhere: with it, "
        "the next verification also notices a ledger that was cut off or written anew.\n",
        True,
    )


def export(ledger: Ledger, account: str | None = None) -> str:
    """Returns the entries as JSON lines, all columns and hashes, of one account or all.

    A column that does not count in the hash because it is empty is left out.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    lines = []
    for entry in ledger.entries(account):
        columns = asdict(entry)
        if not entry.details:
            del columns["details"]
        lines.append(f"{json.dumps(columns)}\n")
    return "".join(lines)


def releases_left(balance: Balance, last: Entry) -> int | None:
    """Returns how many more releases with the epsilon and delta of an earlier one the caps allow.

    None: any number, because no cap limits them.
    """
    epsilon, delta = last.values()
    capped = balance.remaining_epsilon is not None or balance.remaining_delta is not None
    if epsilon is None or delta is None or balance.spent_epsilon is None:
        return 0 if capped else None
    fitting = [
        int(remaining // asked)
        for remaining, asked in (
            (balance.remaining_epsilon, epsilon),
            (balance.remaining_delta, delta),
        )
        if remaining is not None and asked > 0
    ]
    return min(fitting, default=None)


def _as_json(ledger: Ledger, entries: Sequence[Entry], balance: Balance) -> dict[str, Any]:
    account = ledger.accounts.get(balance.account)
    paid = counting(entries, balance.account)
    return {
        "account": balance.account,
        "unit": None if account is None else account.unit,
        "epsilon_cap": None if account is None else _number(account.epsilon_cap),
        "delta_cap": None if account is None else _number(account.delta_cap),
        **{
            name: _number(value) if isinstance(value, Fraction) else value
            for name, value in asdict(balance).items()
            if name != "account"
        },
        "releases_like_the_last_left": releases_left(balance, paid[-1]) if paid else None,
    }


def _number(value: Fraction | None) -> str | None:
    return None if value is None else decimal_text(value)


def _account_text(ledger: Ledger, entries: Sequence[Entry], balance: Balance) -> str:
    account = ledger.accounts.get(balance.account)
    unit = "not in the accounts file" if account is None else f"per {account.unit}"
    caps = (None, None) if account is None else (account.epsilon_cap, account.delta_cap)
    table = _table([
        ("", "cap", "spent", "of it open", "remaining"),
        (
            "epsilon", _cap(caps[0]), _sum(balance.spent_epsilon), _sum(balance.open_epsilon),
            _cap(balance.remaining_epsilon),
        ),
        (
            "delta", _cap(caps[1]), _sum(balance.spent_delta), _sum(balance.open_delta),
            _cap(balance.remaining_delta),
        ),
    ])  # fmt: skip
    n = balance.n_releases
    lines = [
        f"Account {balance.account} ({unit}): {n} {_plural(n, 'release', 'releases')}, "
        f"{balance.n_open} of them open",
        *(f"  {line}" for line in table),
        *(f"  {line}" for line in _outlook(account, entries, balance)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _outlook(account: Account | None, entries: Sequence[Entry], balance: Balance) -> Iterable[str]:
    if balance.n_open:
        yield "Open: reserved, and neither committed nor voided; it counts as spent."
    paid = counting(entries, balance.account)
    if not paid:
        return
    left = releases_left(balance, paid[-1])
    fitting = "any number, no cap limits them" if left is None else str(left)
    yield f"Releases like the last one that still fit: {fitting}"
    odd = sorted({f"{e.unit}, {e.adjacency}" for e in paid})
    if len(odd) > 1 or (account is not None and any(e.unit != account.unit for e in paid)):
        yield f"The sums bound nothing: the releases are about {' and '.join(odd)}."


def _entries_text(entries: Sequence[Entry]) -> str:
    header = (
        "seq", "recorded", "account", "action", "epsilon", "delta", "unit", "adjacency", "method",
        "release", "output",
    )  # fmt: skip
    rows = [
        (
            str(e.seq), e.recorded_at[:19] + "Z", e.account, e.action, e.epsilon or "not finite",
            e.delta or "-", e.unit, e.adjacency, e.method, e.release_id, e.output,
        )
        for e in entries
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in ["Entries", *_table([header, *rows])])


def _cap(value: Fraction | None) -> str:
    return "no cap" if value is None else decimal_text(value)


def _sum(value: Fraction | None) -> str:
    return "not finite" if value is None else decimal_text(value)


def _plural(n: int, one: str, many: str) -> str:
    return one if n == 1 else many


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines with the columns aligned, two spaces apart."""
    short = [[_shortened(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in short
    ]


def _shortened(text: str) -> str:
    if not text.isprintable():  # no ledger writes such text, which could steer a terminal
        text = ascii(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
