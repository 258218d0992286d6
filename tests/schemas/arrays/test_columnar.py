"""The wire form of columnar values: round trips, slices, and what is refused."""

from __future__ import annotations

import decimal
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import plain, trace_batch
from tracecloak.schemas import plugins
from tracecloak.schemas.arrays import columnar
from tracecloak.schemas.arrays.columnar import _KEY, decode, digest, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee, Yield
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import StartRange
from tracecloak.schemas.statistics.variants import Dafsa, DirectlyFollows, Trie, VariantHistogram
from tracecloak.transforms.columnar_names import COLUMNAR

TRACES = trace_batch({"c1": "A B C A", "c2": "B", "c3": "A B C A"})
EMPTY = trace_batch({})


def values_of(traces: TraceBatch) -> dict[str, Any]:
    """One value of each columnar class."""
    variants = VariantHistogram.from_traces(traces)
    identities = np.arange(2 * traces.n_cases, dtype=np.uint64).reshape(-1, 2)
    return {
        "traces": traces,
        "vocabulary": traces.vocabulary,
        "variants": variants,
        "pairs": DirectlyFollows.from_traces(traces),
        "durations": DurationTable.from_events(traces.activities, traces.durations),
        "index": DurationTable.from_events(traces.activities, traces.durations).index(3),
        "trie": Trie.from_variants(variants),
        "automaton": Dafsa.from_variants(variants),
        "ranks": CaseRanks.of(np.arange(traces.n_cases), case_bytes(identities)),
        "starts": StartRange.of(traces.starts),
    }


def there_and_back(value: Any) -> Any:
    """A value after a trip in a dict; its classes survive."""
    return decode(encode(Statistics({"it": value}))).by_name["it"]


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.by_day(12)
@pytest.mark.parametrize("traces", [TRACES, EMPTY, TRACES.take(np.array([2]))])
@pytest.mark.parametrize("name", values_of(TRACES))
def test_every_class_comes_back_as_it_was(name, traces):
    value = values_of(traces)[name]
    found = decode(encode(value))
    assert type(found) is type(value) and plain(found) == plain(value)
    assert plain(there_and_back(value)) == plain(value)


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**62, 2**80, 0.5, float("inf"), -0.0, "", "ä\0\n", {}, {"": None}],
)
def test_scalars_keep_value_and_type(value):
    found = there_and_back(value)
    assert found == value and type(found) is type(value)
    assert str(found) == str(value)  # minus zero is another zero


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "", "ä"]), pa.array(["a", None], pa.large_string()),
        pa.array([b"\xff", b"", None]), pa.array([b"\xff\0", b""], pa.large_binary()),
        pa.array([b"0" * 16, None], pa.binary(16)), pa.array([True, None, False]),
        pa.array([1, None, 2**62]), pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([], pa.string()),
        pa.array([], pa.binary(16)), pa.nulls(3), pa.array([[1], [], None]),
    ],
    ids=lambda array: str(array.type),
)  # fmt: skip
def test_arrow_arrays_come_back_equal(array):
    for part in (array, array.slice(1), array.slice(0, 1), array.slice(0, 0)):
        found = there_and_back(part)
        found.validate(full=True)
        assert found.type == array.type and found.equals(part)


def test_a_decoded_value_gives_its_message_back_and_what_is_made_of_it_does_not():
    message = encode(TRACES)
    found = decode(message)
    assert encode(found) == message
    part = found.take(np.array([1]))
    assert plain(decode(encode(part))) == plain(TRACES.take(np.array([1])))
    wide = ActivityVocabulary.of("ABCD")
    assert plain(decode(encode(found.recode(wide)))) == plain(TRACES.recode(wide))


# --- slices ---------------------------------------------------------------------------------------


def test_a_few_of_many_cases_make_a_small_message_without_the_others():
    n = 200_000
    many = TraceBatch(
        pa.array([f"canary{i}" for i in range(n)]),
        np.arange(n + 1),
        np.zeros(n, np.int32),
        np.arange(n),
        ActivityVocabulary.of("A"),
    )
    message = encode(many.take(np.array([5, 7])))
    assert len(message) < 4096 and message.count(b"canary") == 2


# --- what is refused ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foreign:
    """A dataclass of no package of the project."""

    values: np.ndarray


def test_values_of_other_types_are_refused_when_encoding() -> None:
    values = {
        "test_columnar:Foreign is not a columnar value, as it has no": Foreign(np.arange(2)),
        "field .*by_name.*it.* has type tuple, which has no columnar form": ("canary",),
        "has type list": [1],
        "has type set": {1, 2}, "has type bytes": b"bytes", "has type int64": np.int64(1),
        "has type dict": {1: "one"}, "has type type": StartRange,
        "has type builtin_function_or_method": len, "has type Chunked": pa.chunked_array([[1]]),
        "as it has no": Guarantee("published", "case", "add_remove", None, None, "", ""),
    }  # fmt: skip
    for message, value in values.items():
        for given_ in ({"it": value}, {"it": {"deep": value}}):
            with pytest.raises(TypeError, match=message) as caught:
                encode(Statistics(given_))
            assert "canary" not in str(caught.value)


