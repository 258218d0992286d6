"""Released indicators next to the truth: how far each is off, and whether its interval holds it.

The truth has no noise and no bounds: the mean of durations is that of all durations, and not of
those cut at their longest; so are sums and quantiles. A quantile is the smallest number that a
share of the cases reaches. Only what is counted so by its own words is cut: occurrences and events
up to so many a case. The numbers of cases are those that the release counts
(`anonymizers.indicators.summands`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import pydantic

from tracecloak.anonymizers.indicators import declared, summands
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.examination.measure.registry import Figures, checked
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.events import START_TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators
from tracecloak.transforms.models.dfg_svg import plain_name
from tracecloak.transforms.pages.charts import in_words, interval_words, value_words

# --- What each released number would be without noise and without bounds. -------------------------
# Numbers of each case, and the cases of a group. All of it is exact.


_SECOND_US = 1_000_000
_ARROW = " → "
_UNITS_US = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_WORDS = re.compile(r"([0-9.e+-]+) (day|hour|minute|second)s?")


def truths_of(
    indicator: declared.Indicator,
    groups: Sequence[str | None],
    traces: TraceBatch,
    time_zone: str = "UTC",
) -> list[float | None]:
    """Returns the true number of each row of an indicator, in the unit of the release.

    Args:
        indicator: What was asked for.
        groups: The group of each of its rows, in the order of the release.
        traces: The whole log, with the attributes that indicators read.
        time_zone: IANA name of the place by whose clock periods are meant.

    Returns:
        As many numbers; None where there is none, as of the mean of no case.
    """
    labels, where = [group or "" for group in groups], indicator.where
    is_meant = (
        np.ones(traces.n_cases, bool) if where is None else summands.cases_where(traces, where)
    )
    if isinstance(indicator, declared.Workload):
        counts = summands.events_by(traces, indicator.by, labels, is_meant, indicator.at_most)
        return [float(count) for count in counts]
    parts = [_parted(indicator, label) for label in labels]
    by = summands.Population.of(indicator).by
    known = summands.Groups(tuple(dict.fromkeys(label for label, _ in parts)), by)
    if by in declared.PERIODS and traces.n_cases:
        ends = int(traces.starts.min()), int(traces.starts.max()) + 1
        known = summands.periods_of(str(by), *ends, time_zone)
    places = known.places(traces)

    @cache
    def numbers(step: declared.Group | None) -> np.ndarray:
        """A number of each case, NaN of one that has none; shares are the mean of 0 and 1."""
        # Numbers are not clipped to the longest time, so any will do.
        counted = summands.numbers_added(indicator, () if step is None else (step,), traces)
        values = counted.values[:, 0]
        if isinstance(indicator, declared.Frequency):
            values = np.minimum(values, indicator.at_most)
        return np.where(counted.is_there[:, 0], values, np.nan)

    @cache
    def chosen(label: str) -> np.ndarray:
        is_in = is_meant
        if by is not None:
            is_in = is_in & (places == (known.labels.index(label) if label in known.labels else -2))
        if isinstance(indicator, declared.Cases):
            return np.ones(int(is_in.sum()))
        values = numbers(_step_of(indicator, label, traces))[is_in]
        return values[~np.isnan(values)]

    last = parts[-1][1] if parts else ""
    seen: Counter[str] = Counter()
    truths = []
    for label, tail in parts:
        truths.append(_figure(indicator, chosen(label), tail, seen[label], last))
        seen[label] += 1
    return truths


def _parted(indicator: declared.Indicator, group: str) -> tuple[str, str]:
    """The group of the cases, and which quantile or bin of theirs a row is."""
    is_parted = isinstance(indicator, declared.Measured) and (
        indicator.of == "histogram" or len(indicator.quantiles) > 1
    )
    if not is_parted:
        return group, ""
    head, _, tail = group.rpartition(", ")
    return ("", group) if indicator.by is None else (head, tail)


def _step_of(
    indicator: declared.Indicator, label: str, traces: TraceBatch
) -> declared.Group | None:
    """The activity or the pair that a row is about."""
    if not indicator.is_by_steps:
        return next(iter(indicator.steps_of), None)
    for step in indicator.groups or ():
        if label == (step if isinstance(step, str) else _ARROW.join(step)):
            return step
    if indicator.by != declared.PAIR:
        return label
    # An arrow may stand in a name: the pair is that of which the log has both.
    names = set(traces.vocabulary.names.to_pylist())
    words = label.split(_ARROW)
    pairs = [
        (_ARROW.join(words[:place]), _ARROW.join(words[place:])) for place in range(1, len(words))
    ]
    return next((pair for pair in pairs if names.issuperset(pair)), ("", ""))


def _figure(
    indicator: declared.Indicator, values: np.ndarray, tail: str, place: int, last: str
) -> float | None:
    """The number of a row.

    Args:
        indicator: What was asked for.
        values: The numbers of its cases.
        tail: Its quantile or bin.
        place: Which of the rows of these cases it is.
        last: The last bin.
    """
    unit = _SECOND_US if isinstance(indicator, declared.Timed) else 1
    if isinstance(indicator, declared.Cases | declared.Frequency):
        return float(values.sum())
    if not isinstance(indicator, declared.Measured) or indicator.of == "mean":
        return float(values.mean()) / unit if len(values) else None
    if indicator.of == "sum":
        return float(values.sum()) / unit
    if indicator.of == "histogram":
        # The first bin and the last one hold what lies beyond, too.
        borders = _edges(indicator, last)[1:-1]
        return float((np.searchsorted(borders, values, side="right") == place).sum())
    if not len(values):
        return None
    # The smallest value that so large a share of the values does not exceed.
    share = Fraction(tail or next(iter(indicator.quantiles)))
    return float(np.sort(values)[math.ceil(share * len(values)) - 1]) / unit


def _edges(indicator: declared.Measured, last_bin: str) -> list[float]:
    """The borders of bins of equal width; a longest time that was chosen stands in the last one."""
    low, high = 0.0, 0.0
    if isinstance(indicator, declared.Amount):
        low, high = (float(bound) for bound in indicator.bounds)
    elif isinstance(indicator, declared.Timed) and indicator.at_most is not None:
        high = float(indicator.at_most)
    else:
        ends = _WORDS.findall(last_bin.partition(" to ")[2])
        high = sum(float(number) * _UNITS_US[unit] * _SECOND_US for number, unit in ends)
    n = indicator.n_bins
    return [low + (high - low) * place / n for place in range(n + 1)]


# --- Released indicators beside the truth: how far each is off, and whether its interval holds it.


# Released numbers have nine digits.
_ROUNDING = 1e-8


def judged(row: IndicatorRow, truth: float | None) -> dict[str, Any]:
    """Returns a released number beside the truth, as JSON values.

    Args:
        row: What was released.
        truth: The number of the whole log; None: there is none, as of the mean of no case.

    Returns:
        The row, whether it is `usable`, the `truth`, by how much the row is above it, in its unit
        (`error`), the size of that as a share of the truth, if that is not 0 (`relative_error`),
        and whether its interval holds the truth (`is_covered`).
    """
    error = is_covered = None
    if truth is not None:
        error = row.value - truth
        room = _ROUNDING * max(abs(truth), abs(row.high))
        is_covered = row.low - room <= truth <= row.high + room
    return {
        **asdict(row),
        "usable": row.grade != "noise",
        "truth": truth,
        "error": error,
        "relative_error": abs(error) / abs(truth) if error is not None and truth else None,
        "is_covered": is_covered,
    }


def params_of(manifest: Mapping[str, Any]) -> IndicatorParams:
    """Returns the parameters of a release of `private-indicators`.

    Raises:
        InputSchemaError: The manifest has others.
    """
    try:
        return IndicatorParams(**manifest["params"])
    except (KeyError, TypeError, pydantic.ValidationError):
        raise InputSchemaError(
            "the parameters in manifest.json are none of private-indicators: `tracecloak verify` "
            "says what is wrong with it"
        ) from None


def names_in(params: IndicatorParams) -> set[str]:
    """Returns the activities that are asked for by name."""
    return {name for indicator in params.indicators for name in indicator.activities}


def judged_rows(
    params: IndicatorParams, released: ReleasedIndicators, traces: TraceBatch
) -> list[dict[str, Any]]:
    """Returns each released number beside that of a log; see `judged`.

    Args:
        params: What was asked for.
        released: What came out.
        traces: The whole log, with the attributes that `params` names.

    Raises:
        InputSchemaError: There is a number that nobody asked for.
    """
    asked: dict[str, declared.Indicator] = {one.title: one for one in params.indicators}
    rows: list[dict[str, Any]] = []
    for title, own in groupby(released.rows(), lambda row: row.indicator):
        released_rows = list(own)
        if title not in asked:
            raise InputSchemaError("the release has an indicator that manifest.json does not name")
        groups = [row.group for row in released_rows]
        truths = truths_of(asked[title], groups, traces, params.calendar_time_zone)
        rows += map(judged, released_rows, truths)
    return rows


def coverage_of(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the share of the intervals that hold the truth; None where none can be judged."""
    covered = [row["is_covered"] for row in rows if row["is_covered"] is not None]
    return float(np.mean(covered)) if covered else None


