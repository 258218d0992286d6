"""`tracecloak release`: makes one release of a log."""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.flags import add_release_flags
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, duration, quantity, show
from tracecloak.schemas.errors import TracecloakError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.pipelines.ledger.balance import Balance
    from tracecloak.pipelines.release.values import Outcome
    from tracecloak.pipelines.windows.several import Ended
    from tracecloak.schemas.published.yields import Yield

_LOG = logging.getLogger("tracecloak")
_WORTH_LITTLE = (
    "`tracecloak plan` with the same flags says beforehand what a release will be worth; "
    "more epsilon, fewer parts, a shorter vocabulary or another method may be worth more"
)


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the flags of the configuration and of the method, and where metrics and events go."""
    parser.usage = "tracecloak release [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    add_release_flags(parser, argv, config)
    parser.add_argument(
        "--metrics",
        help="file ending in .prom that the run writes at its end, for the textfile collector of "
        "Prometheus's node exporter: one file for each configuration; by default none",
    )
    parser.add_argument(
        "--lineage",
        help="where OpenLineage's events of the run go: a file, to which each is added as a line "
        "of JSON, or the http or https address that takes them, such as "
        "http://marquez:5000/api/v1/lineage; by default nowhere",
    )


def run(given: Given) -> int:
    """Makes the release, or those of windows, unless they are there already."""
    from tracecloak.pipelines.configuration.config import load

    began = time.monotonic()
    flags = dict(given.flags)
    metrics, lineage = flags.pop("metrics", None), flags.pop("lineage", None)
    if metrics is not None:
        from tracecloak.pipelines.outcomes.metrics import check_metrics

        check_metrics(metrics)
    if lineage is not None:
        from tracecloak.pipelines.outcomes.lineage import check_lineage

        check_lineage(lineage)
    config, code = None, TracecloakError.exit_code
    try:
        config = load(given.config, flags)
        code = _released(config, given, lineage)
    except TracecloakError as error:
        code = error.exit_code
        raise
    finally:
        if metrics is not None:
            from tracecloak.pipelines.windows.watched import note_standing

            elapsed_s = time.monotonic() - began
            note_standing(config, given.config or "", metrics, code, elapsed_s)
    return code


def _released(config: ReleaseConfig, given: Given, lineage: str | None) -> int:
    """Makes what a configuration asks for, shows what came of it, and returns the exit code."""
    # With all of Beam, which a wrong configuration should not wait for.
    from tracecloak.pipelines.release.run import run_release
    from tracecloak.pipelines.runners.memory import keep_freed_memory
    from tracecloak.pipelines.screen.progress import is_of_operator, showing_progress

    began = time.monotonic()
    keep_freed_memory()
    if config.schedule is not None:
        return _run_windows(config, given, lineage)
    with (
        showing_progress(given.form, with_runner=given.wants_traceback),
        _lineage(config, lineage) as send_complete,
    ):
        outcome = run_release(config, given.of_beam)
        send_complete(outcome.folder.final)
    elapsed_s = time.monotonic() - began
    is_private = is_of_operator(given.form)
    is_table = given.form == "table"
    rows = list(_rows(config, outcome, elapsed_s, is_private)) if is_table else []
    show(Result(rows, _data(config, outcome, elapsed_s)), given.form)
    return 0


def _lineage(
    config: ReleaseConfig, to: str | None
) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    """Returns what sends the events of a release, if they go anywhere; see `lineage_sent`."""
    if to is None:
        return contextlib.nullcontext(lambda folder: None)
    from tracecloak.pipelines.windows.watched import lineage_sent

    return lineage_sent(config, to)


def _run_windows(config: ReleaseConfig, given: Given, lineage: str | None) -> int:
    """Releases the windows that are asked for; the exit code is that of the first that failed."""
    from tracecloak.pipelines.screen.progress import is_of_operator, showing_progress
    from tracecloak.pipelines.windows.several import (
        exit_code_of,
        over_text,
        release_windows,
        windows_asked,
    )

    windows = windows_asked(config)
    ended = []
    with showing_progress(given.form, with_runner=given.wants_traceback):
        for one in release_windows(config, windows, given.of_beam, lineage):
            ended.append(one)
            if one.reason:
                _LOG.error("window %s: %s", one.window.label, one.reason)
    if given.form == "json":
        data = {
            "windows": [_data_of_window(one) for one in ended],
            "schedule_is_over": bool(over_text(config, windows)),
        }
        show(Result((), data), given.form)
        return exit_code_of(ended)
    is_private = is_of_operator(given.form)
    if len(ended) == 1 and ended[0].outcome is not None:
        one = ended[0]
        rows = list(_rows(one.config, ended[0].outcome, one.elapsed_s, is_private))
        show(Result(rows), given.form)
    else:
        rows = [(one.window.label, _window_text(one, is_private)) for one in ended]
        over = [("schedule", text)] if (text := over_text(config, windows)) else []
        show(Result([*(rows or [("windows", "none is due yet")]), *over]), given.form)
    return exit_code_of(ended)


def _window_text(one: Ended, is_private: bool) -> str:
    """Returns what became of a window, of several; see `_rows`."""
    text = one.status.replace("_", " ")
    if one.status == "released" and one.outcome is not None:
        epsilon, _ = _spent(one.config)
        cost = "no finite epsilon" if epsilon is None else f"epsilon {epsilon}"
        text += f", {cost}, {duration(one.elapsed_s)}, {one.outcome.folder.final}"
        if is_private and one.outcome.n_left_out:
            text += f"; left out {_left_out(one.outcome.n_left_out)}"
        if is_private and one.outcome.warnings:
            text += f"; watch out: {' and '.join(one.outcome.warnings)}"
    elif one.reason:
        text += f" with exit code {one.exit_code}"
    return text


def _left_out(n_units: int) -> str:
    return f"{quantity(n_units, 'unit')}, as they counted in other windows"


def _data_of_window(one: Ended) -> dict[str, Any]:
    """Returns the JSON of a window, with the keys of a release where there is one."""
    of_release: dict[str, Any] = {}
    if one.outcome is not None:
        of_release = _data(one.config, one.outcome, one.elapsed_s)
    elif one.status == "already_released":
        of_release = {"folder": one.folder}
    return {
        **of_release,
        "window": one.window.label,
        "status": one.status,
        "exit_code": one.exit_code,
        "reason": one.reason,
        "release_id": one.config.release_id,
    }


def _rows(
    config: ReleaseConfig, outcome: Outcome, elapsed_s: float, is_private: bool
) -> Iterator[tuple[str, str]]:
    """Yields the rows that a release is shown with: what each is of, and its text.

    Args:
        config: Its configuration.
        outcome: How it ended.
        elapsed_s: Seconds that it took.
        is_private: Whether the operator alone reads the rows; others are shown nothing that was
            counted on the input.
    """
    from tracecloak.anonymizers.registry import method_named
    from tracecloak.schemas.published.manifest import SIGNATURE_NAMES
    from tracecloak.transforms.publish.promise import caution

    is_new, held = not outcome.was_released_before, outcome.came_out
    folder = outcome.folder.final
    yield "released" if is_new else "already released", folder
    yield "method", config.method
    if held.sentence:
        yield "holds", held.sentence
    if is_new and (caveats := method_named(config.method).time_caveats(config.method_params)):
        yield "times", " ".join(caveats)
    for reason in outcome.warnings if is_private else ():
        yield "watch out", f"the release may be of little use: {reason}"
    if is_new and (advice := _advice(config, held)):
        yield "advice", advice
    yield "promise", config.guarantee.short
    if warning := caution(config.guarantee):
        yield "caution", warning
    yield "cost", _cost(config) if is_new else _paid_before(config, outcome)
    if outcome.balance is not None:
        yield "remains", _remains(outcome.balance)
    if is_private and is_new and outcome.malformed is not None:
        n_malformed, n_records = outcome.malformed
        yield (
            "left out",
            f"{n_malformed:,} of {quantity(n_records, 'record')}, as they are malformed; "
            f"{outcome.dead_letter} says where each one is",
        )
    if is_private and outcome.n_left_out:
        yield "left out", _left_out(outcome.n_left_out)
    signature = f"{folder}/{SIGNATURE_NAMES[0]}"
    if outcome.signature == "there":
        yield "signature", signature
    elif outcome.signature == "by another key":
        yield "signature", f"{signature} is by another key than sign, and stays"
    elif config.sign is not None:
        yield "signature", "missing: the release was made without sign, and stays as it is"
    yield "open first", f"{folder}/{open_first(outcome.outputs)}"
    yield "took", duration(elapsed_s)


def _cost(config: ReleaseConfig) -> str:
    epsilon, delta = _spent(config)
    if epsilon is None:
        return f"no finite epsilon, which account {config.account} bears"
    beside = ""
    if config.schedule is not None and config.windows_add_up:
        beside = "; windows add up"
    elif config.schedule is not None:
        beside = "; all windows together cost what the dearest costs"
    return f"epsilon {epsilon} and delta {delta} of account {config.account}{beside}"


def _paid_before(config: ReleaseConfig, outcome: Outcome) -> str:
    payer = config.account if outcome.balance is None else outcome.balance.account
    beside = "" if payer == config.account else f"; account {payer} paid for it"
    return f"nothing, as it was released before{beside}"


def _advice(config: ReleaseConfig, held: Yield) -> str:
    """Returns what would make a release more useful, by public numbers and its own; or empty."""
    from tracecloak.anonymizers.registry import method_named
    from tracecloak.pipelines.planning.advice import is_mostly_noise

    if held.is_empty or held.is_poor or held.lacks_starts:
        return _WORTH_LITTLE
    if config.guarantee.kind != "rigorous" or not held.n_cases:
        return ""
    released = method_named(config.method), config.method_params, held.n_cases
    if not is_mostly_noise(*released):
        return ""
    from tracecloak.pipelines.planning.verdict import advice_on

    return advice_on(*released)


def _spent(config: ReleaseConfig) -> tuple[str | None, str | None]:
    """Epsilon and delta of a release as exact decimals, or None: none is finite."""
    from tracecloak.anonymizers.accounting.composition import decimal_text, total
    from tracecloak.anonymizers.registry import method_named

    spends = method_named(config.method).spends(config.method_params)
    if not spends:
        return None, None
    epsilon, delta = total(spends)
    return decimal_text(epsilon), decimal_text(delta)


def _remains(balance: Balance) -> str:
    from tracecloak.anonymizers.accounting.composition import decimal_text

    left = [
        f"{name} {decimal_text(value)}"
        for name, value in (
            ("epsilon", balance.remaining_epsilon), ("delta", balance.remaining_delta),
        )
        if value is not None
    ]  # fmt: skip
    if not left:
        return (
            f"as much as you like: no cap is declared for account {balance.account}; `tracecloak "
            "ledger declare` declares one"
        )
    return f"{' and '.join(left)} in account {balance.account}"


# What a newcomer looks at, the best first: the whole report, a picture, a log, or the promise.
_FIRST = ("report.html", ".svg", ".xes.gz", ".csv.gz", "statement.md")


def open_first(outputs: Sequence[str]) -> str:
    """Returns which file of a release to look at first."""
    for ending in _FIRST:
        for path in sorted(outputs):
            if path.endswith(ending):
                return path
    return "manifest.json"


def _data(config: ReleaseConfig, outcome: Outcome, elapsed_s: float) -> dict[str, Any]:
    """Returns the JSON of a release, in which nothing was counted on the input.

    A scheduler may keep it where others read it, so it does not say how many records were left out.
    """
    from tracecloak.anonymizers.accounting.composition import decimal_text

    guarantee, balance = config.guarantee, outcome.balance
    epsilon, delta = _spent(config)
    folder = outcome.folder.final

    def text(value: Fraction | None) -> str | None:
        return None if value is None else decimal_text(value)

    return {
        "status": "already_released" if outcome.was_released_before else "released",
        "release_id": outcome.folder.release_id,
        "folder": folder,
        "manifest": f"{folder}/manifest.json",
        "open_first": f"{folder}/{open_first(outcome.outputs)}",
        "method": config.method,
        "guarantee": {
            "kind": guarantee.kind,
            "unit": guarantee.unit,
            "adjacency": guarantee.adjacency,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "sentence": guarantee.sentence,
        },
        "came_out": outcome.came_out.to_json(),
        "operator_folder": outcome.dead_letter,
        "account": config.account if balance is None else balance.account,
        "charged": {"epsilon": epsilon, "delta": delta},
        "remaining": None
        if balance is None
        else {"epsilon": text(balance.remaining_epsilon), "delta": text(balance.remaining_delta)},
        "elapsed_s": round(elapsed_s, 3),
    }
