"""Released figures, sums and indicators, with their kinds and grades."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.published.manifest import Yield

# --- What a product of a release can do: become a table and JSON, and be looked at by an audit. ---


Key = tuple[str, ...]
"""What a number of a release counts: ("variant", a, b, …), ("pair", a, b), ("total",), …"""


def columns_of(rows: Iterable[Sequence[Any]], kinds: Mapping[str, type[Any]]) -> list[Any]:
    """Returns rows as columns: string[n] of texts, and numpy arrays of numbers.

    Args:
        rows: The values of each row, in the order of the columns.
        kinds: Of each column by its name, `str` or the dtype of its numbers.
    """
    columns: Iterable[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [
        pa.array(column, pa.string()) if kind is str else np.array(column, kind)
        for column, kind in zip(columns, kinds.values(), strict=True)
    ]


class ReleasedProduct(Protocol):
    """A product: a columnar value (`schemas.arrays.columnar`) that is safe to publish.

    The table of kinds (`transforms.publish.products`) says in which further forms it is written.
    """

    def to_table(self) -> pa.Table:
        """Returns it as the rows of a table."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        ...

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Returns the product that `to_json` gave, so that all that is made of it is made again.

        Args:
            body: JSON values from anywhere. For values that `to_json` never gives, this may raise
                any error, or return a product whose `to_json` gives other values.
        """
        ...

    def came_out(self) -> Yield:
        """Returns how much of the log it holds, by its own numbers; by default nothing."""
        return Yield()

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns its numbers by what they count, by which audits tell releases apart.

        Args:
            watched: Those that are wanted of what has too many to give them all; None for some of
                them. What has few gives all of them in any case; what follows from others gives
                none, as that has them.
        """
        return {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_json() == other.to_json()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds arrays


# --- Released figures: totals, times, and limits of what a graph does not show, with their kinds. -
# What a released number is: measured, derived or modelled, and how sure: good, rough or noise.
#
# A release tells somebody that 1,234 cases took a path, between 1,200 and 1,268. That number is
#
# * measured: a noisy count of its own. Its interval holds the count of the log in 95 of 100
# releases;
# * derived: computed from measured numbers alone, with an interval that follows from their noise;
# * modelled: drawn so that all the rest agrees. Nothing says how far off it is: it has no interval.
#
# Its grade compares half the width of the interval with the number itself. It is `good` up to 20
# %, `rough` up to 50 % if the interval lies above 0, and else `noise`: 12, between 3 and 20,
# tells nothing. All of this looks at released numbers only and costs no privacy.
#
# Near the border of two grades the noise decides for one. Of the numbers that get the better
# grade there, more are too large than of all numbers, and of the others more are too small. So an
# interval that is as likely to hold of good and of rough numbers alone reaches further there:
# `wider_ends`.


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


def interval_columns(counted: Any) -> dict[str, pa.Array]:
    """Returns the columns low, high (int64), kind, usable and grade of counts that are measured.

    Args:
        counted: With int64[n] `counts`, `lows` and `highs`; without kinds, the first two alone.
    """
    columns = {name: pa.array(getattr(counted, f"{name}s"), pa.int64()) for name in ("low", "high")}
    if not getattr(counted, "has_kinds", True):
        return columns
    kinds = {"kind": pa.array([MEASURED] * len(counted.counts), pa.string())}
    return columns | kinds | grade_columns(grades(counted.counts, counted.lows, counted.highs))


def numbers_of(rows: Sequence[Mapping[str, Any]], *names: str) -> list[np.ndarray]:
    """Returns int64[n] for each name, that column of rows."""
    return [np.array([row[name] for row in rows], np.int64) for name in names]


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


_Row = TypeVar("_Row")


class ReleasedRows(ReleasedProduct, Protocol[_Row]):
    """A product that is the list of its rows.

    Attributes:
        json_name: What its JSON calls them.
    """

    json_name: ClassVar[str]

    @classmethod
    def of(cls, rows: Sequence[_Row]) -> Self:
        """Returns rows in the order that is given."""
        ...

    @staticmethod
    def row_of(columns: Mapping[str, Any]) -> _Row:
        """Returns the row that a row of its table stands for."""
        ...

    def rows(self) -> list[_Row]:
        """Returns the rows one by one."""
        return list(map(self.row_of, self.to_table().to_pylist()))

    def to_json(self) -> dict[str, Any]:
        """Returns the rows of its table as JSON values."""
        return {self.json_name: self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Returns the rows that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        return cls.of(list(map(cls.row_of, body[cls.json_name])))

    def _columns(self, names: Iterable[str]) -> dict[str, Any]:
        """Returns its fields as columns of these names."""
        own: Any = self
        return dict(zip(names, (getattr(own, f.name) for f in fields(own)), strict=True))


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


class ReleasedFigures(ReleasedRows[Figure], Columnar, wire_name="released-figures"):
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

    json_name: ClassVar[str] = "figures"

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
    def from_noisy(cls, figures: Sequence[Figure]) -> ReleasedFigures:
        """Returns figures whose intervals hold whatever grade noise gives; see `wider_ends`.

        Those of medians and other quantiles have whole bins, which is wide enough.
        """
        made = cls.of(figures)
        is_binned = [figure.name.startswith(("median_", "quantile_")) for figure in figures]
        wider = wider_ends(made.values, made.lows, made.highs)
        lows, highs = np.where(is_binned, (made.lows, made.highs), wider)
        return replace(made, lows=lows, highs=highs)

    @staticmethod
    def row_of(columns: Mapping[str, Any]) -> Figure:
        """As of `ReleasedRows`."""
        name, source, target, *others = (columns[name] for name in _FIGURE_COLUMNS)
        return Figure(name, tuple(end for end in (source, target) if end is not None), *others)

    def to_table(self) -> pa.Table:
        """Returns figure, source, target, value, low, high, kind, usable, grade."""
        columns = self._columns(_FIGURE_COLUMNS)
        return pa.table(columns | grade_columns(grades(self.values, self.lows, self.highs)))

    def came_out(self) -> Yield:
        """Returns its cases, which are those of the whole release: a graph may hide some."""
        return Yield(next((row.value for row in self.rows() if row.name == "cases"), None))


# --- Noisy sums as they were measured, from which the intervals of a release's numbers follow. ----
# A row is a sum over the cases of the original log with noise, such as the number of cases, or
# how often one activity followed another. It has the standard deviation of its noise, which is
# public. A row of deviation 0 is a public number that tells how the sums were made, such as a
# clip.


CASES = "cases"
"""Each by the part that counted them."""

ARC = "arc"
"""Of two activities, ▶ before the first and ■ after the last, over cases that were clipped."""

ARC_NOT_SHOWN = "arc not shown"
"""The largest sum of an arc that no case has which was drawn."""

ACTIVITY = "occurrences of activity"
"""Of an activity, by all arcs to it and from it, over cases that were clipped."""

EVENTS = "events"
"""By all arcs, over cases that were clipped."""

CLIP = "arcs of a clipped case"
"""The norm that a case was scaled down to."""

POSITION = "arcs by position"
"""Where each range of positions begins that this norm counts apart, in events before."""

OCCURRENCES = "cases with activity"
"""Of an activity, and its occurrences in a case, from and to; empty where there is no largest."""

VARIANT = "cases of variant"
"""Of its activities, where so many cases have it that it could be counted."""

LEAST_OF_VARIANT = "least cases of a variant"
"""From how many noisy cases on a variant could be counted."""

GROUP = "group of activity"
"""Of an activity and its group; the value is 0."""

STEP = "step of groups"
"""Of two groups, ▶ before the first and ■ after the last, over cases that were clipped."""

STEP_NOT_SHOWN = "step of groups not shown"
"""The largest sum of a step that no case has which was drawn."""

GROUP_CLIP = "groups of a clipped case"
"""The norm that a case was scaled down to where its groups were counted."""

GROUP_POSITION = "groups by position"
"""Where each range of positions begins that this norm counts apart, in events before."""

DURATION = "cases by duration"
"""Of the time from first to last event, the shortest and the longest of a bin in microseconds; of
cases of two events or more, within the released range of dates."""

TIME_OF_PAIR = "time of pair"
"""Of two activities, in microseconds: what cases spend between the two, which were clipped."""

TIME_KEPT = "share of time kept"
"""Of two activities, or of all of them: what clipping leaves of the time that cases spend between
the two, in cases that were drawn like the released ones."""

START = "cases by start"
"""Of the first and the last local date."""


@dataclass(frozen=True)
class Measure:
    """One sum.

    Attributes:
        what: What is summed up.
        of: What it is of, in texts.
        value: The sum with its noise, in occurrences unless its name says otherwise.
        deviation: Standard deviation of the noise; 0: the number is public.
    """

    what: str
    of: tuple[str, ...]
    value: float
    deviation: float


class ReleasedMeasures(ReleasedRows[Measure], Columnar, wire_name="released-measures"):
    """The sums of a release.

    Attributes:
        what: string[n], what each sums up: the names above.
        offsets: int64[n+1], where the texts of each row begin.
        texts: string[m], what each row is of, one row after the other.
        values: float64[n].
        deviations: float64[n].
    """

    json_name: ClassVar[str] = "measures"

    what: pa.StringArray
    offsets: np.ndarray
    texts: pa.StringArray
    values: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Measure]) -> ReleasedMeasures:
        """Returns the sums in the order that is given."""
        return cls(
            pa.array([row.what for row in rows], pa.string()),
            offsets_of(np.array([len(row.of) for row in rows], np.int64)),
            pa.array([text for row in rows for text in row.of], pa.string()),
            np.array([row.value for row in rows], np.float64),
            np.array([row.deviation for row in rows], np.float64),
        )

    @classmethod
    def joined(cls, pieces: Iterable[ReleasedMeasures]) -> ReleasedMeasures:
        """Returns the rows of one piece after the other."""
        return cls.of([row for piece in pieces for row in piece.rows()])

    @staticmethod
    def row_of(columns: Mapping[str, Any]) -> Measure:
        """As of `ReleasedRows`."""
        return Measure(**{**columns, "of": tuple(columns["of"])})

    def rows(self, what: str | None = None) -> list[Measure]:
        """Returns the rows of one kind, or all."""
        return [row for row in super().rows() if what in (None, row.what)]

    def to_table(self) -> pa.Table:
        """Returns what (string), of (list of strings), value and deviation (float64)."""
        return pa.table(
            {
                "what": self.what,
                "of": pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), self.texts),
                "value": self.values,
                "deviation": self.deviations,
            }
        )


# --- Released indicators: a row for each number, with its interval and what it is in. -------------


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


class ReleasedIndicators(ReleasedRows[IndicatorRow], Columnar, wire_name="graded-indicators"):
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

    json_name: ClassVar[str] = "indicators"

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

    @staticmethod
    def row_of(columns: Mapping[str, Any]) -> IndicatorRow:
        """As of `ReleasedRows`; a row without a grade gets that of its unit."""
        return IndicatorRow(**{n: columns[n] for n in _INDICATOR_COLUMNS if n in columns})

    def to_table(self) -> pa.Table:
        """Returns indicator, group, value, low, high, unit, kind, usable, grade."""
        columns = self._columns(_INDICATOR_COLUMNS)
        graded = grade_columns(np.array(columns.pop("grade").tolist(), np.str_))
        return pa.table(columns | graded)

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
