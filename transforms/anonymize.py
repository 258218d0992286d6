"""AnonymizeEventLog: count, decide and apply for any registered method, in one transform."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

import transforms.arrow_coder  # noqa: F401  # registers the coders
from anonymizers.base import Counter, Decision, Params
from anonymizers.input_digest import InputDigest
from anonymizers.randomness import Randomness, ReleaseKey, text_digest
from anonymizers.registry import method_named
from schemas.merging import Statistics
from schemas.traces import TraceBatch
from transforms.count import MergeStatistics
from transforms.keys import KeyReference
from transforms.traces import DEFAULT_SHARDS, GroupIntoTraces

_LOG = logging.getLogger("tracecloak")


@dataclass(frozen=True)
class Run:
    """What one release is, as every stage of it needs to know.

    Attributes:
        method: Name of a registered method.
        params: Its parameters.
        release_id: The release's name; with the key, the input and the configuration it fixes all
            noise.
        key: Where the worker finds the release key.
        config_digest: Digest of the configuration.
    """

    method: str
    params: Params
    release_id: str
    key: KeyReference
    config_digest: str

    def randomness(self, key: ReleaseKey, digest: InputDigest) -> Randomness:
        """Returns the release's randomness."""
        return Randomness(key, self.release_id, digest.hex, self.config_digest)


class AnonymizeEventLog(beam.PTransform):
    """Anonymises canonical events inside any pipeline.

    Takes PCollection[pa.RecordBatch] of canonical events (schemas.events.EVENT_SCHEMA) and returns
    PCollection[pa.RecordBatch] of released rows (RELEASED_SCHEMA). What the method guarantees is
    `method_named(method).guarantee(params)`; keeping it takes a key that is used for this input and
    configuration only, and a single use of the output per release id.

    Example:
        released = events | AnonymizeEventLog(
            "amun", {"guessing_advantage": 0.2}, KeyReference("env:RELEASE_KEY"), "claims-2026-11")
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        key: KeyReference,
        release_id: str,
        n_shards: int = DEFAULT_SHARDS,
    ) -> None:
        super().__init__()
        checked = method_named(method).Params(**params)
        digest = text_digest(method, json.dumps(checked.resolved()))
        self._run = Run(method, checked, release_id, key, digest)
        self._n_shards = n_shards

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        """Wires grouping, the method's rounds, and its transformation of the log."""
        grouped = events | "GroupIntoTraces" >> GroupIntoTraces(self._n_shards)
        return (
            grouped["traces"]
            | "AnonymizeTraces" >> AnonymizeTraces(self._run)
            | "ToRows" >> beam.Map(_to_rows).with_output_types(pa.RecordBatch)
        )


class AnonymizeTraces(beam.PTransform):
    """Runs a method's rounds on PCollection[TraceBatch], applies it, returns the released cases."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def expand(self, traces: beam.PCollection[TraceBatch]) -> beam.PCollection[TraceBatch]:
        """Adds one COUNT, one barrier and one DECIDE a round, then APPLY."""
        run = self._run
        method = method_named(run.method)
        digest: pvalue.AsSingleton | None = None
        decision: pvalue.AsSingleton | None = None
        for i, name in enumerate(method.rounds(run.params)):
            counters: dict[str, Counter | _DigestCounter] = dict(method.requires(name, run.params))
            if i == 0:
                counters[_DIGEST] = _DigestCounter()
            sides = [] if decision is None else [decision, digest]
            totals = (
                traces
                | f"{name}/Count"
                >> beam.ParDo(_Count(run, counters), *sides).with_output_types(Statistics)
                | f"{name}/Merge" >> MergeStatistics(**{n: c.kind for n, c in counters.items()})
                # A barrier before the gate: what DECIDE draws noise on is not counted again.
                | f"{name}/Barrier" >> beam.Reshuffle()
            )  # PCollection[Statistics], one element
            if digest is None:
                digest = pvalue.AsSingleton(
                    totals | "InputDigest" >> beam.Map(_digest).with_output_types(InputDigest)
                )
            decided = (
                totals
                | f"{name}/Decide"
                >> beam.ParDo(_Decide(run, i, name), digest, decision).with_output_types(Decision)
                # And one after it: all that follows sees one decision.
                | f"{name}/Decided" >> beam.Reshuffle()
            )  # PCollection[Decision], one element
            decision = pvalue.AsSingleton(decided)
        return traces | "Apply" >> beam.ParDo(_Apply(run), decision, digest).with_output_types(
            TraceBatch
        )


class _Keyed(beam.DoFn):
    """Resolves the release key where it runs."""

    def __init__(self, reference: KeyReference) -> None:
        self._reference = reference

    def setup(self) -> None:
        self._key = self._reference.resolve()


_DIGEST = "input digest"


@dataclass(frozen=True)
class _DigestCounter:
    """Marks the digest among a round's counters; it is the one that needs the key itself."""

    kind: ClassVar[type[InputDigest]] = InputDigest


def _digest(totals: Statistics) -> InputDigest:
    return cast(InputDigest, totals.by_name[_DIGEST])


class _Count(_Keyed):
    def __init__(self, run: Run, counters: Mapping[str, Counter | _DigestCounter]) -> None:
        super().__init__(run.key)
        self._run = run
        self._counters = counters

    def process(
        self, traces: TraceBatch, previous: Any = None, digest: InputDigest | None = None
    ) -> Iterable[Statistics]:
        randomness = None if digest is None else self._run.randomness(self._key, digest)
        yield Statistics(
            {
                name: InputDigest.from_traces(traces, self._key)
                if isinstance(counter, _DigestCounter)
                else counter.count(traces, previous, randomness)
                for name, counter in self._counters.items()
            }
        )


class _Decide(_Keyed):
    def __init__(self, run: Run, number: int, round_name: str) -> None:
        super().__init__(run.key)
        self._run = run
        self._number = number
        self._round = round_name

    def process(self, totals: Statistics, digest: InputDigest, previous: Any) -> Iterable[Decision]:
        randomness = self._run.randomness(self._key, digest)
        method = method_named(self._run.method)
        yield method.decide(self._round, totals.by_name, previous, self._run.params, randomness)
        _LOG.info("decided round %d: %s", self._number + 1, self._round)


class _Apply(_Keyed):
    def __init__(self, run: Run) -> None:
        super().__init__(run.key)
        self._run = run

    def process(self, traces: TraceBatch, decision: Any, digest: InputDigest) -> Iterable[Any]:
        randomness = self._run.randomness(self._key, digest)
        yield method_named(self._run.method).apply(traces, decision, self._run.params, randomness)


def _to_rows(traces: TraceBatch) -> pa.RecordBatch:
    return traces.to_rows()
