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
from dataclasses import dataclass, replace
from typing import Any, cast

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.budget.opening import store_of
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.embedded.elements import Elements
from tracecloak.pipelines.release.opening import open_run, recognise
from tracecloak.pipelines.release.run import job_of, reserve_budget
from tracecloak.pipelines.release.values import Run
from tracecloak.pipelines.runners.on_beam import BeamDriver
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.job import Job, KeptDraws
from tracecloak.transforms.batch.traces import CountStatistics
from tracecloak.transforms.files import join, read_if_there, write_anew
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

_LOG = logging.getLogger("tracecloak")

_DIRECT = {"SwitchingDirectRunner": "DirectRunner"}


@dataclass(frozen=True)
class PipelineFinalization:
    """How a pipeline on this machine ends a release, from within its workers; it pickles.

    Of which rows a release was made is noted in a file that the operator alone reads.

    Attributes:
        folder: Where the release lies.
        operator_folder: Where its rows are noted.
        about: Tells the key of the release, and that of the digest, from others.
        key: Under which rows are digested.
        gate: Where workers find key store and ledger; None: the release is there, and ended.
    """

    folder: ReleaseFolder
    operator_folder: str
    about: str
    key: KeyReference
    gate: DrawGuard | None = None

    @classmethod
    def of(
        cls, run: Run, key_fingerprint: str, gate: DrawGuard | None = None
    ) -> PipelineFinalization:
        """Returns how a run is ended whose release is drawn under the key of a fingerprint."""
        key = run.books.store.own_key("deployment")
        about = f"{key_fingerprint} {key.resolve().fingerprint}"
        return cls(run.books.folder, run.operator_folder, about, key, gate)

    @property
    def has_rows(self) -> bool:
        """Whether anything is noted that rows can be compared with."""
        return (read_if_there(self._path) or b"").startswith(f"{self.about} ".encode())

    def finalize(self, digest: InputDigest) -> None:
        """Notes of which rows a release was made, and does what comes after it is visible.

        Raises:
            UsageError: The release was there before, and was made of other rows.
        """
        noted = f"{self.about} {digest.hex}".encode()
        if self.gate is None:
            if read_if_there(self._path) != noted:
                raise UsageError(
                    f"release_id {self.folder.release_id!r} in {self.folder.output} is there, and "
                    "was made of other rows than these; choose another release_id, which is "
                    "another spend, or give it the rows that it was made of"
                )
            return
        write_anew(self._path, noted)
        books = self._books(self.gate)
        if books.look().state == "visible":
            books.finish(self.gate.key_fingerprint)

    def note_cases(self) -> None:
        """Notes in the ledger which cases were read, of a release that has no files."""
        assert self.gate is not None  # it is made now
        self._books(self.gate).note_cases(self.gate.key_fingerprint)

    def _books(self, gate: DrawGuard) -> ReleaseRegistry:
        """The books of the release, opened anew in the worker."""
        return ReleaseRegistry(gate.store(), gate.ledger(), self.folder)

    @property
    def _path(self) -> str:
        return join(self.operator_folder, "rows.digest")


def runner_of(pipeline: beam.Pipeline) -> str:
    """Returns the name of the runner that a pipeline was made for."""
    name = type(pipeline.runner).__name__
    return _DIRECT.get(name, name)


def rows_output(keys: ReleaseConfig) -> str:
    """Returns the folder by which ledger and key store know releases whose rows go on.

    Nothing appears in it. What their rounds decide lies beside it until they are ended.
    """
    place = keys.staging_area or str(store_of(keys).path.absolute())
    return cast(str, FileSystems.join(place, "rows"))


def claim(
    plan: ReleasePlan, elements: Elements, pipeline: beam.Pipeline
) -> tuple[Job | None, PipelineFinalization | None]:
    """Pays for a release, or goes on with what was paid.

    Args:
        plan: What it is to make, and where it goes.
        elements: How its events are read.
        pipeline: The pipeline that it will be part of.

    Returns:
        What its stages are given, None if it is there already; and what its pipeline does with its
        rows at the end, None if workers do not reach the key store, or nobody knows of which rows
        it was made.

    Raises:
        TracecloakError: It may not be made, or not be finished, or not be paid.
    """
    runner = runner_of(pipeline)
    options = copy.deepcopy(pipeline.options)
    options.view_as(StandardOptions).runner = runner
    plan = plan.with_keys(runner=runner)
    source = EventSource(
        (), plan.source_format, elements.mapping, is_unordered=elements.kind != "batches"
    )
    run = open_run(plan, BeamDriver(runner, options), source)
    books, folder = run.books, run.books.folder
    if books.store.is_in_database:  # workers settle in a copy of it
        raise UsageError(
            "key_store is a database, which tracecloak release alone writes; give a folder of a "
            "machine that stays"
        )
    with books.store.alone(folder.output, folder.release_id):
        found = books.look()
        if found.state in ("visible", "released"):
            recognise(run, found)
            assert found.receipt is not None  # it was recognised by it
            if run.driver.is_local:
                finalization = PipelineFinalization.of(run, found.receipt.key_fingerprint)
                if finalization.has_rows:
                    return None, finalization
            _LOG.warning(
                "release %s is in %s already: nothing is read or paid, and whether it was made of "
                "these rows is not known",
                folder.release_id,
                folder.output,
            )
            return None, None
        run = reserve_budget(run, found)
        try:
            # Another pipeline of this release may be at work: each builds in a place of its own.
            folder = replace(run.books.folder, attempt=uuid.uuid4().hex[:16])
            job = job_of(replace(run, books=replace(run.books, folder=folder)))
        except BaseException:
            assert run.key is not None  # its budget is reserved
            run.books.void(run.key.fingerprint)
            raise
    if not run.driver.is_local:
        return job, None
    draws: Any = job.target.spec.draws
    assert isinstance(draws, KeptDraws) and isinstance(draws.before, DrawGuard)  # as of a local run
    return job, PipelineFinalization.of(run, draws.before.key_fingerprint, draws.before)


DIGESTED: dict[str, type[Any]] = {"rows": InputDigest}
"""The type of what `digested` counts, by its name."""


def digested(
    traces: beam.PCollection[TraceBatch], key: KeyReference
) -> beam.PCollection[Statistics]:
    """Digests all cases of a log under a key; returns its parts, under the name `rows`."""

    def counted(batch: TraceBatch) -> dict[str, Any]:
        return {"rows": InputDigest.from_traces(batch, key.resolve())}

    return traces | "Digest" >> CountStatistics(DIGESTED, counted)
