"""The order of the events of a case: by time, the order column, the place in the source, content.

An order column is read value by value, whatever its type: a text that writes a number is that
number, numbers come before other texts, and what is missing comes last. A file and a frame give
their records places. Rows of a query, of a table or of a pipeline have none, and a retried bundle
brings them in another order. There events that are equal so far are put in the order of their
content, which no runner can change: by the name of the activity first. That order is a convention
and says nothing of what happened first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    IS_START,
    ORDER,
    START_TIMESTAMP,
    TIMESTAMP,
    attribute_column,
)

_STARTS = attribute_column(START_TIMESTAMP)
# The columns that sort content first; that of starts is there for those that are records of their
# own. The last ones were compared before.
_FIRST = (ACTIVITY, _STARTS)
_COMPARED = (CASE_ID, TIMESTAMP, ORDER, EVENT_INDEX)
_INT64_TEXT = r"^-?[0-9]{1,18}$"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LAST = (2,)


def rows_in_order(case: np.ndarray, columns: Mapping[str, pa.Array]) -> np.ndarray:
    """int64[n]: the rows of canonical events by case, time, ORDER, EVENT_INDEX and content.

    Content is the activity, the start, and then the other columns by name, each by value: texts by
    their bytes in UTF-8, what is missing first. A start that is a record of its own comes before
    all other starts, so that its completion comes after it. Rows that are equal in all of it are
    interchangeable, so the same events have one order, however they are delivered.

    Args:
        case: int64[n], the case of each row; cases are in the order of these numbers.
        columns: Of canonical events by their names, [n] each; ORDER may be missing.
    """
    keys = [case, np.asarray(columns[TIMESTAMP])]
    if ORDER in columns:
        keys.append(_ranks(columns[ORDER]))
    keys.append(np.asarray(columns[EVENT_INDEX]))
    rows = np.argsort(case, kind="stable")
    is_ordered, is_equal = _compared(keys, rows)
    if not is_ordered:  # sources in document order arrive ordered
        rows = rows[np.lexsort([key[rows] for key in keys[::-1]])]
        _, is_equal = _compared(keys, rows)
    if is_equal.any():
        places = np.flatnonzero(np.append(is_equal, False) | np.append(False, is_equal))
        runs = np.cumsum(np.append(True, ~is_equal))[places]
        tied = rows[places]
        names = [*(n for n in _FIRST if n in columns), *sorted({*columns} - {*_FIRST, *_COMPARED})]
        content = [key for n in names for key in _keys(columns[n].take(pa.array(tied)), n)]
        rows[places] = tied[np.lexsort([*content[::-1], runs])]
    return rows


def in_order(events: pa.RecordBatch) -> pa.RecordBatch:
    """Returns canonical events in the order of `rows_in_order`, numbered in EVENT_INDEX from 0.

    ORDER has had its say and is left out, and dictionaries are sorted and hold just the texts that
    there are: events that are in the same order give the same batch.
    """
    columns = {
        name: _with_sorted_dictionary(values) if pa.types.is_dictionary(values.type) else values
        for name, values in zip(events.schema.names, events.columns, strict=True)
    }
    rows = rows_in_order(np.asarray(columns[CASE_ID].indices), columns)
    columns = {name: values.take(pa.array(rows)) for name, values in columns.items()}
    columns[EVENT_INDEX] = pa.array(np.arange(len(rows), dtype=np.int64))
    schema = pa.schema([field for field in events.schema if field.name != ORDER])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _compared(keys: Sequence[np.ndarray], rows: np.ndarray) -> tuple[bool, np.ndarray]:
    """Whether rows are in the order of keys, and bool[n-1], whether one equals that before it."""
    is_equal = np.ones(max(len(rows) - 1, 0), bool)
    is_later = ~is_equal
    for key in keys:
        values = key[rows]
        is_later |= is_equal & (values[1:] > values[:-1])
        is_equal &= values[1:] == values[:-1]
    return bool((is_later | is_equal).all()), is_equal


def _ranks(values: pa.DictionaryArray) -> np.ndarray:
    """int64[n]: texts by what they write: numbers exactly, other texts by UTF-8, nothing last."""
    texts = values.dictionary
    if pc.all(pc.match_substring_regex(texts, _INT64_TEXT)).as_py() and not texts.null_count:
        _, ranks = np.unique(np.asarray(texts.cast(pa.int64())), return_inverse=True)
    else:
        keys = list(map(_written, texts.to_pylist()))
        numbers = {key: rank for rank, key in enumerate(sorted({*keys}))}
        ranks = np.array([numbers[key] for key in keys])
    last = pa.scalar(len(texts))
    return np.asarray(pc.fill_null(pa.array(ranks, pa.int64()).take(values.indices), last))


def _written(text: str | None) -> tuple[Any, ...]:
    """Returns by what to sort a text of an order column."""
    if text is None:
        return _LAST
    if _NUMBER.fullmatch(text.strip()):
        try:
            return 0, Decimal(text.strip())
        except InvalidOperation:  # an exponent of more digits than decimals have
            pass
    return 1, text.encode()


def _with_sorted_dictionary(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Returns the same texts with a sorted dictionary of just these, so that codes are ranks.

    Args:
        values: dictionary<int32, string>[n]; its dictionary may hold anything in any order.
    """
    names = pc.unique(values.dictionary.take(pc.unique(values.indices)).drop_null())
    names = names.take(pc.array_sort_indices(names))
    codes = pc.index_in(values.dictionary, names).take(values.indices)
    return pa.DictionaryArray.from_arrays(codes, names)


def _keys(values: pa.Array, name: str) -> list[np.ndarray]:
    """[n] each: by which to sort a column of content, the first key first."""
    if pa.types.is_dictionary(values.type):
        return [np.asarray(pc.fill_null(_with_sorted_dictionary(values).indices, -1))]
    keys = [np.asarray(pc.is_valid(values)), np.asarray(pc.fill_null(values, 0))]
    return [keys[1] != IS_START, *keys] if name == _STARTS else keys
