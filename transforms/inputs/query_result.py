"""The result of a query as a file, which is the input of a release from then on."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.files import make_private_folder
from tracecloak.transforms.inputs.databases import connected, text_or_null

# Of a column whose values have types of their own: each is read as what it is.
_OF_ANY_TYPE = ["null", "long", "double", "string"]


def query_text(query: str) -> str:
    """Returns the SQL of a configuration: itself, or what the file holds that `@` names.

    Raises:
        UsageError: The file cannot be read, or there is no query.
    """
    text = query
    if query.startswith("@"):
        try:
            text = Path(query[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise UsageError(
                f"query {query!r} names a file that cannot be read ({type(error).__name__}); "
                "correct its path, or write the query itself"
            ) from None
    if not text.strip():
        raise UsageError("query is empty; write a SELECT, or @ and the name of a file that has it")
    return text


def write_result(database: str, query: str, place: Path) -> Path:
    """Asks a database, and writes what it answers into a file, whole or not at all.

    It is a file of Parquet, or of Avro where values have types and columns have none: there each is
    read by itself, and decides nothing for another.

    The answer is written as it comes, so that memory holds a batch of it. The folder of the file is
    made for its owner only, and the file is his alone from the first byte on.

    Args:
        database: As `check_database` takes it.
        query: SQL.
        place: Of the file, without the ending of its format.

    Returns:
        Where the file is.

    Raises:
        UsageError: The database is none, or its driver is not installed.
        InputSchemaError: It does not answer, or refuses the query; its own words, which can have
            values of the data, are not shown.
    """
    make_private_folder(place.parent)
    fresh = place.with_suffix(".part")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            ending = _stream(database, query, stream)
            stream.flush()
            os.fsync(stream.fileno())
        path = place.with_suffix(ending)
        os.replace(fresh, path)
        return path
    except (*_errors(), pa.ArrowException) as error:
        raise _refused(error) from None
    except OSError as error:
        if error.errno is not None:
            raise  # such as that the disk is full
        raise _refused(error) from None
    finally:
        fresh.unlink(missing_ok=True)


def _errors() -> tuple[type[Exception], ...]:
    """Returns the classes of the errors of databases."""
    try:
        from adbc_driver_manager import Error
    except ImportError:
        return sqlite3.Error, sqlite3.Warning
    return Error, sqlite3.Error, sqlite3.Warning


def _stream(database: str, query: str, stream: Any) -> str:
    """Writes the answer, and returns the ending of its format."""
    with closing(connected(database)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        if isinstance(cursor, sqlite3.Cursor):
            _write_values(cursor, stream)
            return ".avro"
        reader = cursor.fetch_record_batch()
        with pq.ParquetWriter(stream, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return ".parquet"


def _write_values(cursor: sqlite3.Cursor, stream: Any) -> None:
    """Writes rows of values each of which has a type of its own; bytes are read as text."""
    import fastavro

    names = [column[0] for column in cursor.description or ()]
    fields = [{"name": name, "type": _OF_ANY_TYPE} for name in names]
    rows = (
        {
            name: text_or_null(value) if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
        }
        for row in cursor
    )
    fastavro.writer(stream, {"type": "record", "name": "Row", "fields": fields}, rows)


def _refused(error: Exception) -> InputSchemaError:
    """Returns the error of a query that failed, without its text, which can quote values."""
    facts = [type(error).__name__]
    status, state = getattr(error, "status_code", None), getattr(error, "sqlstate", None)
    facts += [str(getattr(status, "name", status))] if status is not None else []
    facts += [f"SQLSTATE {state}"] if state else []
    return InputSchemaError(
        f"the database did not answer the query ({', '.join(facts)}); its message can quote data "
        "and is not shown: try the query in the database's own client. A column of a type that "
        "Parquet does not have needs a CAST"
    )
