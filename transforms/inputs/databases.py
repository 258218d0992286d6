"""The table of databases that can be asked for a log, each by a driver of its own."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from tracecloak.schemas.errors import NoSuchFile, UsageError, of_extra
from tracecloak.schemas.plugins import Plugins
from tracecloak.schemas.texts.secrets import SECRET_REFUSED, has_secret
from tracecloak.transforms.keys.sources import KEY_SOURCES, first_word, text_at

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

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
            "database is neither a URI nor leads to one, and is not shown, as it may hold a "
            "password; write it as --database sqlite:///visits.db, or as env:NAME, file:PATH or "
            "command:WORDS, where the URI is"
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
        raise UsageError(
            f"what database leads to is no URI of {', '.join(sorted(DATABASES))}; it is not shown"
        )
    return DATABASES[uri.partition("://")[0]](uri)


def postgresql(uri: str) -> Connection:
    """Connects to PostgreSQL by libpq's URI."""
    library = "adbc-driver-postgresql"
    driver = of_extra("adbc_driver_postgresql.dbapi", "a query of PostgreSQL", library, "sql")
    return cast("Connection", driver.connect(uri))


def sqlite(uri: str) -> sqlite3.Connection:
    """Opens a file of SQLite, `sqlite:///PATH`, for reading; text that is no UTF-8 is null.

    Its ADBC driver would give all values of a column the type of the first ones.
    """
    connection = sqlite3.connect(f"{_file(uri).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = text_or_null
    return connection


def text_or_null(data: bytes) -> str | None:
    """Returns what bytes say in UTF-8; None: they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def duckdb(uri: str) -> Connection:
    """Opens a file of DuckDB, `duckdb:///PATH`, for reading."""
    driver, manager = (
        of_extra(module, "a query of DuckDB", "duckdb", "sql")
        for module in ("adbc_driver_duckdb", "adbc_driver_manager.dbapi")
    )
    options = {"path": str(_file(uri)), "access_mode": "READ_ONLY"}
    entry = "duckdb_adbc_init"
    connection = manager.connect(driver.driver_path(), entrypoint=entry, db_kwargs=options)
    return cast("Connection", connection)


def snowflake(uri: str) -> Connection:
    """Connects to Snowflake by the URI of its driver."""
    library = "adbc-driver-snowflake"
    driver = of_extra("adbc_driver_snowflake.dbapi", "a query of Snowflake", library, "snowflake")
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
