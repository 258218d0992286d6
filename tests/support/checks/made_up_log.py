"""Logs that are made up for a configuration: names of its vocabulary, and declared values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.schemas.events.declarations import Attribute

_INVENTED = ("A", "B", "C", "D", "E", "F")
_FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)
_STEP_US = 60_000_000
# Into so many equal steps numbers divide their bounds: their quartiles part them then.
_N_STEPS = 3
# So many cases for 1 / epsilon that common variants come out.
_CROWD = 300
_SMALLEST, _LARGEST = 300, 3_000
_COLUMNS = ("case_id", "activity", "timestamp", "resource")


@dataclass(frozen=True)
class Case:
    """One made-up case.

    Attributes:
        name: Its id.
        activities: Of its events, in order.
        individual: Whose it is; empty: of somebody who has no other case.
        is_usual: Whether its values are those of most cases.
        stamp: Written in place of every time; None: times are a minute apart.
    """

    name: str
    activities: tuple[str, ...]
    individual: str = ""
    is_usual: bool = True
    stamp: str | None = None


class MadeUp:
    """Records as a configuration reads them."""

    def __init__(self, config: ReleaseConfig) -> None:
        """Takes the configuration."""
        self._whose = config.columns.individual_id
        self._params = config.method_params
        method = method_named(config.method)
        self.names = tuple(method.bounds(self._params).vocabulary or _INVENTED)
        self._attributes = method.attributes(self._params)

    @property
    def n_usual(self) -> int:
        """How many cases a log has from which something comes out."""
        epsilon = getattr(self._params, "epsilon", None)
        wanted = _SMALLEST if epsilon is None else int(_CROWD / float(epsilon))
        return max(_SMALLEST, min(wanted, _LARGEST))

    def usual(self, n_cases: int | None = None) -> list[Case]:
        """Returns cases of a few variants."""
        names = self.names
        variants = list(dict.fromkeys((names[:4], names[:3], names[:1] + names[2:4])))
        n = self.n_usual if n_cases is None else n_cases
        return [Case(f"c{i}", variants[i % len(variants)]) for i in range(n)]

    def another(self) -> Case:
        """Returns a case that differs from all usual ones wherever one can."""
        return Case("another", self.names[::-1][:5] * 2, is_usual=False)

    def write(self, path: Path, cases: Sequence[Case], broken: Sequence[str] = ()) -> None:
        """Writes a log as CSV.

        Args:
            path: Where to.
            cases: Its cases, one after the other.
            broken: Lines that are no records, in which U+DC80 to U+DCFF stand for single bytes.
        """
        columns = [*_COLUMNS, *([self._whose] if self._whose else [])]
        columns += [a.column for a in self._attributes if a.column not in columns]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        for number, case in enumerate(cases):
            values = {
                a.column: (known := _values(a))[number % len(known) if case.is_usual else -1]
                for a in self._attributes
            }
            for step, activity in enumerate(case.activities):
                record = {
                    "case_id": case.name,
                    "activity": activity,
                    "timestamp": self._stamp(number, step) if case.stamp is None else case.stamp,
                    "resource": "R1" if case.is_usual else "R2",
                }
                whose = {self._whose: case.individual or f"p-{case.name}"} if self._whose else {}
                writer.writerow({**record, **whose, **values})
        text.writelines(f"{line}\r\n" for line in broken)
        path.write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))

    def _stamp(self, number: int, step: int) -> str:
        log_time = getattr(self._params, "log_time", None)
        if log_time is None or log_time.time_range is None:
            return (_FIRST_DAY + timedelta(days=number % 28, minutes=step)).isoformat()
        open_time = log_time.working_time({})
        elapsed = number % 7 * (open_time.total_us // 8) + step * _STEP_US
        (at,) = open_time.at_us(np.array([min(elapsed, open_time.total_us - 1)]))
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at))).isoformat()


def _values(attribute: Attribute) -> list[str]:
    """Returns values that an attribute can have, the largest number last."""
    declared = attribute.declaration
    if declared.bounds is None:
        return list(declared.values or _INVENTED)
    low, high = declared.bounds
    numbers = [low + (high - low) * k / _N_STEPS for k in range(_N_STEPS + 1)]
    return [str(round(number) if declared.whole else number) for number in numbers]
