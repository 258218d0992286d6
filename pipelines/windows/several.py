"""Several windows of a schedule by one command: a back-fill, or what a night left due.

Each window is a release of its own, made in any order and on its own. One that fails stops no
other, and the same command goes on with what is missing. A window that somebody gave up or withdrew
is not missing: it has spent, so it is made again only if the command names it, and it alone.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tracecloak.pipelines.budget.opening import open_ledger, open_store, store_of
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.notes import note_attempt
from tracecloak.pipelines.release.opening import opened
from tracecloak.pipelines.release.run import released, told_apart
from tracecloak.pipelines.release.values import Outcome
from tracecloak.pipelines.release.window import check_book_key
from tracecloak.pipelines.runners.driver import driver_of
from tracecloak.pipelines.runners.failures import section_of
from tracecloak.pipelines.windows.calendar import Day, calendar_of, check_releases_known
from tracecloak.schemas.errors import BudgetExhausted, RetryLater, TracecloakError
from tracecloak.schemas.windows.schedule import Schedule, Window
from tracecloak.transforms.files import absolute, holds_files, is_on_this_machine
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")

DUE = "due"

Ending = Literal[
    "released", "already_released", "given_up", "withdrawn", "not_due", "refused", "failed"
]


@dataclass(frozen=True)
class Ended:
    """What became of a window.

    Attributes:
        window: The window.
        config: The configuration of its release.
        status: How it ended; `refused`: its account could not pay; `given_up`, `withdrawn`: it was
            ended with the ledger before, and left alone.
        exit_code: That of a command for this window alone.
        outcome: Of the release, new or old; None: there is none, or it was not looked at.
        reason: Why there is no release; empty if there is one.
        elapsed_s: How long it took.
        made_as: Name of the release that was there before; None: there was none.
    """

    window: Window
    config: ReleaseConfig
    status: Ending
    exit_code: int = 0
    outcome: Outcome | None = None
    reason: str = ""
    elapsed_s: float = 0.0
    made_as: str | None = None

    @property
    def folder(self) -> str:
        """Where its release lies, once it does."""
        name = self.made_as or str(self.config.release_id)
        return ReleaseFolder(absolute(self.config.output), name).final


def of_window(config: ReleaseConfig, window: Window) -> ReleaseConfig:
    """Returns the configuration of the release of one window, which is named after it."""
    name = f"{config.release_id}-{window.label}"
    return config.model_copy(update={"window": window.label, "release_id": name})


def windows_asked(config: ReleaseConfig, now_us: int | None = None) -> tuple[Window, ...]:
    """Returns the windows that a configuration asks for.

    Args:
        config: With a schedule and `window`: a label, a range, or `due`.
        now_us: Microseconds since 1970; None: the clock's.

    Raises:
        UsageError: The schedule has no such window, or workers elsewhere cannot know its book.
    """
    config.check_named()
    check_book_key(config)
    schedule = _schedule_of(config)
    if config.window != DUE:
        return schedule.ranged(config.window or "")
    now = time.time_ns() // 1_000 if now_us is None else now_us
    return tuple(window for window in schedule.windows() if window.due_us <= now)


def release_windows(
    config: ReleaseConfig,
    windows: Sequence[Window],
    beam_arguments: Sequence[str] = (),
    lineage: str | None = None,
) -> Iterator[Ended]:
    """Releases those of some windows that are not released yet; yields each as it ends.

    Args:
        config: That of all of them.
        windows: Which.
        beam_arguments: Flags of Beam.
        lineage: Where OpenLineage's events of each go; None: nowhere.
    """
    config = config.with_flags_of_beam(beam_arguments)
    days = _known(config)
    is_named = len(windows) == 1 and config.window != DUE
    left = []
    for window in windows:
        day, window_config = days[window.number], of_window(config, window)
        is_there = window_config.release_id in day.complete
        if is_there and is_named and not holds_files(Ended(window, window_config, "failed").folder):
            left.append(window)  # its files are gone, which its run says
        elif is_there or (day.status == "released" and not is_named):
            yield Ended(window, window_config, "already_released", made_as=day.complete[-1])
        elif not is_named and (day.status == "given_up" or day.status == "withdrawn"):
            yield Ended(window, window_config, day.status)
        else:
            left.append(window)
    if not left:
        return
    listed = None
    if not config.tables and not all(map(is_on_this_machine, config.log)):
        # Elsewhere each look is a question to a store. What is replaced later is not read.
        listed = match_files(config.log, may_be_none=True)
    make = partial(_ended, beam_arguments=tuple(beam_arguments), lineage=lineage, listed=listed)
    jobs = min(config.jobs, len(left))
    if jobs <= 1:
        for window in left:
            yield make(of_window(config, window), window)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        tried = {w: pool.submit(make, of_window(config, w), w) for w in left}
        for window, one in tried.items():
            try:
                yield one.result()
            except BrokenExecutor:  # killed, as by a machine that ran out of memory
                reason = "the process that made it was killed; run the same command again"
                window_config = of_window(config, window)
                yield Ended(window, window_config, "failed", RetryLater.exit_code, None, reason)


def over_text(config: ReleaseConfig, windows: Sequence[Window]) -> str:
    """Returns what to say once the last window of the horizon is due; empty: others will be due.

    Args:
        config: That of all windows.
        windows: Those that were asked for; only where `due` was asked for is a schedule over.
    """
    last = _schedule_of(config).horizon - 1
    if config.window != DUE or not windows or windows[-1].number != last:
        return ""
    return (
        f"it is over: {windows[-1].label} is the last window of its horizon of {last + 1:,}, and "
        "none will be due after it. To go on, configure another schedule, whose windows are paid "
        "beside those of this one"
    )


def exit_code_of(ended: Sequence[Ended]) -> int:
    """Returns the exit code of a command for several windows: that of the first that failed.

    A failure that another try can mend counts only if no other failure needs a person.
    """
    codes = [one.exit_code for one in ended if one.exit_code]
    return next((code for code in codes if code != RetryLater.exit_code), codes[0] if codes else 0)


def _ended(
    config: ReleaseConfig,
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
        with _watched(config, lineage) as noted:
            with told_apart():
                driver = driver_of(config.runner, beam_arguments)
                outcome = released(opened(config, driver, listed=listed))
            noted(outcome.folder.final)
        status = "already_released" if outcome.was_released_before else "released"
    except BudgetExhausted as error:
        status, code, reason = "refused", error.exit_code, f"{error} [{section_of(error)}]"
    except TracecloakError as error:
        is_early = isinstance(error, RetryLater) and window.due_us > time.time_ns() // 1_000
        status = "not_due" if is_early else "failed"
        code, reason = error.exit_code, f"{error} [{section_of(error)}]"
    if status != "not_due":
        store = store_of(config)
        note_attempt(store, absolute(config.output), str(config.release_id), code, reason)
    return Ended(window, config, status, code, outcome, reason, time.monotonic() - began)


def _watched(
    config: ReleaseConfig, lineage: str | None
) -> AbstractContextManager[Callable[[str], None]]:
    """Returns what sends the events of a window, if they go anywhere; see `lineage_sent`."""
    if not lineage:
        return nullcontext(_LOG.debug)
    from tracecloak.pipelines.windows.watched import lineage_sent

    return lineage_sent(config, lineage)


def _known(config: ReleaseConfig) -> dict[int, Day]:
    """Returns the days of the calendar by the numbers of their windows.

    A ledger or a key store that cannot be read fails here once, and not once a window.
    """
    store = open_store(config)
    ledger = open_ledger(config, store)
    days = calendar_of(config, store, ledger)
    check_releases_known(config, days, ledger)
    return {day.window.number: day for day in days}


def _schedule_of(config: ReleaseConfig) -> Schedule:
    schedule = config.made_schedule
    assert schedule is not None  # `check_named` refuses a window without one
    return schedule
