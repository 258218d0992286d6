"""A release on Beam: the executor of a method's steps, and what is written of a log by it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints.decorators import IOTypeHints

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, Known, Step, steps
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.schemas.published.rows import parts_of, rows_of_part
from tracecloak.schemas.published.variants import KINDS_OF_LOG_COUNTS, LogCounts, count_released
from tracecloak.transforms.arrow_coder import pack, unpack
from tracecloak.transforms.batch import BATCH_BYTES
from tracecloak.transforms.batch.job import (
    ReleaseRun,
    Target,
    commit,
)
from tracecloak.transforms.batch.traces import (
    CHUNK,
    SHARED,
    Chunk,
    CountStatistics,
    cut,
    once,
    only,
    release_memory,
    total,
)
from tracecloak.transforms.publish.release_files import write_export, write_part


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def AnonymizeTraces(  # noqa: N802  # runners know it by this name
    traces: beam.PCollection[TraceBatch],
    run: ReleaseRun,
    n_pieces: int,
    wait_on: beam.PCollection[Any],
) -> dict[str, beam.PCollection[Any]]:
    """Runs a method's rounds, the stages of each step.

    Returns `traces` (PCollection[TraceBatch], the released cases; none from a method that releases
    no log) and `products` (PCollection[Chunk], of one `Products`).

    Args:
        traces: The cases.
        run: What is released.
        n_pieces: In how many pieces a log is generated, where the method generates one.
        wait_on: Nothing is decided before this is complete: a log of which every record is
            malformed has no trace that could wait for its check.
    """
    pipeline = traces.pipeline
    # The digest, then the decisions so far: each travels once, as a side input of its own.
    known: dict[str, pvalue.AsIter] = {}
    released: list[beam.PCollection[TraceBatch]] = []
    for step in steps(run.method, run.params, run.beside):
        stage, name = _Stage(run, step), step.round
        inputs = [known[depended] for depended in step.known]
        match step.action:
            case "count":
                # Merging shuffles what was counted, which is the barrier before the gate: a
                # repeated DECIDE merges what was shuffled, and counts nothing again.
                count = CountStatistics(step.kinds, stage.count, *inputs)
                parts = traces | name >> count
                if not inputs:
                    digest = _once(pipeline, "InputDigest", _digest, pvalue.AsIter(parts))
                    known[INPUT_DIGEST] = pvalue.AsIter(digest)
            case "keep":
                keep = beam.Map(stage.keep, *inputs).with_output_types(Statistics)
                parts = parts | f"{name}/Keep" >> keep
            case "decide":
                # Side inputs are materialised: they are also the barrier after a decision.
                waited = [pvalue.AsIter(wait_on)] if len(inputs) == 1 else []
                sides = pvalue.AsIter(parts), *inputs, *waited
                decided = _once(pipeline, f"{name}/Decide", stage.decide, *sides)
                known[name] = pvalue.AsIter(decided)
            case "products":
                products = _once(pipeline, "Products", stage.products, *inputs)
                # What is released of the log comes after all else that needs the decisions.
                inputs_of_log = *inputs, pvalue.AsIter(products)
            case "apply":
                apply = beam.ParDo(_Release(stage, ReleaseRun.apply), *inputs_of_log)
                released = [traces | "Apply" >> apply]
            case "generate":
                make = partial(ReleaseRun.generate, n_pieces=n_pieces)
                released = [
                    pipeline
                    | "Pieces" >> beam.Create(range(n_pieces))
                    | "SpreadPieces" >> beam.Reshuffle()
                    | "Generate" >> beam.ParDo(_Release(stage, make), *inputs_of_log)
                ]
    columns = run.columns if released else []
    if columns or not released:
        made = pipeline | "Columns" >> beam.Create(columns).with_output_types(TraceBatch)
        released.append(made)
    return {"traces": released | "Released" >> beam.Flatten(), "products": products}


def _once(*stage: Any) -> beam.PCollection[Chunk]:
    """Adds a stage that is called once and gives chunks."""
    made = once(*stage)
    made.element_type = CHUNK
    return made


def _digest(counted: Iterable[Statistics]) -> Iterator[Chunk]:
    yield from cut(total({INPUT_DIGEST: InputDigest}, counted)[INPUT_DIGEST])


class _Stage:
    """A step of a release where it is carried out: it pickles, and finds the keys there.

    What it is called with last are side inputs: those of what it depends on, and of what it only
    waits for.
    """

    def __init__(self, run: ReleaseRun, step: Step) -> None:
        self.run, self._step = run, step
        self._known: Known | None = None

    @property
    def shared(self) -> dict[bytes, Any] | None:
        """The decisions of a release that is all in this process, which do not travel."""
        return SHARED.get(self.run.release_id)

    def known(self, inputs: Iterable[Iterable[Chunk]]) -> Known:
        """Returns what the step depends on, which is put together once."""
        if self._known is not None:
            return self._known
        by_name = {n: only(chunks) for n, chunks in zip(self._step.known, inputs, strict=False)}
        known = self.run.known(by_name.pop(INPUT_DIGEST, None), by_name)
        if self.shared is None:  # else they are found as fast again, and not held any longer
            self._known = known
        return known

    def count(self, traces: TraceBatch, *inputs: Any) -> dict[str, Any]:
        return self.run.count(self._step.round, traces, self.known(inputs))

    def keep(self, part: Statistics, *inputs: Any) -> Statistics:
        return Statistics(dict(self.run.keep(self._step.round, part.by_name, self.known(inputs))))

    def decide(self, counted: Iterable[Statistics], *inputs: Any) -> Iterator[Chunk]:
        totals = total(self._step.kinds, counted)
        decision = self.run.decide(self._step.round, totals, self.known(inputs))
        yield from cut(decision, self.shared)

    def products(self, *inputs: Any) -> Iterator[Chunk]:
        yield from cut(self.run.products(self.known(inputs)))


@dataclass(eq=False, repr=False)
class _Release(beam.DoFn):
    """Releases cases of an element in batches, by a step of the run; the last to need decisions."""

    stage: _Stage
    make: Callable[..., TraceBatch]

    def default_type_hints(self) -> IOTypeHints:
        return IOTypeHints.empty().with_output_types(TraceBatch)  # of any input

    def process(self, element: Any, *inputs: Any) -> Iterator[TraceBatch]:
        made = self.make(self.stage.run, element, known=self.stage.known(inputs))
        yield from made.split(BATCH_BYTES)

    def finish_bundle(self) -> None:
        if self.stage.shared is not None:
            self.stage.shared.clear()
        release_memory()


# --- What is released is written: log files, products, and the one commit. ------------------------


_LOG = logging.getLogger("tracecloak")


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def WriteTraces(  # noqa: N802  # runners know it by this name
    released: beam.PCollection[TraceBatch],
    target: Target,
    products: beam.PCollection[Chunk],
    wait_on: beam.PCollection[Any],
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
    parts: Any = []
    exports: Any = []
    counted: Any = None
    if target.run.method.log != "none":
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
    sides = pvalue.AsIter(wait_on), parts, exports, pvalue.AsIter(products), counted
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
    parts = traces | "AnonymizeTraces" >> AnonymizeTraces(target.run, n_pieces, wait_on)
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
