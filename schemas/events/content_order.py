"""The order of events whose source has none: by what they say, so that every delivery is the same.

A file numbers its records, and events with equal stamps keep that order. Rows of a pipeline or of
a table come in any order, and a retried bundle brings them in another. So events with equal stamps
are put in the order of their content, which no runner can change. That order is a convention and
says nothing of what happened first: where it matters, the stamps must be finer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    EVENT_SCHEMA,
    IS_START,
    START_TIMESTAMP,
    TIMESTAMP,
    attribute_column,
)

_STARTS = attribute_column(START_TIMESTAMP)
# The columns that sort first; that of starts is there for those that are records of their own.
_FIRST = (CASE_ID, TIMESTAMP, ACTIVITY, _STARTS)


def in_content_order(
    events: Sequence[pa.RecordBatch], keeps_numbers: bool = False
) -> pa.RecordBatch:
    """Returns all events in the order of their content, numbered in EVENT_INDEX from 0.

    They are ordered by case, time, activity and start, and then by the other columns by name, each
    by value: texts by their bytes in UTF-8, what is missing first. A start that is a record of its
    own comes before all other starts, so that its completion comes after it. Two rows that are
    equal in all of it are interchangeable. What EVENT_INDEX was before has no say unless asked for,
    nor have the order, the number and the dictionaries of the batches: the same events give the
    same batch.

    Args:
        events: Batches of canonical events of one schema, up to the order of its columns. Copies
            stay copies.
        keeps_numbers: Whether events of one case and time are in the order of their EVENT_INDEX
            first, as those of files are among those of rows, which all have 0.

    Returns:
        One batch of n rows with the columns of the first one given, EVENT_SCHEMA if there is none.

    Raises:
        InputSchemaError: The batches have different columns.
    """
    schema = events[0].schema if events else EVENT_SCHEMA
    if any(set(batch.schema.names) != set(schema.names) for batch in events):
        raise InputSchemaError("the events must all have the same columns")
    table = pa.Table.from_batches([b.select(schema.names) for b in events], schema)
    whole = table.unify_dictionaries().combine_chunks()
    columns = {name: _only_chunk(whole.column(name)) for name in schema.names}
    keys: dict[str, list[np.ndarray]] = {}
    for name, values in columns.items():
        if pa.types.is_dictionary(values.type):
            columns[name] = _with_sorted_dictionary(values)
            keys[name] = [np.asarray(pc.fill_null(columns[name].indices, -1))]
        else:
            keys[name] = _keys_of_numbers(values, name)
    first = [*_FIRST[:2], EVENT_INDEX, *_FIRST[2:]] if keeps_numbers else _FIRST
    names = [*(n for n in first if n in keys), *sorted(keys.keys() - {*first, EVENT_INDEX})]
    order = np.lexsort([key for name in reversed(names) for key in reversed(keys[name])])
    columns = {name: values.take(pa.array(order)) for name, values in columns.items()}
    columns[EVENT_INDEX] = pa.array(np.arange(len(order), dtype=np.int64))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _with_sorted_dictionary(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Returns the same texts with a sorted dictionary of just these, so that codes are ranks.

    Args:
        values: dictionary<int32, string>[n]; its dictionary may hold anything in any order.
    """
    names = pc.unique(values.dictionary.take(pc.unique(values.indices)).drop_null())
    names = names.take(pc.array_sort_indices(names))
    codes = pc.index_in(values.dictionary, names).take(values.indices)
    return pa.DictionaryArray.from_arrays(codes, names)


def _keys_of_numbers(values: pa.Array, name: str) -> list[np.ndarray]:
    """[n] each: by which to sort a column of numbers, the first key first."""
    keys = [np.asarray(pc.is_valid(values)), np.asarray(pc.fill_null(values, 0))]
    if name == _STARTS:
        keys.insert(0, keys[1] != IS_START)
    return keys
