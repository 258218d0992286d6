"""Activity names and their codes, agreed for a whole run so that counts add without strings.

A vocabulary is read from the log (published methods only; that its names were seen is then part of
the release), or public. Codes are the ranks of the names in the order of their UTF-8 bytes, so the
same names have the same codes whatever the order in which the log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, eq=False)
class ActivityVocabulary:
    """Distinct activity names in the order of their bytes.

    Attributes:
        names: string[n], sorted and distinct; the code of a name is its position (int32).
    """

    names: pa.StringArray

    @classmethod
    def of(cls, names: Iterable[str] | pa.Array) -> ActivityVocabulary:
        """Makes a vocabulary of names in any order, with or without repetition."""
        column = names if isinstance(names, pa.Array) else pa.array(list(names), pa.string())
        distinct = pc.unique(column.cast(pa.string()))
        return cls(distinct.take(pc.sort_indices(distinct)))

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
