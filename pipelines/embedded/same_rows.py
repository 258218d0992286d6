"""Whether rows are those that a finished release was made of, by a keyed digest of their events.

It is noted in the operator's folder, under the key by which cases are recognised: the release's own
key is gone by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from tracecloak.anonymizers.contract.input_digest import InputDigest
from tracecloak.pipelines.release.values import Run
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.count import CountBatches, MergeStatistics
from tracecloak.transforms.files import join, read_if_there, write_anew
from tracecloak.transforms.keys.reference import KeyReference


@dataclass(frozen=True)
class NotedRows:
    """Where the digest of a release's rows is noted; it pickles.

    Attributes:
        operator_folder: Has it in a file, and is read by the operator alone.
        name: What the release is called, for people.
        about: Tells its key, and that of the digest, from others.
        key: That of the digest.
    """

    operator_folder: str
    name: str
    about: str
    key: KeyReference

    @classmethod
    def of(cls, run: Run, key_fingerprint: str) -> NotedRows:
        """Returns where a run notes them.

        Args:
            run: One whose workers are on this machine.
            key_fingerprint: Of the key under which its release is drawn.
        """
        key, folder = run.books.store.deployment_key(), run.folder
        return cls(
            run.operator_folder,
            f"release_id {folder.release_id!r} in {folder.output}",
            f"{key_fingerprint} {key.resolve().fingerprint}",
            key,
        )

    @property
    def is_there(self) -> bool:
        """Whether anything is noted that rows can be compared with."""
        return (read_if_there(self._path) or b"").startswith(f"{self.about} ".encode())

    def write(self, digest: InputDigest) -> None:
        """Notes what a release was made of."""
        write_anew(self._path, f"{self.about} {digest.hex}".encode())

    def check(self, digest: InputDigest) -> None:
        """Makes sure that rows are those that are noted.

        Raises:
            UsageError: They are others.
        """
        if read_if_there(self._path) != f"{self.about} {digest.hex}".encode():
            raise UsageError(
                f"{self.name} is there, and was made of other rows than these; choose another "
                "release_id, which is another spend, or give it the rows that it was made of"
            )

    @property
    def _path(self) -> str:
        return join(self.operator_folder, "rows.digest")


class DigestRows(beam.PTransform):
    """Digests PCollection[TraceBatch], all of a log; returns one element, its InputDigest."""

    def __init__(self, key: KeyReference) -> None:
        """Takes where the key of the digest is."""
        super().__init__()
        self._key = key

    def expand(self, traces: beam.PCollection[TraceBatch]) -> beam.PCollection[InputDigest]:
        """Counts once."""
        count = CountBatches({"rows": InputDigest}, partial(_counted, self._key))
        totals = traces | beam.ParDo(count) | "Merge" >> MergeStatistics(rows=InputDigest)
        once = traces.pipeline | "Once" >> beam.Create([None])
        return once | "Total" >> beam.Map(_total, pvalue.AsIter(totals)).with_output_types(
            InputDigest
        )


def _counted(key: KeyReference, traces: TraceBatch) -> dict[str, Any]:
    return {"rows": InputDigest.from_traces(traces, key.resolve())}


def _total(once: None, totals: Iterable[Chunk]) -> Any:
    return only(totals).by_name["rows"]
