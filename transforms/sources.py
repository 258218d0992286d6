"""What a release reads: files, their format and what their columns mean; without Beam."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import (
    InputSchemaError,
    LacksColumn,
    NoSuchFile,
    OtherFormat,
    RetryLater,
    SchemaChanged,
    UsageError,
)
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import (
    CASE_ID,
    is_case_attribute,
    without_numbers,
)
from tracecloak.schemas.events.tally import FileTally, Noted, ReadTally, TraceNames
from tracecloak.transforms.formats.base import (
    SHOWN_COLUMNS,
    DeclaringReader,
    RawBatch,
    Reader,
    TypedReader,
    missing_columns,
    require_columns,
)
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat, unpacked
from tracecloak.transforms.inputs.file_kind import describe_file
from tracecloak.transforms.inputs.source_files import SourceFile, open_source, position_in

if TYPE_CHECKING:
    from tracecloak.schemas.events.traces import TraceBatch
    from tracecloak.transforms.formats.pieces import Divider, Piece

_OPERATOR = logging.getLogger("tracecloak.operator")

# Rows to a batch: a shuffle of many shards pays for every piece of every batch.
_BATCH_ROWS = 1 << 16
# The progress of a file is logged at most this often.
_REPORTED_APART_S = 5.0
# Of a file that declares no columns, so many records are looked at for them.
_LISTED_RECORDS = 1_000
# Batches of a file in which records are looked for to be tried.
_TRIED_BATCHES = 20


@dataclass(frozen=True)
class FirstRecords:
    """Some records at the beginning of a source.

    Attributes:
        tally: What was found of them.
        events: Those that can be read, as canonical events, file by file.
        transitions: How often each lifecycle transition occurs among them, as it is written, and
            among those that are set aside; empty where none is mapped.
    """

    tally: ReadTally
    events: tuple[pa.RecordBatch, ...]
    transitions: Counter[str | None]


@dataclass(frozen=True)
class EventSource:
    """Everything that tells how to read an event log.

    Attributes:
        files: The input files, ranked.
        format: How their bytes are read.
        mapping: What their columns mean. The columns that a file's path gives its records stand in
            place of columns of the file with their names, as in Spark: a file can be passed over by
            its path, so what its records say themselves cannot count.
        span_us: The times of the events that are read, from the first to the second, exclusive,
            microseconds since 1970 UTC; None: all. Malformed records are told where they are read,
            and what cannot hold an event of the span is not.
        n_passed_over: How many files were left out of `files` by their paths alone.
        drops_duplicates: Whether equal events of a case count once, which whoever groups them into
            cases sees to, see `schemas.events.traces`.
        is_unordered: Whether its records have no places, as in a table, whose engine rewrites
            files; see `schemas.events.events`.
    """

    files: tuple[SourceFile, ...]
    format: SourceFormat
    mapping: ColumnMapping
    span_us: tuple[int, int] | None = None
    n_passed_over: int = 0
    drops_duplicates: bool = False
    is_unordered: bool = False
    may_be_empty: ClassVar[bool] = True
    """Whether a source without records is as usual as one with some, as a partition is."""

    def narrowed(self, keeps: Callable[[SourceFile], bool] | None = None) -> EventSource:
        """Returns this source without the files that its filters leave out; opens none.

        Files are left out by what their paths say of their records, before anybody looks at them.

        Args:
            keeps: Tells whether a file that the filters let pass is kept; None: all are.
        """
        tried: dict[tuple[Any, bool], bool] = {}  # as many files lie in one folder

        def passes(file: SourceFile) -> bool:
            try:
                what = file.partitions, self.format.has_xes_names(file.path)
            except UsageError as error:  # its ending says no format
                words = describe_file(file)
                kind = UsageError if "input_format" in words else OtherFormat
                raise kind(f"{file.path}: {words}") if words else error from None
            if what not in tried:
                tried[what] = self.mapping.may_match(dict(what[0]), what[1])
            return tried[what] and (keeps is None or keeps(file))

        files = [file for file in self.files if passes(file)]
        ranked = tuple(replace(file, rank=rank) for rank, file in enumerate(files))
        n_passed_over = self.n_passed_over + len(self.files) - len(files)
        return replace(self, files=ranked, n_passed_over=n_passed_over)

    def check_partitions(self) -> None:
        """Makes sure that a column that is read comes from the paths of all files, or of none.

        Raises:
            InputSchemaError: It is in those of some; names the column and two of the files.
        """
        each = (self.mapping.resolve(None, xes).wanted for xes in (True, False))
        wanted = dict.fromkeys(chain(*each))
        names = [frozenset(name for name, _ in file.partitions) for file in self.files]
        for name in wanted:
            file_of = {name in given: file for given, file in zip(names, self.files, strict=True)}
            if len(file_of) == 2:
                raise InputSchemaError(
                    f"the column {name!r} is a part of the path {file_of[True].path} but not of "
                    f"{file_of[False].path}; name folders of the same partitions"
                )

    def progress_of(self, file: SourceFile, n_read: int | None = None) -> dict[str, Any]:
        """Returns what a record of the log says of progress: bytes of a file, of those of all.

        Args:
            file: One of `files`, or a piece of one.
            n_read: How many of its bytes were read; None: all.
        """
        piece: Piece | None = file.piece
        n_bytes = file.n_bytes if piece is None else piece.n_bytes
        return {
            "stage": "reading",
            "part": file.rank if piece is None else (file.rank, piece.begin),
            "done": n_bytes if n_read is None else n_read,
            "total": self._n_bytes,
        }

    def note_read(self, file: SourceFile) -> None:
        """Tells the operator that a file of these, or a piece of one, is read."""
        what = "input" if file.piece is None else "a piece of input"
        progress = self.progress_of(file)
        _OPERATOR.info("read %s %d of %d", what, file.rank + 1, len(self.files), extra=progress)

    @cached_property
    def _n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)

    def place_of(self, rank: int, record: int) -> str:
        """Returns where a record stands, for people: its number from 0 in the file of a rank."""
        return f"record {record + 1:,} of {self.files[rank].path}"

    def why_unread(self, rank: int) -> InputSchemaError | None:
        """Returns the error that explains malformed records of a file; for the operator.

        It says what the file is, if it is not of its format; or which columns its first records
        have, if only records tell and none has one that is mapped. Else, and of what is no file,
        there is none.
        """
        file = self.files[rank]
        try:
            reader = self.format.reader_of(file.path, file.seen)
            words = describe_file(file, self.format.name_of(file.path), self.format.encoding)
            if words:
                return OtherFormat(words)
            names_in = getattr(reader, "names_in", None)  # where only records tell the columns
            if names_in is None:
                return None
            with contextlib.closing(open_source(file)) as stream:
                names = [*names_in(stream, _LISTED_RECORDS), *dict(file.partitions)]
            require_columns(names, self._resolve(file, None).required)
        except LacksColumn as error:
            return error
        except Exception:  # that records are malformed is said without this
            return None
        return None

    def title_of(self, file: SourceFile) -> str:
        """Returns what one of `files` is, for people."""
        return f"{file.path} ({file.n_bytes:,} bytes, {self.format.name_of(file.path)})"

    def names_of(self, file: SourceFile, declared: list[str] | None) -> dict[str, str]:
        """Returns the source column of each canonical one.

        Args:
            file: One of `files`.
            declared: What `columns_of` returned for it.
        """
        return self._resolve(file, declared).names

    def readings(self, file: SourceFile) -> list[str]:
        """Returns how the columns of times of a file are read, a line for each; reads no values.

        Raises:
            InputSchemaError: As `columns_of`.
        """
        with self._opened(file) as (reader, stream, _, columns):
            empty = pa.RecordBatch.from_pylist([], pa.schema([]))
            if isinstance(reader, TypedReader):
                empty = reader.empty(stream, _own(columns.wanted, file))
        return columns.readings(empty)

    def check(self, files: Iterable[SourceFile], others: Sequence[SourceFile] = ()) -> None:
        """Makes sure that files have the columns that are mapped, as `columns_of` does.

        Args:
            files: Which.
            others: Of the same source, also files that are not read.

        Raises:
            SchemaChanged: One lacks a column that an earlier one has, or one of `others`.
            InputSchemaError: See `columns_of`.
        """
        checked: set[tuple[Any, ...]] = set()
        for n_sound, file in enumerate(files):
            try:
                self.columns_of(file, checked)
            except LacksColumn as error:
                if n_sound or any(map(self._is_sound, (*others[:1], *others[-1:]))):
                    raise SchemaChanged(str(error)) from error
                raise

    def _is_sound(self, file: SourceFile) -> bool:
        with contextlib.suppress(Exception):  # another error is about that file
            self.columns_of(file)
            return True
        return False

    def columns_of(
        self, file: SourceFile, checked: set[tuple[Any, ...]] | None = None
    ) -> list[str] | None:
        """Returns the columns that a file declares; None where only its records tell.

        Those that its path gives are among them. Reads no values.

        Args:
            file: One of `files`.
            checked: Gets what the file declares; types that another one declared, too, are not
                tried again.

        Raises:
            InputSchemaError: A required column is not among them, or has a type that cannot be what
                it is mapped to, or the file is not of its format.
        """
        checked = set() if checked is None else checked
        with self._opened(file) as (reader, stream, declared, columns):
            if declared is None:
                return None
            cast(DeclaringReader, reader).check(declared, _own(columns.required, file))
            if isinstance(reader, TypedReader):
                empty = reader.empty(stream, _own(columns.wanted, file))
                same = (type(reader), tuple(columns.names.items()), empty.schema, file.partitions)
                if same not in checked:
                    none = np.zeros(0, np.int64)
                    batch = _with_partitions(empty, columns, file, 0)
                    columns.canonicalise(batch, none, none, file.rank)
                    checked.add(same)
        return [*_own(declared, file), *dict(file.partitions)]

    def first_records(self, n_records: int, n_files: int) -> FirstRecords:
        """Reads some records at the beginning, and returns them with what was found of them.

        Those that a filter drops are not among them, and not all of a file are looked through for
        some that pass.

        Args:
            n_records: How many, over all files.
            n_files: How many files are opened at most.

        Raises:
            InputSchemaError: As `read`.
        """
        tallies: list[ReadTally] = []
        batches: list[pa.RecordBatch] = []
        transitions: Counter[str | None] = Counter()
        left = n_records
        for file in self.files[:n_files]:
            tally = FileTally(file.rank, transitions)
            n_read = 0
            for events, _ in islice(self.read(file, tally, batch_rows=left), _TRIED_BATCHES):
                batches.append(events)
                n_read = tally.result().n_records
                if n_read >= left:
                    break
            tallies.append(tally.result())
            left -= n_read
            if left <= 0:
                break
        return FirstRecords(ReadTally.merge(tallies), tuple(batches), transitions)

    def divider(self, file: SourceFile) -> Divider | None:
        """Returns what divides a file; None: nothing does, as it is compressed or has no pieces."""
        if unpacked(file.path)[1] is not None:
            return None
        divider = getattr(self.format.reader_of(file.path, file.seen), "divider", None)
        return None if divider is None else cast("Divider | None", divider())

    def read(
        self,
        file: SourceFile,
        tally: FileTally | None = None,
        lacking: list[tuple[SourceFile, LacksColumn]] | None = None,
        batch_rows: int = _BATCH_ROWS,
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yields (canonical events, rejects) of a file in document order, either may be empty.

        Args:
            file: One of `files`, or one of its `pieces`.
            tally: Is told what was found in what has been read, if anybody asks.
            lacking: Gets what a piece lacks; needed if pieces are read.
            batch_rows: About how many records are read at once.

        Raises:
            InputSchemaError: The file cannot be read; names the file and columns, never values.
            RetryLater: A file was changed since it was divided.
        """
        with self._opened(file) as (reader, stream, declared, columns):
            case_id = columns.names[CASE_ID]
            has_names = bool(_own([case_id], file)) and is_case_attribute(case_id)
            names = TraceNames()
            reported_at_s = time.monotonic()
            wanted, required = _own(columns.wanted, file), _own(columns.required, file)
            batches = reader.read(stream, wanted, required, batch_rows)
            if declared is None:
                batches = self._unless_lacking(batches, file, lacking)
            for raw in batches:
                if tally is not None and raw.traces is not None and has_names:
                    repeated = names.repeated(raw.traces, raw.columns.column(case_id))
                    tally.add(Noted.SAME_NAME, raw.records[repeated])
                if time.monotonic() - reported_at_s >= _REPORTED_APART_S:
                    reported_at_s = time.monotonic()
                    self._report_progress(file, stream)
                events, rejects = columns.canonicalise(
                    _with_partitions(raw.columns, columns, file, len(raw.records)),
                    raw.records,
                    raw.malformed,
                    file.rank,
                    tally,
                    self.span_us,
                    raw.fractional,
                )
                yield (without_numbers(events) if self.is_unordered else events), rejects

    @contextlib.contextmanager
    def _opened(
        self, file: SourceFile
    ) -> Iterator[tuple[Reader, BinaryIO, list[str] | None, ResolvedColumns]]:
        """Gives the reader of a file, its bytes, what it declares, and what that means."""
        reader = self.format.reader_of(file.path, file.seen)
        with named(file, self.format), contextlib.ExitStack() as opened:
            stream = opened.enter_context(open_source(file))
            if file.piece is not None and (divider := self.divider(file)) is not None:
                from tracecloak.transforms.formats.pieces import check_size

                check_size(stream, file.n_bytes)
                reader = divider.piece_reader(file.piece)
            declared = reader.column_names(stream)
            columns = self._resolve(file, declared)
            if stream.closed or not stream.seekable():
                stream = opened.enter_context(open_source(file))
            else:
                stream.seek(0)
            yield reader, stream, declared, columns

    def events(self) -> Sequence[pa.RecordBatch]:
        """Returns the events of all files, without malformed records."""
        return [events for file in self.files for events, _ in self.read(file)]

    def log(self, by_individual: bool = False) -> TraceBatch:
        """Returns all cases as one batch; malformed records are left out, as in a release.

        Args:
            by_individual: Whether the individuals of the cases are read.

        Raises:
            InputSchemaError: A file cannot be read, or an event names no individual.
        """
        from tracecloak.anonymizers.contract.in_memory import whole_log

        return whole_log(self.events(), by_individual, self.drops_duplicates)

    @property
    def is_by_name(self) -> bool:
        """Whether events of a case with equal timestamps are ordered by their names."""
        return self.is_unordered and self.mapping.order is None

    @property
    def rule(self) -> str:
        """What orders events of a case with equal timestamps, for people."""
        if self.mapping.order is not None:
            return f"the values of column {self.mapping.order!r}"
        return "the names of activities" if self.is_unordered else "the rows of the source"

    def _unless_lacking(
        self,
        batches: Iterator[RawBatch],
        file: SourceFile,
        lacking: list[tuple[SourceFile, LacksColumn]] | None,
    ) -> Iterator[RawBatch]:
        """Yields batches of a file of which only records tell the columns."""
        try:
            yield from batches
        except LacksColumn as error:
            if file.piece is None:
                _refuse(error, self.format.goes_on)
            elif lacking is not None:  # no piece knows what others have
                lacking.append((file, error))

    def _report_progress(self, file: SourceFile, stream: BinaryIO) -> None:
        """Logs how far the reading of a long file is, if it is read from its begin to its end."""
        if FORMATS[self.format.name_of(file.path)].is_packed:
            return
        with contextlib.suppress(OSError, ValueError):  # no place, or read and closed already
            begin = 0 if file.piece is None else file.piece.begin
            progress = self.progress_of(file, position_in(stream) - begin)
            _OPERATOR.info("reading input %d of %d", file.rank + 1, len(self.files), extra=progress)

    def _resolve(self, file: SourceFile, declared: list[str] | None) -> ResolvedColumns:
        if declared is not None:
            declared = [*declared, *(name for name, _ in file.partitions)]
        return self.mapping.resolve(declared, self.format.has_xes_names(file.path))


