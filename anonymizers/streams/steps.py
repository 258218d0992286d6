"""What a stream publishes of one step: exact counts, then noise, as functions without a pipeline.

The noise is that of `anonymizers.streams.continual`. Of the steps before nothing but exact counts,
and what was measured of them with noise, is needed; who keeps it between the steps gives it to
`publish`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey, cell_numbers
from tracecloak.anonymizers.rigorous.cells import possible_pairs
from tracecloak.anonymizers.rigorous.params import guarantee_of
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.anonymizers.streams.params import MAX_VARIANTS, UNITS, StreamParams
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.arrays.sequences import decode_sequences
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.step import StepLog, StepRelease
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows
from tracecloak.schemas.statistics.variants import VariantHistogram

_NO_SEQUENCES = pa.array([], pa.large_binary())


@dataclass(frozen=True)
class StreamName:
    """What a stream is called, and where its steps lie.

    Attributes:
        release_id: Its name.
        epoch: Which of its epochs: the noise of each is its own.
        config_digest: Digest of all that determines what is published beside key and input.
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        period_us: Length of a step.
    """

    release_id: str
    epoch: str
    config_digest: str
    start_us: int
    period_us: int

    @property
    def both(self) -> str:
        """Name and epoch in one: what keys and budgets are kept under."""
        return f"{self.release_id}@{self.epoch}"

    def randomness(self, key: ReleaseKey) -> Randomness:
        """Returns the stream's randomness, which does not depend on an input."""
        return Randomness(key, self.both, "", self.config_digest)


