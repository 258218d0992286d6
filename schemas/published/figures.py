"""Released figures: totals, times, and limits of what a graph does not show, with their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.published.figure import Grade, grade_columns, grade_of, grades, wider_ends
from tracecloak.schemas.published.product import ReleasedProduct
from tracecloak.schemas.published.yields import Yield


@dataclass(frozen=True)
class Figure:
    """One number of a release.

    Attributes:
        name: What it says, see `ReleasedFigures.figures`.
        of: What it is of: the activity, or the two ends of a path; nothing of the whole log.
        value: The number, in the unit that the name ends with; else a count.
        low: Lower end of its 95 % interval.
        high: Upper end.
        kind: `MEASURED` or `DERIVED` of `schemas.published.figure`.
    """

    name: str
    of: tuple[str, ...]
    value: int
    low: int
    high: int
    kind: str

    @property
    def grade(self) -> Grade:
        """How sure it is; see `schemas.published.figure`."""
        return grade_of(self.value, self.low, self.high)


@dataclass(frozen=True, eq=False)
class ReleasedFigures(ReleasedProduct):
    """Numbers of a release beside its graph: totals, and limits of what is not shown.

    Attributes:
        figures: string[n], what each says: `cases`, `events`, `activity` (how often it occurs),
            `path_not_shown` (the largest count that any path has which the graph does not show) or
            `median_time_us` (the median time between the two ends of a path, in microseconds). Of
            a log also `path` (how often it is taken), `variant` (its cases), `starts` (cases that
            begin from a date to another), and of the time from first to last event of all cases
            `mean_duration_us`, `median_duration_us` and `quantile_duration_us`, and of the time
            between the two ends of a path `mean_wait_us`.
        sources: string[n], the activity, or the earlier one of a path, the activities of a variant,
            the first date, or the share of a quantile; null of the whole log.
        targets: string[n], the later activity of a path, or the last date, else null.
        values: int64[n].
        lows: int64[n], lower ends of 95 % intervals.
        highs: int64[n], upper ends.
        kinds: string[n], as of `Figure`.
    """

    wire_name: ClassVar[str] = "released-figures"

    figures: pa.StringArray
    sources: pa.StringArray
    targets: pa.StringArray
    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    kinds: pa.StringArray

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> ReleasedFigures:
        """Returns figures in the order that is given."""
        ends = [(*figure.of, None, None)[:2] for figure in figures]

        def texts(values: Sequence[str | None]) -> pa.StringArray:
            return pa.array(values, pa.string())

        def numbers(name: str) -> np.ndarray:
            return np.array([getattr(figure, name) for figure in figures], np.int64)

        return cls(
            texts([figure.name for figure in figures]),
            texts([source for source, _ in ends]),
            texts([target for _, target in ends]),
            numbers("value"),
            numbers("low"),
            numbers("high"),
            texts([figure.kind for figure in figures]),
        )

    @classmethod
    def of_noisy(cls, figures: Sequence[Figure]) -> ReleasedFigures:
        """Returns figures whose intervals hold whatever grade noise gives; see `wider_ends`.

        Those of medians and other quantiles have whole bins, which is wide enough.
        """
        made = cls.of(figures)
        of_bins = [figure.name.startswith(("median_", "quantile_")) for figure in figures]
        wider = wider_ends(made.values, made.lows, made.highs)
        lows, highs = np.where(of_bins, (made.lows, made.highs), wider)
        return replace(made, lows=lows, highs=highs)

    def rows(self) -> list[Figure]:
        """Returns the figures one by one."""
        ends = zip(self.sources.to_pylist(), self.targets.to_pylist(), strict=True)
        columns = (self.figures.to_pylist(), ends, self.values, self.lows, self.highs)
        return [
            Figure(name, tuple(e for e in of if e is not None), int(v), int(low), int(high), kind)
            for name, of, v, low, high, kind in zip(*columns, self.kinds.to_pylist(), strict=True)
        ]

    def to_table(self) -> pa.Table:
        """Returns figure, source, target, value, low, high, kind, usable, grade."""
        return pa.table(
            {
                "figure": self.figures,
                "source": self.sources,
                "target": self.targets,
                "value": pa.array(self.values, pa.int64()),
                "low": pa.array(self.lows, pa.int64()),
                "high": pa.array(self.highs, pa.int64()),
                "kind": self.kinds,
                **grade_columns(grades(self.values, self.lows, self.highs)),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"figures": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedFigures:
        """Returns the figures that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        return cls.of(
            [
                Figure(
                    row["figure"],
                    tuple(row[end] for end in ("source", "target") if row[end] is not None),
                    *(row[name] for name in ("value", "low", "high", "kind")),
                )
                for row in body["figures"]
            ]
        )

    def came_out(self) -> Yield:
        """Returns its cases, which are those of the whole release: a graph may hide some."""
        return Yield(next((row.value for row in self.rows() if row.name == "cases"), None))
