"""What comes next: the configuration itself, the next window or step, and who is told of it."""

from __future__ import annotations

import datetime
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.runners.names import is_local
from tracecloak.pipelines.screen.results import quantity
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import RetryLater, UnusableRelease, UsageError
from tracecloak.transforms.files import require_writable


def look_at_configuration(setting: Setting) -> Iterator[Said]:
    """Looks whether the configuration can be released at all, by what is public."""
    release, stream = setting.release, setting.stream
    if stream is not None:
        product = stream.made_product()
        yield "ok", f"a stream of {stream.product}, with {product.guarantee().kind} promise"
        return
    assert release is not None
    from tracecloak.pipelines.planning.usable import unusable, unusable_sentence
    from tracecloak.pipelines.release.concerns import concerns_of

    release.check_named()
    for concern in concerns_of(release):
        try:
            concern.check(release)
        except RetryLater:  # its window is not over, of which the calendar tells
            continue
    verdict = unusable(release)
    if verdict is not None and not release.even_if_unusable:
        raise UnusableRelease(unusable_sentence(verdict))
    yield "ok", f"{release.method}, with {release.guarantee.kind} promise"


def look_at_calendar(setting: Setting) -> Iterator[Said]:
    """Looks which window or step is next, and what became of those before."""
    if setting.stream is not None:
        yield from _steps(setting, setting.stream)
    elif isinstance(setting.config, ReleaseConfig) and setting.config.made_schedule is not None:
        yield from _windows(setting)


def look_at_operators_side(setting: Setting) -> Iterator[Said]:
    """Looks whether whoever is on call can be told: ports, files, and when a stream is stuck."""
    config = setting.stream
    if config is None:
        return
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

        check_stuck_after(config)
        StuckNote(config).check()
    if config.operator_port is not None:
        yield from _port(config.operator_address, config.operator_port)
    yield "ok", "who is on call can be told"


def _windows(setting: Setting) -> Iterator[Said]:
    from tracecloak.pipelines.release.window_facts import moment

    for status, what in (
        ("late", "late: run `tracecloak release` with --window due"),
        ("failed", "tried and not released: `tracecloak windows` says why"),
        ("refused", "refused, as the account could not pay: the privacy officer decides"),
        ("cut_off", "cut off: the same command finishes it for nothing"),
    ):
        labels = [day.window.label for day in setting.days if day.status == status]
        if labels:
            yield "warning", f"{quantity(len(labels), 'window')} from {labels[0]} on: {what}"
    day = setting.next_day
    if day is None:
        yield (
            "warning",
            "no window is left in the horizon of this schedule; configure another schedule, whose "
            "windows are paid beside those of this one",
        )
        return
    if day.status == "waiting":
        yield "ok", f"window {day.window.label} is next, from {moment(day.window.due_us)} on"
    else:
        yield "ok", f"window {day.window.label} can be released now"
    if day.window == setting.days[-1].window:
        yield "warning", "it is the last window of the horizon; prepare another schedule"


def _steps(setting: Setting, config: StreamConfig) -> Iterator[Said]:
    last = setting.store.last_step(setting.output, config.name.both)
    step = 0 if last is None else last + 1
    if step >= config.horizon:
        yield "warning", "no step is left in this epoch; begin the next one, which is another spend"
        return
    at = datetime.datetime.fromtimestamp(config.rule.release_time(step) / 1e6, datetime.UTC)
    left = config.horizon - step
    yield "ok", f"step {step} is next, at {at:%Y-%m-%d %H:%M:%SZ}; steps left: {left:,}"
    if left == 1:
        yield "warning", "it is the last step of the epoch; prepare the next one"


def _port(address: str, port: int) -> Iterator[Said]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UsageError(
                f"operator_port {port} cannot be had: {os.strerror(error.errno or 0)}; choose "
                "another port"
            ) from None
        yield (
            "warning",
            f"operator_port {port} is in use, by this stream if it runs; else choose another",
        )
