"""The product `variants` of a stream: numbers of cases of variants that enough cases have.

How far to trust the numbers of cases that a step publishes by variant.

Intervals are those of the noise, as of `variant-histogram`: for any one variant, chosen without
looking. A window shows a variant because its noisy count reaches the threshold, so of counts just
above it fewer intervals hold. Sums over steps have noise of their own, which does not decide what
is shown. What is not shown has a limit as well: it stayed below the threshold in every step that is
summed up, but for noise.

All of it follows from released numbers and public parameters, so it costs nothing. The counts are
of cases as the stream counts them, ended at max_trace_length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.graphs.noisy_graph import intervals_of_all, reach_of_noise
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.rigorous.budget import Sums, budget_of
from tracecloak.anonymizers.streams.continual import ANY_EPSILON, ContinualNoise, variant_noise
from tracecloak.anonymizers.streams.count_steps import UNITS, CountSteps, StreamParams
from tracecloak.anonymizers.streams.matrix_mechanism import Strategy, with_best_strategy
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.arrays.sequences import decode_sequences
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import DERIVED, Figure, ReleasedFigures
from tracecloak.schemas.published.step import StepRelease, View
from tracecloak.schemas.statistics.variants import VariantHistogram

# Variants of which totals are kept: the first ones that pass the threshold.
MAX_VARIANTS = 10_000
_HALF = Fraction(1, 2)
_NO_SEQUENCES = pa.array([], pa.large_binary())


class VariantParams(StreamParams):
    """Parameters of the variants that a stream publishes."""

    pure_views: ClassVar[tuple[View, ...]] = ()

    @property
    def n_cells(self) -> int:
        """Variants of which sums are published, at most."""
        return MAX_VARIANTS

    @cached_property
    def noises(self) -> dict[str, ContinualNoise]:
        """See `StreamParams`.

        `chosen` of the counts of a step that say which variants are published; `variants`, where
        sums over steps are, of their numbers of cases.
        """
        if self.view != "window":
            return self.sums[0]
        return {"chosen": variant_noise(*self.budget, self.horizon, self.participation)}

    @cached_property
    def sums(self) -> tuple[dict[str, ContinualNoise], Spend]:
        """The noise of the counts of a step and of sums, and what both spend together.

        By the counts variants are chosen; it is asked for where sums over steps are published.
        """
        part = self.participation
        most = part.protected_cases

        def made(strategy: Strategy) -> tuple[dict[str, ContinualNoise], Spend]:
            strategies = Strategy(self.horizon), strategy
            norm, norm_of_sums = (one.norm(part) for one in strategies)
            chosen = Sensitivity(most, most, norm**2, part.cases, norm)
            needs = (
                Sums("chosen", _HALF, chosen, is_open=True),
                Sums("variants", _HALF, of_count(UNITS).times(norm_of_sums), UNITS, is_l2=True),
            )
            budget, noises = budget_of(*self.budget, needs), {}
            for need, one in zip(needs, strategies, strict=True):
                means = budget.means[need.name]
                noise = means.noise(need.changed, need.units)
                noises[need.name] = ContinualNoise(
                    *(one, UNITS, Fraction(noise.sensitivity or 0), *self.budget, noise.scale),
                    is_laplace=False,
                    units=UNITS,
                    n_cells=None if need.is_open else MAX_VARIANTS,
                    threshold=means.threshold(need.changed) if need.is_open else None,
                )
            [spend] = budget.spends()
            return noises, spend

        return with_best_strategy(made, self.horizon, self.length, part)

    def budget_at(
        self, n_times: int, norm: Callable[[Strategy], Fraction]
    ) -> tuple[Fraction, Fraction]:
        """See `StreamParams`; delta is at most `n_times` that of the promise.

        A unit has no more cases in each count, so each passes the threshold with the probability
        that is promised.
        """
        if self.view == "window":
            return super().budget_at(n_times, norm)
        if n_times == 1:
            return self.budget
        noises, spend = self.sums
        delta = min(n_times * spend.delta, Fraction(1))
        blocks = (
            replace(block, sensitivity=norm(noise.strategy) * UNITS, delta=n_times * block.delta)
            for block, noise in zip(spend.blocks, noises.values(), strict=True)
        )
        # The question is which epsilon holds at this delta, so the spend's own epsilon and delta do
        # not count.
        whole = replace(spend, epsilon=ANY_EPSILON, delta=Fraction(0), blocks=tuple(blocks))
        return Fraction(composed_epsilon([whole], delta)) if delta < 1 else ANY_EPSILON, delta


class KeptVariants(Columnar, wire_name="kept-variants"):
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


class VariantSteps(CountSteps):
    """Variants whose noisy number of cases in a step reaches a threshold, and numbers of cases.

    A window publishes these numbers. For sums over steps one half of the Gaussian budget says which
    variants are published from then on, the other half is for their sums, of which none misses a
    step: the noise is defined for all variants from the first step on.
    """

    name = "variants"
    summary = "cases by variant"
    Params: ClassVar[type[VariantParams]] = VariantParams
    kinds: ClassVar[Mapping[str, type[Mergeable]]] = {"variants": VariantHistogram}
    params: VariantParams

    def __init__(self, params: VariantParams) -> None:
        super().__init__(params)
        noises = params.noises
        self._chosen = noises["chosen"]
        self._sums = noises.get("variants")

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
        values = variants.counts[None] * self._chosen.units
        noisy = self._chosen.add(step, values, cells, randomness, "stream variants chosen")[0]
        assert self._chosen.threshold is not None
        passed = np.flatnonzero(noisy >= self._chosen.threshold)
        length, kept_variants = self.params.length, None
        if self._sums is None:
            sequences, counts = variants.sequences.take(pa.array(passed)), noisy[passed]
            error = self._chosen.errors(1)[step]
        else:
            kept_variants, sequences, measured = self._measured(
                step, variants, passed, past, randomness, self._sums
            )
            counts = np.rint(self._sums.estimate(measured, length, step)[0]).astype(np.int64)
            error = self._sums.errors(length)[step]
        offsets, codes = decode_sequences(sequences)
        labels = self.params.words.labels
        named = [tuple(labels[code] for code in codes[a:b]) for a, b in pairwise(offsets.tolist())]
        errors = np.full(len(named), error)
        release = StepRelease.of(named, counts, errors, **self.common(step, name))
        n_steps = min(step + 1, length or step + 1)
        is_full = self._sums is not None and len(named) == MAX_VARIANTS
        return with_limits(release, self._chosen, n_steps, is_full=is_full), kept_variants

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
        old = pa.concat_arrays([_NO_SEQUENCES, *(p.fresh for p in past)])
        candidates = variants.sequences.take(pa.array(passed))
        is_new = pc.invert(pc.is_in(candidates, value_set=old))
        fresh = candidates.filter(is_new)[: MAX_VARIANTS - len(old)]
        histograms = [*(p.counted for p in past), variants]

        def measure(sequences: pa.LargeBinaryArray, first: int) -> np.ndarray:
            counts = np.stack([h.cases_of(sequences) for h in histograms]) * UNITS
            cells = randomness.identify("variant", sequences)
            return noise.measure(counts, cells, randomness, "stream variants", first)

        kept_variants = KeptVariants(variants, fresh, measure(old, step)[0], measure(fresh, 0))
        table = np.zeros((step + 1, len(old) + len(fresh)), np.int64)
        n = 0
        for at, part in enumerate([*past, kept_variants]):
            table[at, :n] = part.measured
            table[: at + 1, n : n + len(part.fresh)] = part.measured_fresh
            n += len(part.fresh)
        return kept_variants, pa.concat_arrays([old, fresh]), table

    def spends(self) -> tuple[Spend, ...]:
        """See `StepProduct`."""
        if self._sums is None or self.params.guarantee != "case":
            return super().spends()
        return (self.params.sums[1],)

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published and one on the error."""
        noise = self._chosen if self._sums is None else self._sums
        assert self._chosen.threshold is not None
        least = math.ceil(self._chosen.threshold / self._chosen.units)
        return (
            *sentences("streams", "variants", self.params, least=least),
            noise.explain(self.params.length),
        )


