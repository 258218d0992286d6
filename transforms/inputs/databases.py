"""Results of queries as inputs: databases, what a query promises, and its rows."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError, NoSuchFile, UsageError, import_extra
from tracecloak.schemas.plugins import Plugins
from tracecloak.schemas.published.manifest import Guarantee, Unit
from tracecloak.schemas.texts import SECRET_REFUSED, has_secret, text_or_null
from tracecloak.transforms.files import make_private_folder
from tracecloak.transforms.keys.sources import KEY_SOURCES, first_word, text_at

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection


# --- The table of databases that can be asked for a log, and the promise for a query's result. ----


# --- The table of databases that can be asked for a log, each by a driver of its own. -------------


Connect = Callable[[str], "Connection | sqlite3.Connection"]
"""Takes the URI of a database, and returns a connection to it by DBAPI 2.0.

Its cursors have `fetch_record_batch`, as those of ADBC do; or values of the types of SQLite, which
has types of values and not of columns.
"""

DATABASES: Plugins[Connect] = Plugins(
    "database",
    "tracecloak.databases",
    {
        "postgresql": "tracecloak.transforms.inputs.databases:postgresql",
        "sqlite": "tracecloak.transforms.inputs.databases:sqlite",
        "duckdb": "tracecloak.transforms.inputs.databases:duckdb",
        "snowflake": "tracecloak.transforms.inputs.databases:snowflake",
    },
)

# Parameters of an address, beside its user, host and database, that are no secret.
_HARMLESS = {
    "application_name", "authenticator", "channel_binding", "connect_timeout", "database", "dbname",
    "host", "hostaddr", "passfile", "port", "role", "schema", "service", "sslcert", "sslkey",
    "sslmode", "sslrootcert", "target_session_attrs", "user", "warehouse",
}  # fmt: skip


def check_database(database: str) -> None:
    """Makes sure that a text is the URI of a database or leads to one; looks for nothing.

    Raises:
        UsageError: It is neither, or could have a secret in it; it is not shown then.
    """
    source, _, rest = database.partition(":")
    if "://" not in database:
        if source in KEY_SOURCES and rest.strip():
            return
        raise UsageError(
            "database is not a URI (and is not shown, as it may hold a password); write it as "
            "sqlite:///visits.db, or where the URI is: env:NAME, file:PATH or command:WORDS"
        )
    if not _is_uri(database):
        raise UsageError(
            f"database must begin with one of {', '.join(f'{one}://' for one in DATABASES)} and "
            "be a URI, or lead to one as env:NAME, file:PATH or command:WORDS"
        )
    names = {name.lower() for name in re.findall("[?&;#]([^=?&;#]*)", unquote(database))}
    if has_secret(database) or not names <= _HARMLESS:
        raise UsageError(f"database {SECRET_REFUSED}")


def _is_uri(text: str) -> bool:
    try:
        urlsplit(text)  # refuses such as a bracket that does not end
    except ValueError:
        return False
    return text.partition("://")[0] in DATABASES


def public_address(database: str) -> str:
    """Returns how programs of others may name a database: without users, options and secrets.

    That is the path of a file of SQLite or DuckDB, a URI of others as OpenLineage writes it, and of
    a reference what it leads to, as far as that can hold no password.

    Args:
        database: As `check_database` takes it.
    """
    scheme, is_uri, _ = database.partition("://")
    if not is_uri:
        source, _, rest = database.partition(":")
        known = {"env": rest, "file": rest, "command": first_word(rest)}
        return f"database://{source}/{known.get(source, '')}"
    if scheme in ("sqlite", "duckdb"):
        return str(_path(database).absolute())
    parts = urlsplit(database)
    hosts = parts.netloc.rpartition("@")[2]
    if scheme != "postgresql":
        return f"{scheme}://{hosts}{parts.path}"
    return f"postgres://{hosts}{'' if ':' in hosts else ':5432'}{parts.path}"


def connected(database: str) -> Connection | sqlite3.Connection:
    """Returns a connection to a database.

    Args:
        database: Its URI, or where that is, as `check_database` takes it.

    Raises:
        UsageError: It is none, or its driver is not installed.
        NoSuchFile: There is no such file.
        Exception: Whatever the driver raises.
    """
    check_database(database)
    uri = database if "://" in database else text_at(database, "URI of a database").strip()
    if not _is_uri(uri):
        raise UsageError(f"database must lead to a URI of {', '.join(sorted(DATABASES))}")
    return DATABASES[uri.partition("://")[0]](uri)


def postgresql(uri: str) -> Connection:
    """Connects to PostgreSQL by libpq's URI."""
    library = "adbc-driver-postgresql"
    driver = import_extra("adbc_driver_postgresql.dbapi", "a query of PostgreSQL", library, "sql")
    return cast("Connection", driver.connect(uri))


def sqlite(uri: str) -> sqlite3.Connection:
    """Opens a file of SQLite, `sqlite:///PATH`, for reading; text that is no UTF-8 is null.

    Its ADBC driver would give all values of a column the type of the first ones.
    """
    connection = sqlite3.connect(f"{_file(uri).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = text_or_null
    return connection


def duckdb(uri: str) -> Connection:
    """Opens a file of DuckDB, `duckdb:///PATH`, for reading."""
    driver, manager = (
        import_extra(module, "a query of DuckDB", "duckdb", "sql")
        for module in ("adbc_driver_duckdb", "adbc_driver_manager.dbapi")
    )
    options = {"path": str(_file(uri)), "access_mode": "READ_ONLY"}
    entry = "duckdb_adbc_init"
    connection = manager.connect(driver.driver_path(), entrypoint=entry, db_kwargs=options)
    return cast("Connection", connection)


def snowflake(uri: str) -> Connection:
    """Connects to Snowflake by the URI of its driver."""
    library = "adbc-driver-snowflake"
    driver = import_extra(
        "adbc_driver_snowflake.dbapi", "a query of Snowflake", library, "snowflake"
    )
    return cast("Connection", driver.connect(uri.removeprefix("snowflake://")))


def _file(uri: str) -> Path:
    """Returns the file of `SCHEME:///PATH`, in which a fourth slash begins a whole path.

    Raises:
        NoSuchFile: It is not there; the driver would make an empty one.
    """
    path = _path(uri)
    if not path.is_file():
        raise NoSuchFile("No such file: database names a file that is not there; correct its path")
    return path


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path).removeprefix("/"))


# --- The promise of a release of the result of a query, which is for units of this result. --------


_ONE: dict[Unit, str] = {
    "case": "one case", "individual": "one individual", "event": "one event",
}  # fmt: skip


def query_result_guarantee(guarantee: Guarantee) -> Guarantee:
    """Returns a promise for units of the result of a query, with what that leaves open.

    What one unit of the database can change of the result depends on the query, of which nothing is
    known here.
    """
    sentence = (
        f"The promise is for {_ONE[guarantee.unit]} of the result of a query. If the query lets "
        "one of them change rows of others, as LIMIT, window functions, joins and aggregates can, "
        "the promise does not hold for those of the database. The query was not checked."
    )
    not_covered = (*guarantee.not_covered, sentence)
    return replace(guarantee, population="query result", not_covered=not_covered)


# --- The result of a query as a file, which is the input of a release from then on. ---------------


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
            reason = type(error).__name__
            raise UsageError(f"query {query!r} cannot be read ({reason}); correct it") from None
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
        f"the database refused the query ({', '.join(facts)}): try it in its own client, and CAST "
        "columns of types that Parquet does not have"
    )
