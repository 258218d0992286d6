"""Noise for what is published again and again on a stream: windows, sliding sums, totals.

A case counts in one step, that of its end, so the steps hold disjoint cases, and everything that is
published over a declared horizon is arithmetic on one noisy vector: the values that a `Strategy`
measures, each with exact discrete noise of one scale. What one unit changes of that vector, over
all steps together, is what the noise covers; so epsilon and delta are those of the whole stream,
and not of a step (parallel composition for windows; for sums and totals the norm of a column).
Counts may depend on what was published before: the noise of a step is drawn independently of that
(Denisov, McMahan, Rush, Smith, Thakurta 2022).

There is no state of noise. It is a function of (key, purpose, step, cell, exact value): a step that
is computed again on the same counts comes out the same, in any order and any shard. The key of the
randomness that comes in is bound to a digest of all counts so far (`steps.StreamName`): a step that
is computed again on other counts has other noise in all cells, so the difference of both does not
show which cells changed. It would be a second release of all of them nevertheless, which nobody
paid for; so what a step releases is kept before it is shown (`transforms.stream.step_sinks`).

The measured values are what the promise is about and may be kept and shown. If they are kept, a
step takes one multiplication with each earlier step; if not, all of them are drawn again from the
exact counts of all steps so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale, stability_threshold
from tracecloak.anonymizers.accounting.composition import Mechanism, Spend
from tracecloak.anonymizers.accounting.joint import gaussian_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count, of_one_cell
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream, draw_gaussian, draw_laplace
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.streams.matrix_mechanism import (
    LARGEST_VALUE,
    Participation,
    Strategy,
    with_best_strategy,
)
from tracecloak.schemas.errors import UsageError, check_least

# `gaussian_scale` is proved for so many noisy integers.
_MAX_COORDINATES = 10**9
# Noise is drawn for so many values at a time: it bounds the memory and changes nothing else.
_BLOCK_VALUES = 1 << 20
# A placeholder for an epsilon that is to be computed, and so is not known yet.
ANY_EPSILON = Fraction(10**6)


@dataclass(frozen=True)
class ContinualNoise:
    """The noise of one statistic of a stream; `continual_noise` and `variant_noise` make it.

    Attributes:
        strategy: What is measured, over which horizon.
        case_norm: The largest norm of what one case adds to the counts of its step: L1 for Laplace
            noise, L2 for Gaussian.
        sensitivity: By how much a unit changes what is measured: L1 for Laplace, else L2.
        epsilon: Of the promise, for all steps together.
        delta: Of the promise.
        scale: (numerator, denominator) of the noise of a measured value.
        is_laplace: Whether the noise is discrete Laplace; else it is discrete Gaussian.
        units: Counts are in so many steps of one occurrence.
        n_cells: Cells of the public domain; None where it is open.
        threshold: Noisy counts below it are not published, nor their cells; None: all are.
    """

    strategy: Strategy
    case_norm: int
    sensitivity: Fraction
    epsilon: Fraction
    delta: Fraction
    scale: tuple[int, int]
    is_laplace: bool
    units: int = 1
    n_cells: int | None = None
    threshold: int | None = None

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a measured value, in its units."""
        width = self.scale[0] / self.scale[1]
        # A discrete Gaussian's variance is sigma^2 from 2 on, up to 1e-30. That of discrete Laplace
        # noise is 2 a / (1 - a)^2 with a = e^(-1 / b), nearly 2 b^2.
        if self.is_laplace:
            return math.sqrt(2) * math.exp(-1 / (2 * width)) / -math.expm1(-1 / width)
        return width

    def add(
        self, first: int, values: np.ndarray, cells: np.ndarray, randomness: Randomness, what: str
    ) -> np.ndarray:
        """Returns int64[m, n], measured values with noise.

        Args:
            first: The step of the first row, counted from 0.
            values: int64[m, n], exact values of consecutive steps; see `Strategy.encode`.
            cells: uint64[n, 2], what each column is: identities or cell numbers, all distinct.
            randomness: The stream's, made without the digest of an input.
            what: What the noise is for; another for each statistic of the stream.

        Raises:
            UsageError: A step is outside the horizon, or the cells are more than were declared.
        """
        if self.n_cells is not None and len(cells) > self.n_cells:
            raise UsageError(
                f"cells: {len(cells)} columns, but n_cells declares {self.n_cells}; declare the "
                "public domain of all shards together"
            )
        if len(values):
            self.strategy.check_step(first)
            self.strategy.check_step(first + len(values) - 1)
        noisy = np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)
        rows_at_once = max(_BLOCK_VALUES // max(len(cells), 1), 1)
        for start in range(0, len(values), rows_at_once):
            rows = noisy[start : start + rows_at_once]
            identities = cells_of_values(first + start, rows, cells, randomness, what)
            stream = CellStream(randomness, what, identities)
            draw = draw_laplace if self.is_laplace else draw_gaussian
            rows += draw(stream, *self.scale).reshape(rows.shape)
        return noisy

    def measure(
        self,
        counts: np.ndarray,
        cells: np.ndarray,
        randomness: Randomness,
        what: str,
        first: int = 0,
    ) -> np.ndarray:
        """Returns int64[t+1-first, n], what is measured in the steps `first` to t, with noise.

        Args:
            counts: int64[t+1, n], the exact counts of all steps so far, zeros included.
            cells: As of `add`.
            randomness: As of `add`.
            what: As of `add`.
            first: The first step that is wanted: t for the newest alone, 0 for all.

        Raises:
            UsageError: As of `add`.
        """
        return self.add(first, self.strategy.encode(counts, first), cells, randomness, what)

    def estimate(self, measured: np.ndarray, length: int | None, first: int = 0) -> np.ndarray:
        """Returns float64[t+1-first, n], sums of a length at the ends of steps, in occurrences.

        Unbiased, and free: it looks at what was measured only. All lengths come from the same
        noise, so totals, their increments and sliding sums agree with each other.

        Args:
            measured: int64[t+1, n], what `measure` gave for all steps so far.
            length: 1 for each step's own counts, W for the last W steps, None for totals.
            first: The first step that is wanted.
        """
        return self.strategy.decode(measured, length, first) / self.units

    def errors(self, length: int | None) -> np.ndarray:
        """Returns float64[horizon], the standard deviation of each estimate, in occurrences.

        Before anything runs: it depends on public numbers only.
        """
        return self.strategy.error_factors(length) * (self.deviation / self.units)

    def explain(self, length: int | None) -> str:
        """Returns a sentence on the error to expect of sums of a length."""
        return sentence("streams", "errors", None, noise=self, length=length)

    def spend(self, what: str) -> Spend:
        """Returns the part of a release's accounting that the stream is, for what is promised."""
        kind: Mechanism = "discrete_laplace" if self.is_laplace else "discrete_gaussian"
        return Spend(what, kind, self.epsilon, self.delta, self.scale, self.sensitivity)

    def budget_at(
        self, n_times: int, norm: Callable[[Strategy], Fraction]
    ) -> tuple[Fraction, Fraction]:
        """Returns (epsilon, delta) for a unit that changes more than what is promised covers.

        With Gaussian noise, delta is that of the promise. With Laplace noise, both are `n_times`
        those of the promise: the unit is in `n_times` as many counts, which are disjoint parts of
        what is measured, but in each of them with no more than its cases, so the threshold protects
        each count as before (see `anonymizers.accounting.calibration.stability_threshold`).
        Gaussian noise with a threshold shares its budget with other noise, so only the parameters
        can answer there.

        Args:
            n_times: How many times as many counts it has; with 1 the promise holds.
            norm: Of what it changes of what a strategy measures, in L2 and units of a case.
        """
        from tracecloak.anonymizers.accounting.composed import composed_epsilon

        if n_times == 1:
            return self.epsilon, self.delta
        if self.is_laplace:
            return n_times * self.epsilon, min(n_times * self.delta, Fraction(1))
        assert self.threshold is None
        changed = norm(self.strategy) * self.case_norm
        part = Spend("", "discrete_gaussian", ANY_EPSILON, self.delta, self.scale, changed)
        return Fraction(composed_epsilon([part], self.delta)), self.delta


def continual_noise(
    epsilon: Fraction,
    delta: Fraction,
    horizon: int,
    case_norm: int,
    *,
    n_cells: int,
    length: int | None = 1,
    participation: Participation | None = None,
    units: int = 1,
) -> ContinualNoise:
    """Returns the noise that makes a whole stream of counts (epsilon, delta)-DP.

    Args:
        epsilon: Of all steps together, above 0.
        delta: Of all steps together. With 0 the noise is Laplace and just windows are measured.
        horizon: Steps of the stream; public.
        case_norm: The largest norm of what one case adds to the counts of its step, in the units of
            the counts: L1 with delta 0, else L2.
        n_cells: Cells of the public domain, in all shards together. Zeros get noise too.
        length: Of the sums that shall be best: 1 for windows, W for sums over W steps, None for
            totals. The others can be had as well, with larger errors.
        participation: How often a unit counts; a case, once, where it is not given.
        units: Steps of the counts for one occurrence: 64 and more for Gaussian noise, so that its
            scale is not enlarged by what makes it discrete.

    Raises:
        UsageError: A parameter is out of range, or noise so wide cannot be drawn.
    """
    participation = participation or Participation()
    check_least(1, case_norm=case_norm, n_cells=n_cells, units=units)
    is_laplace = delta == 0
    if is_laplace and length != 1:
        raise UsageError(
            "delta: sums over steps are measured with Gaussian noise, which needs delta above 0; "
            "with delta 0 measure windows (length 1) and add them up"
        )
    if not is_laplace and n_cells * horizon > _MAX_COORDINATES:
        raise UsageError(
            f"n_cells: {n_cells} cells in {horizon} steps are more than {_MAX_COORDINATES} noisy "
            "numbers; give a smaller vocabulary or a shorter horizon"
        )

    def noise_of(strategy: Strategy) -> ContinualNoise:
        if is_laplace:  # sums are of windows, so all cells of a case are of one step
            changed = of_count(case_norm).of_cases(participation.protected_cases)
            scale, size = laplace_scale(epsilon, changed), Fraction(changed.l1)
        else:
            changed = of_count(case_norm).times(strategy.norm(participation))
            scale, size = gaussian_scale(epsilon, delta, changed), changed.l2
        own = case_norm, size, Fraction(epsilon), Fraction(delta), drawable(scale), is_laplace
        return ContinualNoise(strategy, *own, units, n_cells)

    return with_best_strategy(noise_of, horizon, length, participation)


def variant_noise(
    epsilon: Fraction, delta: Fraction, horizon: int, participation: Participation | None = None
) -> ContinualNoise:
    """Returns the noise and the threshold of a histogram in each step over an open domain.

    Only what occurs in a step is measured (`ContinualNoise.add`), and published iff it reaches the
    threshold. All steps together are one histogram by (step, variant), to which a unit adds as much
    as it has cases; so `anonymizers.accounting.calibration.stability_threshold` holds for the whole
    stream.

    Args:
        epsilon: Of all steps together, above 0.
        delta: Of all steps together, above 0.
        horizon: Steps of the stream; public.
        participation: How often a unit counts; a case, once, where it is not given.

    Raises:
        UsageError: A parameter is out of range, or noise so wide cannot be drawn.
    """
    participation = participation or Participation()
    cases = participation.protected_cases
    return ContinualNoise(
        Strategy(horizon),
        1,
        Fraction(cases),
        Fraction(epsilon),
        Fraction(delta),
        drawable(laplace_scale(epsilon, of_one_cell(cases))),
        is_laplace=True,
        threshold=stability_threshold(epsilon, delta, cases),
    )


def cells_of_values(
    first: int, values: np.ndarray, cells: np.ndarray, randomness: Randomness, what: str
) -> np.ndarray:
    """Returns uint64[m n, 2], keyed identities of (what, step, cell, exact value).

    The CBC-MAC of two blocks, the cell, and the step with the value; row by row. Where the value is
    part of it, a second value of the same cell and step has noise of its own. For sums the value is
    that of C D x, which holds all earlier steps: a replay that differs in one of them differs in
    the values of that step and those behind it, and where two values are equal by chance, equal
    noise shows no difference.

    Args:
        first: The step of the first row.
        values: int64[m, n].
        cells: uint64[n, 2].
        randomness: The stream's.
        what: What the noise is for.
    """
    purpose = f"{what}/value"
    blocks = np.empty((*values.shape, 2), np.uint64)
    blocks[:] = randomness.words(purpose, cells)
    steps = np.arange(first, first + len(values), dtype=np.uint64)
    blocks[..., 0] ^= steps[:, None]
    blocks[..., 1] ^= np.ascontiguousarray(values, np.int64).view(np.uint64)
    return randomness.words(purpose, blocks.reshape(-1, 2))
