"""Writing on Beam: log files of a release, its products, and the one commit."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Mergeable
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import LogCounts
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.schemas.published.rows import parts_of, rows_of_part
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.arrow_coder import pack, unpack
from tracecloak.transforms.batch.job import Target, commit
from tracecloak.transforms.batch.traces import (
    Chunk,
    CountBatches,
    MergeStatistics,
    only,
    release_memory,
)
from tracecloak.transforms.publish.release_files import (
    write_dfg,
    write_export,
    write_part,
    write_products,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")


class WriteTraces(beam.PTransform):
    """Writes PCollection[TraceBatch] of released cases; returns one element once all is committed.

    A batch without cases gives its attributes' columns to every part (`released.no_traces`). A
    fixed number of parts is written, empty ones too, so their number tells nothing. The manifest
    comes last.
    """

    def __init__(
        self,
        target: Target,
        products: beam.PCollection[Chunk],
        wait_on: beam.PCollection[Any] | None = None,
    ) -> None:
        """Keeps what to write where.

        Args:
            target: What is written where. Of a method without a log only the products are.
            products: What is released beside it, in chunks.
            wait_on: Nothing is committed before this is complete: a log of which every record is
                malformed has no trace that could wait for its check.
        """
        super().__init__()
        self._target = target
        self._has_log = method_named(target.spec.method).log != "none"
        self._products = products
        self._wait_on = wait_on

    def expand(self, released: beam.PCollection[TraceBatch]) -> beam.PCollection[str]:
        """Wires parts → exports → commit, each waiting for the one before."""
        pipeline = released.pipeline
        products = (
            pipeline
            | "Products once" >> beam.Create([None])
            | "WriteProducts"
            >> beam.FlatMap(_write_products, self._target, pvalue.AsIter(self._products))
        )  # PCollection[OutputFile]
        parts, counted, others = self._write_log(released) if self._has_log else (None, None, [])
        waited = [] if self._wait_on is None else [pvalue.AsIter(self._wait_on)]
        return (
            pipeline
            | "Commit once" >> beam.Create([None])
            | "Commit"
            >> beam.Map(
                _commit,
                self._target,
                *(waited or [()]),
                [] if parts is None else pvalue.AsIter(parts),
                None if counted is None else pvalue.AsIter(counted),
                pvalue.AsIter(self._products),
                *(pvalue.AsIter(files) for files in (products, *others)),
            )
        )  # PCollection[str]

    def _write_log(
        self, released: beam.PCollection[TraceBatch]
    ) -> tuple[
        beam.PCollection[OutputFile],
        beam.PCollection[Chunk],
        list[beam.PCollection[OutputFile]],
    ]:
        """Returns the parts of the log, their counts, and the other files made from them."""
        target = self._target
        pipeline = released.pipeline
        cases = released | "SplitByPart" >> beam.FlatMap(_split, target.n_parts).with_output_types(
            tuple[int, bytes]
        )
        every_part = pipeline | "EveryPart" >> beam.Create(
            [(number, _NO_CASES) for number in range(target.n_parts)]
        ).with_output_types(tuple[int, bytes])
        parts = (
            (cases, every_part)
            | "Flatten" >> beam.Flatten()
            | "GroupByPart" >> beam.GroupByKey()
            | "WritePart" >> beam.Map(_write_part, target)
        )  # PCollection[OutputFile]
        counted = (
            released
            | "CountReleased" >> beam.ParDo(CountBatches(_RELEASED, _count_released))
            | "Released" >> MergeStatistics(**_RELEASED)
        )  # PCollection[Chunk]
        graph = (
            pipeline
            | "Graph once" >> beam.Create([None])
            | "WriteDfg" >> beam.Map(_write_dfg, target.folder, pvalue.AsIter(counted))
        )  # PCollection[OutputFile]
        exports = (
            pipeline
            | "Exports" >> beam.Create(target.exports)
            | "SpreadExports" >> beam.Reshuffle()
            | "WriteExport" >> beam.Map(_write_export, target, pvalue.AsIter(parts))
        )  # PCollection[OutputFile]
        return parts, counted, [graph, exports]


_NO_CASES = b""

_RELEASED: dict[str, type[Mergeable]] = {
    "graph": DirectlyFollows,
    "variants": VariantHistogram,
    "times": LogTimes,
    "names": ActivityVocabulary,
}


def _split(released: TraceBatch, n_parts: int) -> Iterable[tuple[int, bytes]]:
    """Encodes batches once, as the runner would decode and encode at every step of the shuffle."""
    for number, cases in parts_of(released, n_parts):
        yield number, pack(encode(cases))


def _write_part(part: tuple[int, Iterable[bytes]], target: Target) -> OutputFile:
    number, encoded = part
    release_memory()
    batches = [decode(unpack(cases)) for cases in encoded if cases != _NO_CASES]
    return write_part(target.folder, target.manifest, number, rows_of_part(batches))


def _count_released(released: TraceBatch) -> dict[str, Any]:
    return {
        "graph": DirectlyFollows.from_traces(released),
        "variants": VariantHistogram.from_traces(released),
        "times": LogTimes.from_traces(released),
        "names": released.vocabulary,
    }


def _write_dfg(once: None, folder: ReleaseFolder, counted: Iterable[Chunk]) -> OutputFile:
    statistics = only(counted).by_name
    return write_dfg(folder, statistics["graph"], statistics["names"])


def _write_products(once: None, target: Target, products: Iterable[Chunk]) -> list[OutputFile]:
    return write_products(target.folder, target.manifest, only(products))


def _write_export(kind: str, target: Target, parts: Iterable[OutputFile]) -> OutputFile:
    written = write_export(target.folder, target.manifest, kind, target.n_parts)
    _LOG.info("wrote %s", written.path)
    return written


def _commit(
    once: None,
    target: Target,
    waited: Iterable[Any],
    parts: Iterable[OutputFile],
    counted: Iterable[Chunk] | None,
    products: Iterable[Chunk],
    *others: Iterable[OutputFile],
) -> str:
    log = None if counted is None else LogCounts(**only(counted).by_name)
    beside = [one for files in others for one in files]
    commit(target, list(parts), beside, only(products), log)
    return target.folder.release_id
