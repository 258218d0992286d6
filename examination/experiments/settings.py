"""Flags of the experiments on the k-anonymity family: choices, settings, attributes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.examination.experiments.grids import listed
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.measure.perspectives import RESOURCE
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import MAX_VALUES
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import TimeUnit

# Up to so many different numbers are values like texts.
_FEW_NUMBERS = 10

_Name = TypeVar("_Name", bound=str)


def some_of(name: str, text: str | None, among: Sequence[_Name]) -> tuple[_Name, ...]:
    """Returns those of some names that a text has between commas, in their order; or all.

    Raises:
        UsageError: It has another one, one twice, or none.
    """
    given = listed(text, among)
    chosen = tuple(one for one in among if one in given)
    if not chosen or len(chosen) != len(given):
        raise UsageError(
            f"{name} must be some of {', '.join(among)}, each once and separated by commas, got "
            f"{text!r}"
        )
    return chosen


def one_of(name: str, text: str | None, among: Sequence[_Name]) -> _Name:
    """Returns the name that a text is, or the first of them.

    Raises:
        UsageError: It is none of them.
    """
    for one in among:
        if text in (one, None):
            return one
    raise UsageError(f"{name} must be one of {', '.join(among)}, got {text!r}")


@dataclass(frozen=True)
class Setting:
    """T, L, K and C, and what they are called."""

    name: str
    time_unit: TimeUnit
    length: int
    k: int
    confidence: float


# Section 6.1.
_NAMED = {
    "weak": Setting("weak", "minutes", 2, 20, 0.5),
    "strong": Setting("strong", "minutes", 6, 60, 0.2),
}
_UNITS: tuple[TimeUnit, ...] = ("hours", "minutes")
_LENGTHS, _KS, _CONFIDENCES = range(2, 7), range(20, 61, 10), (0.2, 0.3, 0.4, 0.5)


def settings_of(text: str | None) -> tuple[Setting, ...]:
    """Returns settings by their names, as T/L/K/C, or all 200 of the paper.

    Raises:
        UsageError: One is none of these, is there twice, or there is none.
    """
    if text == "all":
        every = itertools.product(_UNITS, _LENGTHS, _KS, _CONFIDENCES)
        return tuple(Setting("/".join(map(str, setting)), *setting) for setting in every)
    settings = tuple(map(_setting, listed(text, tuple(_NAMED))))
    if not settings or len(set(settings)) < len(settings):
        raise UsageError(f"settings must be distinct and separated by commas, got {text!r}")
    return settings


def _setting(text: str) -> Setting:
    if text in _NAMED:
        return _NAMED[text]
    unit, *others = text.split("/")
    try:
        length, k, confidence = others
        named = one_of("settings", unit, get_args(TimeUnit))
        setting = Setting(text, named, int(length), int(k), float(confidence))
    except (ValueError, UsageError):
        raise UsageError(
            f"settings must be {', '.join(_NAMED)}, all, or T/L/K/C such as hours/2/20/0.5, got "
            f"{text!r}"
        ) from None
    return setting


# --- Attributes as the log has them -----------------------------------------------------------


def declaration(log: Log, name: str) -> dict[str, Any]:
    """Declares an attribute by the values of a log: texts, or bounds of numbers that are many.

    Raises:
        UsageError: It has no value, or too many.
    """
    texts = sorted(_texts(log.traces, name))
    column = log.columns[name]
    values = [_number(text) for text in texts] if name != RESOURCE else []
    if len(values) > _FEW_NUMBERS and all(map(math.isfinite, values)):
        is_whole = all(value == int(value) for value in values)
        low, high = min(values), max(values)
        n_bins = min(int(high - low) + 1, MAX_VALUES) if is_whole else MAX_VALUES
        return {"bounds": [low, high], "n_bins": n_bins, "whole": is_whole, "column": column}
    if not 0 < len(texts) <= MAX_VALUES:
        raise UsageError(
            f"{name} must have 1 to {MAX_VALUES} different values in {log.name!r}, got {len(texts)}"
        )
    return {"values": texts, "column": column}


def _texts(traces: TraceBatch, name: str) -> list[str]:
    values = pc.unique(traces.attributes[name].cast(pa.string()))
    return [text for text in values.to_pylist() if text]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
