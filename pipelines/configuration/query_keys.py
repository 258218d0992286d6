"""What is checked of a configuration whose log is no files; it is loaded for these alone."""

from __future__ import annotations

from collections.abc import Sequence

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.inputs.databases import check_database


def check_query(
    log: Sequence[str], query: str | None, database: str | None, input_format: str | None
) -> None:
    """Makes sure that there is a query and what answers it, and no log beside it.

    Args:
        log: These are keys of the configuration.
        query: Likewise.
        database: Likewise.
        input_format: Likewise.

    Raises:
        UsageError: There is neither log nor query, or both, or half of a query.
    """
    if log:
        raise UsageError(
            "log and query exclude each other: a release reads files or asks a database; leave one "
            "out"
        )
    if query is None and database is None:
        raise UsageError(
            "log is missing: say with --log where the event log is, or ask a database with --query "
            "and --database"
        )
    if query is None or database is None:
        there, missing = ("query", "database")[:: 1 if query else -1]
        raise UsageError(f"{there} needs {missing}, which is missing; give it as --{missing}")
    if input_format is not None:
        raise UsageError("input_format is of files, and there is a query; leave it out")
    check_database(database)


def require_files(query: str | None) -> None:
    """Makes sure that the input are files, which can be read as often as somebody likes.

    Raises:
        UsageError: It is the result of a query, which is asked once.
    """
    if query is not None:
        raise UsageError(
            "this reads the log several times, and a query is asked once, by a release; export its "
            "result, and name the files with log in place of query and database"
        )
