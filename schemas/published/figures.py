"""Released figures: totals, times, and limits of what a graph does not show, with their kinds.

What a released number is: measured, derived or modelled, and how sure: good, rough or noise.

A release tells somebody that 1,234 cases took a path, between 1,200 and 1,268. That number is

* measured: a noisy count of its own. Its interval holds the count of the log in 95 of 100 releases;
* derived: computed from measured numbers alone, with an interval that follows from their noise;
* modelled: drawn so that all the rest agrees. Nothing says how far off it is: it has no interval.

Its grade compares half the width of the interval with the number itself. It is `good` up to 20 %,
`rough` up to 50 % if the interval lies above 0, and else `noise`: 12, between 3 and 20, tells
nothing. All of this looks at released numbers only and costs no privacy.

Near the border of two grades the noise decides for one. Of the numbers that get the better grade
there, more are too large than of all numbers, and of the others more are too small. So an interval
that is as likely to hold of good and of rough numbers alone reaches further there: `wider_ends`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.published.product import ReleasedProduct, columns_of
from tracecloak.schemas.published.yields import Yield

MEASURED = "measured"
DERIVED = "derived"
MODELLED = "modelled"

Grade = Literal["good", "rough", "noise"]
GRADES: tuple[Grade, ...] = ("good", "rough", "noise")
"""From the surest to the least sure."""

LEGEND = (
    "A number is good if half the width of its interval is at most 20 % of it (or 2 points, of a "
    "share), rough up to 50 % and not down to 0 (or 5 points), and else noise, to be left out."
)
"""What the grades mean, for readers; see `grades`."""

Scale = Literal["amount", "share", "position"]

# How many half widths one end is further off near a border. Whatever the number in the log is, its
# interval then holds in 94 % of the releases that give it a grade which at least 5 % of all give
# it, where noise is Gaussian; in 92 % where it is Laplace, of grades that at least 10 % give. With
# the same ends everywhere these were 59 % and 77 %.
_FURTHER = 0.4


def grades(
    values: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    scale: Scale = "amount",
    span: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Returns str[n], the grade of each number: this is the only place that decides it.

    Half the width of an interval is compared with

    * the number, of an `amount`: a count, a duration, a mean of what is not negative; good is at
      most 20 %, rough at most 50 % with a lower end above 0. A 0 is compared as a position is;
    * the smaller one of the number and of 1 minus it, of a `share`, likewise, where rough ends at
      neither 0 nor 1; or good is at most .02, and rough at most .05;
    * the declared range, of a `position`, which has no natural 0, such as a date or what can be
      negative: good is at most 2 %, rough at most 5 %.

    Args:
        values: int64[n] or float64[n], released numbers.
        lows: Likewise, lower ends of their intervals.
        highs: Likewise, upper ends.
        scale: What the numbers are.
        span: float64[n] or one number, how wide the declared range is; 0: none is declared.
    """
    # Large numbers are halved rather than doubled: twice a count may be no int64.
    halves = highs / 2 - lows / 2
    is_clear = (lows > 0) | (highs < 0)
    if scale == "share":
        sizes, spans = np.minimum(values, 1 - values), np.ones(len(values))
        is_clear &= highs < 1
    else:
        # A noisy count of a step can be below 0, where its interval is not.
        nearest = np.clip(values, lows, highs)
        sizes = np.abs(nearest) if scale == "amount" else np.zeros(len(values))
        spans = np.where(sizes > 0, 0.0, span)
    is_good = (halves <= sizes / 5) | (halves <= spans / 50)
    is_rough = (is_clear & (halves <= sizes / 2)) | (halves <= spans / 20)
    return np.select([is_good, is_rough], GRADES[:2], GRADES[2])


