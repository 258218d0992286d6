"""What other programs learn of a release as it runs: events of lineage, and metrics at its end.

All of it follows from the configuration, the ledger and the clock; nothing is counted on the input.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.outcomes.lineage import LineageRun, event_of, send
from tracecloak.pipelines.outcomes.metrics import Metrics, Windows, note_metrics
from tracecloak.pipelines.windows.calendar import Day, calendar_of
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import absolute


@contextlib.contextmanager
def lineage_sent(config: ReleaseConfig, to: str) -> Iterator[Callable[[str], None]]:
    """Sends the events of one release: START, and at its end COMPLETE or FAIL.

    Args:
        config: Of the release.
        to: Where they go.

    Yields:
        A function to call with the folder of the release once it is there.
    """
    run = _run_of(config)
    folders: list[str] = []
    send(event_of(run, "START", run.began_us), to)
    code = TracecloakError.exit_code
    try:
        yield folders.append
        code = 0
    except TracecloakError as error:
        code = error.exit_code
        raise
    finally:
        folder = folders[0] if folders else None
        send(event_of(run, "FAIL" if code else "COMPLETE", _now_us(), code, folder), to)


def note_standing(
    config: ReleaseConfig | None, named: str, path: str, exit_code: int, elapsed_s: float
) -> None:
    """Writes the metrics of a run that has ended.

    Args:
        config: What was released; None: the configuration is wrong.
        named: Its file, as it was named.
        path: Where they go.
        exit_code: Of the run.
        elapsed_s: Seconds that it took.
    """
    dataset = account = ""
    windows: Windows | None = None
    spent: list[Fraction | None] = [None, None, None, None]
    if config is not None:
        account, dataset = config.account, config.dataset or ""
        with contextlib.suppress(TracecloakError):  # what nobody can tell is left out
            schedule = config.made_schedule
            dataset = dataset if schedule is None else schedule.dataset
            store = open_store(config)
            ledger = open_ledger(config, store)
            balance = ledger.balance(account)
            spent = [
                balance.spent_epsilon, balance.spent_delta,
                balance.remaining_epsilon, balance.remaining_delta,
            ]  # fmt: skip
            if schedule is not None:
                windows = _standing(calendar_of(config, store, ledger))
    note_metrics(
        path,
        Metrics(named, dataset, account, _now_us(), exit_code, elapsed_s, windows, *spent),
    )


def _standing(days: Sequence[Day]) -> Windows:
    now = _now_us()
    missing = [day.window for day in days if day.status != "released" and day.window.due_us <= now]
    late = [w for w in missing if now - w.due_us > w.end_us - w.begin_us]
    n_released = sum(day.status == "released" for day in days)
    return Windows(n_released, len(missing), len(late))


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
        began_us=_now_us(),
        window="" if window is None else window.label,
        begin_us=None if window is None else window.begin_us,
        end_us=None if window is None else window.end_us,
    )


def _now_us() -> int:
    return time.time_ns() // 1_000
