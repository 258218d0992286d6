"""Released indicators: a row for each number, with its interval and what it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.published.figures import GRADES, Scale, grade_columns, grade_of
from tracecloak.schemas.published.product import Key, columns_of
from tracecloak.schemas.published.yields import Yield

SHARE = "share"
"""The unit of what lies between 0 and 1."""

_INDICATOR_COLUMNS: dict[str, type[Any]] = {
    **dict.fromkeys(("indicator", "group"), str),
    **dict.fromkeys(("value", "low", "high"), np.float64),
    **dict.fromkeys(("unit", "kind", "grade"), str),
}


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
        return cls(*columns_of(map(astuple, rows), _INDICATOR_COLUMNS))

    def rows(self) -> list[IndicatorRow]:
        """Returns the rows one by one."""
        columns = (getattr(self, column.name).tolist() for column in fields(self))
        return [IndicatorRow(*row) for row in zip(*columns, strict=True)]

    def to_table(self) -> pa.Table:
        """Returns indicator, group, value, low, high, unit, kind, usable, grade."""
        columns = dict(
            zip(_INDICATOR_COLUMNS, (getattr(self, c.name) for c in fields(self)), strict=True)
        )
        graded = grade_columns(np.array(columns.pop("grade").tolist(), np.str_))
        return pa.table(columns | graded)

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
        return cls.of(
            [IndicatorRow(**{n: row[n] for n in _INDICATOR_COLUMNS if n in row}) for row in rows]
        )

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