def wider_ends(
    values: np.ndarray, lows: np.ndarray, highs: np.ndarray, noise: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ends of intervals of amounts, one further off if noise decides for the grade.

    That is the end on the side of the border, where this is no more than the noise away.

    Args:
        values: As of `grades`, not negative, and so are the others.
        lows: See there.
        highs: See there.
        noise: float64[n], half of the width that is the noise's; None: all of it.
    """
    halves = highs / 2 - lows / 2
    noise = halves if noise is None else noise
    further = _FURTHER * noise
    if values.dtype == np.int64:
        further = np.ceil(further).astype(np.int64)
    # A good number has 5 half widths at least, and a rough one 2.
    above = values - np.array([[5.0], [2.0]]) * (halves + further / 2)
    is_near = (np.abs(above) <= noise) & (noise > 0)
    is_over, is_under = ((is_near & side).any(axis=0) for side in (above >= 0, above < 0))
    lows = np.where(is_over, np.maximum(lows - further, 0), lows)
    return lows, np.where(is_under, highs + further, highs)


def grade_of(
    value: float, low: float, high: float, scale: Scale = "amount", span: float = 0.0
) -> Grade:
    """Returns the grade of one number; see `grades`."""
    values, lows, highs = (np.array([number]) for number in (value, low, high))
    return cast(Grade, str(grades(values, lows, highs, scale, span)[0]))


def grade_columns(graded: np.ndarray) -> dict[str, pa.Array]:
    """Returns the columns usable, true for good and rough, and grade.

    Args:
        graded: str[n], as of `grades`.
    """
    return {
        "usable": pa.array(graded != "noise", pa.bool_()),
        "grade": pa.array(graded.astype(object), pa.string()),
    }


def kind_columns(values: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> dict[str, pa.Array]:
    """Returns the columns kind, usable and grade of a table of counts that are all measured.

    Args:
        values: As of `grades`, and so are the others.
        lows: See there.
        highs: See there.
    """
    kinds = {"kind": pa.array([MEASURED] * len(values), pa.string())}
    return kinds | grade_columns(grades(values, lows, highs))


def codes_of_ends(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[np.ndarray]:
    """Returns int32[n] twice, the places of the source and of the target of rows among labels."""
    known = pa.array(labels)
    ends = (pa.array([row[end] for row in rows], pa.string()) for end in ("source", "target"))
    return [np.asarray(pc.index_in(names, value_set=known), np.int32) for names in ends]


def without_kinds(product: Any) -> Any:
    """Returns a product as version 0.1.0 released it: its table says nothing of kinds.

    Which version that was is no field of a product, as noise depends on the fields.

    Args:
        product: With a class attribute `has_kinds`.
    """
    old = copy.copy(product)
    object.__setattr__(old, "has_kinds", False)
    return old


@dataclass(frozen=True)
class Figure:
    """One number of a release.

    Attributes:
        name: What it says, see `ReleasedFigures.figures`.
        of: What it is of: the activity, or the two ends of a path; nothing of the whole log.
        value: The number, in the unit that the name ends with; else a count.
        low: Lower end of its 95 % interval.
        high: Upper end.
        kind: `MEASURED` or `DERIVED` of `schemas.published.figures`.
    """

    name: str
    of: tuple[str, ...]
    value: int
    low: int
    high: int
    kind: str

    @property
    def grade(self) -> Grade:
        """How sure it is; see `schemas.published.figures`."""
        return grade_of(self.value, self.low, self.high)


_FIGURE_COLUMNS: dict[str, type[Any]] = {
    **dict.fromkeys(("figure", "source", "target"), str),
    **dict.fromkeys(("value", "low", "high"), np.int64),
    "kind": str,
}


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
        rows = [
            (one.name, *(*one.of, None, None)[:2], one.value, one.low, one.high, one.kind)
            for one in figures
        ]
        return cls(*columns_of(rows, _FIGURE_COLUMNS))

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
        columns = (getattr(self, column.name).tolist() for column in fields(self))
        return [
            Figure(row[0], tuple(end for end in row[1:3] if end is not None), *row[3:])
            for row in zip(*columns, strict=True)
        ]

    def to_table(self) -> pa.Table:
        """Returns figure, source, target, value, low, high, kind, usable, grade."""
        columns = (getattr(self, column.name) for column in fields(self))
        graded = grade_columns(grades(self.values, self.lows, self.highs))
        return pa.table(dict(zip(_FIGURE_COLUMNS, columns, strict=True)) | graded)

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"figures": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedFigures:
        """Returns the figures that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        rows = ([row[name] for name in _FIGURE_COLUMNS] for row in body["figures"])
        return cls(*columns_of(rows, _FIGURE_COLUMNS))

    def came_out(self) -> Yield:
        """Returns its cases, which are those of the whole release: a graph may hide some."""
        return Yield(next((row.value for row in self.rows() if row.name == "cases"), None))
