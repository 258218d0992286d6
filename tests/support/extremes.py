"""Logs at the edges of what a method can meet, as Parquet files of canonical columns.

`EXTREMES` has them by name; each is the same whenever and wherever it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_START_US = 1_577_836_800_000_000  # 2020-01-01
_YEAR_US = 365 * 86_400_000_000
_MINUTE_US = 60_000_000


@dataclass(frozen=True)
class Extreme:
    """A log that is made up.

    Attributes:
        lengths: int64[n cases], events of each case.
        activities: int64[n events], numbers of activities, case after case.
        stamps_us: int64[n events], microseconds since 1970, likewise.
    """

    lengths: np.ndarray
    activities: np.ndarray
    stamps_us: np.ndarray

    def write(self, path: Path) -> Path:
        """Writes the log with the columns case_id, activity and timestamp; returns the path."""
        numbers = np.repeat(np.arange(len(self.lengths)), self.lengths)
        cases = pa.array([f"c{i}" for i in range(len(self.lengths))])
        names = pa.array([f"a{i}" for i in range(int(self.activities.max()) + 1)])
        table = pa.table(
            {
                "case_id": cases.take(pa.array(numbers)),
                "activity": names.take(pa.array(self.activities)),
                "timestamp": pa.array(self.stamps_us, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, path)
        return path


def _made(lengths: np.ndarray, activities: np.ndarray, draw: np.random.Generator) -> Extreme:
    """Adds times: cases begin within a year, and their events are some minutes apart."""
    steps = draw.integers(1, 240, len(activities)) * _MINUTE_US
    firsts = np.cumsum(lengths) - lengths
    running = np.cumsum(steps)
    begins = _START_US + draw.integers(0, _YEAR_US, len(lengths))
    stamps = running - np.repeat(running[firsts], lengths) + np.repeat(begins, lengths)
    return Extreme(lengths, activities, stamps)


def one_case(draw: np.random.Generator) -> Extreme:
    """One case of six events."""
    return _made(np.array([6]), np.array([0, 1, 2, 1, 3, 4]), draw)


def one_event_a_case(draw: np.random.Generator) -> Extreme:
    """2,000 cases of one event each, of six activities."""
    return _made(np.ones(2000, np.int64), draw.choice(6, 2000, p=_SIXTHS), draw)


def many_activities(draw: np.random.Generator) -> Extreme:
    """2,000 cases of 2 to 14 events, drawn from 600 activities, some frequent and most rare."""
    lengths = draw.integers(2, 15, 2000)
    weights = 1 / np.arange(1, 601)
    names = draw.choice(600, int(lengths.sum()), p=weights / weights.sum())
    names[:600] = np.arange(600)  # all of them, whatever was drawn
    return _made(lengths, names, draw)


def a_long_case(draw: np.random.Generator) -> Extreme:
    """One case of 200,000 events among 500 of 3 to 9, of eight activities."""
    lengths = np.concatenate([[200_000], draw.integers(3, 10, 500)])
    return _made(lengths, draw.integers(0, 8, int(lengths.sum())), draw)


def equal_stamps(draw: np.random.Generator) -> Extreme:
    """2,000 cases of 3 to 9 events, of eight activities, all at the same microsecond."""
    lengths = draw.integers(3, 10, 2000)
    n_events = int(lengths.sum())
    return Extreme(lengths, draw.integers(0, 8, n_events), np.full(n_events, _START_US))


def one_variant(draw: np.random.Generator) -> Extreme:
    """200,000 cases of the same five activities."""
    return _made(np.full(200_000, 5), np.tile(np.arange(5), 200_000), draw)


_SIXTHS = [0.5, 0.2, 0.15, 0.1, 0.04, 0.01]
_ALL = (one_case, one_event_a_case, many_activities, a_long_case, equal_stamps, one_variant)
EXTREMES: Mapping[str, Callable[[np.random.Generator], Extreme]] = {
    made.__name__: made for made in _ALL
}


def extreme_file(name: str, folder: Path) -> Path:
    """Writes the log of that name into a folder and returns its path."""
    made = EXTREMES[name](np.random.default_rng(list(name.encode())))
    return made.write(folder / f"{name}.parquet")