def with_limits(
    release: StepRelease, chosen: ContinualNoise, n_steps: int, *, is_full: bool
) -> StepRelease:
    """Returns the variants of a step with 95 % intervals, and the limit of all others.

    Args:
        release: The variants that were chosen so far; of a window those that reach the threshold.
        chosen: The noise of the counts that chose them: Laplace of a window, on whole counts, and
            Gaussian of sums over steps.
        n_steps: Steps that are summed up.
        is_full: Whether there is no place for another variant: nothing is known of the others then.
    """
    assert chosen.threshold is not None
    reach = reach_of_noise(max(len(release.counts), 1), is_laplace=chosen.is_laplace)
    if chosen.is_laplace:
        half_width = laplace_interval(Fraction(*chosen.scale))
        lows, highs = np.maximum(release.counts - half_width, 0), release.counts + half_width
        noise = chosen.scale[0] / chosen.scale[1] * reach
    else:
        lows, highs = intervals_of_all(release.counts, release.standard_errors)
        noise = chosen.deviation * math.sqrt(n_steps) * reach
    limit = math.ceil((n_steps * chosen.threshold + noise) / chosen.units)
    others = [] if is_full else [Figure("variant_not_shown", (), 0, 0, limit, DERIVED)]
    return replace(release, lows=lows, highs=highs, figures=ReleasedFigures.of(others))
