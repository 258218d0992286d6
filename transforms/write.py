"""WriteRelease: released cases to the files of a release, and the commit that makes them one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import apache_beam as beam
from apache_beam import pvalue

import transforms.arrow_coder  # noqa: F401  # registers the coders
from schemas.columnar import decode, encode
from schemas.directly_follows import DirectlyFollows
from schemas.merging import Statistics
from schemas.release import OutputFile, ReleaseManifest
from schemas.released import split_by_part
from schemas.traces import TraceBatch
from transforms.count import MergeStatistics
from transforms.release_files import check_xes_names, write_dfg, write_export, write_part
from transforms.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")


class WriteRelease(beam.PTransform):
    """Writes PCollection[TraceBatch] of released cases; returns one element once all is committed.

    A fixed number of parts is written, empty ones too, so their number tells nothing. The manifest
    comes last.
    """

    def __init__(
        self,
        folder: ReleaseFolder,
        manifest: ReleaseManifest,
        formats: tuple[str, ...],
        n_parts: int,
        vocabulary: beam.PCollection[Statistics],
    ) -> None:
        super().__init__()
        self._folder = folder
        self._manifest = manifest
        self._formats = formats
        self._n_parts = n_parts
        self._vocabulary = vocabulary

    def expand(self, released: beam.PCollection[TraceBatch]) -> beam.PCollection[str]:
        """Wires parts → exports → commit, each waiting for the one before."""
        pipeline = released.pipeline
        vocabulary = pvalue.AsSingleton(self._vocabulary)
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
        graph = (
            released
            | "CountDirectlyFollows" >> beam.Map(_count_pairs).with_output_types(Statistics)
            | "DirectlyFollows" >> MergeStatistics(graph=DirectlyFollows)
            | "WriteDfg" >> beam.Map(_write_dfg, self._folder, vocabulary)
        )  # PCollection[OutputFile]
        exports = (
            pipeline
            | "Exports" >> beam.Create([kind for kind in self._formats if kind != "parquet"])
            | "SpreadExports" >> beam.Reshuffle()
            | "WriteExport"
            >> beam.Map(
                _write_export,
                self._folder,
                self._manifest,
                self._n_parts,
                vocabulary,
                pvalue.AsIter(parts),
            )
        )  # PCollection[OutputFile]
        return (
            pipeline
            | "Commit once" >> beam.Create([self._folder.release_id])
            | "Commit"
            >> beam.Map(
                _commit,
                self._folder,
                self._manifest,
                "parquet" in self._formats,
                pvalue.AsIter(parts),
                pvalue.AsIter(exports),
                pvalue.AsIter(graph),
            )
        )  # PCollection[str]


_NO_CASES = b""


def _split(released: TraceBatch, n_parts: int) -> Iterable[tuple[int, bytes]]:
    """Encoded here, once: the runner would decode and encode at every step of the shuffle."""
    for number, cases in split_by_part(released, n_parts):
        yield number, encode(cases)


def _write_part(
    part: tuple[int, Iterable[bytes]], folder: ReleaseFolder, manifest: ReleaseManifest
) -> OutputFile:
    number, encoded = part
    batches = [decode(cases) for cases in encoded if cases != _NO_CASES]
    return write_part(folder, manifest, number, batches)


def _count_pairs(released: TraceBatch) -> Statistics:
    return Statistics({"graph": DirectlyFollows.from_traces(released)})


def _write_dfg(counted: Statistics, folder: ReleaseFolder, names: Statistics) -> OutputFile:
    return write_dfg(folder, counted.by_name["graph"], names.by_name["vocabulary"])


def _write_export(
    kind: str,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    n_parts: int,
    names: Statistics,
    parts: Iterable[OutputFile],
) -> OutputFile:
    if kind == "xes":
        check_xes_names(names.by_name["vocabulary"])
    written = write_export(folder, manifest, kind, n_parts)
    _LOG.info("wrote %s", written.path)
    return written


def _commit(
    release_id: str,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    keeps_parts: bool,
    parts: Iterable[OutputFile],
    exports: Iterable[OutputFile],
    graph: Iterable[OutputFile],
) -> str:
    commit(folder, manifest, keeps_parts, list(parts), [*exports, *graph])
    return release_id


def commit(
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    keeps_parts: bool,
    parts: list[OutputFile],
    others: list[OutputFile],
) -> None:
    """Commits the written files; a bundle that runs again finds the release and does nothing."""
    if folder.committed() is not None:
        return
    if not keeps_parts:
        folder.remove([part.path for part in parts])
    folder.commit(manifest.to_json([*(parts if keeps_parts else []), *others]))
    _LOG.info("committed release %s", folder.release_id)