class StepProduct(Protocol):
    """A product of a stream."""

    @property
    def kinds(self) -> Mapping[str, type[Mergeable]]:
        """The statistics that are counted of a step, by name."""
        ...

    @property
    def horizon(self) -> int:
        """Number of steps."""
        ...

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it does to a log, in the words of the XES privacy extension."""
        ...

    def count(self, traces: TraceBatch) -> Statistics:
        """Returns the exact statistics of cases that close in one step."""
        ...

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepRelease | StepLog, Any]:
        """Returns what is published of a step, and what to keep of it.

        The same arguments give the same result.

        Args:
            step: Its number.
            counted: Its exact statistics, of all its cases.
            past: What was kept of each step before, in their order.
            name: The stream's.
            key: The epoch's.

        Returns:
            The release, and a columnar value to keep, or None: nothing needs to be kept.
        """
        ...

    def spends(self) -> tuple[Spend, ...]:
        """Returns the parts of the guarantee, for the whole horizon."""
        ...

    def guarantee(self) -> Guarantee:
        """Returns what holds for the whole horizon."""
        ...

    def explain(self) -> tuple[str, ...]:
        """Returns, before anything runs, what each step publishes, at which error."""
        ...


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """What is kept of a step for sums over steps of a public domain.

    Attributes:
        counts: int64[n], exact, in units.
        measured: int64[n], what was measured in this step.
    """

    counts: np.ndarray
    measured: np.ndarray


class _Counts:
    """What the two kinds of counts have in common."""

    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("condensation", "event", "concept:name"),
    )

    def __init__(self, params: StreamParams) -> None:
        self.params = params
        self._words = params.words

    @property
    def horizon(self) -> int:
        """See `StepProduct`."""
        return self.params.horizon

    def bounded(self, traces: TraceBatch) -> TraceBatch:
        """Returns cases within the public vocabulary and length, as `ContributionBounds` does.

        How many cases of an individual count is not decided here: it takes a memory of steps.
        """
        assert self.params.max_trace_length is not None
        return traces.recode_public(self._words).truncate(self.params.max_trace_length)

    def spends(self) -> tuple[Spend, ...]:
        """See `StepProduct`."""
        noises = self.params.noises
        if self.params.guarantee == "case":
            return tuple(noise.spend(name) for name, noise in noises.items())
        # The promise is on fewer steps than are published: what all of them cost is set aside.
        epsilon, delta = self.params.horizon_budget
        return (Spend("all steps", "approximate", epsilon, delta),)

    def guarantee(self) -> Guarantee:
        """See `StepProduct`."""
        params = self.params
        epsilon, delta = (decimal_text(value) for value in params.budget)
        steps = f"{params.horizon:,} steps"
        within = (
            f"for what an individual does within any {params.w_event_steps:,} of {steps}: epsilon "
            f"{epsilon} with delta {delta}; what is said of the release as a whole is for all steps"
            if params.guarantee == "w_event"
            else f"for all {steps} together"
        )
        left_out = {s for noise in params.noises.values() for s in noise.not_covered()}
        return guarantee_of(
            params,
            self.spends(),
            "Every case counts in one step, that in which it closes, so steps hold different "
            "cases; exact discrete noise on the counts of every step covers what one case changes. "
            f"It holds {within}. Sums over steps look at the noisy counts only.",
            "The vocabulary, the length of steps, when they begin and all other parameters are "
            "taken to be public.",
            "The noise key of an epoch is kept until its last step is published.",
            *sorted(left_out),
        )

    def _common(self, step: int, name: StreamName) -> dict[str, Any]:
        params = self.params
        first = {1: step, None: 0}.get(params.length, max(step + 1 - (params.length or 0), 0))
        epsilon, delta = params.horizon_budget
        return {
            "release_id": name.release_id,
            "epoch": name.epoch,
            "product": params.product,
            "view": params.view,
            "step": step,
            "start_us": name.start_us + first * name.period_us,
            "end_us": name.start_us + (step + 1) * name.period_us,
            "n_steps_left": params.horizon - step - 1,
            "epsilon": decimal_text(epsilon),
            "delta": decimal_text(delta),
        }


class DfgSteps(_Counts):
    """The directly-follows counts of all possible pairs of a public vocabulary."""

    def __init__(self, params: StreamParams) -> None:
        super().__init__(params)
        words = params.words
        self._domain = possible_pairs(words, 1)
        labels, n_codes = words.labels, words.end + 1
        self._cells = [(labels[key // n_codes], labels[key % n_codes]) for key in self._domain]
        self._noise = params.noises["pairs"]

    @property
    def kinds(self) -> Mapping[str, type[Mergeable]]:
        """See `StepProduct`."""
        return {"pairs": ClippedFlows}

    def count(self, traces: TraceBatch) -> Statistics:
        """Adds up the clipped vectors of cases, as `private-dfg` does."""
        params = self.params
        flows = ClippedFlows.from_traces(self.bounded(traces), params.clip_units, params.units)
        return Statistics({"pairs": flows})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepRelease, KeptCounts | None]:
        """Publishes every possible pair, those that did not occur included."""
        noise, length = self._noise, self.params.length
        row = counted.by_name["pairs"].dense(self._domain)
        cells, randomness = cell_numbers(self._domain), name.randomness(key)
        counts = np.stack([*(kept.counts for kept in past), row]) if length != 1 else row[None]
        if length == 1:
            kept = None
            sums = noise.add(step, counts, cells, randomness, "stream pairs") / noise.units
        else:
            new = noise.measure(counts, cells, randomness, "stream pairs", step)
            kept = KeptCounts(row, new[0])
            measured = np.concatenate([*(p.measured[None] for p in past), new])
            sums = noise.estimate(measured, length, step)
        errors = np.full(len(cells), noise.errors(length)[step])
        rounded = np.rint(sums[0]).astype(np.int64)
        return StepRelease.of(self._cells, rounded, errors, **self._common(step, name)), kept

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published and one on the error."""
        params = self.params
        kind = "Laplace" if self._noise.is_laplace else "Gaussian"
        norm = f"{params.clip_units / params.units:.1f}"
        counts = (
            f"a case counts with {norm} pairs"
            if self._noise.is_laplace
            else (f"a case counts with an L2 norm of {norm}")
        )
        return (
            f"dfg: each of {self.horizon:,} steps publishes all {len(self._cells):,} possible "
            f"pairs, with discrete {kind} noise; {counts} at most, to which the noise is "
            f"proportional; spends {_spent(params)}",
            *self._noise.explain([self.params.length]),
        )


@dataclass(frozen=True, eq=False)
class KeptVariants:
    """What is kept of a step for sums over steps of variants.

    Attributes:
        counted: Exact numbers of cases.
        fresh: large_binary[n_fresh], variants that this step's noisy counts chose first.
        measured: int64[n_old], what was measured in this step of variants chosen before.
        measured_fresh: int64[step+1, n_fresh], of those, in all steps so far.
    """

    counted: VariantHistogram
    fresh: pa.LargeBinaryArray
    measured: np.ndarray
    measured_fresh: np.ndarray


