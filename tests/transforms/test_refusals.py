"""What readers, stores and tables of plug-ins refuse that no test of their own file provokes."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from tests.support.tiers import each_row
from tracecloak.schemas.errors import (
    InputSchemaError,
    NoSuchFile,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats import avro, pieces, registry
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.formats.registry_messages import AvroSchemas
from tracecloak.transforms.inputs import databases
from tracecloak.transforms.inputs.databases import (
    check_database,
    connected,
    query_text,
    write_result,
)
from tracecloak.transforms.inputs.listing import expression
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.inputs.stores import AzureStore, S3Store, _ObjectReader
from tracecloak.transforms.keys.signing import new_pair
from tracecloak.transforms.lakes import tables
from tracecloak.transforms.lakes.tables import appended
from tracecloak.transforms.models.dfg_svg import write_svg
from tracecloak.transforms.publish import products
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.services import kafka_topic
from tracecloak.transforms.services.kafka_topic import KafkaTopic, read_properties
from tracecloak.transforms.sources import SourceFormat, named

UNKNOWN_TYPE = {"type": "record", "name": "a", "fields": [{"name": "x", "type": "b"}]}


def judged(schema: Any) -> None:
    schemas = AvroSchemas()
    schemas.rewritten(json.dumps(schema))
    schemas.judge()


def chain(n: int) -> list[Any]:
    """Named records, each of which has the next one for its field."""
    kinds = [*(f"r{i}" for i in range(1, n)), "string"]
    return [
        {"type": "record", "name": f"r{i}", "fields": [{"name": "x", "type": kind}]}
        for i, kind in enumerate(kinds)
    ]


def read_twice(stream: Any) -> list[bytes]:
    return [stream.read(9), stream.read(9)]


def block(n_records: int, n_bytes: int) -> avro._File:
    stream = io.BytesIO()
    for number in (n_records, n_bytes):
        fastavro.schemaless_writer(stream, "long", number)
    return avro._File(io.BytesIO(stream.getvalue()))


class Shorter(io.BytesIO):
    """A file that is as long as it was listed until it is read."""

    def read(self, size: int | None = -1) -> bytes:
        return b""


def failing(error: Exception) -> Callable[[], bool]:
    def fail() -> bool:
        raise error

    return fail


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a block of Avro with fewer than no records": (
        lambda: next(block(-1, avro.BLOCK_BYTES + 1).blocks(True)), ValueError,
        "a record takes a byte at least"),
    "a block of Avro with more records than bytes": (
        lambda: next(block(avro.BLOCK_BYTES + 2, avro.BLOCK_BYTES + 1).blocks(True)), ValueError,
        "a record takes a byte at least"),
    "a length of Avro without an end": (
        lambda: next(avro._File(io.BytesIO(b"\x80" * 20)).blocks(True)), ValueError,
        "a number is cut off or too long"),
    "a type of Avro that is not there": (lambda: judged(UNKNOWN_TYPE), ValueError,
        "a type is not there"),
    "a chain of 5,000 types of Avro": (lambda: judged(chain(5_000)), ValueError, "too large"),
    "a message with its time in two fields": (
        lambda: MessageFormat(mapping=ColumnMapping(timestamp=("day", "time"))), UsageError,
        "takes each time from one field"),
    "a file that became shorter": (
        lambda: read_twice(pieces._Window(io.BytesIO(b"a\nb"), pieces.Piece(2, 9, 1, 7, 2))),
        RetryLater, "was changed after it was listed"),
    "a format that nothing writes": (
        lambda: registry.Format(("x"), "module:reader").open_writer(io.BytesIO(), None),
        ValueError, "nothing writes files"),
    "a product of no kind": (lambda: products.kind_of({}), TypeError, "builtins:dict is no prod"),
    "a database that is none": (lambda: check_database("visits.db"), UsageError,
        "database is not a URI"),
    "a database of another kind": (lambda: check_database("zeal://host/x"), UsageError,
        "must begin with one of"),
    "a database that is not there": (lambda: connected("sqlite:///none.db"), NoSuchFile,
        "a file that is not there"),
    "a query in a file that is not there": (lambda: query_text("@none.sql"), UsageError,
        "cannot be read .FileNotFoundError"),
    "a query of nothing": (lambda: query_text(" \n"), UsageError, "query is empty"),
    "a pattern that no store understands": (lambda: expression("x://[z-a]", "x://[z-a]"),
        UsageError, "cannot be listed"),
    "a pattern of any length": (lambda: match_files(["x" * 100_000]), UsageError,
        "is too long"),
    "a place before an object": (lambda: _ObjectReader("x://y", "1", 5).seek(-1), ValueError,
        "before the first byte"),
    "a topic without a name": (lambda: KafkaTopic.parse("kafka://broker:9092/"), UsageError,
        "a topic of Kafka is"),
    "properties that are not there": (lambda: read_properties("kafka_properties", "none.txt"),
        UsageError, "cannot be read"),
    "a picture without edges": (lambda: write_svg(None, "", "", max_edges=0), ValueError,
        "at least 1"),
    "a file that becomes shorter while it is divided": (
        lambda: CsvReader().divider().look(Shorter(b"a\nb\nc\n"), (0, 6)), RetryLater,
        "was changed after it was listed"),
    "a table that others write to all the time": (
        lambda: appended("delta:t", failing(KeyError()), (KeyError,), ()), RetryLater,
        "others write to the table delta:t all the time"),
    "a table that says itself why": (
        lambda: appended("delta:t", failing(UsageError("as it said")), (), ()), UsageError,
        "^as it said$"),
    "a key that cannot be written": (
        lambda: new_pair(Path("sign.pem"), Path("none/sign.pub")), UsageError,
        "none/sign.pub cannot be written: No such file"),
    "a staging area on another file system": (
        lambda: ReleaseFolder("gs://bucket/out", "a", "area").prepare(), UsageError,
        "is on another file system than the output"),
    "a table that cannot be written": (lambda: tables.address_of("delta:/t@3").append, UsageError,
        "without a version"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a guard that is gone: what it keeps out would fail late, or not at all."""
    monkeypatch.chdir(tmp_path)
    call, kind, said = REFUSED[name]
    with pytest.raises(kind, match=said):
        call()


