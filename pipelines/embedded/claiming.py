"""A release in somebody's own pipeline is claimed and paid when the pipeline is built.

What it costs is reserved then, and the gate before its noise is passed as by the command: where the
first round decides, if the runner ends with this process, and before the pipeline is submitted
elsewhere. The input has no digest before it is read: it is compared where a round decides.

Whether rows are those that a finished release was made of, by a keyed digest of their events.

It is noted in the operator's folder, under the key by which cases are recognised: the release's own
key is gone by then.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.budget.opening import store_of
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.embedded.elements import Elements
from tracecloak.pipelines.release.opening import opened
from tracecloak.pipelines.release.run import claimed, job_of
from tracecloak.pipelines.release.values import Run
from tracecloak.pipelines.runners.on_beam import BeamDriver
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.job import Job, KeptDraws
from tracecloak.transforms.batch.traces import Chunk, CountBatches, MergeStatistics, only
from tracecloak.transforms.files import join, read_if_there, write_anew
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

_LOG = logging.getLogger("tracecloak")

_DIRECT = {"SwitchingDirectRunner": "DirectRunner"}


@dataclass(frozen=True)
class Settling:
    """What is told to the books of a release from within its pipeline; it pickles.

    Attributes:
        gate: Where its workers on this machine find key store and ledger.
        folder: Where the release lies.
    """

    gate: DrawGuard
    folder: ReleaseFolder

    @property
    def books(self) -> ReleaseRegistry:
        """The books of the release, opened anew in the worker."""
        return ReleaseRegistry(self.gate.store(), self.gate.ledger(), self.folder)

    def finish(self) -> None:
        """Does what comes after the release is visible; done once, does nothing."""
        if self.books.look().state == "visible":
            self.books.finish(self.gate.key_fingerprint)

    def note_cases(self) -> None:
        """Notes in the ledger which cases were read, of a release that has no files."""
        self.books.note_cases(self.gate.key_fingerprint)


@dataclass(frozen=True)
class Claim:
    """A release that is paid.

    Attributes:
        job: What its stages are given.
        settling: How its pipeline ends it; None: workers do not reach the key store.
        rows: Where its pipeline notes of which rows it was made; None likewise.
    """

    job: Job
    settling: Settling | None
    rows: NotedRows | None


def runner_of(pipeline: beam.Pipeline) -> str:
    """Returns the name of the runner that a pipeline was made for."""
    name = type(pipeline.runner).__name__
    return _DIRECT.get(name, name)


def rows_output(config: ReleaseConfig) -> str:
    """Returns the folder by which ledger and key store know releases whose rows go on.

    Nothing appears in it. What their rounds decide lies beside it until they are ended.
    """
    place = config.staging_area or str(store_of(config).path.absolute())
    return cast(str, FileSystems.join(place, "rows"))


def claim(
    config: ReleaseConfig, elements: Elements, pipeline: beam.Pipeline
) -> Claim | NotedRows | None:
    """Pays for a release, or goes on with what was paid.

    If it is there already, returns of which rows it was made, or None if nobody knows.

    Args:
        config: What it is to make, and where it goes.
        elements: How its events are read.
        pipeline: The pipeline that it will be part of.

    Raises:
        TracecloakError: It may not be made, or not be finished, or not be paid.
    """
    runner = runner_of(pipeline)
    options = copy.deepcopy(pipeline.options)
    options.view_as(StandardOptions).runner = runner
    config = config.model_copy(update={"runner": runner})
    source = EventSource(
        (), config.source_format, elements.mapping, is_unordered=elements.kind != "batches"
    )
    run = opened(config, BeamDriver(runner, options), source)
    books, folder = run.books, run.folder
    if books.store.is_in_database:  # workers settle in a copy of it
        raise UsageError(
            "key_store is a database, which tracecloak release alone writes; give a folder of a "
            "machine that stays"
        )
    with books.store.alone(folder.output, folder.release_id):
        standing = books.look()
        if standing.state in ("visible", "released"):
            from tracecloak.pipelines.release.opening import recognised

            recognised(run, standing)
            assert standing.receipt is not None  # it was recognised by it
            if run.driver.is_local:
                rows = NotedRows.of(run, standing.receipt.key_fingerprint)
                if rows.is_there:
                    return rows
            _LOG.warning(
                "release %s is in %s already: nothing is read or paid, and whether it was made of "
                "these rows is not known",
                folder.release_id,
                folder.output,
            )
            return None
        run = claimed(run, standing)
        try:
            # Another pipeline of this release may be at work: each builds in a place of its own.
            folder = replace(run.folder, attempt=uuid.uuid4().hex[:16])
            job = job_of(replace(run, books=replace(run.books, folder=folder)))
        except BaseException:
            assert run.key is not None  # the run is claimed
            run.books.void(run.key.fingerprint)
            raise
    if not run.driver.is_local:
        return Claim(job, None, None)
    draws: Any = job.target.spec.draws
    assert isinstance(draws, KeptDraws) and isinstance(draws.before, DrawGuard)  # as of a local run
    settling = Settling(draws.before, replace(job.target.folder, attempt=""))
    return Claim(job, settling, NotedRows.of(run, draws.before.key_fingerprint))


def require_payer(config_keys: dict[str, Any], allowed: tuple[str, ...]) -> None:
    """Makes sure that who does not pay names nobody who does.

    Raises:
        UsageError: A key says who pays.
    """
    for name in allowed:
        if config_keys.get(name) is not None:
            raise UsageError(
                f"{name} is for a release that a ledger accounts for: leave it out, or leave out "
                "unaccounted=True"
            )


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
