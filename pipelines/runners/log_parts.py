"""A released log is counted and written part by part as its cases come, none of them twice."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from tracecloak.pipelines.runners.held import Block, Hold
from tracecloak.pipelines.runners.limits import Limits
from tracecloak.pipelines.runners.workers import Workers
from tracecloak.schemas.arrays.merging import PiecesByThread
from tracecloak.schemas.events.events import released_schema
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.graph import LogCounts
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.schemas.published.rows import in_order, merge_rows, parts_of, rows_of_part
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.batch.job import Target
from tracecloak.transforms.publish.log_files import write_dfg, write_export, write_part

_LOG = logging.getLogger("tracecloak")

# To order a byte of a part's cases takes so many more.
_ORDERED_BYTES = 3
# Of a part that is merged, about so many bytes of each of its runs are in memory at once.
_RUN_BYTES = 1 << 18
# To write a part takes about so much, however large it is: its texts, a group of rows at a time.
_WRITTEN_BYTES = 200 << 20


class LogParts:
    """The parts of a log, before and after they are written."""

    def __init__(self, target: Target, hold: Hold, limits: Limits, workers: Workers) -> None:
        """Begins without a case.

        Args:
            target: What is written, and where.
            hold: Holds the cases.
            limits: How much memory there is.
            workers: Who count and write.
        """
        self._target = target
        self._hold = hold
        self._limits = limits
        self._workers = workers
        self._parts: list[list[Block[TraceBatch]]] = [[] for _ in range(target.n_parts)]

    def write(
        self, released: Iterable[TraceBatch]
    ) -> tuple[list[OutputFile], LogCounts, list[OutputFile]]:
        """Returns the parts of the log, their counts, and the other files made from them.

        Args:
            released: The released cases, and batches without cases that tell its attributes.
        """
        counts = PiecesByThread(
            {
                "graph": DirectlyFollows,
                "variants": VariantHistogram,
                "times": LogTimes,
                "names": ActivityVocabulary,
            }
        )
        # A log that was made up comes in large batches, and to count one takes ten times its bytes.
        batches = (one for whole in released for one in whole.split(self._limits.batch_bytes))
        for cases_of_parts in self._workers.each(partial(self._looked_at, counts), batches):
            for number, cases in cases_of_parts:
                self._parts[number].append(self._hold.put(cases))
        log = LogCounts(**counts.result())
        folder, manifest, n_parts = self._target.folder, self._target.manifest, len(self._parts)
        n_writers = max(self._limits.n_workers * self._limits.step_bytes // _WRITTEN_BYTES, 1)
        parts = list(self._workers.each(self._write_part, range(n_parts), n_writers))
        beside = [write_dfg(folder, log.graph, log.names)]
        for kind in self._target.exports:
            beside.append(write_export(folder, manifest, kind, n_parts))
            _LOG.info("wrote %s", beside[-1].path)
        return parts, log, beside

    def _looked_at(self, counts: PiecesByThread, batch: TraceBatch) -> list[tuple[int, TraceBatch]]:
        counts.add(
            {
                "graph": DirectlyFollows.from_traces(batch),
                "variants": VariantHistogram.from_traces(batch),
                "times": LogTimes.from_traces(batch),
                "names": batch.vocabulary,
            }
        )
        return list(parts_of(batch, self._target.n_parts))

    def _write_part(self, number: int) -> OutputFile:
        blocks, self._parts[number] = self._parts[number], []
        rows = self._merged(blocks) if self._is_large(blocks) else self._rows(blocks)
        return write_part(self._target.folder, self._target.manifest, number, rows)

    def _is_large(self, blocks: list[Block[TraceBatch]]) -> bool:
        return _ORDERED_BYTES * sum(one.n_bytes for one in blocks) > self._limits.step_bytes

    def _rows(self, blocks: list[Block[TraceBatch]]) -> Iterator[pa.RecordBatch]:
        return rows_of_part([self._hold.take(block) for block in blocks])

    def _merged(self, blocks: list[Block[TraceBatch]]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a part that is not in memory at once: runs of it are, piece by piece.

        A run is as many cases as can be ordered at once, held in pieces; see `rows_of_part`.
        """
        runs: list[list[Block[TraceBatch]]] = []
        cases: list[TraceBatch] = []
        n_bytes = 0
        for i, block in enumerate(blocks):
            batch = self._hold.take(block)
            schema = released_schema(batch.attribute_types)
            cases += [batch] if batch.n_cases else []
            n_bytes += block.n_bytes
            is_last = i + 1 == len(blocks)
            if cases and (is_last or n_bytes * _ORDERED_BYTES >= self._limits.step_bytes):
                run = in_order(TraceBatch.concat(cases)).split(_RUN_BYTES)
                runs.append([self._hold.put(piece) for piece in run])
                cases, n_bytes = [], 0
        return merge_rows([self._rows_of(run) for run in runs], schema)

    def _rows_of(self, run: list[Block[TraceBatch]]) -> Iterator[pa.RecordBatch]:
        for block in run:
            yield self._hold.take(block).to_rows()