@pytest.mark.parametrize(
    ("query", "broken", "kind"),
    [
        ("SELECT secret-of-somebody", None, InputSchemaError),
        ("SELECT 1 AS a", OSError(28, "No space left on device"), OSError),
        ("SELECT 1 AS a", OSError("secret-of-somebody"), InputSchemaError),
    ],
)
def test_a_result_that_cannot_be_written_is_not_there_and_quotes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    broken: OSError | None,
    kind: type[Exception],
) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    if broken is not None:

        def fail(*_: object) -> None:
            raise broken

        monkeypatch.setattr(databases.os, "fsync", fail)
    (tmp_path / "x.db").write_bytes(b"")
    with pytest.raises(kind) as raised:
        write_result(f"sqlite:////{tmp_path}/x.db", query, tmp_path / "out" / "result")
    assert "secret-of-somebody" not in str(raised.value)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("status", [403, 404])
def test_an_object_that_may_not_be_looked_at_is_not_one_that_is_not_there(status: int) -> None:
    """Catches a file that is left out of a log, as this machine may not read it."""

    class Refused(Exception):  # noqa: N818 - as libraries of stores raise
        status_code = status

    def refuse(*_: object, **__: object) -> None:
        raise Refused

    s3, azure = S3Store.__new__(S3Store), AzureStore.__new__(AzureStore)
    s3._client = SimpleNamespace(head_object=refuse)
    azure._client = SimpleNamespace(get_blob_client=refuse)
    azure._parts = lambda path: ("account", "container", "key")  # type: ignore[method-assign]
    for store, path in ((s3, "s3://bucket/key"), (azure, "azfs://account/container/key")):
        with nullcontext() if status == 404 else pytest.raises(Refused):
            assert store.looked_up(path) is None


@each_row(
    ("raised", "kind", "said"),
    [
        (RetryLater("s3://b/x.csv changed"), RetryLater, "^s3://b/x.csv changed$"),
        (RetryLater("it changed"), RetryLater, "^s3://b/x.csv: it changed$"),
        (FileNotFoundError("secret"), NoSuchFile, "was deleted after it was listed"),
        (PermissionError("secret"), InputSchemaError, "this user may not read it"),
    ],
)
def test_an_error_about_a_file_has_its_name_once(
    raised: Exception, kind: type[Exception], said: str
) -> None:
    file = SourceFile(0, "s3://b/x.csv", 5)
    with pytest.raises(kind, match=said) as told, named(file, SourceFormat("csv")):
        raise raised
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("raised", [RetryLater("no answer"), KeyError("secret")])
def test_a_token_that_does_not_come_quotes_nothing(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(kafka_topic, "TOKENS", SimpleNamespace(named=lambda name: fail))
    with pytest.raises(TracecloakError, match="kafka_token msk") as told:
        kafka_topic.token_of("msk", "broker:9092", "")
    assert type(told.value) is (RetryLater if isinstance(raised, RetryLater) else UsageError)
    assert "secret" not in str(told.value) and os.linesep not in str(told.value)
