"""Tables of a lake: kinds, addresses and versions, and what is appended to one, once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, RetryLater, TracecloakError, UsageError
from tracecloak.schemas.plugins import Plugins, load
from tracecloak.transforms.files import absolute, is_on_this_machine, require_file_system
from tracecloak.transforms.formats.registry import CSV_KEYS, SourceFormat
from tracecloak.transforms.inputs.listing import Listed
from tracecloak.transforms.inputs.source_files import SourceFile, match_files

# --- A finished release, or a step of a stream, on its way into a table. --------------------------


COMMIT_PROPERTY = "tracecloak.release"
"""The property of the commit that has the release's name."""
# How often a commit is tried that others were faster with.
_TRIES = 20
_Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class AppendedRelease:
    """What is appended, and by what it is known in the table.

    Attributes:
        release_id: The release's name.
        key_fingerprint: Tells releases apart that have one name: of other outputs, or begun anew.
        rows: Returns the rows from the first on.
        number: Of its parts, which are appended in their order; a table that has one has those
            before it.
    """

    release_id: str
    key_fingerprint: str
    rows: Callable[[], pa.RecordBatchReader]
    number: int = 1

    @property
    def key(self) -> str:
        """By what the table knows that it has this release; both parts of it are published."""
        return f"{COMMIT_PROPERTY}.{self.release_id}.{self.key_fingerprint}"


def appended(table: str, attempt: Callable[[], bool], faster: _Errors, unfit: _Errors) -> bool:
    """Appends what a table does not have yet; returns whether it was appended now.

    Args:
        table: The kind of the table and its place, as errors name it.
        attempt: Looks whether it is there, and else appends it in one commit.
        faster: What it raises if somebody else committed in between; it is tried again.
        unfit: What it raises if the table has other columns.

    Raises:
        UsageError: The table has other columns.
        InputSchemaError: The table cannot be read or written.
        RetryLater: Others write to it all the time.
    """
    for _ in range(_TRIES):
        try:
            return attempt()
        except faster:
            continue
        except unfit:
            raise UsageError(
                f"the table {table} has other columns or types than the release; name another"
            ) from None
        except TracecloakError:
            raise
        except Exception as error:  # some of the libraries' are of no class of their own
            raise InputSchemaError(
                f"the table {table} cannot be read or written ({type(error).__name__}): correct "
                "its path or rights, and run the same command again"
            ) from None
    raise RetryLater(f"others write to the table {table} all the time; run again later")


def plain(schema: pa.Schema) -> pa.Schema:
    """Returns a schema as a table has it: dictionaries are written out, and metadata is left."""
    is_coded = pa.types.is_dictionary
    return pa.schema([(f.name, f.type.value_type if is_coded(f.type) else f.type) for f in schema])


# --- The table of kinds of tables of a lake, and the addresses that name a table and its version. -


# gs://bucket is an object store, and no table.
_ADDRESS = re.compile(r"([a-z][a-z0-9]*):(?!//)(.*)", re.DOTALL)
# Versions of Delta are numbered from 0, and snapshots of Iceberg are 64-bit numbers.
_VERSION = re.compile(r"[0-9]{1,19}", re.ASCII)


class VersionGoneError(InputSchemaError):
    """A version of a table cannot be read any more."""


def version_gone(kind: str, place: str, version: int | None, reason: str) -> VersionGoneError:
    """Returns what is raised where a version of a table cannot be read any more."""
    return VersionGoneError(
        f"version {version} of the table {kind}:{place} cannot be read any more: {reason}. Restore "
        "it, or name a complete version"
    )


@dataclass(frozen=True)
class Snapshot:
    """One version of a table.

    Attributes:
        version: Its number.
        files: The files that this version has, in any order; their ranks say nothing.
    """

    version: int
    files: tuple[SourceFile, ...]


@dataclass(frozen=True)
class TableKind:
    """A kind of table. Places are `module:attribute`.

    Attributes:
        snapshot: Place of a function of a table's place and a version, or None for the last one,
            that returns the `Snapshot`. It raises `VersionGoneError` where that version cannot be
            read any more, and refuses by name what it does not honour.
        append: Place of a function that appends a release once, see `Append`; None: nothing does.
        is_folder: Whether its place is that of a folder, which can be written in several ways.
    """

    snapshot: str
    append: str | None = None
    is_folder: bool = False


TABLES: Plugins[TableKind] = Plugins(
    "kind of table",
    "tracecloak.tables",
    {
        "delta": TableKind(
            "tracecloak.transforms.lakes.delta:snapshot",
            "tracecloak.transforms.lakes.delta:append",
            is_folder=True,
        ),
        "iceberg": TableKind(
            "tracecloak.transforms.lakes.iceberg:snapshot",
            "tracecloak.transforms.lakes.iceberg:append",
        ),
    },
    kind=TableKind,
)