def errors_of(rows: Sequence[Mapping[str, Any]], values: Sequence[float | None]) -> Figures:
    """Returns the measures of how far numbers are from the truth; None where none can be judged.

    Args:
        rows: The released rows beside the truth.
        values: A number in place of each of them: its own, or that of another log; None: none.
    """
    pairs = [
        (abs(value - row["truth"]) / abs(row["truth"]), row["usable"])
        for row, value in zip(rows, values, strict=True)
        if row["truth"] and value is not None
    ]
    errors, usable_errors = [error for error, _ in pairs], [error for error, yes in pairs if yes]
    return checked(
        {
            "indicator_error": float(np.median(errors)) if errors else None,
            "usable_indicator_error": float(np.median(usable_errors)) if usable_errors else None,
            "worst_indicator_error": max(errors, default=None),
        }
    )


def report_of(
    params: IndicatorParams,
    released: ReleasedIndicators,
    original: TraceBatch,
    bootstrap: TraceBatch,
) -> tuple[list[dict[str, Any]], tuple[Figures, Figures, Figures]]:
    """Returns each row beside the truth, and the measures of the release and of what judges it.

    Args:
        params: What was asked for.
        released: What came out.
        original: The whole log, with the attributes that `params` names.
        bootstrap: A bootstrap of it.

    Returns:
        The rows; and the measures of the release, of the bootstrap and of the log itself.

    Raises:
        UsageError: The log has no starts of events, and an indicator is of these.
        InputSchemaError: There is a number that nobody asked for.
    """
    is_of_starts = any(isinstance(one, declared.Working) for one in params.indicators)
    if is_of_starts and START_TIMESTAMP not in original.attributes:
        raise UsageError(
            "an indicator is of the starts of events: name their column with start_timestamp, or "
            "the lifecycle, as the release did"
        )
    rows = judged_rows(params, released, original)
    drawn = [row["truth"] for row in judged_rows(params, released, bootstrap)]
    release_errors = errors_of(rows, [row["value"] for row in rows])
    return rows, (
        checked({"indicator_coverage": coverage_of(rows)}) | release_errors,
        errors_of(rows, drawn),
        errors_of(rows, [row["truth"] for row in rows]),
    )


