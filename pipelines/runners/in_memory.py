"""A release in this process: the log in parts, each counted by itself, and no Beam."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from tracecloak.anonymizers.contract.case_digests import CaseSketch, CountedUnits
from tracecloak.anonymizers.contract.in_memory import execute
from tracecloak.pipelines.runners.resources import (
    SMALL_INPUT_BYTES,
    Block,
    HeldTraces,
    Hold,
    Limits,
)
from tracecloak.schemas.arrays.merging import Totals
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import ACTIVITY, ActivityVocabulary, released_schema
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.schemas.events.traces import TraceBatch, carried_columns, split_by_shard
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.schemas.published.rows import in_order, merge_rows, parts_of, rows_of_part
from tracecloak.schemas.published.variants import KINDS_OF_LOG_COUNTS, LogCounts, count_released
from tracecloak.transforms.batch.job import Job, Target, WrittenSketch, commit
from tracecloak.transforms.files import is_on_this_machine, make_private_folder, open_raw
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_files import write_export, write_part
from tracecloak.transforms.sources import check_pieces, pieces

# --- A released log is counted and written part by part as its cases come, none of them twice. ----


_LOG = logging.getLogger("tracecloak")

# To order a byte of a part's cases takes so many more.
_ORDERED_BYTES = 3
# Of a part that is merged, about so many bytes of each of its runs are in memory at once.
_RUN_BYTES = 1 << 18
# To write a part takes about so much, however large it is: its texts, a group of rows at a time.
_WRITTEN_BYTES = 200 << 20


def write_log(
    target: Target, hold: Hold, released: Iterable[TraceBatch]
) -> tuple[list[OutputFile], LogCounts, list[OutputFile]]:
    """Returns the parts of the log, their counts, and the forms made from them.

    Args:
        target: What is written, and where.
        hold: Holds the cases until they are written.
        released: The released cases, and batches without cases that tell its attributes.
    """
    counts = Totals(KINDS_OF_LOG_COUNTS)
    # A log that was made up comes in large batches, and to count one takes ten times its bytes.
    limits, n_parts, folder = hold.limits, target.n_parts, target.folder
    batches = (one for whole in released for one in whole.split(limits.batch_bytes))
    held: dict[int, list[Block[TraceBatch]]] = {}

    def looked_at(batch: TraceBatch) -> list[tuple[int, TraceBatch]]:
        counts.add(count_released(batch))
        return list(parts_of(batch, n_parts))

    def write(number: int) -> OutputFile:
        blocks = held.pop(number, [])
        if _ORDERED_BYTES * sum(one.n_bytes for one in blocks) > limits.step_bytes:
            rows = _merged(hold, blocks)
        else:
            rows = rows_of_part([hold.take(block) for block in blocks])
        return write_part(folder, target.manifest, number, rows)

    for cases_of_parts in hold.each(looked_at, batches):
        for number, cases in cases_of_parts:
            held.setdefault(number, []).append(hold.put(cases))
    log = LogCounts(**counts.result())
    n_writers = max(limits.n_workers * limits.step_bytes // _WRITTEN_BYTES, 1)
    parts = list(hold.each(write, range(n_parts), n_writers))
    exports: list[OutputFile] = []
    for kind in target.exports:
        exports.append(write_export(folder, target.manifest, kind, n_parts))
        _LOG.info("wrote %s", exports[-1].path)
    return parts, log, exports


def _merged(hold: Hold, blocks: list[Block[TraceBatch]]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a part that is not in memory at once: runs of it are, piece by piece.

    A run is as many cases as can be ordered at once, held in pieces; see `rows_of_part`.
    """
    runs: list[list[Block[TraceBatch]]] = []
    cases: list[TraceBatch] = []
    n_bytes = 0
    for i, block in enumerate(blocks):
        batch = hold.take(block)
        schema = released_schema(batch.attribute_types)
        cases += [batch] if batch.n_cases else []
        n_bytes += block.n_bytes
        is_last = i + 1 == len(blocks)
        if cases and (is_last or n_bytes * _ORDERED_BYTES >= hold.limits.step_bytes):
            run = in_order(TraceBatch.concat(cases)).split(_RUN_BYTES)
            runs.append([hold.put(piece) for piece in run])
            cases, n_bytes = [], 0
    streams = [(hold.take(block).to_rows() for block in run) for run in runs]
    return merge_rows(streams, schema)


