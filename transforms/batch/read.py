"""Reading: files in pieces, records to canonical events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import LacksColumn
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.transforms.batch.job import DeadLetter
from tracecloak.transforms.batch.traces import CountStatistics, once, total
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.sources import (
    EventSource,
    check_pieces,
    look,
    pieces_from_looks,
    places,
)

# --- ReadFiles: files of any format to canonical events and rejects. ------------------------------
# Malformed records go to the dead letter; too many of them end the run.


EVENTS = "events"
REJECTS = "rejects"
TALLIES = "tallies"
_LACKING = "lacking"

# Small files are read together, as an element and its batches cost more than the records in them.
# Not too many are, as each file far away takes a while to answer, and workers can share this
# waiting.
_MOST_FILES = 64
_MOST_BYTES = 8 << 20
# Larger files are read in pieces of about this size, each by whichever worker has time.
PIECE_BYTES = 16 << 20
# Events of several files are put into one batch, up to this number.
_FULL_ROWS = 1 << 15


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def ReadFiles(  # noqa: N802  # runners know it by this name
    begin: beam.pvalue.PBegin, source: EventSource, operator_folder: str | None = None
) -> dict[str, beam.PCollection[Any]]:
    """Reads an event log; returns a dict of PCollections.

    `events` holds batches of canonical events, `rejects` batches of the places and reasons of
    malformed records, each of one file, `tallies` a ReadTally for each element that was read: a
    file, a piece of one or a few small files, in parallel.

    Args:
        begin: Of the pipeline.
        source: What is read.
        operator_folder: Where workers put their findings in the data, see
            `transforms.operator_log`; None: into their logs.
    """
    large: list[SourceFile] = []
    small: list[SourceFile] = []
    for file in source.files:
        (large if places(source, file, PIECE_BYTES) else small).append(file)
    elements = begin | "Files" >> beam.Create(list(_together(small)))
    if large:
        divided = (
            begin
            | "LargeFiles" >> beam.Create(large)
            | "Places" >> beam.FlatMap(_places, source, PIECE_BYTES).with_output_types(_Place)
            | "SpreadPlaces" >> beam.Reshuffle()
            | "Look" >> beam.Map(_look, source).with_output_types(tuple[int, _Place])
            | "GroupByFile" >> beam.GroupByKey()
            | "Divide" >> beam.FlatMap(_pieces, source)
        )  # PCollection[tuple[SourceFile, ...]]
        elements = (elements, divided) | "FilesAndPieces" >> beam.Flatten()
    outputs = (
        elements
        | "Spread" >> beam.Reshuffle()
        | "Read"
        >> beam.ParDo(_ReadFiles(source, operator_folder)).with_outputs(
            REJECTS, TALLIES, _LACKING, main=EVENTS
        )
    )
    tallies = outputs[TALLIES]
    if large:
        # A stage of its own gives them, as Beam's runner of bundles in this process takes for a
        # side input all outputs of a stage, or none: `_update_side_inputs_container` in 2.77.
        lacking = outputs[_LACKING] | "Lacking" >> beam.Map(lambda one: one)
        # It gives nothing, but no tally of a log is complete before it has ended.
        checked = once(
            begin.pipeline,
            "CheckPieces",
            _check_pieces,
            source,
            operator_folder,
            pvalue.AsIter(lacking),
        )
        checked.element_type = ReadTally
        tallies = (tallies, checked) | "Tallies" >> beam.Flatten()
    # PCollection[pa.RecordBatch] twice, PCollection[ReadTally]
    return {EVENTS: outputs[EVENTS], REJECTS: outputs[REJECTS], TALLIES: tallies}


# A file, the number of a place at which it is looked at, and the place or what was seen there.
_Place = tuple[SourceFile, int, Any]


def _places(file: SourceFile, source: EventSource, max_bytes: int) -> Iterator[_Place]:
    for number, place in enumerate(places(source, file, max_bytes)):
        yield file, number, place


def _look(asked: _Place, source: EventSource) -> tuple[int, _Place]:
    file, number, place = asked
    return file.rank, (file, number, look(source, file, place))


def _pieces(
    ranked: tuple[int, Iterable[_Place]], source: EventSource
) -> Iterator[tuple[SourceFile, ...]]:
    looks = sorted(ranked[1], key=lambda one: one[1])
    for piece in pieces_from_looks(source, looks[0][0], [seen for _, _, seen in looks]):
        yield (piece,)


def _check_pieces(
    source: EventSource,
    operator_folder: str | None,
    lacking: Iterable[tuple[SourceFile, LacksColumn]],
) -> Iterator[ReadTally]:
    with kept_on_worker(operator_folder):
        check_pieces(source, lacking)
    yield from ()


def _together(files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, ...]]:
    """Yields runs of files that one element reads: a large one alone, or small ones."""
    run: list[SourceFile] = []
    n_bytes = 0
    for file in files:
        if run and (len(run) == _MOST_FILES or n_bytes + file.n_bytes > _MOST_BYTES):
            yield tuple(run)
            run, n_bytes = [], 0
        run.append(file)
        n_bytes += file.n_bytes
    if run:
        yield tuple(run)


@dataclass(eq=False, repr=False)
class _ReadFiles(beam.DoFn):
    source: EventSource
    operator_folder: str | None

    def process(self, files: tuple[SourceFile, ...]) -> Iterable[pa.RecordBatch]:
        with kept_on_worker(self.operator_folder):
            yield from self._read(files)

    def _read(self, files: tuple[SourceFile, ...]) -> Iterable[pa.RecordBatch]:
        tallies: list[ReadTally] = []
        small: list[pa.RecordBatch] = []
        n_rows = 0
        for file in files:
            tally = FileTally(file.rank)
            lacking: list[tuple[SourceFile, LacksColumn]] = []
            for events, rejects in self.source.read(file, tally, lacking):
                if events.num_rows:
                    small.append(events)
                    n_rows += events.num_rows
                if n_rows >= _FULL_ROWS:
                    yield from _joined(small)
                    small, n_rows = [], 0
                if rejects.num_rows:  # of one file in each batch
                    yield pvalue.TaggedOutput(REJECTS, rejects)
            yield from (pvalue.TaggedOutput(_LACKING, one) for one in lacking)
            tallies.append(tally.result())
            self.source.note_read(file)
        yield from _joined(small)
        yield pvalue.TaggedOutput(TALLIES, ReadTally.merge(tallies))

    def infer_output_type(self, input_type: Any) -> Any:
        return pa.RecordBatch


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns batches of events as one, as a shuffle pays for the pieces of each."""
    if len(batches) < 2:
        return batches
    joined = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    pieces: list[pa.RecordBatch] = joined.to_batches()
    return pieces


