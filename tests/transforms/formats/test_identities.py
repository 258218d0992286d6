"""An identity is a value, in every format and across batches and files.

Whatever record is put in, anywhere, the canonical events of all others stay the same: no value has
a say in how another one is read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.record_files import COLUMNS, STAMP, WRITERS, Record, parquet, record
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.transforms import sources
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource

Event = tuple[str | None, ...]

MAPPING = ColumnMapping(
    case_id="case", activity="activity", timestamp="stamp", individual_id="who",
    attributes=(("kind", "kind"),),
)  # fmt: skip
XES_MAPPING = ColumnMapping(
    case_id="case:concept:name", activity="concept:name", timestamp="time:timestamp",
    individual_id="case:who", attributes=(("kind", "kind"),),
)  # fmt: skip


def source_of(folder: Path, files: dict[str, bytes], **mapping: Any) -> EventSource:
    ranked = []
    for rank, (name, data) in enumerate(files.items()):
        (folder / name).write_bytes(data)
        ranked.append(SourceFile(rank, str(folder / name), len(data)))
    names = {path.rpartition(".")[2] for path in files}
    base = XES_MAPPING if names == {"xes"} else MAPPING
    made = ColumnMapping(**{**base.__dict__, **mapping})
    return EventSource(tuple(ranked), SourceFormat(goes_on=True), made)


def events_of(source: EventSource) -> dict[tuple[int, int], Event]:
    """The canonical events by file and record; of a reject its reason alone."""
    found: dict[tuple[int, int], Event] = {}
    for file in source.files:
        for events, rejects in source.read(file, FileTally(file.rank)):
            for row in events.to_pylist():
                place = divmod(row.pop("event_index"), 1 << 40)
                found[place] = tuple(row.values())
            for row in rejects.to_pylist():
                found[row["file"], row["record"]] = (row["reason"],)
    return found


def in_order(source: EventSource) -> list[Event]:
    return [event for _, event in sorted(events_of(source).items())]


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)
VALUES = (
    st.sampled_from([5, 5.0, "5", "5.0", "005", 0.5, 202600001000, 1.5e300, -0.0, True, None, ""])
    | TEXT
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
RECORDS = st.builds(record, VALUES, VALUES, VALUES, VALUES)


@pytest.mark.parametrize("kind", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    records=st.lists(RECORDS, max_size=7),
    intruder=RECORDS,
    place=st.integers(0, 7),
    batch_rows=st.integers(1, 8),
)
def test_no_record_changes_the_event_of_another(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    records: list[Record],
    intruder: Record,
    place: int,
    batch_rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("identities")
    write = WRITERS[kind]
    place = min(place, len(records))

    def read(given: Sequence[Record]) -> list[Event]:
        return in_order(source_of(folder, {f"log.{kind}": write(given)}))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BATCH_ROWS", batch_rows)
        alone = [event for each in records for event in read([each])]
        assert read(records) == alone
        with_it = read([*records[:place], intruder, *records[place:]])
        assert with_it[:place] == alone[:place] and with_it[place + 1 :] == alone[place:]
        # In a file of its own, too.
        files = {f"a.{kind}": write([intruder]), f"b.{kind}": write(records)}
        found = events_of(source_of(folder, files))
        assert [event for (file, _), event in sorted(found.items()) if file == 1] == alone


FLOATS = pa.float64()
TYPED = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": FLOATS,
    "decimal": pa.decimal128(20, 2),
    "dictionary": pa.dictionary(pa.int8(), pa.int64()),
    "dictionary of floats": pa.dictionary(pa.int8(), FLOATS),
}


def test_the_same_values_are_the_same_identities_in_every_type(tmp_path: Path) -> None:
    numbers = [7, 0, -3, 2026000]
    expected = [(str(n), str(n), 1767607200000000, str(n), str(n)) for n in numbers]
    found: dict[str, list[Event]] = {}
    for name, kind in TYPED.items():
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        values = [Decimal(n) if pa.types.is_decimal(plain) else plain.to_pandas_dtype()(n)
                  for n in numbers]  # fmt: skip
        column = pa.array(values, plain)
        column = column.dictionary_encode().cast(kind) if plain != kind else column
        made = io.BytesIO()
        stamps = pa.array([STAMP] * len(numbers))
        pq.write_table(pa.table([column, column, stamps, column, column], COLUMNS), made)
        found[f"Parquet, {name}"] = in_order(source_of(tmp_path, {"log.parquet": made.getvalue()}))
    for kind, write in WRITERS.items():
        for cast in (int, float, str) if kind != "csv" else (int, str):
            records = [record(cast(n), cast(n), cast(n), cast(n)) for n in numbers]
            if cast is str:
                records = [record(*[str(n)] * 4) for n in numbers]
            name = f"{kind}, {cast.__name__}"
            found[name] = in_order(source_of(tmp_path, {f"log.{kind}": write(records)}))
    for name, events in found.items():
        assert sorted(e[0] or "" for e in events) == sorted(e[0] for e in expected), name
        assert {tuple(map(str, e)) for e in events} == {tuple(map(str, e)) for e in expected}, name


@pytest.mark.parametrize("kind", ["jsonl", "avro", "xes", "parquet"])
def test_a_number_that_names_nobody_is_a_reject_with_its_place(tmp_path: Path, kind: str) -> None:
    names = [
        (1.0, 2.0), (0.5, 2.0), (2.0**53, 2.0), (2.0**53 + 2, 2.0), (1.0, 0.5), (-0.0, -0.0),
    ]  # fmt: skip
    records = [record(case, who=who) for case, who in names]
    typed = [FLOATS, pa.string(), pa.string(), FLOATS, pa.string()]
    data = parquet(records, kinds=typed) if kind == "parquet" else WRITERS[kind](records)
    assert [event[0] for event in in_order(source_of(tmp_path, {f"log.{kind}": data}))] == [
        "1", Reject.FRACTION_CASE, "9007199254740992", Reject.FRACTION_CASE,
        Reject.FRACTION_INDIVIDUAL, "0",
    ]  # fmt: skip


def test_a_column_that_is_not_read_as_text_cannot_be_declared() -> None:
    for name in ("stamp", "timestamp", "resource", "x"):
        with pytest.raises(UsageError, match=f"whole_numbers names '{name}'"):
            ColumnMapping(case_id="case", timestamp="stamp", whole_numbers=(name,))


def test_messages_have_the_same_identities() -> None:
    given = [5, 5.0, "5", {"long": 5}, {"double": 5.0}, {"string": "5"}, "5.0", 0.5, 2.0**60, -0.0]
    names = ("case_id", "activity", "who")
    bodies = [dict.fromkeys(names, value) | {"timestamp": STAMP} for value in given]
    bodies.append({"case_id": "c", "activity": 0.5, "who": 1.5, "timestamp": STAMP})
    sent = [SimpleNamespace(data=json.dumps(b).encode(), attributes={}) for b in bodies]
    layout = MessageFormat(ColumnMapping(individual_id="who"))
    events, rejects = layout.decode(sent, range(len(sent)))
    assert [row["case_id"] for row in events.to_pylist()] == [*["5"] * 6, "5.0", "0"]
    told = [(row["publish_time"], row["reason"]) for row in rejects.to_pylist()]
    assert told == [
        (7, Reject.FRACTION_CASE), (8, Reject.FRACTION_CASE), (10, Reject.FRACTION_INDIVIDUAL),
    ]  # fmt: skip
    declared = MessageFormat(ColumnMapping(individual_id="who", whole_numbers=("case_id", "who")))
    rows = declared.decode(sent, range(len(sent)))[0].to_pylist()
    assert [(row["case_id"], row["activity"], row["individual_id"]) for row in rows[-2:]] == [
        ("5", "5.0", "5"), ("0", "0", "0"),
    ]  # fmt: skip
