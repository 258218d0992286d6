"""WriteSteps: the releases of a stream as files, each written once; and what could not be read.

A file's name says which release it holds, so one that is there already is not written again: with
the same bytes it is the same release, which a runner tried again, and with others it would be a
second release of what was paid for once. Then the stream fails, and nothing of it is visible.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
from collections.abc import Iterable
from contextlib import closing
from typing import Any, BinaryIO, Literal, cast

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.rows import part_rows
from tracecloak.schemas.published.step import StepLog, StepRelease
from tracecloak.transforms.formats.parquet import ParquetWriter
from tracecloak.transforms.formats.xes_writer import XesWriter
from tracecloak.transforms.publish.release_files import xes_attributes
from tracecloak.transforms.publish.release_folder import write_text

_LOG = logging.getLogger("tracecloak")
_METRICS = "tracecloak"
StepFormat = Literal["json", "parquet", "xes"]


def epoch_folder(output: str, release_id: str, epoch: str) -> str:
    """Returns the folder of all that one epoch of a stream publishes."""
    return cast(str, FileSystems.join(output, f"run_id={release_id}", f"epoch={epoch}"))


def step_path(output: str, release: StepRelease | StepLog) -> str:
    """Returns the path of a step's files, without the ending of any."""
    return cast(
        str,
        FileSystems.join(
            epoch_folder(output, release.release_id, release.epoch),
            f"product={release.product}",
            f"view={release.view}",
            f"step-{release.step:06d}",
        ),
    )


def write_once(path: str, data: bytes) -> bool:
    """Writes a file, unless it is there with the same bytes.

    It appears as a whole, or not at all.

    Returns:
        Whether it was written now.

    Raises:
        GuaranteeError: It is there with other bytes.
    """
    if FileSystems.exists(path):
        stream = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
        with closing(stream):
            if stream.read() == data:
                return False
        raise GuaranteeError(
            f"{path} was published before, from other input: a second release of the same step "
            "would show what changed. Nothing was written; begin another epoch, which is another "
            "spend"
        )
    folder, name = FileSystems.split(path)
    # Two that write at once are of one content, or do not share the name.
    fresh = FileSystems.join(folder, f"_{name}-{hashlib.sha256(data).hexdigest()[:16]}.part")
    stream = FileSystems.create(fresh, compression_type=CompressionTypes.UNCOMPRESSED)
    with closing(stream):
        stream.write(data)
    FileSystems.rename([fresh], [path])
    return True


class WriteSteps(beam.PTransform):
    """Writes releases to <output>/run_id=…/epoch=…/product=…/view=…/step-000000.{json,parquet}.

    A log has a folder of that name, with step.json, log.parquet and log.xes.gz. Returns the
    releases, each after its files are there: what follows cannot show more than they do. JSON is
    always written and comes last.
    """

    def __init__(
        self, output: str, formats: tuple[StepFormat, ...], manifest: ReleaseManifest
    ) -> None:
        """Keeps where to write.

        Args:
            output: The folder of all releases, on any Beam file system.
            formats: Beside JSON.
            manifest: Whose promise the files carry.
        """
        super().__init__()
        self._write = _Write(output, formats, manifest)

    def expand(self, releases: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Writes each release."""
        return releases | "Write" >> beam.ParDo(self._write)


class _Write(beam.DoFn):
    def __init__(
        self, output: str, formats: tuple[StepFormat, ...], manifest: ReleaseManifest
    ) -> None:
        self._output = output
        self._formats = formats
        self._manifest = manifest

    def process(self, release: StepRelease | StepLog) -> Iterable[StepRelease | StepLog]:
        path = step_path(self._output, release)
        files: dict[str, bytes]
        if isinstance(release, StepLog):
            files = {
                f"/log.{_ENDINGS[kind]}": log_bytes(release, kind, self._manifest)
                for kind in self._formats
                if kind != "json"
            }
            files["/step.json"] = release.to_json()
        else:
            files = {".parquet": self._parquet(release)} if "parquet" in self._formats else {}
            files[".json"] = release.to_json()
        for ending, data in files.items():
            write_once(path + ending, data)
        _LOG.info("published step %d; %d are left", release.step, release.n_steps_left)
        yield release

    def _parquet(self, release: StepRelease) -> bytes:
        body = json.dumps(self._manifest.to_json(), ensure_ascii=False)
        sink = pa.BufferOutputStream()
        table = release.to_table().replace_schema_metadata({"tracecloak.release": body})
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue().to_pybytes()


_ENDINGS = {"parquet": "parquet", "xes": "xes.gz"}


def log_bytes(log: StepLog, kind: StepFormat, manifest: ReleaseManifest) -> bytes:
    """Returns a step's log as Parquet or XES, in the canonical order of its cases."""
    rows = part_rows([log.traces])
    stream = io.BytesIO()
    if kind == "parquet":
        metadata = {"release": json.dumps(manifest.to_json(), ensure_ascii=False)}
        writer = ParquetWriter(stream, metadata, rows.schema)
        writer.write(rows)
        writer.close()
    else:
        # No name and no time of writing in the header: equal logs are equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            xes = XesWriter(cast(BinaryIO, packed), xes_attributes(manifest), rows.schema)
            xes.write(rows)
            xes.close()
    return stream.getvalue()


class WriteRejects(beam.PTransform):
    """Lists the messages that could not be read, for the operator: when each came, and why.

    Takes the rejects of `DecodeMessages`. A file is called by its content, so that what is tried
    again, or delivered again, is listed once. A metric counts them.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, rejects: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[str]:
        """Writes a file a batch, and returns its lines."""
        return rejects | "WriteRejects" >> beam.ParDo(_WriteRejects(self._folder))


class _WriteRejects(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._counted = Metrics.counter(_METRICS, "messages that cannot be read")

    def process(self, rejects: pa.RecordBatch) -> Iterable[str]:
        self._counted.inc(rejects.num_rows)
        lines = [json.dumps(row) for row in rejects.to_pylist()]
        text = "".join(f"{line}\n" for line in lines)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        write_text(FileSystems.join(self._folder, f"messages-{name}.jsonl"), text)
        _LOG.warning("messages could not be read; see %s", self._folder)
        yield from lines
