"""WriteRelease: released cases to the files of a release, and the commit that makes them one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.contract.method import Products
from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Mergeable
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.schemas.published.rows import parts_of
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.batch.anonymize import Run
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.count import CountBatches, MergeStatistics
from tracecloak.transforms.publish.names import PARTS
from tracecloak.transforms.publish.release_files import (
    read_log,
    write_dfg,
    write_export,
    write_part,
    write_products,
    write_report,
    write_statement,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.publish.report import LogCounts

_LOG = logging.getLogger("tracecloak")


class WriteRelease(beam.PTransform):
    """Writes PCollection[TraceBatch] of released cases; returns one element once all is committed.

    A batch without cases gives its attributes' columns to every part (`released.no_traces`). A
    fixed number of parts is written, empty ones too, so their number tells nothing. The manifest
    comes last.
    """

    def __init__(
        self,
        folder: ReleaseFolder,
        manifest: ReleaseManifest,
        formats: tuple[str, ...],
        n_parts: int,
        run: Run,
        products: beam.PCollection[Chunk],
        wait_on: beam.PCollection[Any] | None = None,
    ) -> None:
        """Keeps what to write where.

        Args:
            folder: Where the release is built.
            manifest: What it says of itself.
            formats: Forms of the released log.
            n_parts: Number of its parts.
            run: What is released. Of a method without a log only the products are written.
            products: What is released beside it, in chunks.
            wait_on: Nothing is committed before this is complete: a log of which every record is
                malformed has no trace that could wait for its check.
        """
        super().__init__()
        self._folder = folder
        self._manifest = manifest
        self._formats = formats
        self._n_parts = n_parts
        self._run = run
        self._has_log = method_named(run.method).log != "none"
        self._products = products
        self._wait_on = wait_on

    def expand(self, released: beam.PCollection[TraceBatch]) -> beam.PCollection[str]:
        """Wires parts → exports → commit, each waiting for the one before."""
        pipeline = released.pipeline
        products = (
            pipeline
            | "Products once" >> beam.Create([None])
            | "WriteProducts"
            >> beam.FlatMap(
                _write_products, self._folder, self._manifest, pvalue.AsIter(self._products)
            )
        )  # PCollection[OutputFile]
        parts, counted, others = self._write_log(released) if self._has_log else (None, None, [])
        waited = [] if self._wait_on is None else [pvalue.AsIter(self._wait_on)]
        return (
            pipeline
            | "Commit once" >> beam.Create([self._folder.release_id])
            | "Commit"
            >> beam.Map(
                _commit,
                self._folder,
                self._manifest,
                self._run,
                PARTS in self._formats,
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
        """Returns the parts, what is counted on them, and what is written beside or from them."""
        pipeline = released.pipeline
        cases = released | "SplitByPart" >> beam.FlatMap(_split, self._n_parts).with_output_types(
            tuple[int, bytes]
        )
        every_part = pipeline | "EveryPart" >> beam.Create(
            [(number, _NO_CASES) for number in range(self._n_parts)]
        ).with_output_types(tuple[int, bytes])
        parts = (
            (cases, every_part)
            | "Flatten" >> beam.Flatten()
            | "GroupByPart" >> beam.GroupByKey()
            | "WritePart" >> beam.Map(_write_part, self._folder, self._manifest)
        )  # PCollection[OutputFile]
        counted = (
            released
            | "CountReleased" >> beam.ParDo(CountBatches(_RELEASED, _count_released))
            | "Released" >> MergeStatistics(**_RELEASED)
        )  # PCollection[Chunk]
        graph = (
            pipeline
            | "Graph once" >> beam.Create([None])
            | "WriteDfg" >> beam.Map(_write_dfg, self._folder, pvalue.AsIter(counted))
        )  # PCollection[OutputFile]
        exports = (
            pipeline
            | "Exports" >> beam.Create([kind for kind in self._formats if kind != PARTS])
            | "SpreadExports" >> beam.Reshuffle()
            | "WriteExport"
            >> beam.Map(
                _write_export,
                self._folder,
                self._manifest,
                self._n_parts,
                pvalue.AsIter(parts),
            )
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
    """Encoded here, once: the runner would decode and encode at every step of the shuffle."""
    for number, cases in parts_of(released, n_parts):
        yield number, encode(cases)


def _write_part(
    part: tuple[int, Iterable[bytes]], folder: ReleaseFolder, manifest: ReleaseManifest
) -> OutputFile:
    number, encoded = part
    batches = [decode(cases) for cases in encoded if cases != _NO_CASES]
    return write_part(folder, manifest, number, batches)


def _count_released(released: TraceBatch) -> dict[str, Any]:
    return {
        "graph": DirectlyFollows.from_traces(released),
        "variants": VariantHistogram.from_traces(released),
        "times": LogTimes.from_traces(released),
        "names": released.vocabulary,
    }


def _write_dfg(once: None, folder: ReleaseFolder, counted: Iterable[Chunk]) -> OutputFile:
    found = only(counted).by_name
    return write_dfg(folder, found["graph"], found["names"])


def _write_products(
    once: None, folder: ReleaseFolder, manifest: ReleaseManifest, products: Iterable[Chunk]
) -> list[OutputFile]:
    return write_products(folder, manifest, only(products))


def _write_export(
    kind: str,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    n_parts: int,
    parts: Iterable[OutputFile],
) -> OutputFile:
    written = write_export(folder, manifest, kind, n_parts)
    _LOG.info("wrote %s", written.path)
    return written


def _commit(
    release_id: str,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    run: Run,
    keeps_parts: bool,
    waited: Iterable[Any],
    parts: Iterable[OutputFile],
    counted: Iterable[Chunk] | None,
    products: Iterable[Chunk],
    *others: Iterable[OutputFile],
) -> str:
    log = None if counted is None else LogCounts(**only(counted).by_name)
    others_found = [o for files in others for o in files]
    commit(folder, manifest, run, keeps_parts, list(parts), others_found, only(products), log)
    return release_id


def commit(
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    run: Run,
    keeps_parts: bool,
    parts: list[OutputFile],
    others: list[OutputFile],
    products: Products,
    log: LogCounts | None,
) -> None:
    """Commits the written files; a bundle that runs again finds the release and does nothing.

    The statement and the page are written here, as they say what came out.

    Args:
        folder: Where the files are.
        manifest: What the release says of itself, but for what came out.
        run: What is released.
        keeps_parts: Whether the parts of the log are released.
        parts: The parts of the log.
        others: All other files.
        products: What is released beside the log.
        log: What was counted on the released log; None where there is none.

    Raises:
        UsageError: The release was given up meanwhile; nothing is committed.
        GuaranteeError: What is promised of the log does not hold of its parts as written; nothing
            is committed.
    """
    if folder.committed() is not None:
        return
    run.key.resolve()  # not there any more if somebody gave the release up meanwhile
    method = method_named(run.method)
    if method.verifies:
        try:
            method.verify(read_log(folder, len(parts)), run.params)
        except GuaranteeError as error:
            raise GuaranteeError(
                f"the log as written does not keep what {run.method} promises: {error}; this is an "
                "error of the program, please report it"
            ) from error
        _LOG.info("verified the log as written")
    if not keeps_parts:
        folder.remove([part.path for part in parts])
    came_out = products.held if log is None else log.came_out.beside(products.held)
    whole = replace(manifest, came_out=came_out)
    statement = write_statement(folder, whole, method.has_error_bars)
    outputs = [*(parts if keeps_parts else []), *others, statement]
    outputs.append(write_report(folder, whole, outputs, products, log))
    if run.check_open is not None:
        run.check_open()
    sign = None if run.signer is None else run.signer.sign
    folder.commit(whole.to_json(outputs, method.verifies), sign)
    _LOG.info("committed release %s", folder.release_id)
