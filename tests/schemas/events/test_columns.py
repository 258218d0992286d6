"""Source columns to canonical events: names, text, numbering, rejects and filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import cases_of, event_batch, event_logs, read_cases, trace_batch
from tests.support.record_files import canonical
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.errors import InputSchemaError, TracecloakError, UsageError
from tracecloak.schemas.events.columns import REJECT_SCHEMA, ColumnMapping
from tracecloak.schemas.events.events import EVENT_SCHEMA, OPTIONAL_TEXT, OTHER, event_schema
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.source_column import fractions, text_of, texts, texts_of_scalars
from tracecloak.schemas.events.tally import Reject

STAMP = "2021-01-01T00:00:00Z"
STAMP_US = 1_609_459_200_000_000


class Outcome(NamedTuple):
    """Events, (file, record, reason) of each reject, and both batches as they travel."""

    events: pa.RecordBatch
    rejects: list[tuple[int, int, str]]
    bytes: bytes

    def column(self, name: str) -> list[Any]:
        return self.events.column(name).to_pylist()


def canonicalise(
    columns: Mapping[str, Any],
    mapping: ColumnMapping | None = None,
    records: Sequence[int] | None = None,
    malformed: Sequence[int] = (),
    rank: int = 0,
) -> Outcome:
    """Canonicalises columns given as Arrow arrays or lists; checks schemas and validity."""
    mapping = mapping or ColumnMapping()
    events, rejects = canonical(columns, mapping, records, malformed, rank)
    optional = [name for name in OPTIONAL_TEXT if getattr(mapping, name) is not None]
    starts = ["start_timestamp"] if mapping.has_starts else []
    assert events.schema.equals(event_schema(optional, starts), check_metadata=True)
    assert rejects.schema.equals(REJECT_SCHEMA, check_metadata=True)
    for name in EVENT_SCHEMA.names:
        assert events.column(name).null_count == 0
    sink = pa.BufferOutputStream()
    for batch in (events, rejects):
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    rows = [tuple(row.values()) for row in rejects.to_pylist()]
    return Outcome(events, rows, sink.getvalue().to_pybytes())


def log(**columns: Any) -> dict[str, Any]:
    """Columns of a good log, as long as the given ones, which replace them."""
    n = max((len(values) for values in columns.values()), default=1)
    return {
        "case_id": [f"c{i}" for i in range(n)],
        "activity": ["A"] * n,
        "timestamp": [STAMP] * n,
        **columns,
    }


# --- names ----------------------------------------------------------------------------------------

CANONICAL = ("case_id", "activity", "timestamp")
XES = ("case:concept:name", "concept:name", "time:timestamp")


def test_optional_columns_come_in_canonical_order_and_others_are_dropped():
    mapping = ColumnMapping(lifecycle="L", resource="R", individual_id="I", order="O")
    columns = {"L": ["start", None], "R": [None, "r"], "I": ["i", ""], "O": [7, None]}
    outcome = canonicalise(log(**columns, secret=["canary", "canary"]), mapping)
    starts = "attribute start_timestamp"  # as the lifecycle is mapped and not filtered by
    assert outcome.events.schema.names == [*EVENT_SCHEMA.names, *OPTIONAL_TEXT, starts]
    assert outcome.column("lifecycle") == ["start", None]
    assert outcome.column("resource") == [None, "r"]
    assert outcome.column("individual_id") == ["i", None]
    assert outcome.column("order") == ["7", None]
    assert b"canary" not in outcome.bytes


def test_event_schema_refuses_unknown_columns():
    assert event_schema(["lifecycle", "resource"]).names[4:] == ["resource", "lifecycle"]
    with pytest.raises(ValueError, match=r"optional columns are .*, got"):
        event_schema(["resource", "colour"])


# --- text -----------------------------------------------------------------------------------------


NO_TEXT = [
    pa.array([["canary"]]), pa.array([{"a": "canary"}]), pa.array([True]), pa.array([time(12)]),
    pa.array([datetime(2021, 1, 1)]), pa.array([b"ab"], pa.binary(2)),
    pa.array([b"ab"], pa.binary_view()),
]  # fmt: skip


@pytest.mark.parametrize("part", ["case_id", "activity", "resource", "filter"])
def test_a_type_that_cannot_be_text_is_refused_by_name(part):
    for values in NO_TEXT:
        mapping = (
            ColumnMapping(**{part: "who"})
            if part != "filter"
            else ColumnMapping(filters=(RowFilter("who", equals=("x",)),))
        )
        has_text = pa.types.is_boolean(values.type) or pa.types.is_timestamp(values.type)
        if part == "filter" and has_text:  # which filters compare
            continue
        with pytest.raises(InputSchemaError) as caught:
            canonicalise(log(who=values), mapping)
        told = f"column 'who' has type {values.type}, which cannot serve as text"
        assert told in str(caught.value) and "canary" not in str(caught.value)
        assert caught.value.exit_code == 3 and isinstance(caught.value, TracecloakError)


# --- numbering and rejects ------------------------------------------------------------------------


def test_an_order_may_hold_anything_unless_the_column_is_read_for_something_else() -> None:
    filters = (RowFilter("n", equals=("1",)),)
    assert ColumnMapping(order="n", filters=(RowFilter("x", begins_with="y"),)).order_alone == "n"
    for more in ({"filters": filters}, {"attributes": (("a", "n"),)}, {"activity": "n"}):
        assert ColumnMapping(order="n", **more).order_alone is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        # A cap on the cases of individuals whom nothing names.
        ({"needs_individual": True}, "needs_individual is for a mapping that"),
        ({"lifecycle": "p", "start_transitions": ("Ended ",)}, "must differ, also from the usual"),
        ({"lifecycle": "p", "complete_transitions": ("START",)}, "must differ, also from the usu"),
        ({"start_transitions": ("begun",)}, "need a lifecycle column"),
        ({"attributes": (("x", "a"), ("x", "b"))}, "differ in their names"),
        ({"timestamp": "At", "filters": (RowFilter("At", below="soon"),)}, "'soon'"),
        *(({"filters": (RowFilter(name, below="soon"),)}, "'soon'; write it like 2026-11-01")
          for name in ("timestamp", "time:timestamp")),
        *(({"timestamp_format": layout}, r"has no date, got '(%H:%M|nonsense)'")
          for layout in ("%H:%M", "nonsense", ("%Y-%m-%d", "%H:%M"))),
        *(({"timestamp_unit": unit}, "timestamp_unit must be s, ms, us or ns,")
          for unit in ("ps", "minutes", "", "S")),
        *(({"case_id": "c", "timestamp": "t", "whole_numbers": (name,)}, f"_numbers names '{name}'")
          for name in ("t", "timestamp", "resource", "x")),
    ],
)  # fmt: skip
def test_a_mapping_that_no_log_can_have_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ColumnMapping(**fields)


def test_no_value_of_a_dropped_record_is_in_either_output():
    # Dictionaries hold all names of the source until they are encoded again.
    names = ["canary-rejected", "kept", "canary-filtered"]
    stamps = ["canary-time", STAMP, STAMP]
    columns = log(
        case_id=pa.array(names).dictionary_encode(),
        activity=pa.array(names).dictionary_encode(),
        resource=pa.array(names).dictionary_encode(),
        timestamp=pa.array(stamps).dictionary_encode(),
    )
    filters = (RowFilter("resource", equals=("kept", "canary-rejected")),)
    outcome = canonicalise(columns, ColumnMapping(resource="resource", filters=filters))
    assert outcome.rejects == [(0, 0, Reject.NO_TIME)]
    assert outcome.column("resource") == ["kept"]
    assert b"kept" in outcome.bytes and b"canary" not in outcome.bytes


# --- filters --------------------------------------------------------------------------------------

WORDS = ["A_x", "A_y", "B_x", "a_x", "A", "", None, "x A_"]


def kept_by(*filters: RowFilter, **columns: Any) -> list[int]:
    """Places of the records that pass."""
    mapping = ColumnMapping(filters=filters)
    outcome = canonicalise(log(**columns), mapping)
    assert not outcome.rejects
    return outcome.column("event_index")


@pytest.mark.parametrize(
    ("row_filter", "expected"),
    [
        (RowFilter("word", equals=("A_x",)), [0]),
        (RowFilter("word", equals=("A_y", "A", "nowhere")), [1, 4]),
        (RowFilter("word", equals=()), []),
        (RowFilter("word", equals=("",)), []),  # the empty text is a missing value
        (RowFilter("word", begins_with="A_"), [0, 1]),
        (RowFilter("word", begins_with="A."), []),  # no pattern, just a prefix
        (RowFilter("word", begins_with=""), [0, 1, 2, 3, 4, 7]),
        (RowFilter("nowhere", equals=("A_x",)), []),
        (RowFilter("nowhere", begins_with=""), []),
    ],
)
def test_a_filter_keeps_what_it_says(row_filter, expected):
    assert kept_by(row_filter, word=WORDS) == expected
    assert kept_by(row_filter, word=pa.array(WORDS).dictionary_encode()) == expected


OURS, OTHERS = ("lifecycle", "resource"), ("lifecycle:transition", "org:resource")


@pytest.mark.parametrize(
    ("found", "xes_names", "expected"),
    [
        (None, True, OTHERS), (None, False, OURS), (XES, False, OURS),
        ((*XES, *OTHERS), False, OTHERS),
        ((*XES, *OTHERS, "lifecycle"), True, ("lifecycle", "org:resource")),  # each for itself
    ],
)  # fmt: skip
def test_a_filter_finds_an_unmapped_canonical_column_by_its_xes_name(found, xes_names, expected):
    filters = (RowFilter("lifecycle", equals=("x",)), RowFilter("resource", begins_with="x"))
    mapping = ColumnMapping(filters=filters)
    assert mapping.resolve(found, xes_names).wanted[3:] == expected
    # What is mapped is meant, and a name of the source is taken as it is.
    mapped = ColumnMapping(lifecycle="L", resource="R", filters=filters)
    assert mapped.resolve(found, xes_names).wanted[3:] == ("R", "L")
    exact = ColumnMapping(filters=(RowFilter("org:resource", equals=("x",)),))
    assert exact.resolve(found, xes_names).wanted[3:] == ("org:resource",)


@pytest.mark.parametrize("arguments", [{}, {"equals": ("a",), "begins_with": "a"}])
def test_a_filter_has_exactly_one_condition(arguments):
    with pytest.raises(UsageError, match="column 'word' needs either equals or"):
        RowFilter("word", **arguments)


# --- all of it at once ----------------------------------------------------------------------------

few = st.sampled_from(["x", "y", "NA", "", None])
stamps = st.sampled_from([STAMP, "2021-02-30", "", None, "2021/01/01"])


@settings(deadline=None)
@given(st.lists(st.tuples(few, few, stamps, few), max_size=12), st.integers(0, 5))
def test_random_records_go_where_a_loop_would_put_them(rows, rank):
    events, rejects = [], []
    for record, (case, activity, stamp, word) in enumerate(rows):
        if word not in ("x", "NA"):
            continue
        if not case:
            rejects.append((rank, 2 * record, Reject.NO_CASE))
        elif not activity:
            rejects.append((rank, 2 * record, Reject.NO_ACTIVITY))
        elif stamp not in (STAMP, "2021/01/01"):
            rejects.append((rank, 2 * record, Reject.NO_TIME))
        else:
            events.append((case, activity, STAMP_US, rank * 2**40 + 2 * record))
    columns = {
        name: pa.array([row[k] for row in rows], pa.string())
        for k, name in enumerate((*CANONICAL, "word"))
    }
    outcome = canonicalise(
        columns,
        ColumnMapping(filters=(RowFilter("word", equals=("x", "NA")),)),
        records=range(0, 2 * len(rows), 2),
        rank=rank,
    )
    assert [tuple(row.values()) for row in outcome.events.to_pylist()] == events
    assert outcome.rejects == rejects


# --- a vocabulary that has all names --------------------------------------------------------------


def test_a_record_outside_the_list_is_a_reject_and_the_others_are_read() -> None:
    columns = {
        "case_id": ["1", "1", "2", None],
        "activity": ["A", "B", "C", "C"],
        "timestamp": ["2026-01-01T00:00:00Z"] * 4,
    }
    events, rejects = canonical(columns, ColumnMapping(activities=("A", "C")))
    assert events.column("activity").to_pylist() == ["A", "C"]
    assert rejects.column("record").to_pylist() == [1, 3]
    assert rejects.column("reason").to_pylist() == [Reject.OTHER_ACTIVITY, "no case id"]


@given(event_logs(), st.sets(st.sampled_from("ABC"), min_size=1))
def test_a_closed_bound_keeps_the_events_on_the_list_and_their_order(log, names) -> None:
    bounds = ContributionBounds(tuple(sorted(names)), closed=True)
    [traces] = group_into_traces([event_batch(log)]) or [trace_batch({})]
    bounded = bounds.bound(traces, randomness().unit_stream)
    expected = {
        case: kept
        for case, steps in cases_of(log).items()
        if (kept := [step for step in steps if step[0] in names])
    }
    assert read_cases(bounded) == expected
    assert OTHER not in bounded.vocabulary.names.to_pylist()


# --- the text of a scalar, each decided alone -----------------------------------------------------


SCALARS = st.none() | st.text() | st.booleans() | st.integers() | st.floats()


@given(st.lists(SCALARS, max_size=12), st.integers(0, 12), SCALARS)
def test_no_value_changes_the_text_of_another(values: list[Any], place: int, intruder: Any) -> None:
    def each(given: list[Any]) -> list[tuple[str | None, bool]]:
        text, marks = texts_of_scalars(given)
        assert text.type == pa.string()
        return list(zip(text.to_pylist(), marks.tolist(), strict=True))

    alone = [each([value])[0] for value in values]
    assert each(values) == alone
    assert each([*values[:place], intruder, *values[place:]]) == [
        *alone[:place], *each([intruder]), *alone[place:]
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[1], {}, b"x", 1j])
def test_what_is_no_scalar_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        texts_of_scalars(["x", value])
    with pytest.raises(TypeError):
        text_of(value)


def test_a_float_names_somebody_as_far_as_its_width_tells_whole_numbers_apart() -> None:
    for kind, largest in ((pa.float64(), 2**53), (pa.float32(), 2**24), (pa.float16(), 2**11)):
        numbers = np.array([largest - 1, largest, -largest, largest + 2], kind.to_pandas_dtype())
        column = pa.array(numbers, kind)
        assert fractions(column).tolist() == [False, False, False, True], kind
        assert texts(column).to_pylist() == [str(int(number)) for number in numbers], kind
