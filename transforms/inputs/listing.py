"""What one look at a pattern finds, wherever it is looked.

Folders that hold a table of a lake, whose files are not its rows.

A Delta, Iceberg or Hudi table keeps files of rows that were deleted or replaced, and says in a file
beside them which ones count. Whoever reads all files as one log reads cases and loops that the
table does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tracecloak.schemas.errors import InputSchemaError, UsageError

_HIDDEN = re.compile(r"(?:^|/)(?:_|\.(?!\.?(?:/|$)))")


def first_wildcard(pattern: str) -> int | None:
    """Returns where a pattern has its first wildcard; None: it has none."""
    wildcard = re.search(r"[*?[]", pattern)
    return None if wildcard is None else wildcard.start()


# What stands for other characters in a pattern: as in Beam, ? is any one, a slash too.
_WILDCARD = re.compile(r"\*\*|\*|\?|\[!?+\]?+[^\]]*+\]")


def expression(pattern: str, whole: str) -> re.Pattern[str]:
    """Returns what the whole paths fit that a pattern matches.

    Args:
        pattern: The input, for the error.
        whole: The pattern, with what lies in folders.

    Raises:
        UsageError: It is none, such as of [z-a].
    """
    text, end = "", 0
    for wildcard in _WILDCARD.finditer(whole):
        text += re.escape(whole[end : wildcard.start()])
        end = wildcard.end()
        sign = wildcard[0]
        if sign.startswith("["):
            inside = sign[1:-1].replace("\\", r"\\")
            mark = {"!": "^", "^": r"\^"}.get(inside[0])
            text += f"[{inside}]" if mark is None else f"[{mark}{inside[1:]}]"
        else:
            text += {"**": ".*", "*": r"[^/\\]*", "?": "."}[sign]
    try:
        return re.compile(text + re.escape(whole[end:]), re.DOTALL)
    except re.error as error:
        raise UsageError(f"log {pattern!r} cannot be listed: {error}") from None


def bucket_and_name(path: str) -> tuple[str, str]:
    """Returns the bucket of a path of an object store, and the name of the object in it."""
    bucket, _, name = path.partition("://")[2].partition("/")
    return bucket, name


def is_skipped(path: str, folder: str, pattern: str) -> bool:
    """Whether a name below the folder is hidden, and the rest of the pattern says no such name."""
    hidden = _HIDDEN.search(path[len(folder) :]) is not None
    return hidden and _HIDDEN.search(pattern[len(folder) :]) is None


@dataclass(frozen=True)
class Listed:
    """What a listing says of a file.

    Attributes:
        n_bytes: Its size.
        version: What tells it from what was there before or will be there, so that it can be read
            as it was listed or not at all; None: its file system has nothing like that.
        digest: See `SourceFile`.
    """

    n_bytes: int
    version: str | None = None
    digest: str | None = None


@dataclass
class Listing:
    """What one look at a pattern finds.

    Attributes:
        root: The folder that was listed with all below it; of a single file the one it lies in.
        files: The files that match, by their paths.
        tables: What tells of tables, wherever it lies.
        is_root_seen: Whether a table that is the root would be among them.
    """

    root: str
    files: dict[str, Listed] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    is_root_seen: bool = True

    def note(self, path: str) -> None:
        """Takes in the path of a file, or of a folder with a slash at its end."""
        table = table_of_marker(path)
        if table is not None:
            self.tables.append(table)


_KINDS = {
    "_delta_log": "Delta",
    ".hoodie": "Hudi",
    ".hoodie_partition_metadata": "Hudi",
    "metadata": "Iceberg",
}
_MENDS = {
    "Delta": "Name the table itself as log: delta:{folder}",
    "Iceberg": "Name the table itself as log, by its catalogue: iceberg:CATALOG.TABLE",
    "Hudi": "Have the engine that keeps the table write its current rows into a folder of their "
    "own, as Spark does with spark.table(NAME).write.parquet(FOLDER), and name that folder as log",
}
FOLDERS = ("_delta_log", ".hoodie")
"""Names of folders that only a table has."""
# Iceberg's folder has a common name, so its files count; older tables compress them.
_MARKER = re.compile(
    r"(?:^|/)(?:(_delta_log|\.hoodie)/|(\.hoodie_partition_metadata)[^/]*$"
    r"|(metadata)/[^/]+\.metadata\.json(?:\.gz)?$)"
)
_IS_PARTITION = re.compile(r"[^/=]+=[^/]*")
_ACCOUNT = re.compile(r"azfs://[^/]*")
# Folders above the input that are looked into, such as that of a table whose partition is read.
_N_ABOVE = 2


@dataclass(frozen=True)
class Table:
    """A table that a folder holds.

    Attributes:
        folder: The folder; the rows lie in it, at any depth.
        marker: What tells that it is one.
        kind: Its format.
    """

    folder: str
    marker: str
    kind: str


def table_of_marker(path: str) -> Table | None:
    """Returns the table that the path of a listed file, or of a folder with a slash, belongs to."""
    match = _MARKER.search(path)
    if match is None:
        return None
    name = match[1] or match[2] or match[3]
    marker = path[: match.start()] + match[0].rstrip("/")
    return Table(path[: match.start()], marker, _KINDS[name])


def patterns_of_markers(folder: str) -> Iterator[str]:
    """Yields the patterns of Beam's that match a file if a folder of an object store is a table."""
    for name in FOLDERS:
        yield f"{folder}/{name}/**"
    yield f"{folder}/metadata/*.metadata.json*"


def parent_folders(root: str) -> Iterator[str]:
    """Yields the folders above an input in which a table of it may begin, the nearest first.

    These are two, not counting partitions: of `lake/claims/day=2026-11-22` they are `lake/claims`,
    `lake`, and the one above that. Those beyond the root of the file system are none.

    Args:
        root: A path of this machine that begins with `/`, or one with a scheme.
    """
    left = _N_ABOVE
    while left:
        left -= _IS_PARTITION.fullmatch(root.rpartition("/")[2]) is None
        root = root.rpartition("/")[0]
        # There is no folder above, or scheme:// is left, or an account, which holds containers.
        if not root or root.endswith(("/", ":")) or _ACCOUNT.fullmatch(root):
            return
        yield root


def check_no_table(
    pattern: str, root: str, paths: Iterable[str], listed: Iterable[Table], around: Iterable[Table]
) -> None:
    """Makes sure that no files of a table are read as if they were its rows.

    Args:
        pattern: The input, for the error.
        root: The folder in which all of `paths` lie.
        paths: The files that are read.
        listed: Tables that were seen where the files were listed; those count that hold one of
            them, or all if there are no files and their folder is the root.
        around: Tables that hold the root.

    Raises:
        InputSchemaError: A table holds one.
    """
    folders = {root}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    table = next(iter([*(one for one in listed if one.folder in folders), *around]), None)
    if table is not None:
        raise InputSchemaError(
            f"log {pattern!r} is in a table of {table.kind} ({table.marker}), whose files "
            f"hold deleted rows, too. {_MENDS[table.kind].format(folder=table.folder or '.')}"
        )
