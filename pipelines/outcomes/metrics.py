"""Metrics of scheduled releases, as a text file that Prometheus's node exporter collects.

    tracecloak_windows_released{config="ward.yaml",dataset="hospital"} 12
    tracecloak_account_epsilon_remaining{account="ward"} 9

One file is of one configuration. It says when the last run ended, with which exit code, and when
one ended well; how many windows are released, due and late; and what the account has spent and has
left. The schedule, the ledger and the clock tell all of that. Nothing in it was counted on a log:
no cases, no records, nothing that was left out.

The exit code and the seconds can depend on the log, as those of every command can: the file is for
whoever runs the releases.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tracecloak.schemas.errors import UsageError

_LOG = logging.getLogger("tracecloak")
_ENDING = ".prom"
_SUCCESS = "tracecloak_release_last_success_timestamp_seconds"
_SAMPLE = re.compile(r'^(\w+)\{config="((?:[^"\\]|\\.)*)".*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Windows:
    """How the windows of a schedule stand.

    Attributes:
        n_released: Released ones.
        n_due: Those that could be released and are not, whatever the reason.
        n_late: Those among them that have been due for longer than a window lasts.
    """

    n_released: int
    n_due: int
    n_late: int


@dataclass(frozen=True)
class Metrics:
    """What a run ends with.

    Attributes:
        config: The configuration file as it was named.
        dataset: Name of the data set; empty: there is none, or the configuration is wrong.
        account: Name of the account that pays; likewise.
        ended_us: When it ended, microseconds since 1970.
        exit_code: Its exit code.
        elapsed_s: Seconds that it took.
        windows: How the windows stand; None: there is no schedule, or nobody can tell.
        spent_epsilon: What the account has spent; None: no finite epsilon, or nobody can tell.
        spent_delta: Likewise.
        remaining_epsilon: What its cap leaves; None: there is no cap, or nobody can tell.
        remaining_delta: Likewise.
    """

    config: str
    dataset: str
    account: str
    ended_us: int
    exit_code: int
    elapsed_s: float
    windows: Windows | None = None
    spent_epsilon: Fraction | None = None
    spent_delta: Fraction | None = None
    remaining_epsilon: Fraction | None = None
    remaining_delta: Fraction | None = None


def check_metrics(path: str) -> None:
    """Makes sure that a file of metrics can be written, before anything is spent.

    Raises:
        UsageError: Its name does not end as the collector wants it, or its folder is not there.
    """
    if not path.endswith(_ENDING):
        raise UsageError(
            f"metrics: {path!r} must end in {_ENDING}, as the collector reads no other files"
        )
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"metrics: the folder of {path!r} is not there; make it first")


def note_metrics(path: str, metrics: Metrics) -> None:
    """Writes the file in place of the one before; a reader sees one of them, whole.

    A run that failed keeps the time of the last one that ended well, which the file before has.
    If it cannot be written, that is a warning: no release fails for it.
    """
    try:
        before = Path(path).read_text("utf-8") if Path(path).exists() else ""
        others = {config for _, config, _ in _SAMPLE.findall(before)} - {_escaped(metrics.config)}
        if others:
            _LOG.warning(
                "metrics: %s holds those of another configuration and stays as it is; give each "
                "configuration a file of its own", path,
            )  # fmt: skip
            return
        seconds = metrics.ended_us / 1e6 if metrics.exit_code == 0 else _success_in(before)
        _write(Path(path), metrics_text(metrics, seconds))
    except (OSError, ValueError) as error:
        _LOG.warning("metrics: %s could not be written (%s)", path, type(error).__name__)


def _success_in(text: str) -> float | None:
    return next((float(v) for name, _, v in _SAMPLE.findall(text) if name == _SUCCESS), None)


def metrics_text(metrics: Metrics, succeeded_s: float | None) -> str:
    """Returns the metrics in Prometheus's text format, version 0.0.4.

    Args:
        metrics: What to write.
        succeeded_s: When a run last ended well, seconds since 1970; None: none is known.
    """
    return "".join(
        f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{name}{{{labels}}} {value!r}\n"
        for name, meaning, labels, value in _samples(metrics, succeeded_s)
    )


def _samples(
    metrics: Metrics, succeeded_s: float | None
) -> Iterator[tuple[str, str, str, float | int]]:
    """Yields name, help, labels and value; a value that nobody can tell is left out."""
    gauges = (*_of_config(metrics, succeeded_s), *_of_account(metrics))
    for name, meaning, labels, value in gauges:
        if value is not None:
            yield name, meaning, labels, float(value) if isinstance(value, Fraction) else value


_Gauge = tuple[str, str, str, float | int | Fraction | None]


def _of_config(metrics: Metrics, succeeded_s: float | None) -> tuple[_Gauge, ...]:
    labels = f'config="{_escaped(metrics.config)}",dataset="{_escaped(metrics.dataset)}"'
    windows = metrics.windows
    released, due, late = (
        (None, None, None)
        if windows is None
        else (windows.n_released, windows.n_due, windows.n_late)
    )
    return (
        (
            "tracecloak_release_last_attempt_timestamp_seconds",
            "When a run last ended, in any way.", labels, metrics.ended_us / 1e6,
        ),
        (
            "tracecloak_release_last_exit_code",
            "Exit code of that run; 0: all went well.", labels, metrics.exit_code,
        ),
        (
            "tracecloak_release_last_duration_seconds",
            "How long that run took.", labels, metrics.elapsed_s,
        ),
        (_SUCCESS, "When a run last ended with 0.", labels, succeeded_s),
        (
            "tracecloak_windows_released",
            "Windows that are released.", labels, released,
        ),
        (
            "tracecloak_windows_due",
            "Windows that could be released and are not.", labels, due,
        ),
        (
            "tracecloak_windows_late",
            "Those due for longer than a window lasts.", labels, late,
        ),
    )  # fmt: skip


def _of_account(metrics: Metrics) -> tuple[_Gauge, ...]:
    labels = f'account="{_escaped(metrics.account)}"'
    return (
        (
            "tracecloak_account_epsilon_spent",
            "Epsilon that the account has spent.", labels, metrics.spent_epsilon,
        ),
        (
            "tracecloak_account_delta_spent",
            "Delta that the account has spent.", labels, metrics.spent_delta,
        ),
        (
            "tracecloak_account_epsilon_remaining",
            "Epsilon that the account has left.", labels, metrics.remaining_epsilon,
        ),
        (
            "tracecloak_account_delta_remaining",
            "Delta that the account has left.", labels, metrics.remaining_delta,
        ),
    )  # fmt: skip


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _write(path: Path, text: str) -> None:
    # It is written beside the old one first, under a name that the collector passes over.
    descriptor, beside = tempfile.mkstemp(dir=path.absolute().parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(beside, 0o644)  # the exporter is another user
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
