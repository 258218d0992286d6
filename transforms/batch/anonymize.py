"""AnonymizeTraces: count, decide and what follows, for any method, in one transform."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints.decorators import IOTypeHints

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.anonymizers.contract.case_digests import CaseSketch, InputDigest
from tracecloak.anonymizers.contract.in_memory import decided
from tracecloak.anonymizers.contract.method import Counter
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.batch import BATCH_BYTES
from tracecloak.transforms.batch.job import ReleaseSpec, SketchFile
from tracecloak.transforms.batch.traces import (
    CHUNK,
    Chunk,
    CountBatches,
    MergeStatistics,
    cut,
    only,
)
from tracecloak.transforms.operator_log import kept_on_worker

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")


class AnonymizeTraces(beam.PTransform):
    """Runs a method's rounds on PCollection[TraceBatch].

    Returns `traces` (PCollection[TraceBatch], the released cases; none from a method that releases
    no log) and `products` (PCollection[Chunk], of one `Products`).
    """

    def __init__(
        self, run: ReleaseSpec, n_pieces: int, wait_on: beam.PCollection[Any] | None = None
    ) -> None:
        """Keeps the run.

        Args:
            run: What is released.
            n_pieces: In how many pieces a log is generated, where the method generates one.
            wait_on: Nothing is decided before this is complete: a log of which every record is
                malformed has no trace that could wait for its check.
        """
        super().__init__()
        self._run = run
        self._n_pieces = n_pieces
        self._wait_on = wait_on

    def expand(self, traces: beam.PCollection[TraceBatch]) -> dict[str, beam.PCollection[Any]]:
        """Adds one COUNT and one DECIDE a round, then APPLY or GENERATE."""
        run = self._run
        method = method_named(run.method)
        once = traces.pipeline | "Once" >> beam.Create([None])
        # The digest, then the decisions so far: each travels once, as a side input of its own.
        known: dict[str, pvalue.AsIter] = {}
        for i, name in enumerate(method.rounds(run.params)):
            counters = dict(method.requires(name, run.params))
            kinds: dict[str, type[Any]] = {n: c.kind for n, c in counters.items()}
            if i == 0:
                kinds[_DIGEST] = InputDigest
            if i == 0 and run.sketch is not None:
                kinds[_SKETCH] = CaseSketch
            # Merging shuffles the batches' statistics. That shuffle is the barrier before the gate:
            # a repeated DECIDE merges what was shuffled, and counts nothing again.
            totals = (
                traces
                | f"{name}/Count"
                >> beam.ParDo(_Count(run, counters, kinds, tuple(known)), *known.values())
                | f"{name}/Merge" >> MergeStatistics(**kinds)
            )  # PCollection[Chunk]
            # Side inputs are materialised: they are also the barrier after a decision.
            counted = pvalue.AsIter(totals)
            if i == 0:
                digest = once | "InputDigest" >> beam.FlatMap(_digest, counted).with_output_types(
                    Chunk
                )
                known[_DIGEST] = pvalue.AsIter(digest)
            if i == 0 and run.sketch is not None:
                _ = once | "WriteSketch" >> beam.Map(_write_sketch, run.sketch, counted)
            waited = [] if self._wait_on is None or i else [pvalue.AsIter(self._wait_on)]
            decision = once | f"{name}/Decide" >> beam.ParDo(
                _Decide(run, name, tuple(known)), counted, *known.values(), *waited
            )  # PCollection[Chunk]
            known[name] = pvalue.AsIter(decision)
        products = once | "Products" >> beam.ParDo(
            _MakeProducts(run, tuple(known)), *known.values()
        )  # PCollection[Chunk]
        return {"traces": self._released(traces, known), "products": products}

    def _released(
        self, traces: beam.PCollection[TraceBatch], known: Mapping[str, pvalue.AsIter]
    ) -> beam.PCollection[TraceBatch]:
        run, pipeline = self._run, traces.pipeline
        method = method_named(run.method)
        if method.log == "transformed":
            released = traces | "Apply" >> beam.ParDo(_Apply(run, tuple(known)), *known.values())
        else:
            pieces = range(self._n_pieces) if method.log == "generated" else ()
            released = (
                pipeline
                | "Pieces" >> beam.Create(pieces)
                | "SpreadPieces" >> beam.Reshuffle()
                | "Generate"
                >> beam.ParDo(_Generate(run, tuple(known), self._n_pieces), *known.values())
            )
        if method.log != "none" and run.columns:
            columns = pipeline | "Columns" >> beam.Create(run.columns).with_output_types(TraceBatch)
            released = (released, columns) | "WithColumns" >> beam.Flatten()
        return released


class _Keyed(beam.DoFn):
    """A stage that has the run and the decisions so far, and finds the key where it runs."""

    # Element type of the output, for its coder.
    gives: ClassVar[Any]

    def __init__(self, run: ReleaseSpec, known: tuple[str, ...]) -> None:
        self._run = run
        self._known = known

    def default_type_hints(self) -> IOTypeHints:
        """Returns only the output's type, as Beam's check fails if there are no side inputs."""
        return IOTypeHints.empty().with_output_types(self.gives)

    def setup(self) -> None:
        self._key = self._run.key.resolve()
        self._method = method_named(self._run.method)
        self._start: tuple[Randomness, dict[str, Any]] | None = None

    def _split(self, known: tuple[Iterable[Chunk], ...]) -> tuple[Randomness, dict[str, Any]]:
        """Returns (randomness, decisions by round) of the side inputs, which are put together once.

        Without a digest, in the first round, the randomness is that of the units.
        """
        if self._start is None:
            # Side inputs that are only waited for come last, and have no name.
            named = zip(self._known, known, strict=False)
            by_name = {name: only(chunks) for name, chunks in named}
            digest = by_name.pop(_DIGEST, None)
            run = self._run
            digested = "" if digest is None else digest.hex
            first = Randomness(self._key, run.release_id, digested, run.noise_digest)
            self._start = first.after(decided(by_name)), by_name
        return self._start

    def _bounded(self, traces: TraceBatch, randomness: Randomness) -> TraceBatch:
        return self._method.bounds(self._run.params).bound(traces, randomness.of_units)


# What is counted beside a round's counters, with the release's key and with the deployment's.
_DIGEST, _SKETCH = "input digest", "case sketch"


def _write_sketch(once: None, file: SketchFile, totals: Iterable[Chunk]) -> None:
    file.write(only(totals).by_name[_SKETCH], file.key.resolve())


def _digest(once: None, totals: Iterable[Chunk]) -> Iterator[Chunk]:
    yield from cut(only(totals).by_name[_DIGEST])


class _Count(_Keyed, CountBatches):
    gives = CHUNK

    def __init__(
        self,
        run: ReleaseSpec,
        counters: Mapping[str, Counter],
        kinds: Mapping[str, type[Any]],
        known: tuple[str, ...],
    ) -> None:
        _Keyed.__init__(self, run, known)
        CountBatches.__init__(self, kinds, self._count)
        self._counters = counters
        self._kinds = kinds

    def setup(self) -> None:
        super().setup()
        if _SKETCH in self._kinds and self._run.sketch is not None:
            self._deployment = self._run.sketch.key.resolve()

    def _count(self, traces: TraceBatch, *known: Any) -> dict[str, Any]:
        randomness, decisions = self._split(known)
        bounded = self._bounded(traces, randomness)
        counted: dict[str, Any] = {
            name: counter.count(bounded, decisions, randomness)
            for name, counter in self._counters.items()
        }
        if _DIGEST in self._kinds:
            counted[_DIGEST] = InputDigest.from_traces(traces, self._key)
        if _SKETCH in self._kinds:
            counted[_SKETCH] = CaseSketch.from_traces(traces, self._deployment)
        return counted


class _Decide(_Keyed):
    gives = CHUNK

    def __init__(self, run: ReleaseSpec, round_name: str, known: tuple[str, ...]) -> None:
        super().__init__(run, known)
        self._round = round_name

    def process(self, once: None, totals: Iterable[Chunk], *known: Any) -> Iterator[Chunk]:
        randomness, decisions = self._split(known)
        statistics, params = only(totals).by_name, self._run.params
        if not decisions and self._method.foretells(params):
            with kept_on_worker(self._run.operator_folder):
                for sentence in self._method.foretold(statistics["variants"], params):
                    _OPERATOR.warning("%s: %s", self._method.name, sentence)
        decide = partial(
            self._method.decide,
            self._round,
            statistics,
            decisions,
            params,
            randomness,
        )
        yield from cut(self._run.draws.once(self._round, randomness, decide))
        _LOG.info("decided: %s", self._round)


class _Apply(_Keyed):
    gives = TraceBatch

    def process(self, traces: TraceBatch, *known: Any) -> Iterable[TraceBatch]:
        randomness, decisions = self._split(known)
        bounded = self._bounded(traces, randomness)
        released = self._method.apply(bounded, decisions, self._run.params, randomness)
        yield from released.split(BATCH_BYTES)


class _Generate(_Keyed):
    gives = TraceBatch

    def __init__(self, run: ReleaseSpec, known: tuple[str, ...], n_pieces: int) -> None:
        super().__init__(run, known)
        self._n_pieces = n_pieces

    def process(self, piece: int, *known: Any) -> Iterable[TraceBatch]:
        randomness, decisions = self._split(known)
        released = self._method.generate(
            piece, self._n_pieces, decisions, self._run.params, randomness
        )
        yield from released.split(BATCH_BYTES)


class _MakeProducts(_Keyed):
    gives = CHUNK

    def process(self, once: None, *known: Any) -> Iterator[Chunk]:
        _, decisions = self._split(known)
        yield from cut(self._method.products(decisions, self._run.params))
