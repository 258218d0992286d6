"""The metrics of releases, windows and streams: one table, so that one thing has one name.

Who watches a release need not be who may see its data. So every metric says whom it is for.
`public` are what configuration, ledger and clock tell, and whether and when something ran.
`operator` are numbers of the data: what was counted on it, and the bytes and durations that follow
how much of it there is. They are told where `metrics_for` asks for them, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Audience = Literal["public", "operator"]

OF_CONFIG = ("config", "dataset")
OF_ACCOUNT = ("account",)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: As others read it; it ends in its unit, if it has one.
        meaning: A sentence.
        labels: Names of its labels.
        audience: Who may read it.
        unit: Of OpenMetrics, in the plural; empty: it is a number of things.
        is_counter: Whether it only grows while the process runs; its name ends in `_total` then.
        by: A further label, of which every value has a number of its own; empty: there is none.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = OF_CONFIG
    audience: Audience = "public"
    unit: str = ""
    is_counter: bool = False
    by: str = ""


def _seconds(name: str, meaning: str, audience: Audience = "public") -> Metric:
    return Metric(f"{name}_seconds", meaning, audience=audience, unit="seconds")


METRICS: tuple[Metric, ...] = (
    _seconds("release_last_attempt_timestamp", "When a run last ended, in any way."),
    Metric("release_last_exit_code", "Exit code of that run; 0: all went well."),
    _seconds("release_last_duration", "How long that run took.", "operator"),
    _seconds("release_last_success_timestamp", "When a run last ended with 0."),
    Metric("windows_released", "Windows that are released."),
    Metric("windows_due", "Windows that could be released and are not."),
    Metric("windows_late", "Those due for longer than a window lasts."),
    Metric("windows_remaining", "Windows of the horizon that are not due yet."),
    Metric("steps_released", "Steps of a stream that are released, in all places that get them."),
    Metric("steps_due", "Steps whose time of release is over, and that are not released."),
    Metric("steps_remaining", "Steps of the horizon that are not released."),
    _seconds("steps_next_timestamp", "When the first step is due that is not released."),
    Metric("stream_alive", "1 if the loop of the stream goes round, or else 0."),
    Metric("stream_ready", "1 if it is connected, and not behind what is due, or else 0."),
    _seconds(
        "stream_clock_offset", "How far the clock of the machine is ahead of the message service's."
    ),
    Metric("account_epsilon_spent", "Epsilon that the account has spent.", OF_ACCOUNT),
    Metric("account_delta_spent", "Delta that the account has spent.", OF_ACCOUNT),
    Metric("account_epsilon_remaining", "Epsilon that the account has left.", OF_ACCOUNT),
    Metric("account_delta_remaining", "Delta that the account has left.", OF_ACCOUNT),
    _seconds("stream_lag", "How old the oldest message may be that was not read.", "operator"),
    _seconds(
        "stream_newest_message_timestamp", "When the newest message that was read was published.",
        "operator",
    ),
    Metric("stream_open_cases", "Cases that are open.", audience="operator"),
    Metric("stream_state_bytes", "Size of the state.", audience="operator", unit="bytes"),
    Metric(
        "stream_messages_total", "Messages that were read since the process began.",
        audience="operator", is_counter=True,
    ),
    Metric(
        "stream_rejects_total", "Those among them that cannot be read, by reason.",
        audience="operator", is_counter=True, by="reason",
    ),
)  # fmt: skip
"""Every metric, without `tracecloak_`, which all of their names begin with."""
