"""AnonymizeEventLog and WriteRelease: rows of events in, released rows or a folder out, paid."""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.typehints.row_type import RowTypeConstraint

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.budget.opening import store_of
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.embedded.elements import (
    OF_FILES,
    OF_ROWS,
    PAYING,
    Elements,
    columns_of,
    elements_of,
    plan_of_rows,
    runner_of,
)
from tracecloak.pipelines.embedded.read import (
    ReleasedRows,
    product_batches,
    product_schema,
    read_rows,
)
from tracecloak.pipelines.release.opening import open_run, recognise
from tracecloak.pipelines.release.run import job_of, reserve_budget
from tracecloak.pipelines.release.values import Run
from tracecloak.pipelines.runners.on_beam import BeamDriver
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import released_schema
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.anonymize import AnonymizeTraces, write_release
from tracecloak.transforms.batch.job import Job, KeptDraws, ReleaseRun
from tracecloak.transforms.batch.read import REJECTS
from tracecloak.transforms.batch.traces import (
    CountStatistics,
    once,
    total,
)
from tracecloak.transforms.files import absolute, join, read_if_there, write_anew
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

# --- AnonymizeEventLog: rows of events in, released rows out, and the ledger charged. -------------


Output = Literal["rows", "batches"]
RELEASED = "released"