@dataclass(frozen=True)
class Address:
    """A table, and which version of it.

    Attributes:
        kind: One of `TABLES`.
        place: Where the table is, as its kind writes it; a folder of this machine as a whole path.
        version: Its number; None: whichever is the last one.
    """

    kind: str
    place: str
    version: int | None = None

    def __str__(self) -> str:
        """Returns the text that `address_of` reads."""
        if self.version is not None:
            return f"{self.kind}:{self.place}@{self.version}"
        # What follows an @ in the last part of a path would be a version without the slash.
        return f"{self.kind}:{self.place}" + ("/" if "@" in self.place.rpartition("/")[2] else "")

    @property
    def append(self) -> Append:
        """What appends releases to the table.

        Raises:
            UsageError: The kind of table has none, or its library is not installed, or a version is
                named.
        """
        place = TABLES.named(self.kind).append
        if self.version is not None or place is None:
            raise UsageError(f"table {str(self)!r} must be writable, without a version")
        return cast("Append", load(place))

    def snapshot(self) -> Snapshot:
        """Returns the version that is named, or the last one, with all of its files there.

        A file elsewhere is told from what is written over it, as far as its store does.

        Raises:
            UsageError: The library of this kind of table is not installed.
            VersionGoneError: The version cannot be read any more.
            InputSchemaError: There is no such table, or it has what is not honoured.
        """
        snapshot: Snapshot = load(TABLES.named(self.kind).snapshot)(self.place, self.version)
        files = tuple(_that_are_there(snapshot.files, str(self)))
        n_gone, n_files = len(snapshot.files) - len(files), len(snapshot.files)
        if n_gone:
            reason = f"{n_gone:,} of its {n_files:,} files are not there, as by VACUUM or expiry"
            raise version_gone(self.kind, self.place, snapshot.version, reason)
        return replace(snapshot, files=files)


def _that_are_there(files: Sequence[SourceFile], table: str) -> Iterator[SourceFile]:
    """Yields the files that are there; what lies elsewhere is listed by one question, as it is now.

    Raises:
        UsageError: A file system is not known, or cannot be listed.
    """
    elsewhere = [file.path for file in files if not is_on_this_machine(file.path)]
    listed: dict[str, Listed] = {}
    if elsewhere:
        from tracecloak.transforms.inputs.remote_files import match_remote_files

        require_file_system("log", elsewhere[0])  # a table lies on one, as a rule
        scheme, names = elsewhere[0].partition("://")[0], [p.partition("://")[2] for p in elsewhere]
        folder = os.path.commonpath([os.path.dirname(name) for name in names])
        listed = dict(match_remote_files(table, [f"{scheme}://{folder}/**"]))
    for file in files:
        if is_on_this_machine(file.path):
            yield from [file] if os.path.exists(file.path) else []
        elif (one := listed.get(file.path)) is not None:
            yield replace(file, n_bytes=one.n_bytes, digest=one.digest, version=one.version)


def path_of(uri: str) -> str:
    """Returns the path of a file of this machine, or the URI of another as Beam has it."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").lstrip("/")
    return uri.replace("s3a://", "s3://", 1) if uri.startswith("s3a://") else uri


def is_address(text: str) -> bool:
    """Returns whether an input names a table, and no file."""
    match = _ADDRESS.match(text)
    return match is not None and match[1] in TABLES


def address_of(text: str) -> Address:
    """Returns the address `KIND:PLACE` or `KIND:PLACE@VERSION` of a table.

    What follows the last `@` is the version, unless a slash does.

    Raises:
        UsageError: It has no place, or what stands for the version is no whole number.
    """
    match = _ADDRESS.fullmatch(text)
    kind, rest = ("", text) if match is None else match.groups()
    place, at, version = rest.rpartition("@")
    if not at or "/" in version:
        place, version = rest, None
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    if not kind or not place.strip() or "\n" in place or "\0" in place:
        raise UsageError(f"log {shown!r} is not delta:PATH[@VERSION] or iceberg:TABLE[@SNAPSHOT]")
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageError(
            f"log {shown!r} must end in @ and a number, or in a slash if its path has an @"
        )
    if TABLES.named(kind).is_folder:
        place = absolute(place)
        place = place.rstrip("/") or place
    return Address(kind, place, None if version is None else int(version))


def at_version_read(address: Address, read: Sequence[str]) -> Address:
    """Returns a table at the version that it names, or else at that at which it was read, if any.

    Args:
        address: A table.
        read: Addresses of tables with the versions at which they were read.
    """
    if address.version is not None:
        return address
    versions = {replace(one, version=None): one.version for one in map(address_of, read)}
    return replace(address, version=versions.get(address))


def files_and_tables(
    log: Sequence[str], tables: Sequence[str], how: SourceFormat, may_be_none: bool
) -> list[SourceFile]:
    """Returns the files of inputs of which some are tables, ranked by their paths.

    Args:
        log: All inputs.
        tables: Those of them that are addresses of tables.
        how: What the configuration says of the format of the files.
        may_be_none: See `match_files`.

    Raises:
        UsageError: An address is none, or names a table for the second time; or the format is
            another than that of tables, or it is said how CSV is read and there are no files.
        TracecloakError: As `match_files` and `Address.snapshot`.
    """
    if how.name not in (None, "parquet"):
        raise UsageError(f"input_format is {how.name}, but {tables[0]} is Parquet; leave it out")
    usual = SourceFormat()
    for name in CSV_KEYS if len(tables) == len(log) else ():
        if getattr(how, name) != getattr(usual, name):
            raise UsageError(f"{name} is of files of CSV, and the log is tables; leave it out")
    addresses = [address_of(text) for text in tables]
    names = [str(replace(address, version=None)) for address in addresses]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"log names {name} twice, whose rows would count twice; name it once")
    files = match_files([text for text in log if text not in tables], may_be_none)
    for address in addresses:
        files += address.snapshot().files
    files.sort(key=lambda file: file.path)
    return [replace(file, rank=rank) for rank, file in enumerate(files)]


Append = Callable[[str, "AppendedRelease"], bool]
"""Appends the rows of a release to the table at a place, unless the table has them.

Returns whether it appended them. It is one commit, which a second call for this release finds,
however old it is and whoever made it, at the same time too. A part is also found by a later one.
"""
