"""AnonymizeEventLog and WriteRelease: rows of events in, released rows or a folder out, paid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.typehints.row_type import RowTypeConstraint

from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.embedded import reserving
from tracecloak.pipelines.embedded.elements import (
    OF_FILES,
    OF_ROWS,
    PAYING,
    Elements,
    columns_of,
    elements_of,
    plan_of_rows,
)
from tracecloak.pipelines.embedded.read import (
    CANONICAL_EVENTS,
    CANONICAL_TALLIES,
    REJECTED,
    REJECTS,
    MakeCanonical,
    ReleasedRows,
    product_schema,
    released_once,
)
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import released_schema
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch.anonymize import AnonymizeTraces, write_release
from tracecloak.transforms.batch.job import ReleaseSpec
from tracecloak.transforms.batch.read import check_tally
from tracecloak.transforms.batch.traces import (
    DropDuplicates,
    GroupIntoTraces,
    once,
    total,
)
from tracecloak.transforms.files import absolute
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder

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
        finalization: reserving.PipelineFinalization | None = None
        if key is not None:
            release_id, digest = str(plan.keys.release_id), plan.noise_digest
            spec = ReleaseSpec(plan.method, plan.params, release_id, key, digest)
        else:
            placed = plan.with_keys(output=reserving.rows_output(plan.keys), staging_area=None)
            job, finalization = reserving.claim(placed, elements, events.pipeline)
            assert job is not None  # no such release has files that could be there
            spec = job.target.spec
        read = read_rows(events, elements, plan, spec.operator_folder)
        parts = read["traces"] | "AnonymizeTraces" >> AnonymizeTraces(
            spec, plan.keys.shards, wait_on=read["checked"]
        )
        if self._product is None:
            released = parts["traces"] | "ToBatches" >> beam.Map(
                TraceBatch.to_rows
            ).with_output_types(pa.RecordBatch)
        else:
            released = released_once(events.pipeline, self._product, parts["products"])
        if finalization is not None:
            made = pvalue.AsIter(parts["products"])
            once(events.pipeline, "NoteCases", _note_cases, finalization, made)
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


def read_rows(
    events: beam.PCollection[Any],
    elements: Elements,
    plan: ReleasePlan,
    operator_folder: str | None,
) -> dict[str, beam.PCollection[Any]]:
    """Adds what comes before a method to a pipeline.

    Args:
        events: What is read.
        elements: How it is.
        plan: What they are read for.
        operator_folder: See `ReleaseSpec`.

    Returns:
        The cases under `traces`, what must be complete before anything appears under `checked`, and
        the reasons of malformed records under `rejects`.
    """
    by_individual = plan.bounds.max_cases_per_individual is not None
    read = events | "MakeCanonical" >> MakeCanonical(elements)
    max_error_ratio = plan.max_error_ratio

    def check(tally: ReadTally) -> None:
        tally.check(max_error_ratio, f"the runner's counters {REJECTED.strip()!r} say why")

    checked = check_tally(read[CANONICAL_TALLIES], check)
    traces = read[CANONICAL_EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        plan.keys.shards, wait_on=checked, by_individual=by_individual
    )
    if plan.keys.drop_duplicates:
        traces = traces | "DropDuplicates" >> DropDuplicates(operator_folder)
    return {"traces": traces, "checked": checked, REJECTS: read[REJECTS]}


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


def _note_cases(finalization: reserving.PipelineFinalization, products: Any) -> Iterable[Any]:
    finalization.note_cases()
    return ()


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
        job, finalization = reserving.claim(plan, elements, pipeline)
        release_id = str(keys.release_id)
        folder = ReleaseFolder(absolute(keys.output), release_id).final
        made: Any = ()
        digest: Any = ()
        run_spec = finalization if job is None else job.target.spec
        if run_spec is not None:
            read = read_rows(events, elements, plan, run_spec.operator_folder)
            if job is not None:
                made = pvalue.AsIter(
                    write_release(read["traces"], job.target, keys.shards, read["checked"])
                )
            if finalization is not None:
                digest = pvalue.AsIter(reserving.digested(read["traces"], finalization.key))
        row = beam.Row(release_id=release_id, folder=folder)
        written = once(pipeline, "Written", _written, row, finalization, made, digest)
        written.element_type = _WRITTEN
        return written

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter, and no key."""
        return shown(self._plan) | {"output": self._plan.keys.output}


def _written(
    row: beam.Row,
    finalization: reserving.PipelineFinalization | None,
    made: Iterable[Any],
    digest: Iterable[Statistics],
) -> list[beam.Row]:
    """Ends a release once it is there, and returns what is said of it."""
    if finalization is not None:
        finalization.finalize(total(reserving.DIGESTED, digest)["rows"])
    return [row]
