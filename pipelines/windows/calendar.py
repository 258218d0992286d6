"""The calendar of a schedule: which windows are released, due, late or refused, and what each cost.

It is read from the ledger, from the notes of the last tries, and from the clock. It reads neither
the log nor its book of units, so nothing in it is counted on private data.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import Attempt, last_attempt
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.window import known_scope
from tracecloak.pipelines.release.window_facts import moment
from tracecloak.schemas.errors import BudgetExhausted
from tracecloak.schemas.windows.schedule import Window
from tracecloak.transforms.files import absolute
from tracecloak.transforms.publish.release_folder import ReleaseFolder

Status = Literal[
    "waiting", "due", "late", "refused", "failed", "cut_off", "given_up", "withdrawn", "released"
]


@dataclass(frozen=True)
class Day:
    """A window on the calendar.

    Attributes:
        window: The window.
        status: `waiting`: what belongs to it can still come. `due`: it can be released. `late`:
            it has been due for longer than a window lasts. `refused`: its account could not pay
            when it was tried last. `failed`: the last try ended with another error. `cut_off`: it
            is paid, and the same command finishes it for nothing. `given_up`, `withdrawn`: it is
            paid, and somebody ended it with the ledger. `released`, under any name.
        releases: Names of its releases, complete or begun.
        complete: Names of its complete releases.
        epsilon: What it has spent; None: no finite epsilon.
        delta: Likewise; 0 where epsilon is not finite.
        attempt: The last try that is known, if it failed.
    """

    window: Window
    status: Status
    releases: tuple[str, ...]
    complete: tuple[str, ...]
    epsilon: Fraction | None
    delta: Fraction
    attempt: Attempt | None

    @property
    def is_ended(self) -> bool:
        """Whether nothing is left to do for it, as making it again is another spend."""
        return self.status in ("released", "given_up", "withdrawn")

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "label": self.window.label,
            "begin": moment(self.window.begin_us),
            "end": moment(self.window.end_us),
            "due": moment(self.window.due_us),
            "status": self.status,
            "releases": list(self.releases),
            "epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "last_attempt": None if self.attempt is None else asdict(self.attempt),
        }


def calendar_of(
    config: ReleaseConfig, store: KeyStore, ledger: Ledger | None, now_us: int | None = None
) -> tuple[Day, ...]:
    """Returns all windows of a configuration's schedule, the first one first; only reads.

    Args:
        config: With a schedule; which window it names does not matter.
        store: The key store of its releases.
        ledger: The ledger that they are charged to; None: there is none yet.
        now_us: Microseconds since 1970; None: the clock's.

    Raises:
        UsageError: The key of the book that is named is not there.
        LedgerError: The ledger cannot be read.
    """
    schedule = config.made_schedule
    if schedule is None:
        return ()
    now = time.time_ns() // 1_000 if now_us is None else now_us
    windows = schedule.windows()
    scope = known_scope(config, store)
    of_label: dict[str, list[Entry]] = {}
    if ledger is not None and scope is not None:
        with ledger.past() as past:
            for label, entry in past.charged(scope):
                if entry.action != "void":
                    of_label.setdefault(label, []).append(entry)
    output = absolute(config.output)
    days = []
    for window in windows:
        of_window = of_label.get(window.label, [])
        attempt = None
        if window.due_us <= now and not any(entry.action == "commit" for entry in of_window):
            attempt = last_attempt(store, output, f"{config.release_id}-{window.label}")
        days.append(_day(window, of_window, attempt, now))
    return tuple(days)


def check_releases_known(config: ReleaseConfig, days: Sequence[Day], ledger: Ledger | None) -> None:
    """Makes sure that no window has a release in the output of which the ledger says nothing.

    Such a ledger is older than the releases, as is the book of counted units that was restored with
    it: a case that counted since would count again.

    Raises:
        LedgerError: One has.
    """
    now, output = time.time_ns() // 1_000, absolute(config.output)
    for day in days:
        if ledger is None or day.releases or day.window.due_us > now:
            continue
        folder = ReleaseFolder(output, f"{config.release_id}-{day.window.label}")
        is_of_window = bool((folder.committed() or {}).get("window"))
        if is_of_window and not ledger.of_release(output, folder.release_id):
            raise LedgerError(
                f"{folder.final} is the release of window {day.window.label}, and {ledger.place} "
                "does not know of it, so ledger and key store are older than what is released: "
                "restore the newer ones; or, if they are lost, begin another schedule with another "
                "output, which is another spend"
            )


def _day(window: Window, charged: Sequence[Entry], attempt: Attempt | None, now_us: int) -> Day:
    failed = attempt if attempt is not None and attempt.exit_code else None
    status: Status
    if any(entry.action == "commit" for entry in charged):
        status = "released"
    elif any(entry.is_open for entry in charged):
        status = "cut_off"
    elif charged:
        status = "withdrawn" if charged[-1].action == "withdraw" else "given_up"
    elif window.due_us > now_us:
        status = "waiting"
    elif failed is not None:
        status = "refused" if failed.exit_code == BudgetExhausted.exit_code else "failed"
    elif now_us - window.due_us > window.end_us - window.begin_us:
        status = "late"
    else:
        status = "due"
    values = [entry.values() for entry in charged]
    epsilons = [epsilon for epsilon, _ in values if epsilon is not None]
    is_finite = len(epsilons) == len(values)
    return Day(
        window, status,
        tuple(sorted({entry.release_id for entry in charged})),
        tuple(sorted({entry.release_id for entry in charged if entry.action == "commit"})),
        sum(epsilons, Fraction(0)) if is_finite else None,
        sum((delta for _, delta in values if delta is not None), Fraction(0)),
        failed,
    )  # fmt: skip
