"""Several windows by one command, and the calendar: the state of each window, and what is due."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tracecloak.anonymizers.accounting.composition import exact_text
from tracecloak.pipelines.budget.opening import open_ledger, open_store, store_of
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import Attempt, last_attempt, note_attempt
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.outcomes.lineage import LineageRun, events_sent, now_us
from tracecloak.pipelines.release.run import run_plan
from tracecloak.pipelines.release.values import Outcome
from tracecloak.pipelines.release.window import check_book_key, known_scope, moment
from tracecloak.pipelines.runners.failures import section_of
from tracecloak.schemas.errors import BudgetExhausted, RetryLater, TracecloakError
from tracecloak.schemas.windows import Window
from tracecloak.transforms.files import absolute, holds_files, is_on_this_machine
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.publish.release_folder import ReleaseFolder

if TYPE_CHECKING:
    from tracecloak.pipelines.outcomes.metrics import Audience


# --- The calendar of a schedule: the state of each window, and what is due. -----------------------


# --- What other programs learn of a release as it runs: events of lineage, and metrics at its end.
# All of it follows from the configuration, the ledger and the clock; nothing is counted on the
# input.


@contextlib.contextmanager
def lineage_sent(plan: ReleasePlan, to: str | None) -> Iterator[Callable[[str], None]]:
    """Sends the events of one release: START, and at its end COMPLETE or FAIL.

    Args:
        plan: Of the release.
        to: Where they go; None: nowhere.

    Yields:
        A function to call with the folder of the release once it is there.
    """
    if not to:
        yield lambda folder: None
        return
    with events_sent(_run_of(plan), to) as note:
        yield lambda folder: note("COMPLETE", folder)


def note_standing(
    plan: ReleasePlan | None,
    named: str,
    path: str,
    exit_code: int,
    elapsed_s: float,
    audience: Audience = "public",
) -> None:
    """Tells the metrics of a run that has ended.

    Args:
        plan: What was released; None: the configuration is wrong.
        named: Its file, as it was named.
        path: The file that they go to.
        exit_code: Of the run.
        elapsed_s: Seconds that it took.
        audience: Whose metrics are told.
    """
    from tracecloak.pipelines.outcomes import metrics

    values = metrics.run_values(exit_code, now_us() / 1e6, elapsed_s)
    dataset = account = ""
    if plan is not None:
        account, dataset, schedule = plan.keys.account, plan.keys.dataset or "", plan.schedule
        dataset = dataset if schedule is None else schedule.dataset
        with contextlib.suppress(TracecloakError):  # what nobody can tell is left out
            store = open_store(plan.keys)
            ledger = open_ledger(plan.keys, store)
            values |= metrics.account_values(ledger.balance(account))
            if schedule is not None:
                now, days = now_us(), calendar_of(plan, store, ledger)
                missing = [d.window for d in days if not d.is_ended and d.window.due_us <= now]
                values |= {
                    "windows_released": sum(day.status == "released" for day in days),
                    "windows_due": len(missing),
                    "windows_late": sum(now - w.due_us > w.end_us - w.begin_us for w in missing),
                    "windows_remaining": sum(day.window.due_us > now for day in days),
                }
    readings = metrics.Readings(named, dataset, account, values)
    metrics.note_metrics(path, readings, audience)


def _run_of(plan: ReleasePlan) -> LineageRun:
    schedule, window, keys = plan.schedule, plan.window, plan.keys
    inputs = keys.log
    if keys.database is not None:
        from tracecloak.transforms.inputs.databases import public_address

        inputs = (public_address(keys.database),)
    return LineageRun(
        dataset=keys.dataset or "" if schedule is None else schedule.dataset,
        release_id=keys.release_id or "",
        output=absolute(keys.output),
        inputs=inputs,
        method=plan.method.name,
        guarantee=plan.guarantee,
        began_us=now_us(),
        window="" if window is None else window.label,
        begin_us=None if window is None else window.begin_us,
        end_us=None if window is None else window.end_us,
    )


# ---
# The calendar of a schedule: which windows are released, due, late or refused, and what each cost.
# It is read from the ledger, from the notes of the last tries, and from the clock. It reads neither
# the log nor its book of units, so nothing in it is counted on private data.


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
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "last_attempt": None if self.attempt is None else asdict(self.attempt),
        }


def calendar_of(
    plan: ReleasePlan, store: KeyStore, ledger: Ledger | None, now_us: int | None = None
) -> tuple[Day, ...]:
    """Returns all windows of a plan's schedule, the first one first; only reads.

    Args:
        plan: With a schedule; of which window it is does not matter.
        store: The key store of its releases.
        ledger: The ledger that they are charged to; None: there is none yet.
        now_us: Microseconds since 1970; None: the clock's.

    Raises:
        UsageError: The key of the book that is named is not there.
        LedgerError: The ledger cannot be read.
    """
    schedule = plan.schedule
    if schedule is None:
        return ()
    now = time.time_ns() // 1_000 if now_us is None else now_us
    windows = schedule.windows()
    scope = known_scope(plan, store)
    by_label: dict[str, list[Entry]] = {}
    if ledger is not None and scope is not None:
        for label, entry in ledger.past().charged(scope):
            by_label.setdefault(label, []).append(entry)
    output = absolute(plan.keys.output)
    days = []
    for window in windows:
        entries = by_label.get(window.label, [])
        attempt = None
        if window.due_us <= now and not any(entry.action == "commit" for entry in entries):
            attempt = last_attempt(store, output, f"{plan.keys.release_id}-{window.label}")
        days.append(_day(window, entries, attempt, now))
    return tuple(days)


def check_releases_known(plan: ReleasePlan, days: Sequence[Day], ledger: Ledger | None) -> None:
    """Makes sure that no window has a release in the output of which the ledger says nothing.

    Such a ledger is older than the releases, as is the book of counted units that was restored with
    it: a case that counted since would count again.

    Raises:
        LedgerError: One has.
    """
    now, output = time.time_ns() // 1_000, absolute(plan.keys.output)
    for day in days:
        if ledger is None or day.releases or day.window.due_us > now:
            continue
        folder = ReleaseFolder(output, f"{plan.keys.release_id}-{day.window.label}")
        is_of_window = bool((folder.committed() or {}).get("window"))
        if is_of_window and not ledger.past().release_entries(output, folder.release_id):
            raise LedgerError(
                f"{folder.final} is the release of window {day.window.label}, and {ledger.place} "
                "does not know of it: restore a newer ledger and key store; if they are lost, "
                "begin another schedule with another output, which is another spend"
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


# --- Several windows of a schedule by one command: a back-fill, or what a night left due. ---------
# Each window is a release of its own, made in any order and on its own. One that fails stops no
# other, and the same command goes on with what is missing. A window that somebody gave up or
# withdrew is not missing: it has spent, so it is made again only if the command names it, and it
# alone.


DUE = "due"

Ending = Literal[
    "released", "already_released", "given_up", "withdrawn", "not_due", "refused", "failed"
]


@dataclass(frozen=True)
class Ended:
    """What became of a window.

    Attributes:
        window: The window.
        plan: The plan of its release.
        status: How it ended; `refused`: its account could not pay; `given_up`, `withdrawn`: it was
            ended with the ledger before, and left alone.
        exit_code: That of a command for this window alone.
        outcome: Of the release, new or old; None: there is none, or it was not looked at.
        reason: Why there is no release; empty if there is one.
        elapsed_s: How long it took.
        made_as: Name of the release that was there before; None: there was none.
    """

    window: Window
    plan: ReleasePlan
    status: Ending
    exit_code: int = 0
    outcome: Outcome | None = None
    reason: str = ""
    elapsed_s: float = 0.0
    made_as: str | None = None

    @property
    def folder(self) -> str:
        """Where its release lies, once it does."""
        name = self.made_as or str(self.plan.keys.release_id)
        return ReleaseFolder(absolute(self.plan.keys.output), name).final


def windows_asked(plan: ReleasePlan) -> tuple[Window, ...]:
    """Returns the windows that a plan asks for.

    Args:
        plan: With a schedule and `window`: a label, a range, or `due`.

    Raises:
        UsageError: The schedule has no such window, or workers elsewhere cannot know its book.
    """
    plan.require_names()
    check_book_key(plan)
    schedule, asked = plan.schedule, plan.keys.window
    assert schedule is not None  # or its window was refused
    if asked != DUE:
        return schedule.ranged(asked or "")
    return tuple(window for window in schedule.windows() if window.due_us <= now_us())


def release_windows(
    plan: ReleasePlan,
    windows: Sequence[Window],
    beam_arguments: Sequence[str] = (),
    lineage: str | None = None,
) -> Iterator[Ended]:
    """Releases those of some windows that are not released yet; yields each as it ends.

    Args:
        plan: That of all of them.
        windows: Which.
        beam_arguments: Flags of Beam.
        lineage: Where OpenLineage's events of each go; None: nowhere.
    """
    plan = plan.with_flags_of_beam(beam_arguments)
    keys = plan.keys
    # A ledger or a key store that cannot be read fails here once, and not once a window.
    store = open_store(keys)
    ledger = open_ledger(keys, store)
    days = calendar_of(plan, store, ledger)
    check_releases_known(plan, days, ledger)
    by_number = {day.window.number: day for day in days}
    is_named = len(windows) == 1 and keys.window != DUE
    plans, left = {window: plan.of_window(window) for window in windows}, []
    for window, one in plans.items():
        day = by_number[window.number]
        is_there = one.keys.release_id in day.complete
        if is_there and is_named and not holds_files(Ended(window, one, "failed").folder):
            left.append(window)  # its files are gone, which its run says
        elif is_there or (day.status == "released" and not is_named):
            yield Ended(window, one, "already_released", made_as=day.complete[-1])
        elif not is_named and (day.status == "given_up" or day.status == "withdrawn"):
            yield Ended(window, one, day.status)
        else:
            left.append(window)
    if not left:
        return
    listed = None
    if not plan.keys.tables and not all(map(is_on_this_machine, keys.log)):
        # Elsewhere each look is a question to a store. What is replaced later is not read.
        listed = match_files(keys.log, may_be_none=True)
    make = partial(_ended, beam_arguments=tuple(beam_arguments), lineage=lineage, listed=listed)
    jobs = min(keys.jobs, len(left))
    if jobs <= 1:
        for window in left:
            yield make(plans[window], window)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        tried = {window: pool.submit(make, plans[window], window) for window in left}
        for window, made in tried.items():
            try:
                yield made.result()
            except BrokenExecutor:  # killed, as by a machine that ran out of memory
                reason = "the process that made it was killed; run the same command again"
                yield Ended(window, plans[window], "failed", RetryLater.exit_code, None, reason)


def over_text(plan: ReleasePlan, windows: Sequence[Window]) -> str:
    """Returns what to say once the last window of the horizon is due; empty: others will be due.

    Args:
        plan: That of all windows.
        windows: Those that were asked for; only where `due` was asked for is a schedule over.
    """
    last = 0 if plan.schedule is None else plan.schedule.horizon - 1
    if plan.keys.window != DUE or not windows or windows[-1].number != last:
        return ""
    return (
        f"it is over: {windows[-1].label} is the last window of its horizon of {last + 1:,}. To "
        "go on, configure another schedule, whose windows are paid beside those of this one"
    )


def exit_code_of(ended: Sequence[Ended]) -> int:
    """Returns the exit code of a command for several windows: that of the first that failed.

    A failure that another try may pass counts only if no other failure needs a person.
    """
    codes = [one.exit_code for one in ended if one.exit_code]
    return next((code for code in codes if code != RetryLater.exit_code), codes[0] if codes else 0)


def _ended(
    plan: ReleasePlan,
    window: Window,
    beam_arguments: Sequence[str],
    lineage: str | None,
    listed: Sequence[SourceFile] | None,
) -> Ended:
    began = time.monotonic()
    outcome: Outcome | None = None
    status: Ending
    code, reason = 0, ""
    try:
        with lineage_sent(plan, lineage) as noted:
            outcome = run_plan(plan, beam_arguments, listed=listed)
            noted(outcome.folder.final)
        status = "already_released" if outcome.was_released_before else "released"
    except TracecloakError as error:
        is_early = isinstance(error, RetryLater) and window.due_us > now_us()
        is_refused = isinstance(error, BudgetExhausted)
        status = "refused" if is_refused else "not_due" if is_early else "failed"
        code, reason = error.exit_code, f"{error} [{section_of(error)}]"
    if status != "not_due":
        store, output = store_of(plan.keys), absolute(plan.keys.output)
        note_attempt(store, output, str(plan.keys.release_id), code, reason)
    return Ended(window, plan, status, code, outcome, reason, time.monotonic() - began)