def _own(names: Iterable[str], file: SourceFile) -> tuple[str, ...]:
    """Returns the names of columns without those that the path of their file gives."""
    given = dict(file.partitions)
    return tuple(name for name in names if name not in given)


def _with_partitions(
    records: pa.RecordBatch, columns: ResolvedColumns, file: SourceFile, n: int
) -> pa.RecordBatch:
    """Returns the columns of n records of a file with those of its path that are wanted."""
    given = [(name, text) for name, text in file.partitions if name in columns.wanted]
    if not given:
        return records
    row = pa.array(np.zeros(n, np.int32))
    constants = [
        pa.DictionaryArray.from_arrays(row, pa.array([text], pa.string())) for _, text in given
    ]
    names = [*records.schema.names, *(name for name, _ in given)]
    return pa.RecordBatch.from_arrays([*records.columns, *constants], names)


@contextlib.contextmanager
def named(file: SourceFile, how: SourceFormat) -> Iterator[None]:
    """Puts the file's name in front of an error about it, and what the file is if that explains it.

    Args:
        file: What is read.
        how: How it is read.
    """
    try:
        yield
    except RetryLater as error:
        if file.path in str(error):  # as stores name it
            raise
        raise RetryLater(f"{file.path}: {error}") from error
    except InputSchemaError as error:
        words = describe_file(file, how.name_of(file.path), how.encoding)
        if words:
            raise OtherFormat(f"{file.path}: {words}") from error
        raise type(error)(f"{file.path}: {error}") from error
    except FileNotFoundError:
        raise NoSuchFile(f"No such file: {file.path} was deleted after it was listed") from None
    except PermissionError:
        raise InputSchemaError(
            f"{file.path}: this user may not read it; correct its rights"
        ) from None


