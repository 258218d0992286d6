"""AnonymizeTraces: the executor of a method's steps on Beam, in one transform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints.decorators import IOTypeHints

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, Known, Step, steps
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch import BATCH_BYTES
from tracecloak.transforms.batch.job import ReleaseRun, ReleaseSpec
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


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def AnonymizeTraces(  # noqa: N802  # runners know it by this name
    traces: beam.PCollection[TraceBatch],
    spec: ReleaseSpec,
    n_pieces: int,
    wait_on: beam.PCollection[Any] | None = None,
) -> dict[str, beam.PCollection[Any]]:
    """Runs a method's rounds, the stages of each step.

    Returns `traces` (PCollection[TraceBatch], the released cases; none from a method that releases
    no log) and `products` (PCollection[Chunk], of one `Products`).

    Args:
        traces: The cases.
        spec: What is released.
        n_pieces: In how many pieces a log is generated, where the method generates one.
        wait_on: Nothing is decided before this is complete: a log of which every record is
            malformed has no trace that could wait for its check.
    """
    pipeline = traces.pipeline
    # The digest, then the decisions so far: each travels once, as a side input of its own.
    known: dict[str, pvalue.AsIter] = {}
    released: list[beam.PCollection[TraceBatch]] = []
    for step in steps(spec.method, spec.params, spec.beside):
        stage, name = _Stage(spec, step), step.round
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
                first = wait_on is not None and len(inputs) == 1
                waited = [pvalue.AsIter(wait_on)] if first else []
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
    columns = spec.columns if released else []
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

    def __init__(self, spec: ReleaseSpec, step: Step) -> None:
        self._spec, self._step = spec, step
        self._known: Known | None = None

    @cached_property
    def run(self) -> ReleaseRun:
        return self._spec.run()

    @property
    def shared(self) -> dict[bytes, Any] | None:
        """The decisions of a release that is all in this process, which do not travel."""
        return SHARED.get(self._spec.release_id)

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
