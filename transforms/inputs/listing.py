"""What one look at a pattern finds, wherever it is looked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracecloak.transforms.inputs.tables import Table, table_told_by

_HIDDEN = re.compile(r"(?:^|/)(?:_|\.(?!\.?(?:/|$)))")


def first_wildcard(pattern: str) -> int | None:
    """Returns where a pattern has its first wildcard; None: it has none."""
    wildcard = re.search(r"[*?[]", pattern)
    return None if wildcard is None else wildcard.start()


def is_passed_over(path: str, folder: str, pattern: str) -> bool:
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
        table = table_told_by(path)
        if table is not None:
            self.tables.append(table)