# --- Released indicators beside the truth, for people: a table, and the one that is furthest off. -


_NOTHING = "-"
_HOLDS = {True: "yes", False: "no", None: _NOTHING}
_ACTIVE = re.compile(r"[\\`*_\[\]<>|~#&]")
_row = ReleasedIndicators.row_of


def furthest_line(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields which row that is not noise is furthest off, in a sentence, where one can be judged.

    Args:
        rows: See `judged`.
    """
    known = [row for row in rows if row["usable"] and row["relative_error"] is not None]
    if not known:
        return
    worst = max(known, key=lambda row: row["relative_error"])
    name = ", ".join(plain_name(worst[key]) for key in ("indicator", "group") if worst[key])
    yield (
        f"Of the figures that are not noise, this one is furthest off: {name}, "
        f"{value_words(_row(worst))} where the log has {in_words(worst['truth'], worst['unit'])}."
    )


def figure_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Returns the cells of a table of Markdown with each row beside the truth.

    Args:
        rows: See `judged`.
    """
    return [
        [
            _quoted(row["indicator"]),
            _quoted(row["group"] or ""),
            _NOTHING if row["truth"] is None else in_words(row["truth"], row["unit"]),
            in_words(row["value"], row["unit"]),
            interval_words(_row(row)),
            _HOLDS[row["is_covered"]],
            _NOTHING if row["relative_error"] is None else f"{row['relative_error']:.1%}",
            row["grade"],
        ]
        for row in rows
    ]


def _quoted(name: str) -> str:
    """A name in a table of Markdown, whatever marks are in it."""
    return _ACTIVE.sub(r"\\\g<0>", plain_name(name))
