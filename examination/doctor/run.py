"""`tracecloak doctor`: the table of checks, and those of what runs next."""

from __future__ import annotations

import datetime
import errno
import json
import os
import platform
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import tracecloak
from tracecloak.examination.doctor import places, sources
from tracecloak.examination.doctor.setting import CheckResult, Setting, Status
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.runners.failures import reason_of, section_of
from tracecloak.pipelines.runners.flags import FLINK, IN_MEMORY, LOCAL, is_local
from tracecloak.pipelines.screen.results import quantity
from tracecloak.pipelines.stream.plan import StreamPlan
from tracecloak.schemas.errors import RetryLater, TracecloakError, UnusableRelease, UsageError
from tracecloak.transforms.files import require_writable

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


# --- Checks of what runs and when: configuration, engine, next window or step, who is on call. ----


# --- What runs it: whether the engine and its workers are there, and of which versions they are. --


_ASK_SECONDS = 5.0


def check_engine(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether what runs the configuration is there."""
    ours = f"tracecloak {tracecloak.__version__}, Python {platform.python_version()}"
    runner = setting.config.runner
    if runner == IN_MEMORY and setting.release is not None:
        from tracecloak.pipelines.release.run import driver_of

        driver_of(setting.release.keys, setting.of_beam)
    elif runner == LOCAL and setting.of_beam:
        raise UsageError(f"runner {LOCAL} takes nothing of Beam, got {setting.of_beam[0]}")
    elif runner == LOCAL and setting.stream is not None:
        from tracecloak.pipelines.stream.local_run import check_no_workers

        check_no_workers(setting.stream.keys)
    if runner in (IN_MEMORY, LOCAL):
        yield "ok", f"runner {runner} is this process, of {ours}"
        return
    from tracecloak.pipelines.runners import on_beam

    if setting.stream is not None:
        from tracecloak.pipelines.stream.run import require_reads, stream_options

        require_reads(setting.stream)
        options = stream_options(runner, setting.of_beam)
    else:
        options = on_beam.pipeline_options(runner, setting.of_beam)
    on_beam.check_ready(options)
    yield "ok", f"runner {runner} can be started by {ours}, Beam {on_beam.version()}"
    if runner == FLINK:
        yield from _flink(options)
    if setting.probes and not is_local(runner) and runner != "DataflowRunner":
        on_beam.check_workers(options)
        yield "ok", "a worker did a small job, and has the same versions"


def _flink(options: PipelineOptions) -> Iterator[CheckResult]:
    """Looks whether all that is asked while a job runs answers, by its flag."""
    from apache_beam.options.pipeline_options import FlinkRunnerOptions, PortableOptions

    portable, master = options.view_as(PortableOptions), options.view_as(FlinkRunnerOptions)
    addresses = {"job_endpoint": portable.job_endpoint}
    if str(portable.environment_type).upper() == "EXTERNAL":
        addresses["environment_config"] = portable.environment_config
    if str(master.flink_master).rstrip("/").rpartition(":")[2].isdigit():
        addresses["flink_master"] = master.flink_master
    for name, address in addresses.items():
        if address:
            _require_answer(name, address)
            known = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
            is_master = name == "flink_master"
            yield _version_of_flink(address, known) if is_master else ("ok", f"{name} answers")


def _version_of_flink(address: str, known: Sequence[str]) -> CheckResult:
    """Looks whether this Beam, which knows some versions, goes with that of the cluster.

    Raises:
        RetryLater: What answers is not the REST interface of Flink.
    """
    url = address if "://" in address else f"http://{address}"
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/v1/config", timeout=_ASK_SECONDS) as answer:
            theirs = str(json.load(answer)["flink-version"])
    except (OSError, ValueError, KeyError) as error:
        raise RetryLater(
            f"Flink does not answer at flink_master {address!r} ({type(error).__name__}); start "
            "it, or correct the address of its REST port"
        ) from None
    if any(theirs.startswith(f"{one}.") for one in known):
        return "ok", f"Flink is {theirs}, with which this Beam goes"
    return "failure", f"Flink is {theirs}, and this Beam goes with {', '.join(known)}"


def _require_answer(name: str, address: str) -> None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname or "", parts.port or 0
        socket.create_connection((host, port), _ASK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise RetryLater(
            f"nobody answers at {name} {address!r} ({type(error).__name__}); start it there, or "
            "correct the address"
        ) from None


# --- What comes next: the configuration itself, the next window or step, and who is told of it. ---


def check_configuration_file(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether the configuration can be released at all, by what is public."""
    release, stream = setting.release, setting.stream
    if stream is not None:
        yield "ok", f"a {stream.method_name}, with {stream.guarantee.kind} promise"
        return
    assert release is not None
    from tracecloak.pipelines.planning.verdict import unusable, unusable_sentence
    from tracecloak.pipelines.release.values import extensions_of

    release.require_names()
    for concern in extensions_of(release):
        try:
            concern.check(release)
        except RetryLater:  # its window is not over, of which the calendar tells
            continue
    verdict = unusable(release)
    if verdict is not None and not release.keys.even_if_unusable:
        raise UnusableRelease(unusable_sentence(verdict))
    yield "ok", f"{release.method.name}, with {release.guarantee.kind} promise"


def check_on_call(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether whoever is on call can be told: ports, files, and when a stream is stuck."""
    if (plan := setting.stream) is None:
        return
    config = plan.keys
    if is_local(config.runner) and config.stuck_after is None:
        yield "warning", "nothing ends this stream when it is stuck; set stuck_after, such as 11m"
    if not config.is_watched:
        return
    from tracecloak.pipelines.stream.operator_side import check_operators_files

    check_operators_files(config)
    for name in ("metrics", "health_file"):
        if (path := getattr(config, name)) is not None:
            require_writable(name, str(Path(path).absolute().parent))
    if config.stuck_after is not None:
        from tracecloak.pipelines.stream.stuck import StuckNote, check_stuck_after

        check_stuck_after(plan)
        StuckNote(plan).check()
    if config.operator_port is not None:
        yield from _port(config.operator_address, config.operator_port)
    yield "ok", "who is on call can be told"


def check_calendar(setting: Setting) -> Iterator[CheckResult]:
    """Looks which window or step is next, and what became of those before."""
    if setting.stream is not None:
        yield from _steps(setting, setting.stream)
    if not isinstance(setting.of, ReleasePlan) or setting.of.schedule is None:
        return
    from tracecloak.pipelines.release.window import moment

    for status, what in (
        ("late", "late: run `tracecloak release` with window due"),
        ("failed", "tried and not released: `tracecloak windows` says why"),
        ("refused", "refused, as the account could not pay: the privacy officer decides"),
        ("cut_off", "cut off: the same command finishes it for nothing"),
    ):
        labels = [day.window.label for day in setting.days if day.status == status]
        if labels:
            yield "warning", f"{quantity(len(labels), 'window')} from {labels[0]} on: {what}"
    day = setting.next_day
    if day is None:
        yield "warning", "no window is left in this schedule; configure another, which is paid anew"
        return
    is_due = day.status != "waiting"
    when = "can be released now" if is_due else f"is next, from {moment(day.window.due_us)} on"
    yield "ok", f"window {day.window.label} {when}"
    if day.window == setting.days[-1].window:
        yield "warning", "it is the last window of the horizon; prepare another schedule"


def _steps(setting: Setting, plan: StreamPlan) -> Iterator[CheckResult]:
    last, config = setting.store.last_step(*plan.place), plan.keys
    step = 0 if last is None else last + 1
    if step >= config.horizon:
        yield "warning", "no step is left in this epoch; begin the next one, which is another spend"
        return
    at = datetime.datetime.fromtimestamp(plan.rule.release_time(step) / 1e6, datetime.UTC)
    left = config.horizon - step
    yield "ok", f"step {step} is next, at {at:%Y-%m-%d %H:%M:%SZ}; steps left: {left:,}"
    if left == 1:
        yield "warning", "it is the last step of the epoch; prepare the next one"


def _port(address: str, port: int) -> Iterator[CheckResult]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UsageError(
                f"operator_port {port} cannot be opened: {os.strerror(error.errno or 0)}; choose "
                "another port"
            ) from None
        text = f"operator_port {port} is in use, by this stream if it runs; else choose another"
        yield "warning", text


# --- All checks on one configuration, in the order in which a run would meet what they look at. ---


Check = Callable[[Setting], Iterator[CheckResult]]

CHECKS: dict[str, Check] = {
    "configuration": check_configuration_file,
    "engine": check_engine,
    "key store": places.check_key_store,
    "keys": places.check_named_keys,
    "ledger": places.check_ledger,
    "calendar": check_calendar,
    "input": sources.check_input,
    "messages": sources.check_messages,
    "output": places.check_output,
    "staging area": places.check_staging_area,
    "disk": places.check_disk,
    "clock": places.check_clock,
    "release": places.check_release_id,
    "budget": places.check_budget,
    "state": sources.check_state,
    "on call": check_on_call,
}
"""By name what looks at one thing; it raises the error with which a run would end."""

# A disk or a service that does not answer would keep a check for ever. A small job of --probe may
# take two minutes.
_PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Line:
    """What a check says of one thing.

    Attributes:
        check: Name of the check.
        status: How it stands.
        text: A sentence, with the remedy if it is not ok; no value of the data, and no number of it
            but of messages of a stream, for the operator.
        exit_code: With which a run would end for it; 0: it would not end for it.
        cause: The check that has told the same before; empty: none has.
    """

    check: str
    status: Status
    text: str
    exit_code: int = 0
    cause: str = ""


def run_checks(
    setting: Setting, checks: dict[str, Check] | None = None, seconds: float = _PATIENCE_SECONDS
) -> Iterator[Line]:
    """Yields what each check says; a check that fails stops no other, and one cause is told once.

    Args:
        setting: What they look at.
        checks: Which; None: all.
        seconds: How long one may take.
    """
    causes: dict[str, str] = {}
    for name, look in (CHECKS if checks is None else checks).items():
        lines: list[Line] = []
        thread = threading.Thread(target=_run_check, args=(name, look, setting, lines), daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            text = f"no answer within {seconds:.0f} s; check whether its disk or service hangs"
            lines = [*lines, Line(name, "failure", text, RetryLater.exit_code)]
        for line in lines:
            first = causes.setdefault(line.text, name) if line.status == "failure" else name
            is_new = first == name
            yield line if is_new else replace(line, text=f"see {first}", cause=first)


def exit_code_of(lines: Sequence[Line]) -> int:
    """Returns that of the first failure that needs a person, or of the first one at all."""
    codes = [line.exit_code for line in lines if line.status == "failure"]
    return next((code for code in codes if code != RetryLater.exit_code), codes[0] if codes else 0)


def _run_check(name: str, look: Check, setting: Setting, lines: list[Line]) -> None:
    try:
        for status, text in look(setting):
            code = TracecloakError.exit_code if status == "failure" else 0
            lines.append(Line(name, status, text, code))
    except TracecloakError as error:
        text = f"{error} [{section_of(error)}]"
        lines.append(Line(name, "failure", text, error.exit_code))
    except Exception as error:  # its own text could quote data
        text = f"this could not be looked at: {reason_of(error)}"
        lines.append(Line(name, "failure", text, TracecloakError.exit_code))
