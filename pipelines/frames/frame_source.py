"""A frame as the source of a release: its events in the order of their cases, and a digest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.pipelines.configuration.config import FRAME
from tracecloak.pipelines.frames.any_frame import AnyFrame
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.event_order import in_order
from tracecloak.schemas.events.events import without_numbers
from tracecloak.schemas.events.tally import NO_SCALAR, ReadTally, TallyOfFile
from tracecloak.transforms.formats.base import require_columns
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource, FirstRecords

if TYPE_CHECKING:
    from tracecloak.transforms.formats.pieces import Lacks

# Of so many a plan tells the kinds.
_SHOWN_ROWS = 1_000


@dataclass(frozen=True)
class FrameSource(EventSource):
    """Everything that tells how to read a frame, which takes the place of the one file.

    The rows of a frame order the events of a case with equal stamps, unless the frame is lazy: then
    its engine may return them in any order. That apart, the place of a row has no say.

    Attributes:
        frame: The frame.
    """

    may_be_empty: ClassVar[bool] = False
    frame: AnyFrame = field(kw_only=True)
    _events: dict[ColumnMapping, tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]] = field(
        default_factory=dict, kw_only=True, repr=False, compare=False
    )

    @classmethod
    def over(
        cls, frame: AnyFrame, mapping: ColumnMapping, drops_duplicates: bool = False
    ) -> FrameSource:
        """Returns the source; reads no values.

        Raises:
            InputSchemaError: The frame has not the columns that are mapped.
        """
        source = cls(
            (SourceFile(0, FRAME, 0, digest=""),),
            SourceFormat(),
            mapping,
            drops_duplicates=drops_duplicates,
            is_unordered=frame.is_lazy,
            frame=frame,
        )
        require_columns(frame.names, source._resolved.required)
        return source

    def with_digest(self) -> FrameSource:
        """Returns this source with the digest of its events, all of which are read.

        The digest is of the canonical events in their order within the cases: of no row's number,
        no index, type, chunk or category.
        """
        events, _, _ = self._whole()
        file = SourceFile(0, FRAME, events.num_rows, digest=_digest_of(events))
        return replace(self, files=(file,))

    def columns_of(self, file: SourceFile) -> list[str] | None:
        """Returns the frame's columns."""
        return list(self.frame.names)

    def place_of(self, rank: int, record: int) -> str:
        """Returns which row of the frame a record is, as its first one has the number 1."""
        return f"row {record + 1:,} of the frame"

    def title_of(self, file: SourceFile) -> str:
        """Returns what the frame is, for people."""
        return "the frame"

    def names_of(self, file: SourceFile, declared: list[str] | None) -> dict[str, str]:
        """Returns the frame's column of each canonical one."""
        return self._resolved.names

    def readings(self, file: SourceFile) -> list[str]:
        """Returns how the first rows of the columns of times are read; see `EventSource`."""
        return self._resolved.readings(self.frame.columns(self._resolved.wanted, _SHOWN_ROWS)[0])

    def check(self, files: Iterable[SourceFile], others: Sequence[SourceFile] = ()) -> None:
        """Does nothing, as the columns are known to be there."""

    def first_records(self, n_records: int, n_files: int) -> FirstRecords:
        """Returns the first rows with what was found of them; see `EventSource`."""
        transitions: Counter[str | None] = Counter()
        events, _, tally = self._canonical(n_records, transitions)
        return FirstRecords(tally, (events,), transitions)

    def divider(self, file: SourceFile) -> None:
        """Returns None: a frame is in memory already."""

    def read(
        self,
        file: SourceFile,
        tally: TallyOfFile | None = None,
        lacking: list[tuple[SourceFile, Lacks]] | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yields all events and all rejects at once; see `EventSource`."""
        events, rejects, read = self._whole()
        if tally is not None:
            tally.take(read)
        yield events, rejects

    def _whole(self) -> tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]:
        """Returns what `_canonical` does of all rows, which are read once for each mapping."""
        if self.mapping not in self._events:
            self._events[self.mapping] = self._canonical(None)
        return self._events[self.mapping]

    def _canonical(
        self, n_rows: int | None, transitions: Counter[str | None] | None = None
    ) -> tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]:
        columns, unread = self.frame.columns(
            self._resolved.wanted, n_rows, self.mapping.order_alone
        )
        tally = TallyOfFile(0, transitions)
        events, rejects = self._resolved.canonicalise(
            columns.filter(pa.array(~unread)) if unread.any() else columns,
            np.flatnonzero(~unread),
            np.flatnonzero(unread),
            0,
            tally,
            malformed_as=NO_SCALAR,
        )
        events = without_numbers(events) if self.is_unordered else events
        return in_order(events), rejects, tally.result()

    @property
    def _resolved(self) -> ResolvedColumns:
        # A frame that pm4py has formatted has its names beside the earlier ones.
        return self.mapping.resolve(self.frame.names, xes_names=True)


def _digest_of(events: pa.RecordBatch) -> str:
    """Returns the SHA-256 of events as `in_order` gives them.

    Its dictionaries are sorted and hold just the texts that there are, so their codes are as
    canonical as these.
    """
    digest = hashlib.sha256()
    for name in events.schema.names:
        values = events.column(name)
        digest.update(f"{name} {values.type} {len(values)}\n".encode())
        if pa.types.is_dictionary(values.type):
            texts = values.dictionary.to_pylist()
            digest.update(np.array(list(map(len, texts)), "<i8").tobytes())
            digest.update("".join(texts).encode())
            values = values.indices
        digest.update(np.packbits(np.asarray(pc.is_null(values))).tobytes())
        digest.update(np.asarray(pc.fill_null(values, 0), "<i8").tobytes())
    return digest.hexdigest()
