"""What other programs learn of a release as it runs: events of lineage, and metrics at its end.

All of it follows from the configuration, the ledger and the clock; nothing is counted on the input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.outcomes.lineage import LineageRun, events_sent, now_us
from tracecloak.pipelines.windows.calendar import Day, calendar_of
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import absolute

if TYPE_CHECKING:
    from tracecloak.pipelines.outcomes.metrics import Audience, Value


@contextlib.contextmanager
def lineage_sent(config: ReleaseConfig, to: str) -> Iterator[Callable[[str], None]]:
    """Sends the events of one release: START, and at its end COMPLETE or FAIL.

    Args:
        config: Of the release.
        to: Where they go.

    Yields:
        A function to call with the folder of the release once it is there.
    """
    with events_sent(_run_of(config), to) as note:
        yield lambda folder: note("COMPLETE", folder)


def note_standing(
    config: ReleaseConfig | None,
    named: str,
    path: str,
    exit_code: int,
    elapsed_s: float,
    audience: Audience = "public",
) -> None:
    """Tells the metrics of a run that has ended.

    Args:
        config: What was released; None: the configuration is wrong.
        named: Its file, as it was named.
        path: The file that they go to.
        exit_code: Of the run.
        elapsed_s: Seconds that it took.
        audience: Whose metrics are told.
    """
    from tracecloak.pipelines.outcomes.metrics import Readings, account_values, note_metrics

    ended_s = now_us() / 1e6
    values: dict[str, Value] = {
        "release_last_attempt_timestamp_seconds": ended_s,
        "release_last_exit_code": exit_code,
        "release_last_duration_seconds": elapsed_s,
    }
    if exit_code == 0:
        values["release_last_success_timestamp_seconds"] = ended_s
    dataset = account = ""
    if config is not None:
        account, dataset = config.account, config.dataset or ""
        with contextlib.suppress(TracecloakError):  # what nobody can tell is left out
            schedule = config.made_schedule
            dataset = dataset if schedule is None else schedule.dataset
            store = open_store(config)
            ledger = open_ledger(config, store)
            values |= account_values(ledger.balance(account))
            if schedule is not None:
                values |= _standing(calendar_of(config, store, ledger))
    note_metrics(path, Readings(named, dataset, account, values), audience)


def _standing(days: Sequence[Day]) -> dict[str, Value]:
    now = now_us()
    missing = [day.window for day in days if not day.is_ended and day.window.due_us <= now]
    return {
        "windows_released": sum(day.status == "released" for day in days),
        "windows_due": len(missing),
        "windows_late": sum(now - w.due_us > w.end_us - w.begin_us for w in missing),
        "windows_remaining": sum(day.window.due_us > now for day in days),
    }


def _run_of(config: ReleaseConfig) -> LineageRun:
    schedule, window, inputs = config.made_schedule, config.made_window, config.log
    if config.database is not None:
        from tracecloak.transforms.inputs.databases import public_address

        inputs = (public_address(config.database),)
    return LineageRun(
        dataset=config.dataset or "" if schedule is None else schedule.dataset,
        release_id=config.release_id or "",
        output=absolute(config.output),
        inputs=inputs,
        method=config.method,
        guarantee=config.guarantee,
        began_us=now_us(),
        window="" if window is None else window.label,
        begin_us=None if window is None else window.begin_us,
        end_us=None if window is None else window.end_us,
    )