class AnonymizeEventLog(beam.PTransform):
    """Anonymises the events of a finished log inside any pipeline, and pays for it.

    Takes a PCollection of rows with a schema (NamedTuple, beam.Row), of dicts, or of
    pyarrow.RecordBatch, bounded and in the global window. Returns the released rows with a schema:
    case_id, activity, timestamp and the declared attributes, or the columns of a product.

    Rows have no places, so events of a case with equal stamps are in the order of the column
    `order`, if it is given, and then of their content (`schemas.events.events`): the release
    is the same however rows are shuffled or retried. Batches of `ReadEventLog` keep the order of
    their files.

    Example:
        claims | AnonymizeEventLog(
            "private-log", epsilon=1, vocabulary="activities.txt", release_id="claims-2026-11",
            case_id="claim", activity="step", timestamp="at", account="claims")
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        columns: ColumnMapping | Mapping[str, Any] | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Any,
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            method: Name of a method.
            params: Its parameters; each can be a keyword as well.
            columns: Which column plays which part; the keys can be keywords as well.
            product: Name of the product to return in place of the log; a method without a log
                needs it.
            output: `rows`, or `batches` of Arrow.
            with_rejects: Whether to return a dict of `released` and `rejects`: a row with the
                reason of each malformed record, which is exact and for the operator alone.
            unaccounted: Whether no ledger is asked: then `key` says where the key of the release
                is, which must be used for one input and one configuration, and nothing is noted.
            key: Where that key is.
            keys: Keys of a configuration: `release_id`, those of `columns`, `where`,
                `max_error_ratio`, `expected_cases`, `shards`, and who pays (`ledger`, `account`,
                `dataset`, `key_store`, …), or parameters of the method.

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
        super().__init__()
        self._plan = plan_of_rows(method, params, {**columns_of(columns), **keys}, OF_ROWS)
        self._product = product
        self._with_rejects = with_rejects
        self._key = KeyReference(key) if isinstance(key, str) else key
        self._unaccounted = unaccounted
        named = [name for name in PAYING if keys.get(name) is not None]
        if unaccounted and named:
            raise UsageError(
                f"{named[0]} is for a release that a ledger accounts for: leave it out, or leave "
                "out unaccounted=True"
            )
        if unaccounted != (key is not None):
            raise UsageError(
                "key is for unaccounted=True, and unaccounted=True needs it: without both, the "
                "ledger is charged and the key store makes the key"
            )
        anonymizer, plan = self._plan.method, self._plan
        if product is None and anonymizer.log == "none":
            raise UsageError(f"{method} releases no log: name the product to return")
        products = anonymizer.writes(plan.params)
        if product is not None and product not in products:
            raise UsageError(
                f"{method} has no product {product!r}; it has {', '.join(products) or 'none'}"
            )
        if output not in ("rows", "batches"):
            raise UsageError(f"output must be rows or batches, got {output!r}")
        self._rows: ReleasedRows | None = None
        if output == "rows":
            carried = anonymizer.released_columns(plan.params)
            self._rows = ReleasedRows(
                released_schema(carried) if product is None else product_schema(product)
            )

    def expand(
        self, events: beam.PCollection[Any]
    ) -> beam.PCollection[Any] | dict[str, beam.PCollection[Any]]:
        """Pays, and wires reading, grouping, the method's rounds, and the rows of the release."""
        plan, key = self._plan, self._key
        elements = elements_of(events, plan)
        finalization: PipelineFinalization | None = None
        if key is not None:
            given = plan.method, plan.params, str(plan.keys.release_id), plan.noise_digest
            run = ReleaseRun(*given, key=key)
        else:
            # Nothing appears in this folder, by which ledger and key store know such releases. What
            # their rounds decide lies beside it until they are ended.
            place = plan.keys.staging_area or str(store_of(plan.keys).path.absolute())
            placed = plan.with_keys(output=FileSystems.join(place, "rows"), staging_area=None)
            job, finalization = claim(placed, elements, events.pipeline)
            assert job is not None  # no such release has files that could be there
            run = job.target.run
        read = read_rows(events, elements, plan, run.operator_folder)
        parts = read["traces"] | "AnonymizeTraces" >> AnonymizeTraces(
            run, plan.keys.shards, wait_on=read["checked"]
        )
        if self._product is None:
            released = parts["traces"] | "ToBatches" >> beam.Map(
                TraceBatch.to_rows
            ).with_output_types(pa.RecordBatch)
        else:
            sides = self._product, pvalue.AsIter(parts["products"])
            released = once(events.pipeline, "Product", product_batches, *sides)
            released.element_type = pa.RecordBatch
        if finalization is not None:
            made = pvalue.AsIter(parts["products"])
            once(events.pipeline, "NoteCases", finalization.note_cases, made)
        if self._rows is not None:
            released = released | "ReleasedRows" >> self._rows
        if not self._with_rejects:
            return released
        to_row = beam.Map(lambda reason: beam.Row(reason=reason)).with_output_types(
            RowTypeConstraint.from_fields([("reason", str)])
        )
        return {RELEASED: released, REJECTS: read[REJECTS] | "RejectRows" >> to_row}

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter, and no key."""
        facts = shown(self._plan)
        if self._unaccounted:
            del facts["account"]
        return facts | {"unaccounted": self._unaccounted}


def shown(plan: ReleasePlan) -> dict[str, Any]:
    """Returns what a runner may show of a release."""
    guarantee = plan.guarantee
    return {
        "method": plan.method.name,
        "release_id": str(plan.keys.release_id),
        "guarantee": guarantee.kind,
        "unit": guarantee.unit,
        "account": plan.keys.account,
    }


# --- A release in somebody's own pipeline is claimed and paid when the pipeline is built. ---------
# What it costs is reserved then, and the gate before its noise is passed as by the command: where
# the first round decides, if the runner ends with this process, and before the pipeline is
# submitted elsewhere. The input has no digest before it is read: it is compared where a round
# decides. Whether rows are those that a finished release was made of is told by a keyed digest of
# their events, noted in the operator's folder under the key by which cases are recognised: the
# release's own key is gone by then.

_LOG = logging.getLogger("tracecloak")
_DIGESTED: dict[str, type[Any]] = {"rows": InputDigest}


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
                    f"release_id {self.folder.release_id!r} in {self.folder.output} was made of "
                    "other rows than these; choose another release_id, which is another spend"
                )
            return
        write_anew(self._path, noted)
        books = self._books(self.gate)
        if books.look().state == "visible":
            books.finish(self.gate.key_fingerprint)

    def note_cases(self, _: Any) -> tuple[()]:
        """Notes in the ledger which cases were read, of a release that has no files."""
        assert self.gate is not None  # it is made now
        self._books(self.gate).note_cases(self.gate.key_fingerprint)
        return ()

    def digested(self, traces: TraceBatch) -> dict[str, Any]:
        """Returns the digest of the cases of a batch."""
        return {"rows": InputDigest.from_traces(traces, self.key.resolve())}

    def _books(self, gate: DrawGuard) -> ReleaseRegistry:
        """The books of the release, opened anew in the worker."""
        return ReleaseRegistry(gate.store(), gate.ledger(), self.folder)

    @property
    def _path(self) -> str:
        return join(self.operator_folder, "rows.digest")


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
        (), plan.keys.source_format, elements.mapping, is_unordered=elements.kind != "batches"
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
    draws: Any = job.target.run.draws
    assert isinstance(draws, KeptDraws) and isinstance(draws.before, DrawGuard)  # as of a local run
    return job, PipelineFinalization.of(run, draws.before.key_fingerprint, draws.before)


# --- WriteRelease: rows of events in, the folder of a release out, as the command makes it. -------


_WRITTEN = RowTypeConstraint.from_fields([("release_id", str), ("folder", str)])


class WriteRelease(beam.PTransform):
    """Anonymises the events of a finished log, pays for it, and writes the release.

    Takes what `AnonymizeEventLog` takes, and writes what the command `tracecloak release` does: the
    parts and forms of the log or the products, statement, page and manifest, which all appear at
    once. Returns one row with the release_id and the folder once they are there.

    Built again with the same keys it writes nothing if the release is there, finishes one that was
    cut off, and pays nothing in either case. The pipeline fails if the rows are others than those
    that the release was made of. Where workers elsewhere made it, nobody can tell, and it warns.

    Example:
        claims | WriteRelease(
            "private-dfg", epsilon=1, vocabulary="activities.txt", release_id="claims-2026-11",
            case_id="claim", activity="step", timestamp="at", output="released")
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        output: str,
        columns: ColumnMapping | Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            method: Name of a method.
            params: Its parameters; each can be a keyword as well.
            output: Folder of all releases, on any Beam file system.
            columns: Which column plays which part; the keys can be keywords as well.
            keys: As of `AnonymizeEventLog`, and `formats`, `parts`, `sign` and what the release
                says of itself (`title`, `controller`, …).

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
        super().__init__()
        given = {**columns_of(columns), **keys, "output": output}
        self._plan = plan_of_rows(method, params, given, OF_FILES)

    def expand(self, events: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Pays, and wires all of the release from its rows to its commit."""
        plan, keys, pipeline = self._plan, self._plan.keys, events.pipeline
        elements = elements_of(events, plan)
        job, finalization = claim(plan, elements, pipeline)
        release_id = str(keys.release_id)
        folder = ReleaseFolder(absolute(keys.output), release_id).final
        made: Any = ()
        digest: Any = ()
        made_by = finalization if job is None else job.target.run
        if made_by is not None:
            read = read_rows(events, elements, plan, made_by.operator_folder)
            if job is not None:
                made = pvalue.AsIter(
                    write_release(read["traces"], job.target, keys.shards, read["checked"])
                )
            if finalization is not None:
                count = CountStatistics(_DIGESTED, finalization.digested)
                digest = pvalue.AsIter(read["traces"] | "Digest" >> count)
        row = beam.Row(release_id=release_id, folder=folder)
        written = once(pipeline, "Written", _written, row, finalization, made, digest)
        written.element_type = _WRITTEN
        return written

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter, and no key."""
        return shown(self._plan) | {"output": self._plan.keys.output}


def _written(
    row: beam.Row,
    finalization: PipelineFinalization | None,
    made: Iterable[Any],
    digest: Iterable[Statistics],
) -> list[beam.Row]:
    """Ends a release once it is there, and returns what is said of it."""
    if finalization is not None:
        finalization.finalize(total(_DIGESTED, digest)["rows"])
    return [row]
