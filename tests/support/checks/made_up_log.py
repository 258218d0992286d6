"""Logs that are made up for a configuration: records that its mapping and its filters let pass.

Nothing of the operator's log is looked at: names are those of the vocabulary or invented, values
those that are declared.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.transforms.formats.registry import FORMATS

Record = dict[str, str]

_INVENTED = ("A", "B", "C", "D", "E", "F")
_FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)
_STEP_US = 60_000_000
_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
# What completes the beginning of a stamp that a filter asks for.
_STAMP = "2020-01-01T00:00:00Z"
# Into so many equal steps numbers divide their bounds: their quartiles part them then.
_N_STEPS = 3
# So many cases for 1 / epsilon that common variants come out.
_CROWD = 300
# No time beyond is made up: those of years before 1 are none.
_FAR_US = 60_000_000_000_000_000
_SMALLEST, _LARGEST = 300, 3_000


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

    def __init__(self, config: ReleaseConfig, input_format: str) -> None:
        """Takes the configuration, and the format in which the logs will be written."""
        self._config = config
        self._has_xes_names = FORMATS.named(input_format).has_xes_names
        self._method, self._params = method_named(config.method), config.method_params
        self._bounds = self._method.bounds(self._params)
        self._attributes = self._method.attributes(self._params)
        self._found: dict[tuple[str, str], str] = {}

    @cached_property
    def _columns(self) -> ResolvedColumns:
        return self._config.mapping.resolve(None, self._has_xes_names)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the records."""
        names = [*self._columns.wanted, *(attribute.column for attribute in self._attributes)]
        return tuple(dict.fromkeys([*names, *(self._config.header or ())]))

    @property
    def case_column(self) -> str:
        """The column of the case id."""
        return self._columns.names["case_id"]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Activities that the vocabulary has and the filters let pass."""
        column = self._columns.names["activity"]
        words = self._bounds.vocabulary or _INVENTED
        passing = [name for name in words if self._filtered(column, name) == name]
        return tuple(passing or dict.fromkeys(self._filtered(column, name) for name in words))

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

    def records(self, cases: Sequence[Case]) -> list[Record]:
        """Returns the events of cases, one case after the other."""
        rows = []
        for number, case in enumerate(cases):
            for step, activity in enumerate(case.activities):
                rows.append(self._record(case, number, step, activity))
        return rows

    def _record(self, case: Case, number: int, step: int, activity: str) -> Record:
        names = self._columns.names
        stamp = self._stamp(number, step) if case.stamp is None else case.stamp
        values = {
            "case_id": case.name,
            "activity": activity,
            "timestamp": stamp,
            "individual_id": case.individual or f"p-{case.name}",
            "resource": "R1" if case.is_usual else "R2",
            "lifecycle": "complete",
        }
        record = dict.fromkeys(self.columns, "")
        for canonical, source in names.items():
            parts = self._columns.mapping.parts.get(source, (source,))
            texts = (
                values[canonical].split(" ", len(parts) - 1) if parts[1:] else [values[canonical]]
            )
            record.update(zip(parts, texts, strict=False))
        for attribute in self._attributes:
            known = _values(attribute)
            record[attribute.column] = known[number % len(known) if case.is_usual else -1]
        for column in set(self._columns.filtered.values()):
            is_stamp = column == names["timestamp"]
            if not is_stamp or case.stamp is None:
                record[column] = self._filtered(column, record[column], is_stamp)
        return record

    def _filtered(self, column: str, value: str, is_stamp: bool = False) -> str:
        """Returns a value that the filters of a column let pass, made of another one if any is."""
        if (column, value) not in self._found:
            mapping = self._config.mapping
            of = self._columns.filtered
            filters = [one for one in mapping.filters if of.get(one.column) == column]
            listed = [text for one in filters for text in one.texts]
            first = zlib.crc32(value.encode()) % len(listed) if listed else 0
            prefix = max((one.begins_with or "" for one in filters), key=len, default="")
            bounds = [bound for one in filters for bound in one.bounds.values()]
            tried = [
                *(value, *listed[first:], *listed[:first]),
                prefix + (_STAMP[len(prefix) :] if is_stamp else value),
                *(near for bound in bounds for near in _near(bound, mapping)),
            ]
            passing = (v for v in tried if mapping.can_pass({column: v}, self._has_xes_names))
            self._found[column, value] = next(passing, value)
        return self._found[column, value]

    def _stamp(self, number: int, step: int) -> str:
        columns = self._config.columns
        when = self._time(number, step)
        if layouts := columns.timestamp_format:
            layout = layouts if isinstance(layouts, str) else layouts[0]
            return when.astimezone(ZoneInfo(columns.time_zone)).strftime(layout)
        if columns.timestamp_unit is not None:
            us = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            return str(us * 1_000 // _NS[columns.timestamp_unit])
        return when.isoformat(" " if self._columns.mapping.parts else "T")

    def _time(self, number: int, step: int) -> datetime:
        log_time = getattr(self._params, "log_time", None)
        if log_time is None or log_time.time_range is None:
            return _FIRST_DAY + timedelta(days=number % 28, minutes=step)
        open_time = log_time.working_time({})
        elapsed = number % 7 * (open_time.total_us // 8) + step * _STEP_US
        (at,) = open_time.at_us(np.array([min(elapsed, open_time.total_us - 1)]))
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at))


def _values(attribute: Attribute) -> list[str]:
    """Returns values that an attribute can have, the largest number last."""
    declared = attribute.declaration
    if declared.bounds is None:
        return list(declared.values or _INVENTED)
    low, high = declared.bounds
    numbers = [low + (high - low) * k / _N_STEPS for k in range(_N_STEPS + 1)]
    return [str(round(number) if declared.whole else number) for number in numbers]


def _near(bound: str, mapping: ColumnMapping) -> list[str]:
    """Returns values at a bound and on both sides of it."""
    with contextlib.suppress(InvalidOperation):
        return [bound, *(str(Decimal(bound) + step) for step in (-1, 1))]
    values = [bound, f"{bound}0"]
    at_us = mapping.time_of(bound)
    if at_us is not None and abs(at_us) < _FAR_US:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
        values += [(at + timedelta(minutes=step)).isoformat() for step in (-1, 1)]
    return values
