"""AnonymizeTraces: the executor of a method's steps on Beam, in one transform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints.decorators import IOTypeHints

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import INPUT_DIGEST, Known, steps
from tracecloak.anonymizers.registry import method_named
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


class AnonymizeTraces(beam.PTransform):
    """Runs a method's rounds on PCollection[TraceBatch].

    Returns `traces` (PCollection[TraceBatch], the released cases; none from a method that releases
    no log) and `products` (PCollection[Chunk], of one `Products`).
    """

    def __init__(
        self, spec: ReleaseSpec, n_pieces: int, wait_on: beam.PCollection[Any] | None = None
    ) -> None:
        """Keeps what is to be done.

        Args:
            spec: What is released.
            n_pieces: In how many pieces a log is generated, where the method generates one.
            wait_on: Nothing is decided before this is complete: a log of which every record is
                malformed has no trace that could wait for its check.
        """
        super().__init__()
        self._spec = spec
        self._n_pieces = n_pieces
        self._wait_on = wait_on

    def expand(self, traces: beam.PCollection[TraceBatch]) -> dict[str, beam.PCollection[Any]]:
        """Adds the stages of each step."""
        spec, pipeline = self._spec, traces.pipeline
        method = method_named(spec.method)
        # The digest, then the decisions so far: each travels once, as a side input of its own.
        known: dict[str, pvalue.AsIter] = {}
        released: list[beam.PCollection[TraceBatch]] = []
        for each in steps(method, spec.params):
            worker, name = _Worker(spec, each.known), each.round
            inputs = [known[depended] for depended in each.known]
            match each.action:
                case "count":
                    # Merging shuffles what was counted, which is the barrier before the gate: a
                    # repeated DECIDE merges what was shuffled, and counts nothing again.
                    count = CountStatistics(
                        spec.kinds(name), partial(_count, worker, name), *inputs
                    )
                    kinds, parts = spec.kinds(name), traces | name >> count
                    if not inputs:
                        digest = once(pipeline, "InputDigest", _digest, pvalue.AsIter(parts))
                        digest.element_type = CHUNK
                        known[INPUT_DIGEST] = pvalue.AsIter(digest)
                case "keep":
                    keep = beam.Map(_keep, worker, name, *inputs).with_output_types(Statistics)
                    parts = parts | f"{name}/Keep" >> keep
                case "decide":
                    # Side inputs are materialised: they are also the barrier after a decision.
                    first = self._wait_on is not None and len(inputs) == 1
                    waited = [pvalue.AsIter(self._wait_on)] if first else []
                    sides = worker, name, kinds, pvalue.AsIter(parts), *inputs, *waited
                    decided = once(pipeline, f"{name}/Decide", _decide, *sides)
                    decided.element_type = CHUNK
                    known[name] = pvalue.AsIter(decided)
                case "products":
                    products = once(pipeline, "Products", _products, worker, *inputs)
                    products.element_type = CHUNK
                    # What is released of the log comes after all else that needs the decisions.
                    waited = [pvalue.AsIter(products)]
                case "apply":
                    apply = beam.ParDo(_Release(worker, ReleaseRun.apply), *inputs, *waited)
                    released = [traces | "Apply" >> apply]
                case "generate":
                    pieces = (
                        pipeline
                        | "Pieces" >> beam.Create(range(self._n_pieces))
                        | "SpreadPieces" >> beam.Reshuffle()
                    )
                    step = partial(ReleaseRun.generate, n_pieces=self._n_pieces)
                    generate = beam.ParDo(_Release(worker, step), *inputs, *waited)
                    released = [pieces | "Generate" >> generate]
        columns = spec.columns if released else []
        if columns or not released:
            made = pipeline | "Columns" >> beam.Create(columns).with_output_types(TraceBatch)
            released.append(made)
        return {"traces": released | "Released" >> beam.Flatten(), "products": products}


class _Worker:
    """What a stage of a release works with: it pickles, and finds the keys where it runs."""

    def __init__(self, spec: ReleaseSpec, names: tuple[str, ...]) -> None:
        """Keeps what is released, and the names of what comes as side inputs."""
        self._spec = spec
        self._names = names
        self._known: Known | None = None

    @cached_property
    def run(self) -> ReleaseRun:
        """The steps of the method."""
        return self._spec.run()

    @property
    def shared(self) -> dict[bytes, Any] | None:
        """The decisions of a release that is all in this process, which do not travel."""
        return SHARED.get(self._spec.release_id)

    def known(self, inputs: Iterable[Iterable[Chunk]]) -> Known:
        """Returns what is known by the side inputs, which are put together once.

        Those that are only waited for come last, and have no name.
        """
        if self._known is not None:
            return self._known
        by_name = {n: only(chunks) for n, chunks in zip(self._names, inputs, strict=False)}
        known = self.run.known(by_name.pop(INPUT_DIGEST, None), by_name)
        if self.shared is None:  # else they are found as fast again, and not held any longer
            self._known = known
        return known


def _count(worker: _Worker, round_name: str, traces: TraceBatch, *inputs: Any) -> dict[str, Any]:
    return worker.run.count(round_name, traces, worker.known(inputs))


def _digest(counted: Iterable[Statistics]) -> Iterator[Chunk]:
    yield from cut(total({INPUT_DIGEST: InputDigest}, counted)[INPUT_DIGEST])


def _keep(part: Statistics, worker: _Worker, round_name: str, *inputs: Any) -> Statistics:
    return Statistics(dict(worker.run.keep(round_name, part.by_name, worker.known(inputs))))


def _decide(
    worker: _Worker,
    round_name: str,
    kinds: dict[str, type[Any]],
    counted: Iterable[Statistics],
    *inputs: Any,
) -> Iterator[Chunk]:
    decision = worker.run.decide(round_name, total(kinds, counted), worker.known(inputs))
    yield from cut(decision, worker.shared)


def _products(worker: _Worker, *inputs: Any) -> Iterator[Chunk]:
    yield from cut(worker.run.products(worker.known(inputs)))


class _Release(beam.DoFn):
    """Releases cases of an element in batches, by a step of the run; the last to need decisions."""

    def __init__(self, worker: _Worker, step: Callable[..., TraceBatch]) -> None:
        self._worker, self._step = worker, step

    def default_type_hints(self) -> IOTypeHints:
        return IOTypeHints.empty().with_output_types(TraceBatch)  # of any input

    def process(self, element: Any, *inputs: Any) -> Iterator[TraceBatch]:
        made = self._step(self._worker.run, element, known=self._worker.known(inputs))
        yield from made.split(BATCH_BYTES)

    def finish_bundle(self) -> None:
        if self._worker.shared is not None:
            self._worker.shared.clear()
        release_memory()
