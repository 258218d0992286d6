"""A finished release, or a step of a stream, on its way into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, RetryLater, TracecloakError, UsageError

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
                f"the table {table} has other columns than the log of the release, or of other "
                "types; name a table of releases of this configuration, or one that is not there "
                "yet"
            ) from None
        except TracecloakError:
            raise
        except Exception as error:  # some of the libraries' are of no class of their own
            raise InputSchemaError(
                f"the table {table} cannot be read or written ({type(error).__name__}); nothing is "
                "appended unless it was before. Correct the path, or let this user write there, "
                "and run the same command again"
            ) from None
    raise RetryLater(
        f"others write to the table {table} all the time; run the same command again later"
    )


def plain(schema: pa.Schema) -> pa.Schema:
    """Returns a schema as a table has it: dictionaries are written out, and metadata is left."""
    is_coded = pa.types.is_dictionary
    return pa.schema([(f.name, f.type.value_type if is_coded(f.type) else f.type) for f in schema])
