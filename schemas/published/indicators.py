"""Released indicators: a row for each number, with its interval and what it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.published.figures import GRADES, Scale, grade_columns, grade_of
from tracecloak.schemas.published.product import Key
from tracecloak.schemas.published.yields import Yield

SHARE = "share"
"""The unit of what lies between 0 and 1."""

_NAMES = ("indicator", "group", "value", "low", "high", "unit", "kind", "grade")


@dataclass(frozen=True)
class IndicatorRow:
    """One number.

    Attributes:
        indicator: What it says.
        group: Of which group; None of all cases.
        value: The number.
        low: Lower end of its 95 % interval.
        high: Upper end.
        unit: `share`, `cases`, `events`, `occurrences`, `s` for seconds, or empty for what an
            attribute is in.
        kind: `measured` or `derived`, see `schemas.published.figures`.
        grade: How sure it is, see there. Empty gives that of a share or an amount without a
            declared range.
    """

    indicator: str
    group: str | None
    value: float
    low: float
    high: float
    unit: str
    kind: str
    grade: str = ""

    def __post_init__(self) -> None:
        if not self.grade:
            scale: Scale = "share" if self.unit == SHARE else "amount"
            grade = grade_of(self.value, self.low, self.high, scale)
            object.__setattr__(self, "grade", grade)
        if self.grade not in GRADES:
            raise ValueError("no such grade")


@dataclass(frozen=True, eq=False)
class ReleasedIndicators:
    """Indicators in long form, in the order in which they were asked for.

    Attributes:
        indicators: string[n], see `IndicatorRow`, and so are the others.
        groups: string[n], null of all cases.
        values: float64[n].
        lows: float64[n].
        highs: float64[n].
        units: string[n].
        kinds: string[n].
        grades: string[n].
    """

    wire_name: ClassVar[str] = "graded-indicators"

    indicators: pa.StringArray
    groups: pa.StringArray
    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    units: pa.StringArray
    kinds: pa.StringArray
    grades: pa.StringArray

    @classmethod
    def of(cls, rows: Sequence[IndicatorRow]) -> ReleasedIndicators:
        """Returns rows in the order that is given."""

        def texts(name: str) -> pa.StringArray:
            return pa.array([getattr(row, name) for row in rows], pa.string())

        def numbers(name: str) -> np.ndarray:
            return np.array([getattr(row, name) for row in rows], np.float64)

        return cls(
            texts("indicator"), texts("group"),
            numbers("value"), numbers("low"), numbers("high"),
            texts("unit"), texts("kind"), texts("grade"),
        )  # fmt: skip

    def rows(self) -> list[IndicatorRow]:
        """Returns the rows one by one."""
        columns = (
            self.indicators.to_pylist(), self.groups.to_pylist(), self.values.tolist(),
            self.lows.tolist(), self.highs.tolist(), self.units.to_pylist(), self.kinds.to_pylist(),
            self.grades.to_pylist(),
        )  # fmt: skip
        return [IndicatorRow(*row) for row in zip(*columns, strict=True)]

    def to_table(self) -> pa.Table:
        """Returns indicator, group, value, low, high, unit, kind, usable, grade."""
        return pa.table(
            {
                "indicator": self.indicators,
                "group": self.groups,
                "value": pa.array(self.values, pa.float64()),
                "low": pa.array(self.lows, pa.float64()),
                "high": pa.array(self.highs, pa.float64()),
                "unit": self.units,
                "kind": self.kinds,
                **grade_columns(np.array(self.grades.to_pylist(), np.str_)),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"indicators": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedIndicators:
        """Returns the indicators that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        rows = body["indicators"]
        # A release without grades gets those of its units.
        return cls.of([IndicatorRow(**{n: row[n] for n in _NAMES if n in row}) for row in rows])

    def came_out(self) -> Yield:
        """Returns the number of figures, and the share of those that are noise."""
        n, n_noise = len(self.grades), self.grades.to_pylist().count("noise")
        return Yield(n_figures=n, unclear_share=n_noise / n if n else None)

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns the number of each row; see `ReleasedProduct`."""
        every = {
            ("indicator", row.indicator, *([row.group] if row.group is not None else [])): row.value
            for row in self.rows()
        }
        return every if watched is None else {key: every.get(key, 0.0) for key in watched}
