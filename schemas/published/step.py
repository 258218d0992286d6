"""What one step of a stream publishes, and which of its noisy counts are evidence of something."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import (
    ReleasedFigures,
    ReleasedIndicators,
    interval_columns,
    numbers_of,
)
from tracecloak.schemas.texts import bounded_json

# --- What one step of a stream publishes: counts of a product, indicators, or a synthetic log. ----
# All hold public parameters and what was made private, and nothing else.


View = Literal["window", "total", "sliding"]


def with_step_columns(table: pa.Table, step: Step) -> pa.Table:
    """Returns a table of a step behind its facts, which all rows have in common."""
    columns = {
        name: pa.array([fact] * len(table), pa.string() if isinstance(fact, str) else pa.int64())
        for name, fact in step.facts.items()
    }
    return pa.table(columns | dict(zip(table.column_names, table.columns, strict=True)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Step(ABC):
    """What a stream publishes of one step, of whatever product.

    Attributes:
        json_ending: What follows the number of the step in the name of its JSON file.
        has_log: Whether it is a log, with files of every format that releases are written in;
            otherwise it is a table, with a Parquet file.
        release_id: The stream's name.
        epoch: Which of its epochs: each has its own key and its own budget.
        product: What is counted.
        view: Over which time: the step alone, all steps so far, or the last few.
        step: Number of the step, from 0.
        start_us: Where the time that the step is about begins, microseconds since 1970 UTC.
        end_us: Where it ends: its first microsecond is no part of it.
        n_steps_left: Steps of the horizon behind this one.
        epsilon: Of the whole horizon, an exact decimal.
        delta: Likewise.
    """

    json_ending: ClassVar[str] = ".json"
    has_log: ClassVar[bool] = False

    release_id: str
    epoch: str
    product: str
    view: View
    step: int
    start_us: int
    end_us: int
    n_steps_left: int
    epsilon: str
    delta: str

    @property
    def facts(self) -> dict[str, Any]:
        """What stands beside the cells, in the order of a message's keys."""
        return {field.name: getattr(self, field.name) for field in fields(Step)}

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What must not be published twice: (release_id, epoch, product, view, step)."""
        return self.release_id, self.epoch, self.product, self.view, self.step

    def to_json(self) -> bytes:
        """Returns one JSON object in UTF-8 with the key in it; equal releases are equal bytes."""
        body = {**self.facts, **self._body()}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Returns the step that `to_json` wrote, where that has all of it.

        Raises:
            UsageError: It is none.
        """
        try:
            return cls(**cls._parsed(bounded_json(data)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"this is no release of a step ({type(error).__name__})") from None

    def _body(self) -> dict[str, Any]:
        """What its JSON says beside the facts."""
        return {}

    @classmethod
    def _parsed(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields that a JSON object stands for."""
        return body

    def to_kept(self) -> bytes:
        """Returns all of it, to be kept until its epoch ends."""
        return self.to_json()

    @classmethod
    def from_kept(cls, data: bytes) -> Self:
        """Returns what `to_kept` kept: its JSON and its rows are the same."""
        return cls.from_json(data)

    def in_form_of(self, kept: Self) -> Self:
        """Returns this step in the form of a kept one, which may be of an earlier version."""
        return self

    @abstractmethod
    def to_rows(self) -> pa.RecordBatch | pa.Table:
        """Returns what its other files hold: rows of a log in canonical order, or of a table."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_kept() == other.to_kept()

    __hash__ = None  # type: ignore[assignment]  # holds arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class StepRelease(Step):
    """The counts that a stream publishes for one step.

    Attributes:
        cells: What each count is of, sorted and distinct: (source, target) with the labels of START
            and END, or the activities of a variant.
        counts: int64[n], with noise and unbiased, so they may be negative.
        standard_errors: float64[n], of the noise alone, in six digits.
        lows: int64[n], lower ends of 95 % intervals for what was counted, not negative. None, and
            so are the next two, where a product gives none, as those of version 0.1.0 did.
        highs: int64[n], upper ends, not negative.
        figures: The numbers that are of no single cell.

    Raises:
        UsageError: There are not as many counts, errors or limits as cells, or cells are not in
            their order.
    """

    cells: tuple[tuple[str, ...], ...]
    counts: np.ndarray
    standard_errors: np.ndarray
    lows: np.ndarray | None = None
    highs: np.ndarray | None = None
    figures: ReleasedFigures | None = None

    def __post_init__(self) -> None:
        columns = (self.counts, self.standard_errors, self.lows, self.highs)
        if any(len(column) != len(self.cells) for column in columns if column is not None):
            raise UsageError("cells, counts, standard_errors and limits must be as many")
        if (self.lows is None) != (self.highs is None) or (self.lows is None and self.figures):
            raise UsageError("lows and highs go together, and figures go with them")
        if any(a >= b for a, b in zip(self.cells[:-1], self.cells[1:], strict=True)):
            raise UsageError("cells must be sorted and distinct")

    @classmethod
    def of(
        cls,
        cells: Sequence[tuple[str, ...]],
        counts: np.ndarray,
        standard_errors: np.ndarray,
        **others: Any,
    ) -> StepRelease:
        """Returns the release of cells in any order, without limits.

        Errors are rounded to six digits: what follows from them is the same on every machine.
        """
        order = sorted(range(len(cells)), key=cells.__getitem__)
        errors = np.asarray(standard_errors, np.float64)[order]
        distinct, place = np.unique(errors, return_inverse=True)
        rounded = np.array([float(f"{error:.6g}") for error in distinct.tolist()], np.float64)
        return cls(
            cells=tuple(cells[i] for i in order),
            counts=np.asarray(counts, np.int64)[order],
            standard_errors=rounded[place],
            **others,
        )

    def _body(self) -> dict[str, Any]:
        figures = {} if self.figures is None else self.figures.to_json()
        return {"cells": self._cells_table().to_pylist(), **figures}

    @classmethod
    def _parsed(cls, body: dict[str, Any]) -> dict[str, Any]:
        rows = body.pop("cells")
        figures = {"figures": body.pop("figures")} if "figures" in body else None
        has_limits = figures is not None or (bool(rows) and "low" in rows[0])
        lows, highs = numbers_of(rows, "low", "high") if has_limits else (None, None)
        return {
            "cells": tuple(tuple(row["cell"]) for row in rows),
            "counts": numbers_of(rows, "count")[0],
            "standard_errors": np.array([row["standard_error"] for row in rows], np.float64),
            "lows": lows,
            "highs": highs,
            "figures": None if figures is None else ReleasedFigures.from_json(figures),
            **body,
        }

    def in_form_of(self, kept: StepRelease) -> StepRelease:
        """As of `Step`: without limits and figures if the kept one has none."""
        return self if kept.lows is not None else replace(self, lows=None, highs=None, figures=None)

    def to_rows(self) -> pa.Table:
        """Returns a row for each cell, with what they have in common as columns.

        Columns low, high (int64), kind, grade (string) and usable (bool) are there where limits
        are.
        """
        return with_step_columns(self._cells_table(), self)

    def _cells_table(self) -> pa.Table:
        """What is said of each cell."""
        columns = {
            "cell": pa.array([list(cell) for cell in self.cells], pa.list_(pa.string())),
            "count": pa.array(self.counts, pa.int64()),
            "standard_error": pa.array(self.standard_errors, pa.float64()),
        }
        if self.lows is not None and self.highs is not None:
            columns |= interval_columns(self)
        return pa.table(columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepIndicators(Step):
    """The indicators that a stream publishes for one step.

    Attributes:
        indicators: The indicators of the time that the step is about.
    """

    indicators: ReleasedIndicators

    def _body(self) -> dict[str, Any]:
        return self.indicators.to_json()

    @classmethod
    def _parsed(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "indicators": ReleasedIndicators.from_json(body)}

    def to_rows(self) -> pa.Table:
        """Returns a row for each number, with what they have in common as columns."""
        return with_step_columns(self.indicators.to_table(), self)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepLog(Step):
    """The log that a stream publishes for one step: synthetic cases for those that closed in it.

    Its JSON says what the log is of; its cases are not in it.

    Attributes:
        traces: The released cases, under new ids.
    """

    wire_name: ClassVar[str] = "step-log"

    json_ending: ClassVar[str] = "/step.json"
    has_log: ClassVar[bool] = True

    traces: TraceBatch
    product: str = "log"
    view: View = "window"

    def to_kept(self) -> bytes:
        """As of `Step`: with its cases."""
        return encode(self)

    @classmethod
    def from_kept(cls, data: bytes) -> StepLog:
        """As of `Step`."""
        return cast(StepLog, decode(data))

    def to_rows(self) -> pa.RecordBatch:
        """Returns the rows of the log in the canonical order of its cases."""
        from tracecloak.schemas.published.rows import part_rows

        return part_rows([self.traces])


# --- Which of many noisy counts stand for something, decided for all of them together. ------------
# If a thousand counts are nothing but noise, twenty-five of them lie above a 95 % interval around
# zero. A reader who tests each cell by itself would take these for real. Here the mean number of
# such mistakes is bounded over all cells at once, however the cells depend on each other.
#
# All of it follows from published counts and from the public scale of their noise, so it costs
# nothing.


# How many cells that hold nothing but noise a release is expected to show as certain: one such cell
# in a hundred releases. The same holds for those that a reader of a stream sees.
EXPECTED_FALSE = 0.01

_ROUNDING = 0.5  # by which a count can be above the number that it was rounded from


def is_noise_laplace(release: StepRelease) -> bool:
    """Whether the noise of a step of a public domain is Laplace, as with delta 0; else Gaussian."""
    return Fraction(release.delta) == 0


def evidence(
    counts: np.ndarray, standard_errors: np.ndarray, lows: np.ndarray, *, is_laplace: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Decides for all cells of a public domain together what counts with noise say is there.

    A product that publishes only cells above a threshold of its own has decided already and is not
    meant. Of `n` cells, each of noise alone is taken for sure with probability `EXPECTED_FALSE` / n
    at most, so that all together are `EXPECTED_FALSE` on average at most (Bonferroni). That holds
    for noises that depend on each other, too.

    Args:
        counts: int64[n], rounded sums with unbiased noise.
        standard_errors: float64[n], standard deviations of the noise; they must be public.
        lows: int64[n], lower ends of their 95 % intervals.
        is_laplace: Whether the noise is discrete Laplace; else it is taken to be Gaussian.

    Returns:
        bool[n], counts that noise alone hardly reaches, which are sure; and bool[n], the other
        counts whose own 95 % interval is above zero: each for itself looks as if it stood for
        something, and of many that are noise alone one in forty does.
    """
    share = EXPECTED_FALSE / max(len(counts), 1)
    # What each noise exceeds with probability `share`, which is a half at most.
    reached = -NormalDist().inv_cdf(share) * standard_errors
    if is_laplace:
        reached = -math.log(2 * share) * laplace_scales(standard_errors)
    is_above, is_beyond = lows > 0, counts - _ROUNDING >= reached
    return is_above & is_beyond, is_above & ~is_beyond


def laplace_scales(standard_errors: np.ndarray) -> np.ndarray:
    """Returns float64[n], the scales b of discrete Laplace noise of these standard deviations.

    Its variance is 1 / (2 sinh(1 / 2b)^2).

    Args:
        standard_errors: float64[n], not negative.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        x = 1 / (math.sqrt(2) * standard_errors)
        # The inverse of sinh, which loses no digit of a small x.
        inverse = elementary.log1p(x + x * x / (1 + np.sqrt(1 + x * x)))
        return np.where(standard_errors > 0, 0.5 / inverse, 0.0)