def check_rejects(
    read: Mapping[str, beam.PCollection[Any]], dead_letter: DeadLetter
) -> beam.PCollection[bool]:
    """Lists the rejects that `ReadFiles` gave; see `check_tally`."""
    written = (
        read[REJECTS]
        | "ByFile" >> beam.Map(_with_file).with_output_types(tuple[int, pa.RecordBatch])
        | "GroupByFile" >> beam.GroupByKey()
        | "WriteDeadLetter" >> beam.MapTuple(dead_letter.write)
    )
    return check_tally(read[TALLIES], dead_letter.check, pvalue.AsIter(written))


def _with_file(rejects: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    return rejects.column("file")[0].as_py(), rejects


def check_tally(
    tallies: beam.PCollection[ReadTally], check: Callable[[ReadTally], None], *waited: Any
) -> beam.PCollection[bool]:
    """Checks what was found of all records; returns one element if the run may go on.

    Args:
        tallies: What was found, in any parts.
        check: Fails if the run may not; it pickles.
        waited: Side inputs that are to be complete before.
    """
    counted = CountStatistics(_TALLY, lambda tally: {"tally": tally})
    tally = tallies | "Tally" >> counted
    return once(tally.pipeline, "CheckTally", _check, check, pvalue.AsIter(tally), *waited)


_TALLY: dict[str, type[Any]] = {"tally": ReadTally}


def _check(
    check: Callable[[ReadTally], None], tally: Iterable[Statistics], *waited: Any
) -> Iterator[bool]:
    check(total(_TALLY, tally)["tally"])
    yield True
