"""What the privacy officer declared in a ledger: caps of accounts, and whose a data set is.

A declaration is an entry of the ledger's chain, with who made it and why. The last one of a name
holds; those before stay, so a cap that was raised is seen to have been raised. What a pipeline is
given, or leaves out, changes none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.accounts import Account
from tracecloak.pipelines.ledger.balance import charge_states
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry, require_text
from tracecloak.schemas.errors import UsageError

# Stands for whichever key store accepts a restored ledger that knows of none.
ANY_STORE = "any"

# The columns of an entry, which stay empty in a declaration but for those that it is about.
NO_COLUMNS: Mapping[str, Any] = {
    "account": "", "release_id": "", "output": "", "epsilon": None, "delta": None, "unit": "",
    "adjacency": "", "method": "", "spends": "[]", "config_digest": "", "key_fingerprint": "",
}  # fmt: skip


def account_columns(account: Account) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns columns and details of the entry that declares an account.

    Raises:
        UsageError: A cap is no exact decimal.
    """
    caps = {"epsilon": account.epsilon_cap, "delta": account.delta_cap}
    columns = {name: None if cap is None else decimal_text(cap) for name, cap in caps.items()}
    details: dict[str, Any] = {}
    if account.max_cases is not None:
        details["max_cases"] = account.max_cases
    if account.note:
        require_text("note", account.note)
        details["note"] = account.note
    return {**NO_COLUMNS, **columns, "account": account.name, "unit": account.unit}, details


def declared_accounts(entries: Sequence[Entry]) -> dict[str, Account]:
    """Returns the accounts that are declared, by name, with the caps that hold now.

    Raises:
        UsageError: An entry has what no ledger writes.
    """
    accounts = {}
    for entry in entries:
        if entry.action == "account":
            epsilon, delta = entry.values()
            facts = entry.facts
            accounts[entry.account] = Account(
                entry.account, epsilon, delta, entry.unit, facts.get("max_cases"),
                facts.get("note", ""),
            )  # fmt: skip
    return accounts


def dataset_columns(dataset: str, account: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns columns and details of the entry that binds a data set to an account.

    Raises:
        UsageError: A name is no printable text.
    """
    require_text("dataset", dataset)
    require_text("account", account)
    return {**NO_COLUMNS, "account": account}, {"dataset": dataset}


def bound_datasets(entries: Sequence[Entry]) -> dict[str, str]:
    """Returns the account that each bound data set belongs to now, by the data set's name."""
    return {
        str(entry.facts.get("dataset")): entry.account
        for entry in entries
        if entry.action == "dataset"
    }


def accounts_that_paid(entries: Sequence[Entry], dataset: str) -> list[str]:
    """Returns the accounts under which releases named a data set and still count as spent."""
    return sorted({
        state.last.account
        for state in charge_states(entries).values()
        if state.reserved.facts.get("dataset") == dataset and state.last.action != "void"
    })  # fmt: skip


def check_dataset(entries: Sequence[Entry], dataset: str | None, account: str) -> None:
    """Makes sure that an account may pay for a release of a data set.

    Raises:
        UsageError: The data set is bound to another account.
    """
    owner = None if dataset is None else bound_datasets(entries).get(dataset)
    if owner not in (None, account):
        raise UsageError(
            f"dataset {dataset!r} belongs to account {owner!r} by an entry of the ledger, and "
            f"account {account!r} was to pay: what is spent on one data set must add up in one "
            f"account. Set account to {owner!r}, or have the privacy officer bind the data set anew"
        )


def check_declared(entries: Sequence[Entry], account: str) -> Account | None:
    """Returns the caps of an account in the ledger; None: it declares no account at all.

    Raises:
        UsageError: It declares accounts, and not this one.
    """
    known = declared_accounts(entries)
    if not known or account in known:
        return known.get(account)
    raise UsageError(
        f"account {account!r} is not declared in the ledger, which has {', '.join(sorted(known))}; "
        "use one of these, or have the privacy officer declare it with `tracecloak ledger declare`"
    )


def awaited_stores(entries: Sequence[Entry]) -> list[str]:
    """Returns the key stores that have to say what they paid since a backup of a ledger was made.

    A ledger that was restored from it knows those that had paid before. Where it knows none,
    `ANY_STORE` stands for whoever accepts.
    """
    awaited: dict[str, None] = {}
    for entry in entries:
        if entry.action == "restore":
            awaited |= dict.fromkeys(entry.facts.get("awaits") or [ANY_STORE])
        elif entry.action == "accept":
            for store in (ANY_STORE, *entry.facts.get("answers", ())):
                awaited.pop(store, None)
    return list(awaited)


def awaited_text(place: str, awaited: Sequence[str]) -> str:
    """Returns what to say of a restored ledger, in which nothing is paid yet."""
    stores = [store for store in awaited if store != ANY_STORE]
    which = (
        f"with each of the key stores that paid with it before ({', '.join(stores)}), or names "
        "those that are lost with --lost_stores"
        if stores
        else "once, with a key store that paid with it if there is one"
    )
    return (
        f"{place} was restored from a backup, and does not know what was paid since. Nothing is "
        "released until somebody runs `tracecloak ledger accept [CONFIG] --by NAME --reason TEXT` "
        f"{which}"
    )


def check_answered(entries: Sequence[Entry], place: str) -> None:
    """Makes sure that a ledger, if it was restored, knows what was paid since its backup.

    Raises:
        LedgerError: It does not.
    """
    if awaited := awaited_stores(entries):
        raise LedgerError(awaited_text(place, awaited))


def both_bounds(declared: Account | None, in_file: Account | None) -> Account | None:
    """Returns an account with the lower of two caps each, where both are given.

    Raises:
        UsageError: They are about different units.
    """
    if declared is None or in_file is None:
        return declared or in_file
    if declared.unit != in_file.unit:
        raise UsageError(
            f"account {declared.name!r} is per {declared.unit} in the ledger and per "
            f"{in_file.unit} in the accounts file; correct the file, or declare the account anew"
        )
    return replace(
        declared,
        epsilon_cap=_lower(declared.epsilon_cap, in_file.epsilon_cap),
        delta_cap=_lower(declared.delta_cap, in_file.delta_cap),
    )


def _lower(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    caps = [cap for cap in (one, other) if cap is not None]
    return min(caps, default=None)
