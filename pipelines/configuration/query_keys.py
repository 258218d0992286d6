"""What is checked of a configuration whose log is no files; it is loaded for these alone."""

from __future__ import annotations

from collections.abc import Sequence

from tracecloak.pipelines.configuration.schedule_config import ScheduleConfig
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.registry import FILE_KEYS, SourceFormat
from tracecloak.transforms.inputs.databases import check_database

# Keys that say how bytes of files are read, and what they are called there.
_OF_FILES = {"input_format": "name", **dict(zip(FILE_KEYS, FILE_KEYS, strict=True))}


def check_query(
    log: Sequence[str],
    query: str | None,
    database: str | None,
    how: SourceFormat,
    schedule: ScheduleConfig | None,
) -> None:
    """Makes sure that there is a query and what answers it, and no log beside it.

    Args:
        log: These are keys of the configuration.
        query: Likewise.
        database: Likewise.
        how: What the configuration says of how files are read.
        schedule: A key of the configuration.

    Raises:
        UsageError: There is neither log nor query, or both, or half of a query, or a key that is of
            files.
    """
    if log:
        raise UsageError("log and query exclude each other; leave one out")
    if query is None and database is None:
        raise UsageError("log is missing: give --log, or --query and --database")
    if query is None or database is None:
        there, missing = ("query", "database")[:: 1 if query else -1]
        raise UsageError(f"{there} needs {missing}, which is missing; give it as --{missing}")
    usual = SourceFormat()
    for name, of in _OF_FILES.items():
        if getattr(how, of) != getattr(usual, of):
            raise UsageError(f"{name} is of files, and there is a query; leave it out")
    if schedule is not None and schedule.partition is not None:
        raise UsageError("partition is of files, and there is a query; leave it out of schedule")
    check_database(database)


def require_files(query: str | None) -> None:
    """Makes sure that the input are files, which can be read as often as somebody likes.

    Raises:
        UsageError: It is the result of a query, which is asked once.
    """
    if query is not None:
        raise UsageError(
            "this reads the log several times, and a query is asked once: export its result"
        )
