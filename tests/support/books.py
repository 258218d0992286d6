"""Books of counted units in tests: small worlds of cases, and many processes at one book."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.keys import release_key
from tests.support.ledgers import account, forked, reservation
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.case_registry import CaseRegistry, scope_of
from tracecloak.pipelines.ledger.entries import Reservation, WindowCharge
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

KEY = release_key(7)


def batch(cases: Iterable[str], individuals: Mapping[str, str] | None = None) -> TraceBatch:
    """Returns cases of one event each; a case `p/c` with individuals is case `c` of `p`."""
    names = list(cases)
    whose = None if individuals is None else [individuals[name] for name in names]
    return TraceBatch(
        pa.array(names, pa.string()),
        np.arange(len(names) + 1),
        np.zeros(len(names), np.int32),
        np.zeros(len(names), np.int64),
        ActivityVocabulary.of(["A"]),
        None if whose is None else pa.array(whose, pa.string()),
    )


def units(cases: Iterable[str], individuals: Mapping[str, str] | None = None) -> CountedUnits:
    """Returns these cases under the key of the tests."""
    return CountedUnits.from_traces(batch(cases, individuals), KEY, individuals is not None)


def scope(max_cases: int | None = None, **changes: Any) -> str:
    """Returns the scope of the tests."""
    values: dict[str, Any] = {
        "schedule_digest": "0" * 32,
        "dataset": "claims",
        "unit": "case" if max_cases is None else "individual",
        "unit_columns": ["case_id"],
        "max_cases_per_individual": max_cases,
        "book_key_fingerprint": KEY.fingerprint,
    }
    return scope_of(**{**values, **changes})


def of_window(
    number: int, label: str, epsilon: str = "0.1", max_cases: int | None = None, **changes: Any
) -> Reservation:
    """Returns what release `r<number>` of a window asks of the account `a`."""
    adds_up = changes.pop("adds_up", False)
    where = changes.pop("scope", None) or scope(max_cases)
    return reservation(number, epsilon, window=WindowCharge(where, label, adds_up), **changes)


def book_of(ledger: Ledger, max_cases: int | None = None) -> CaseRegistry:
    """Returns the counted units of a ledger, under the key of the tests."""
    return CaseRegistry(KEY, ledger, max_cases)


def fork_and_claim(url: str, folder: str, n_processes: int, n_cases: int) -> None:
    """Forks processes that each claim the same cases for another window at once, and draw.

    To be run in a process without threads, by `ledgers.python`.

    Args:
        url: Of the ledger.
        folder: Of the key stores.
        n_processes: How many.
        n_cases: `c0` and so on.
    """

    def prepare(number: int) -> Callable[[], None]:
        store = KeyStore(Path(folder) / f"keys {number}")
        ledger = Ledger(url, {"a": account()}, patience_seconds=120, store=store)
        # Each has a case of its own, too, so that no two claims are the same.
        mine = units([*(f"c{i}" for i in range(n_cases)), f"own{number}"])
        ledger.reserve(of_window(number, f"w{number}", "1"))

        def work() -> None:
            book_of(ledger).claim("/out", f"r{number}", "k", mine)
            ledger.draw("/out", f"r{number}", "k")

        return work

    if any(forked(n_processes, prepare)):
        raise SystemExit(1)


def claimed_by_window(book: CaseRegistry, ledger: Ledger) -> dict[str, set[tuple[int, ...]]]:
    """Returns the digests that count as claimed, by window's label."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for entry in ledger.entries():
        if entry.action != "reserve" or entry.window is None:
            continue
        claimed = book.frozen(entry.output, entry.release_id, entry.key_fingerprint)
        rows = [] if claimed is None else claimed.units.digests.tolist()
        found.setdefault(entry.window.label, set()).update(map(tuple, rows))
    return found