class VariantSteps(_Counts):
    """Variants whose noisy number of cases in a step reaches a threshold, and numbers of cases.

    A window publishes these numbers. For sums over steps one half of epsilon and delta says which
    variants are published from then on, the other half pays for their sums, of which none misses a
    step: the noise is defined for all variants from the first step on.
    """

    def __init__(self, params: StreamParams) -> None:
        super().__init__(params)
        noises = params.noises
        self._chosen = noises["chosen"]
        self._sums = noises.get("variants")

    @property
    def kinds(self) -> Mapping[str, type[Mergeable]]:
        """See `StepProduct`."""
        return {"variants": VariantHistogram}

    def count(self, traces: TraceBatch) -> Statistics:
        """Counts cases by variant."""
        return Statistics({"variants": VariantHistogram.from_traces(self.bounded(traces))})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepRelease, KeptVariants | None]:
        """Publishes the variants that were chosen."""
        variants: VariantHistogram = counted.by_name["variants"]
        randomness = name.randomness(key)
        cells = randomness.identify("variant", variants.sequences)
        values = variants.counts[None]
        noisy = self._chosen.add(step, values, cells, randomness, "stream variants chosen")[0]
        assert self._chosen.threshold is not None
        passed = np.flatnonzero(noisy >= self._chosen.threshold)
        if self._sums is None:
            errors = np.full(len(passed), self._chosen.errors(1)[step])
            chosen = variants.sequences.take(pa.array(passed))
            return self._released(chosen, noisy[passed], errors, step, name), None
        kept, sequences, measured = self._measured(
            step, variants, passed, past, randomness, self._sums
        )
        sums = self._sums.estimate(measured, self.params.length, step)[0]
        errors = np.full(len(sequences), self._sums.errors(self.params.length)[step])
        rounded = np.rint(sums).astype(np.int64)
        return self._released(sequences, rounded, errors, step, name), kept

    def _measured(
        self,
        step: int,
        variants: VariantHistogram,
        passed: np.ndarray,
        past: Sequence[KeptVariants],
        randomness: Randomness,
        noise: ContinualNoise,
    ) -> tuple[KeptVariants, pa.LargeBinaryArray, np.ndarray]:
        """(what to keep, the chosen variants, int64[step+1, n] what is measured of them)."""
        old = pa.concat_arrays([_NO_SEQUENCES, *(kept.fresh for kept in past)])
        candidates = variants.sequences.take(pa.array(passed))
        is_new = pc.invert(pc.is_in(candidates, value_set=old))
        fresh = candidates.filter(is_new)[: MAX_VARIANTS - len(old)]
        histograms = [*(kept.counted for kept in past), variants]

        def measure(sequences: pa.LargeBinaryArray, first: int) -> np.ndarray:
            counts = np.stack([_counts_of(h, sequences) for h in histograms]) * UNITS
            cells = randomness.identify("variant", sequences)
            return noise.measure(counts, cells, randomness, "stream variants", first)

        kept = KeptVariants(variants, fresh, measure(old, step)[0], measure(fresh, 0))
        table = np.zeros((step + 1, len(old) + len(fresh)), np.int64)
        n = 0
        for at, part in enumerate([*past, kept]):
            table[at, :n] = part.measured
            table[: at + 1, n : n + len(part.fresh)] = part.measured_fresh
            n += len(part.fresh)
        return kept, pa.concat_arrays([old, fresh]), table

    def _released(
        self,
        sequences: pa.LargeBinaryArray,
        counts: np.ndarray,
        errors: np.ndarray,
        step: int,
        name: StreamName,
    ) -> StepRelease:
        offsets, codes = decode_sequences(sequences)
        labels = self.params.words.labels
        cells = [tuple(labels[code] for code in codes[a:b]) for a, b in pairwise(offsets.tolist())]
        return StepRelease.of(cells, counts, errors, **self._common(step, name))

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published and one on the error."""
        noise = self._chosen if self._sums is None else self._sums
        return (
            f"variants: each of {self.horizon:,} steps publishes those that reached "
            f"{self._chosen.threshold:,} noisy cases in "
            + ("it" if self._sums is None else f"it or a step before, at most {MAX_VARIANTS:,}")
            + f"; spends {_spent(self.params)}",
            *noise.explain([self.params.length]),
        )


def _counts_of(histogram: VariantHistogram, sequences: pa.LargeBinaryArray) -> np.ndarray:
    """int64[n], the numbers of cases of sequences, of which some may not occur."""
    place = pc.index_in(sequences, value_set=histogram.sequences)
    found = np.flatnonzero(place.is_valid())
    counts = np.zeros(len(sequences), np.int64)
    counts[found] = histogram.counts[np.asarray(place.drop_null())]
    return counts


def _spent(params: StreamParams) -> str:
    epsilon, delta = (decimal_text(value) for value in params.horizon_budget)
    return f"epsilon {epsilon}, delta {delta} for all steps together"


def product_of(params: StreamParams) -> DfgSteps | VariantSteps:
    """Returns the product that parameters ask for."""
    return DfgSteps(params) if params.product == "dfg" else VariantSteps(params)