# --- Which pieces a file has that several workers read, and what it lacks by all of them together.


def pieces(
    source: EventSource, file: SourceFile, max_bytes: int, each: Callable[..., Iterable[Any]] = map
) -> list[SourceFile]:
    """Returns a file in pieces, in their order; `source.read` reads each, and all give the file.

    Args:
        source: What is read.
        file: One of its files.
        max_bytes: About how large a piece is. A smaller file, and one that nothing divides, is its
            only piece.
        each: How the looks at its `places` are taken, such as by several threads.

    Raises:
        InputSchemaError: The file is not of its format.
        RetryLater: It was changed since it was listed.
    """
    looks = each(partial(look, source, file), places(source, file, max_bytes))
    return pieces_from_looks(source, file, list(looks))


def places(source: EventSource, file: SourceFile, max_bytes: int) -> list[Any]:
    """Returns where workers look at a file to divide it; none: it stays whole. Reads nothing."""
    divider = source.divider(file) if file.n_bytes > max_bytes else None
    return [] if divider is None else divider.places(file.n_bytes, max_bytes)


def look(source: EventSource, file: SourceFile, place: Any) -> Any:
    """Returns what is seen at one of the `places` of a file; raises as `pieces`."""
    from tracecloak.transforms.formats.pieces import check_size

    divider = source.divider(file)
    assert divider is not None  # which alone gave the place
    with named(file, source.format), open_source(file) as stream:
        check_size(stream, file.n_bytes)
        return divider.look(stream, place)


