"""A finished release, or a step of a stream, on its way into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

COMMIT_PROPERTY = "tracecloak.release"
"""The property of the commit that has the release's name."""
TRIES = 20
"""How often a commit is tried that others were faster with."""


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


def plain(schema: pa.Schema) -> pa.Schema:
    """Returns a schema as a table has it: dictionaries are written out, and metadata is left."""
    is_coded = pa.types.is_dictionary
    return pa.schema([(f.name, f.type.value_type if is_coded(f.type) else f.type) for f in schema])
