"""What a claim of one more window takes, in the processor's time, by how many came before it.

The past is made up: a ledger as the releases of so many windows leave it. Each claim
is made by a process of its own, as a scheduler starts one a night.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from tests.benchmarks.harness import ratio
from tests.support.books import book_of, of_window, scope
from tests.support.ledgers import account
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.case_registry import Claimed
from tracecloak.pipelines.ledger.database import TABLE, UNITS
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger

# Windows, and cases of each: a day for ten years, and an hour for four.
PASTS = ((100, 1000), (3_650, 1000), (35_000, 100))
_PIECE = 5_000


def make_past(folder: Path, n_windows: int, n_cases: int) -> None:
    """Makes the ledger of so many windows, with what they counted."""
    url = f"sqlite:///{folder}/ledger.db"
    Ledger(url, {"a": account("100")}, new=True)
    entries: list[dict[str, object]] = []
    last: Entry | None = None
    with sa.create_engine(url).begin() as connection:
        for number in range(n_windows):
            claimed = Claimed(scope(), f"w{number}", 0, f"{number:032x}", _units(number, n_cases))
            asked = of_window(number, f"w{number}")
            assert asked.window is not None
            of_actions = {"reserve": asked.facts(), "claim": {"units": claimed.sha256}}
            for action in ("reserve", "claim", "draw", "commit"):
                last = Entry.after(last, action, asked.columns(), of_actions.get(action))
                entries.append(asdict(last))
                if action == "claim":
                    connection.execute(sa.insert(UNITS), claimed.rows(last.seq))
        for at in range(0, len(entries), _PIECE):
            connection.execute(sa.insert(TABLE), entries[at : at + _PIECE])
    Ledger(url).migrate()  # which adds what follows from the entries
    Ledger(url).migrate()


def release(folder: Path, number: int, n_cases: int) -> None:
    """Does with the ledger what a release of one more window does."""
    url = f"sqlite:///{folder}/ledger.db"
    store = KeyStore(folder / "keys")
    ledger = Ledger(url, {"a": account("100")}, store=store)
    ledger.check_remembered()
    book = book_of(ledger)
    asked, release = of_window(number, f"w{number}"), ("/out", f"r{number}", "k")
    book.check(scope())
    ledger.reserve(asked)
    book.frozen(*release)
    book.claim(*release, _units(number, n_cases))
    gate = Ledger(url, store=store)
    gate.states(*release)
    gate.draw(*release)
    ledger.commit(*release)
    ledger.balance("a")


def seconds(folder: Path, number: int, n_cases: int) -> float:
    """Returns what the release takes of the processor, without starting Python."""
    code = (
        "import time; from pathlib import Path; from tests.benchmarks.windows import release; "
        f"began = time.process_time(); release(Path({str(folder)!r}), {number}, {n_cases}); "
        "print(time.process_time() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Prints the seconds, and what ten years of days cost beside a hundred days."""
    took = {}
    for n_windows, n_cases in PASTS:
        with tempfile.TemporaryDirectory() as name:
            make_past(Path(name), n_windows, n_cases)
            first = seconds(Path(name), n_windows, n_cases)  # which reads all entries
            took[n_windows] = min(seconds(Path(name), n_windows + n, n_cases) for n in (1, 2, 3))
        print(
            f"{n_windows:6,} windows of {n_cases:5,} cases {took[n_windows]:6.2f} s of the "
            f"processor, the first time {first:6.2f} s"
        )
    ratio("one more window after 3,650, to one after 100", took[3_650] / took[100], 1.3)


def _units(number: int, n_cases: int) -> CountedUnits:
    drawn = np.random.default_rng(number).integers(0, 2**64, (n_cases, 2), np.uint64)
    return CountedUnits.of(drawn)


if __name__ == "__main__":
    main()