def pieces_from_looks(
    source: EventSource, file: SourceFile, looks: Sequence[Any]
) -> list[SourceFile]:
    """Returns the pieces of a file by the looks at all of its `places`, in their order."""
    divider = source.divider(file) if looks else None
    divided = [] if divider is None else divider.pieces(looks)
    return [replace(file, piece=one) for one in divided] if len(divided) > 1 else [file]


def check_pieces(source: EventSource, lacking: Iterable[tuple[SourceFile, LacksColumn]]) -> None:
    """Makes sure that no file lacks a required column, once all of its pieces are read.

    Args:
        source: What was read.
        lacking: What its `read` said of the pieces of any files, in any order.

    Raises:
        InputSchemaError: One does, and reading does not go on; else there is a warning.
    """
    by_rank: dict[int, list[tuple[SourceFile, LacksColumn]]] = {}
    for file, lacks in lacking:
        by_rank.setdefault(file.rank, []).append((file, lacks))
    for _, places in sorted(by_rank.items()):
        file = places[0][0]
        if len(places) < file.piece.n_pieces:  # the others have all columns
            continue
        places.sort(key=lambda one: one[0].piece.begin)
        columns = frozenset.intersection(*(lacks.columns for _, lacks in places))
        names = dict.fromkeys(name for _, lacks in places for name in lacks.names)
        if columns:
            with named(file, source.format):
                _refuse(missing_columns([*names][:SHOWN_COLUMNS], columns), source.format.goes_on)


def _refuse(error: LacksColumn, goes_on: bool) -> None:
    if not goes_on:
        raise error
    _OPERATOR.warning("%s", error)
