"""Activity names and their codes, agreed for a whole run so that counts add without strings.

A vocabulary is read from the log (published methods only; that its names were seen is then part of
the release), or public. A public one has OTHER, which every activity that it does not name becomes:
no event is lost, and nothing depends on which other names a log has. Codes are the ranks of the
names in the order of their UTF-8 bytes, so the same names have the same codes whatever the order in
which the log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# The name of all activities that a public vocabulary does not have.
OTHER = "__other__"

ESCAPES_REMARK = (
    r"# A backslash begins an escape here: \\ is a backslash, \x1b, \u202e and \U000e0001 are "
    "characters by their number."
)
"""The remark with which the names of a file are read with escapes; without it they have none."""


@dataclass(frozen=True, eq=False)
class ActivityVocabulary:
    """Distinct activity names in the order of their bytes.

    Attributes:
        names: string[n], sorted and distinct; the code of a name is its position (int32).
    """

    wire_name: ClassVar[str] = "activity-vocabulary"

    names: pa.StringArray

    @classmethod
    def of(cls, names: Iterable[str] | pa.Array) -> ActivityVocabulary:
        """Makes a vocabulary of names in any order, with or without repetition."""
        column = names if isinstance(names, pa.Array) else pa.array(list(names), pa.string())
        distinct = pc.unique(column.cast(pa.string()))
        return cls(distinct.take(pc.sort_indices(distinct)))

    @classmethod
    def public(cls, names: Iterable[str], closed: bool = False) -> ActivityVocabulary:
        """Makes a vocabulary of public names, and of OTHER unless they are closed."""
        return cls.of(names if closed else [*names, OTHER])

    @classmethod
    def merge(cls, pieces: Sequence[ActivityVocabulary]) -> ActivityVocabulary:
        """Returns the vocabulary of all names of the pieces."""
        if len(pieces) == 1:
            return pieces[0]
        return cls.of(pa.concat_arrays([pa.array([], pa.string()), *(p.names for p in pieces)]))

    @property
    def weight(self) -> int:
        """Number of names."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActivityVocabulary) and self.names.equals(other.names)

    def __hash__(self) -> int:
        return hash(tuple(self.names.to_pylist()))

    @property
    def start(self) -> int:
        """Code of the artificial start, before every case's first activity."""
        return len(self.names)

    @property
    def end(self) -> int:
        """Code of the artificial end, after every case's last activity."""
        return len(self.names) + 1

    @cached_property
    def labels(self) -> list[str]:
        """The names by code, with START and END written as in directly-follows graphs: ▶ and ■."""
        return [*self.names.to_pylist(), "▶", "■"]

    def codes(self, names: pa.Array) -> np.ndarray:
        """Returns int32[n], the codes of names.

        Raises:
            ValueError: A name is not in the vocabulary.
        """
        codes = pc.index_in(names, value_set=self.names)
        if codes.null_count:
            raise ValueError("an activity is not in the vocabulary")
        return np.asarray(codes, np.int32)

    def codes_or_other(self, names: pa.Array) -> np.ndarray:
        """Returns int32[n], codes of names; one that is not here has the code of OTHER, or -1."""
        codes = pc.index_in(names, value_set=self.names)
        if not codes.null_count:
            return np.asarray(codes, np.int32)
        other = pc.index(self.names, OTHER).as_py()
        return np.asarray(pc.fill_null(codes, other), np.int32)