def tampered(value: Any, **changes: Any) -> bytes:
    """The message of a value with other entries in the layout of its top."""
    with pa.ipc.open_stream(encode(value)) as reader:
        layout = json.loads(reader.schema.metadata[_KEY]) | changes
        batch = reader.read_next_batch()
    batch = batch.replace_schema_metadata({_KEY: json.dumps(layout).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


_OURS = "tracecloak.schemas."  # places of ours: a class is found by its name alone


@pytest.mark.parametrize(
    "name",
    [
        *("os:system", "builtins:eval", "subprocess:run", "schemasx.evil:run", "schemas:columnar"),
        "tabnanny:check",  # a module that is certainly not imported yet
        *("tracecloak.transforms.batch.read:EventSource", f"{_OURS}arrays.columnar:decode"),
        *(f"{_OURS}statistics.log_times:StartRange", f"{_OURS}arrays.columnar:json"),
    ],
)
def test_foreign_classes_are_refused_when_decoding(name):
    module = name.partition(":")[0]
    already = module in sys.modules
    for parts in ({}, {"command": {"scalar": "true"}}):
        message = tampered(StartRange(1, 2), **{"class": name, "fields": parts})
        with pytest.raises(TypeError, match=f"^{name} is not the name of a columnar"):
            decode(message)
    assert (module in sys.modules) == already


def test_what_an_earlier_version_kept_may_lack_a_field_that_has_a_default_and_no_other():
    some = {"n_cases": {"scalar": 7}}
    assert decode(tampered(Yield(1), fields=some)) == Yield(7)
    for value, fields_ in (
        (StartRange(1, 2), {"first_us": {"scalar": 1}}),
        (Yield(1), {**some, "n_things": {"scalar": 1}}),
    ):
        with pytest.raises(UsageError, match="was kept by another version"):
            decode(tampered(value, fields=fields_))


# --- names ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """A class with a name that another one has."""

    wire_name: ClassVar[str] = "start-range"

    values: np.ndarray


@dataclass(frozen=True)
class Inherits(StartRange):
    """A class without a name of its own: its values would be taken for those of its base."""


@pytest.mark.parametrize("form", [encode, digest])
def test_a_name_is_of_one_class(form: Callable[[Any], Any]) -> None:
    """Catches two classes whose values are one another's: on the wire, and in the noise."""
    form(StartRange(1, 2))
    places = "tracecloak.schemas.statistics.log_times:StartRange and .*test_columnar:Taken"
    with pytest.raises(TypeError, match=f"'start-range' names {places};"):
        form(Taken(np.arange(2)))
    with pytest.raises(TypeError, match="Inherits is not a columnar value, as it"):
        form(Inherits(1, 2))
    unlisted = make_dataclass("Unlisted", ["x"], namespace={"wire_name": "unlisted"})
    with pytest.raises(TypeError, match="'unlisted' is in no table"):
        form(unlisted(1))


def test_a_name_that_another_distribution_claims_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches one that silently has the name of a class of ours."""
    point = EntryPoint("start-range", "acme.logs:Range", COLUMNAR.group)
    monkeypatch.setattr(plugins, "_entry_points", lambda: (point,))
    monkeypatch.setattr(columnar, "_MET", {})
    places = "acme.logs:Range, tracecloak.schemas.statistics.log_times:StartRange"
    with pytest.raises(TypeError, match=f"'start-range' is offered by {places}"):
        encode(StartRange(1, 2))


# --- digests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(values_of(TRACES)))
def test_a_digest_is_of_the_values_and_not_of_how_they_lie_in_memory(name: str) -> None:
    """Catches a slice's neighbours, an address, and a padding in what later noise depends on."""
    value = values_of(TRACES)[name]
    again = values_of(trace_batch({"c1": "A B C A", "c2": "B", "c3": "A B C A"}))[name]
    other = values_of(trace_batch({"c1": "A B C A", "c2": "C", "c3": "A D C A", "d": "B"}))[name]
    assert digest(value) == digest(again) == digest(there_and_back(value))
    assert (digest(value) != digest(other)) == (name != "starts")  # all of them start at 0


@given(
    texts=st.lists(st.none() | st.text(max_size=3), max_size=9),
    first=st.integers(0, 9),
    kind=st.sampled_from([pa.string(), pa.large_string(), pa.binary()]),
)
def test_slices_have_the_digest_of_their_own_rows(
    texts: list[str | None], first: int, kind: pa.DataType
) -> None:
    raw = [t.encode() if t is not None and pa.types.is_binary(kind) else t for t in texts]
    whole = pa.array(raw, kind)

    def of(array: pa.Array) -> str:
        return digest({"a": array})

    assert of(whole.slice(first)) == of(pa.array(raw[first:], kind))
    assert of(whole) != of(pa.array([*raw, raw[0] if raw else None], kind))
    assert of(pa.array(["ab", "c"])) != of(pa.array(["a", "bc"]))
    assert of(pa.array([None, 1])) != of(pa.array([1, None]))
    with pytest.raises(TypeError, match="has no digest"):
        of(pa.array([decimal.Decimal("1.5")]))
