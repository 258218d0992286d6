"""Writing on Beam: log files of a release, its products, and the one commit."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import LogCounts
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.schemas.published.rows import parts_of, rows_of_part
from tracecloak.transforms.arrow_coder import pack, unpack
from tracecloak.transforms.batch.anonymize import AnonymizeTraces
from tracecloak.transforms.batch.job import KINDS_OF_LOG_COUNTS, Target, commit, count_released
from tracecloak.transforms.batch.traces import (
    Chunk,
    CountStatistics,
    once,
    only,
    release_memory,
    total,
)
from tracecloak.transforms.publish.release_files import (
    write_export,
    write_part,
)

_LOG = logging.getLogger("tracecloak")


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def WriteTraces(  # noqa: N802  # runners know it by this name
    released: beam.PCollection[TraceBatch],
    target: Target,
    products: beam.PCollection[Chunk],
    wait_on: beam.PCollection[Any] | None = None,
) -> beam.PCollection[str]:
    """Writes PCollection[TraceBatch] of released cases; returns one element once all is committed.

    A batch without cases gives its attributes' columns to every part (`released.no_traces`). A
    fixed number of parts is written, empty ones too, so their number tells nothing. The manifest
    comes last. Exports wait for the parts, and the commit for both.

    Args:
        released: The cases.
        target: What is written where. Of a method without a log only the products are.
        products: What is released beside it, in chunks.
        wait_on: Nothing is committed before this is complete: a log of which every record is
            malformed has no trace that could wait for its check.
    """
    pipeline, n_parts, of_part = released.pipeline, target.n_parts, tuple[int, bytes]
    waited = [] if wait_on is None else pvalue.AsIter(wait_on)
    parts: Any = []
    exports: Any = []
    counted: Any = None
    if target.spec.method.log != "none":
        split = beam.FlatMap(_split, n_parts).with_output_types(of_part)
        empty = beam.Create([(number, _NO_CASES) for number in range(n_parts)])
        parts = pvalue.AsIter(
            (
                released | "SplitByPart" >> split,
                pipeline | "EveryPart" >> empty.with_output_types(of_part),
            )
            | "Flatten" >> beam.Flatten()
            | "GroupByPart" >> beam.GroupByKey()
            | "WritePart" >> beam.Map(_write_part, target)
        )
        count = CountStatistics(KINDS_OF_LOG_COUNTS, count_released)
        counted = pvalue.AsIter(released | "Released" >> count)
        exports = pvalue.AsIter(
            pipeline
            | "Exports" >> beam.Create(target.exports)
            | "SpreadExports" >> beam.Reshuffle()
            | "WriteExport" >> beam.Map(_write_export, target, parts)
        )
    sides = waited, parts, exports, pvalue.AsIter(products), counted
    return once(pipeline, "Commit", _commit, target, *sides)


def write_release(
    traces: beam.PCollection[TraceBatch],
    target: Target,
    n_pieces: int,
    wait_on: beam.PCollection[Any],
) -> beam.PCollection[str]:
    """Anonymises the cases of a log, and writes what is released of them.

    Args:
        traces: The cases.
        target: What is released, and where.
        n_pieces: In how many pieces a log is generated.
        wait_on: Nothing is decided before this is complete.

    Returns:
        The release_id, once the release is there.
    """
    parts = traces | "AnonymizeTraces" >> AnonymizeTraces(target.spec, n_pieces, wait_on)
    return parts["traces"] | "WriteRelease" >> WriteTraces(target, parts["products"], wait_on)


_NO_CASES = b""


def _split(released: TraceBatch, n_parts: int) -> Iterable[tuple[int, bytes]]:
    """Encodes batches once, as the runner would decode and encode at every step of the shuffle."""
    for number, cases in parts_of(released, n_parts):
        yield number, pack(encode(cases))


def _write_part(part: tuple[int, Iterable[bytes]], target: Target) -> OutputFile:
    number, encoded = part
    release_memory()
    batches = [decode(unpack(cases)) for cases in encoded if cases != _NO_CASES]
    return write_part(target.folder, target.manifest, number, rows_of_part(batches))


def _write_export(kind: str, target: Target, parts: Iterable[OutputFile]) -> OutputFile:
    written = write_export(target.folder, target.manifest, kind, target.n_parts)
    _LOG.info("wrote %s", written.path)
    return written


def _commit(
    target: Target,
    waited: Iterable[Any],
    parts: Iterable[OutputFile],
    exports: Iterable[OutputFile],
    products: Iterable[Chunk],
    counted: Iterable[Statistics] | None,
) -> list[str]:
    log = None if counted is None else LogCounts(**total(KINDS_OF_LOG_COUNTS, counted))
    commit(target, list(parts), list(exports), only(products), log)
    return [target.folder.release_id]
