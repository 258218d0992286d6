"""Released indicators beside the truth: how far each is off, and whether its interval holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pydantic

from tracecloak.anonymizers.indicators.declared import Indicator, Working
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.examination.indicators.truths import OriginalLog, truths_of
from tracecloak.examination.measure.registry import Figures, checked
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.events import START_TIMESTAMP
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.indicators import IndicatorRow, ReleasedIndicators

# Released numbers have nine digits.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class JudgedRow:
    """A released number beside the truth.

    Attributes:
        row: What was released.
        truth: The number of the whole log; None: there is none, as of the mean of no case.
    """

    row: IndicatorRow
    truth: float | None

    @property
    def error(self) -> float | None:
        """How far the released number is above the truth, in its unit."""
        return None if self.truth is None else self.row.value - self.truth

    @property
    def relative_error(self) -> float | None:
        """The size of the error as a share of the truth; None where that is 0."""
        return abs(self.row.value - self.truth) / abs(self.truth) if self.truth else None

    @property
    def is_covered(self) -> bool | None:
        """Whether the interval holds the truth."""
        if self.truth is None:
            return None
        room = _ROUNDING * max(abs(self.truth), abs(self.row.high))
        return self.row.low - room <= self.truth <= self.row.high + room

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            **asdict(self.row),
            "usable": self.row.grade != "noise",
            "truth": self.truth,
            "error": self.error,
            "relative_error": self.relative_error,
            "is_covered": self.is_covered,
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
) -> list[JudgedRow]:
    """Returns each released number beside that of a log.

    Args:
        params: What was asked for.
        released: What came out.
        traces: The whole log, with the attributes that `params` names.

    Raises:
        InputSchemaError: There is a number that nobody asked for.
    """
    log = OriginalLog(traces, params.calendar_time_zone)
    asked: dict[str, Indicator] = {one.title: one for one in params.indicators}
    judged: list[JudgedRow] = []
    for title, of_one in groupby(released.rows(), lambda row: row.indicator):
        rows = list(of_one)
        if title not in asked:
            raise InputSchemaError("the release has an indicator that manifest.json does not name")
        truths = truths_of(asked[title], [row.group for row in rows], log)
        judged += (JudgedRow(row, truth) for row, truth in zip(rows, truths, strict=True))
    return judged


def coverage_of(judged: Sequence[JudgedRow]) -> float | None:
    """Returns the share of the intervals that hold the truth; None where none can be judged."""
    covered = [row.is_covered for row in judged if row.is_covered is not None]
    return float(np.mean(covered)) if covered else None


def errors_of(judged: Sequence[JudgedRow], values: Sequence[float | None]) -> Figures:
    """Returns the measures of how far numbers are from the truth; None where none can be judged.

    Args:
        judged: The released rows.
        values: A number in place of each of them: its own, or that of another log; None: none.
    """
    pairs = [
        (abs(value - one.truth) / abs(one.truth), one.row.grade != "noise")
        for one, value in zip(judged, values, strict=True)
        if one.truth and value is not None
    ]
    errors, of_usable = [error for error, _ in pairs], [error for error, yes in pairs if yes]
    return checked(
        {
            "indicator_error": float(np.median(errors)) if errors else None,
            "usable_indicator_error": float(np.median(of_usable)) if of_usable else None,
            "worst_indicator_error": max(errors, default=None),
        }
    )


def report_of(
    params: IndicatorParams,
    released: ReleasedIndicators,
    original: TraceBatch,
    bootstrap: TraceBatch,
) -> tuple[list[JudgedRow], tuple[Figures, Figures, Figures]]:
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
    is_of_starts = any(isinstance(one, Working) for one in params.indicators)
    if is_of_starts and START_TIMESTAMP not in original.attributes:
        raise UsageError(
            "an indicator is of the starts of events: name their column with start_timestamp, or "
            "the lifecycle, as the release did"
        )
    judged = judged_rows(params, released, original)
    drawn = [row.truth for row in judged_rows(params, released, bootstrap)]
    of_release = errors_of(judged, [row.row.value for row in judged])
    return judged, (
        checked({"indicator_coverage": coverage_of(judged)}) | of_release,
        errors_of(judged, drawn),
        errors_of(judged, [row.truth for row in judged]),
    )