# --- A release in one process, without a pipeline: the same bytes as any runner gives. ------------
# Events are grouped into cases in one process, whatever of them fits into its memory.
#
# Events are dealt to shards as they are read, and each shard is sorted by itself. A shard that
# would take more memory than there is for it is dealt out once more, to shards of its own. So
# which shards there are depends on the size of the log, and what is released does not.


# To sort a byte of events takes so many more: their copy in one piece, and their order.
_SORTED_BYTES = 5
_NAMES: dict[str, type[Any]] = {"names": ActivityVocabulary}


_Shards = dict[int, list[Block[pa.RecordBatch]]]


@dataclass(eq=False)
class EventsByShard:
    """Events as they are read, by shard of their unit; several threads may add some.

    Attributes:
        hold: Holds them, and sorts them.
        n_shards: Into how many shards events are dealt as they are read.
        by_individual: See `TraceBatch.from_events`.
        drops_duplicates: Whether equal events of a case count once.
        n_dropped: How many are duplicates, once they are grouped.
    """

    hold: Hold
    n_shards: int
    by_individual: bool = False
    drops_duplicates: bool = False
    n_dropped: int = field(default=0, init=False)
    _shards: _Shards = field(default_factory=dict, init=False)
    _names: Totals = field(default_factory=lambda: Totals(_NAMES), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def add(self, events: pa.RecordBatch) -> None:
        """Takes in canonical events.

        Raises:
            InputSchemaError: The unit is the individual, and an event names none.
            TracecloakError: The disk is full.
        """
        if not events.num_rows:
            return
        events = carried_columns(events, self.by_individual)
        names = ActivityVocabulary.of(events.column(ACTIVITY).dictionary)
        with self._lock:
            self._names.add({"names": names})
        self._deal(events, self.n_shards, self._shards)

    def _deal(self, events: pa.RecordBatch, n_shards: int, to: _Shards) -> None:
        is_dealt = n_shards > 1
        dealt = split_by_shard(events, n_shards, self.by_individual) if is_dealt else [(0, events)]
        for shard, part in dealt:
            block = self.hold.put(part)
            with self._lock:
                to.setdefault(shard, []).append(block)

    def grouped(self) -> HeldTraces:
        """Returns the cases; no event is held afterwards.

        Raises:
            InputSchemaError: The events have different attributes.
            TracecloakError: The disk is full.
        """
        hold, batch_bytes = self.hold, self.hold.limits.batch_bytes
        cases = HeldTraces(hold)
        self._vocabulary = self._names.result()["names"]

        def sort_shard(blocks: list[Block[pa.RecordBatch]]) -> TraceBatch:
            return self._sorted([hold.take(block) for block in blocks])

        for traces in self.hold.each(sort_shard, self._finer_shards()):
            cases.add(traces, batch_bytes)
        return cases

    def _finer_shards(self) -> Iterator[list[Block[pa.RecordBatch]]]:
        """Yields shards each of which can be sorted in the memory that there is for it."""
        for shard in sorted(self._shards):
            blocks = self._shards.pop(shard)
            n_bytes = _SORTED_BYTES * sum(block.n_bytes for block in blocks)
            n_finer = -(-n_bytes // self.hold.limits.step_bytes)
            if n_finer <= 1:
                yield blocks
                continue
            finer: _Shards = {}
            for events in self._joined(blocks):
                self._deal(events, self.n_shards * n_finer, finer)
            yield from finer.values()

    def _joined(self, blocks: list[Block[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yields the events of blocks in large batches, as there are many shards for their rows."""
        run: list[pa.RecordBatch] = []
        batch_bytes = self.hold.limits.batch_bytes
        for i, block in enumerate(blocks):
            run.append(self.hold.take(block))
            if i + 1 == len(blocks) or sum(one.nbytes for one in run) >= batch_bytes:
                table = pa.Table.from_batches(run).unify_dictionaries().combine_chunks()
                yield from table.to_batches()
                run = []

    def _sorted(self, events: list[pa.RecordBatch]) -> TraceBatch:
        traces = TraceBatch.from_events(events, self.by_individual)
        if self.drops_duplicates:
            from tracecloak.schemas.events.traces import without_duplicates  # loaded on use

            left = without_duplicates(traces)
            with self._lock:
                self.n_dropped += traces.n_events - left.n_events
            traces = left
        return traces.recode(self._vocabulary)


# A log that is made up is made in pieces of about so many events, as one takes many times its size.
_PIECE_EVENTS = 1 << 21
# A large file is read in pieces, so many for each worker that all end at about the same time.
_PIECES_EACH = 4
_LEAST_PIECE_BYTES, _MOST_PIECE_BYTES = 1 << 20, 16 << 20


class InMemoryDriver:
    """The driver of this process, which has ended all of a run when it returns."""

    is_local: Literal[True] = True
    beam_version = None

    def units(self, job: Job) -> CountedUnits:
        """Reads the log once and returns the units of the cases of the job's window."""
        assert job.part is not None  # which alone asks for this
        units = Totals({"units": CountedUnits})
        with self._cases(job) as (_, traces):
            for batch in traces.taken():
                units.add({"units": job.part.units(batch)})
        found: CountedUnits = units.result()["units"]
        return found

    def run(self, job: Job) -> None:
        """Makes a release, from its files to its commit."""
        target, run = job.target, job.target.run
        method = run.method
        with self._cases(job) as (hold, traces):
            if job.part is not None:
                counted = HeldTraces(hold)
                for batch in traces.taken():
                    counted.add(job.part.counted(batch), hold.limits.batch_bytes)
                traces = counted
            n_pieces = -(-traces.n_events // _PIECE_EVENTS) or 1
            # What was decided ends with what makes the cases, before the parts are written.
            made, products = execute(run, traces, hold.each, n_pieces, traces.taken())[:2]
            if method.log != "transformed":
                traces.drop()
            _LOG.info("next: release")
            parts: list[OutputFile] = []
            exports: list[OutputFile] = []
            log: LogCounts | None = None
            if method.log != "none":
                cases = chain(made, run.columns)
                parts, log, exports = write_log(target, hold, cases)
        commit(target, parts, exports, products, log)

    @contextlib.contextmanager
    def _cases(self, job: Job) -> Iterator[tuple[Hold, HeldTraces]]:
        """Reads the log, and gives its cases with what holds them until the job ended."""
        # Beside the output is room for what is released, so there is room for it before.
        with _hold_of(job, job.target.folder.workplace, job.dead_letter.folder) as hold:
            cases, n_dropped = _grouped(job, hold)
            job.dead_letter.note_duplicates(n_dropped)
            yield hold, cases


class KeepingDriver(InMemoryDriver):
    """A driver that groups a source once and keeps its cases for further jobs, until it is closed.

    Its jobs are of one source, which may be read by several mappings, and have the same limits.
    """

    def __init__(self) -> None:
        """Keeps nothing yet."""
        self._holds = contextlib.ExitStack()
        self._hold: Hold | None = None
        self._kept: dict[ColumnMapping, tuple[HeldTraces, int]] = {}
        self._sketches: dict[tuple[ColumnMapping, KeyReference], CaseSketch] = {}

    def run(self, job: Job) -> None:
        """Makes a release, whose sketch is that of the first release of the same cases."""
        run = job.target.run
        if (file := run.sketch) is None:
            return super().run(job)
        known = job.source.mapping, file.key
        if known in self._sketches:
            # Like every sketch, before anything is drawn.
            file.write(self._sketches[known], file.key.resolve())
            run = replace(run, sketch=None, beside={})
        super().run(replace(job, target=replace(job.target, run=run)))
        with open_raw(file.path) as stream:
            self._sketches[known] = WrittenSketch.parse(stream.read()).sketch

    @contextlib.contextmanager
    def _cases(self, job: Job) -> Iterator[tuple[Hold, HeldTraces]]:
        """Gives the cases that are kept; each job notes for its operator what was read."""
        if self._hold is None:
            # In no workplace, which ends with its release.
            self._hold = self._holds.enter_context(_hold_of(job, job.dead_letter.folder))
        if job.source.mapping not in self._kept:
            self._kept[job.source.mapping] = _grouped(job, self._hold)
        else:
            _read_all(job, self._hold, lambda _: None)
        cases, n_dropped = self._kept[job.source.mapping]
        job.dead_letter.note_duplicates(n_dropped)
        yield self._hold, cases.lent()

    def close(self) -> None:
        """Keeps nothing any more."""
        self._kept.clear()
        self._sketches.clear()
        self._hold = None
        self._holds.close()


def _hold_of(job: Job, *folders: str) -> Hold:
    n_bytes = sum(file.n_bytes for file in job.source.files)
    limits = Limits.of(job.memory_bytes, job.n_workers, n_bytes)
    folder = next(filter(is_on_this_machine, folders), None)
    if folder is not None:
        make_private_folder(Path(folder))
    return Hold(limits, folder)


def _grouped(job: Job, hold: Hold) -> tuple[HeldTraces, int]:
    """Reads all files, and returns the cases and how many events were dropped as duplicates.

    Raises:
        InputSchemaError: The input cannot be read, or too much of it is malformed.
    """
    is_small = sum(file.n_bytes for file in job.source.files) <= SMALL_INPUT_BYTES
    n_shards = 1 if is_small else job.n_shards
    by_individual = job.target.run.by_individual
    events = EventsByShard(hold, n_shards, by_individual, job.source.drops_duplicates)
    _read_all(job, hold, events.add)
    return events.grouped(), events.n_dropped


def _read_all(job: Job, hold: Hold, add: Callable[[pa.RecordBatch], None]) -> None:
    """Reads all files, and lists what is malformed; raises as `_grouped`."""
    source = job.source
    files = _pieces(job, hold) if hold.limits.n_workers > 1 else source.files
    tallies: list[ReadTally] = []
    lacking: list[Any] = []
    read = hold.each(partial(_read, job, add), files)
    for rank, read_pieces in groupby(read, key=lambda piece: piece[0]):
        rejects = []
        for _, tally, seen, lacks in read_pieces:
            tallies.append(tally)
            rejects += seen
            lacking += lacks
        if rejects:
            job.dead_letter.write(rank, rejects)
    if lacking:
        check_pieces(source, lacking)
    job.dead_letter.check(ReadTally.merge(tallies))


def _pieces(job: Job, hold: Hold) -> Iterator[Any]:
    """Yields the files of a source in their order, large ones in pieces that are read at once."""
    source = job.source
    each_bytes = sum(file.n_bytes for file in source.files) // (
        _PIECES_EACH * hold.limits.n_workers
    )
    max_bytes = min(max(each_bytes, _LEAST_PIECE_BYTES), _MOST_PIECE_BYTES)
    for file in source.files:
        yield from pieces(source, file, max_bytes, hold.each)


def _read(
    job: Job, add: Callable[[pa.RecordBatch], None], file: Any
) -> tuple[int, ReadTally, list[pa.RecordBatch], list[Any]]:
    """Returns of a file or a piece (its rank, tally, rejects, what `check_pieces` takes)."""
    rejects: list[pa.RecordBatch] = []
    lacking: list[Any] = []
    tally = FileTally(file.rank)
    for batch, rejected in job.source.read(file, tally, lacking):
        add(batch)
        rejects.extend([rejected] if rejected.num_rows else [])
    job.source.note_read(file)
    return file.rank, tally.result(), rejects, lacking
