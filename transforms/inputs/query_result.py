"""The result of a query as a file of Parquet, which is the input of a release from then on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError, UsageError, missing_extra
from tracecloak.transforms.files import make_private_folder
from tracecloak.transforms.inputs.databases import connected


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


def write_result(database: str, query: str, path: Path) -> None:
    """Asks a database, and writes what it answers into a file, whole or not at all.

    The answer is written as it comes, so that memory holds a batch of it. The folder of the file is
    made for its owner only, and the file is his alone from the first byte on.

    Args:
        database: As `check_database` takes it.
        query: SQL.
        path: Of the file, which is replaced.

    Raises:
        UsageError: The database is none, or its driver is not installed.
        InputSchemaError: It does not answer, or refuses the query; its own words, which can have
            values of the data, are not shown.
    """
    try:
        from adbc_driver_manager import Error
    except ImportError:
        raise missing_extra("a query", "adbc-driver-manager", "sql") from None
    make_private_folder(path.parent)
    fresh = path.with_suffix(".part")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _stream(database, query, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
    except (Error, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, Error):
            raise  # such as that the disk is full
        raise _refused(error) from None
    finally:
        fresh.unlink(missing_ok=True)


def _stream(database: str, query: str, stream: Any) -> None:
    with connected(database) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        reader = cursor.fetch_record_batch()
        with pq.ParquetWriter(stream, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)


def _refused(error: Exception) -> InputSchemaError:
    """Returns the error of a query that failed, without its text, which can quote values."""
    facts = [type(error).__name__]
    status, state = getattr(error, "status_code", None), getattr(error, "sqlstate", None)
    facts += [str(getattr(status, "name", status))] if status is not None else []
    facts += [f"SQLSTATE {state}"] if state else []
    return InputSchemaError(
        f"the database did not answer the query ({', '.join(facts)}); its message can quote data "
        "and is not shown: try the query in the database's own client. A column whose values are "
        "of several types, or of a type that Parquet does not have, needs a CAST"
    )
