"""The files that patterns match elsewhere: on object stores, and on Beam's other file systems."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.files import class_of, require_file_system
from tracecloak.transforms.inputs.listing import (
    Listed,
    Listing,
    Table,
    expression,
    first_wildcard,
    is_skipped,
    patterns_of_markers,
    table_of_marker,
)
from tracecloak.transforms.inputs.stores import has_versions, is_passing, listed_by_store, told

_LOG = logging.getLogger("tracecloak")


def remote_tables(pattern: str, folders: Sequence[str]) -> dict[str, Table | None]:
    """Asks for one file of each kind of marker: above an input can lie a whole lake."""
    marks = [mark for folder in folders for mark in patterns_of_markers(folder)]
    try:
        paths = [path for path, _ in match_remote_files(pattern, marks, 1)]
    except UsageError:
        # Who may read an input need not be allowed to list what is around it.
        _LOG.warning(
            "the folders around log %r cannot be listed: whether it is part of a table is unknown",
            pattern,
        )
        paths = []
    tables = {table.folder: table for table in map(table_of_marker, paths) if table is not None}
    return {folder: tables.get(folder) for folder in folders}


def list_remote_files(pattern: str) -> Listing:
    """Lists what Beam would for a pattern, by one question of its store.

    What is left out by the pattern, or hidden, is looked at, too: it can tell of a table.
    """
    require_file_system("log", pattern)
    first = first_wildcard(pattern)
    if first is None and not pattern.endswith("/"):
        file = dict(match_remote_files(pattern, [pattern]))
        if file:
            return Listing(pattern.rpartition("/")[0], file, is_root_seen=False)
    folder = (pattern if first is None else pattern[:first].rpartition("/")[0]).rstrip("/")
    whole = f"{folder}/**" if first is None else pattern
    if whole.endswith("/"):  # what lies in the folders that match
        whole += "*"
    listed = whole if first is None else f"{pattern[:first]}**"
    test = expression(pattern, whole)
    listing = Listing(folder, is_root_seen=listed == f"{folder}/**")
    for path, one in match_remote_files(pattern, [listed]):
        listing.note(path)
        is_file = test.fullmatch(path) and not path.endswith("/")
        if is_file and not is_skipped(path, folder, whole):
            listing.files[path] = one
    return listing


def match_remote_files(
    pattern: str, patterns: Sequence[str], limit: int | None = None
) -> Iterator[tuple[str, Listed]]:
    """Yields the files that match one of `patterns`, up to a limit of each.

    Args:
        pattern: The input, for the error.
        patterns: Of one file system, in Beam's words.
        limit: None: all of them.

    Raises:
        UsageError: They cannot be listed.
        RetryLater: Their store is away.
    """
    if not patterns:
        return
    try:
        if has_versions(patterns[0]):
            yield from listed_by_store(patterns, limit)
            return
        from apache_beam.io.filesystems import FileSystems

        limits = None if limit is None else [limit] * len(patterns)
        for matched in FileSystems.match(list(patterns), limits):
            yield from ((file.path, Listed(file.size_in_bytes)) for file in matched.metadata_list)
    except TracecloakError:
        raise
    except Exception as error:  # each file system has its own
        if is_passing(error):
            raise told(pattern, error) from None
        raise UsageError(f"log {pattern!r} cannot be listed: {class_of(error)}") from None
