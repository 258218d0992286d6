"""Amun's last step: cases copied and deleted, times noised, cumulated and compressed, new ids.

Algorithm 1, lines 26 to 28, and section 3.7. Sees one batch at a time; all it draws is keyed by the
case, so a case's noise is the same in whichever batch it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tracecloak.anonymizers.amun.params import (
    AmunParams,
    CompressionDecision,
    DafsaDecision,
    SamplingDecision,
    SelectionDecision,
    kept_cases,
    start_days,
    ticks_of,
)
from tracecloak.anonymizers.contract.method import Decisions
from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.arrays.ranks import case_bytes
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class Released:
    """The cases of a batch as often as they are released, with their original times.

    Attributes:
        traces: The cases.
        cells: uint64[n_cases, 2], keyed identity of the original case.
        copies: int64[n_cases], how often that original is released.
        replica: int64[n_cases], which of these this is.
    """

    traces: TraceBatch
    cells: np.ndarray
    copies: np.ndarray
    replica: np.ndarray

    @classmethod
    def of(
        cls, traces: TraceBatch, decisions: Decisions, params: AmunParams, randomness: Randomness
    ) -> Released:
        """Copies and deletes the cases of a batch."""
        selection: SelectionDecision = decisions["selection"]
        traces = kept_cases(traces, decisions, params)
        cells = randomness.identify("case", traces.case_ids)
        # The table that is searched holds the few cases of the batch, not the many changed ones.
        batch_rows = pc.index_in(selection.changed, value_set=case_bytes(cells))
        copies = np.ones(traces.n_cases, np.int64)
        copies[np.asarray(batch_rows.drop_null())] = selection.copies[
            np.asarray(batch_rows.is_valid())
        ]
        source = np.repeat(np.arange(traces.n_cases), copies)
        replica = ranges(np.zeros(traces.n_cases, np.int64), copies)
        return cls(traces.take(source), cells[source], copies[source], replica)

    def start_noise(
        self, decisions: Decisions, params: AmunParams, randomness: Randomness
    ) -> np.ndarray:
        """Returns int64[n_cases], microseconds to add to the starts."""
        sampling: SamplingDecision = decisions["sampling"]
        days = start_days(self.traces, decisions)
        group = np.full(len(days), decisions["dafsa"].dafsa.n_transitions)
        scales = sampling.scales[sampling.times.find(group, days)]
        if params.choices.divided_epsilons == "all":
            scales = scales * self.copies
        return self._drawn(randomness, slice(None), 0, scales)

    def noise(self, decisions: Decisions, params: AmunParams, randomness: Randomness) -> np.ndarray:
        """Returns int64[n_events], microseconds to add to the durations; 0 at first events.

        With `negative_steps` mirrored none makes a duration negative.
        """
        sampling: SamplingDecision = decisions["sampling"]
        later = np.flatnonzero(~self.traces.is_first)
        _, group, ticks = ticks_of(self.traces, decisions, params)
        row = np.repeat(np.arange(self.traces.n_cases), self.traces.lengths)[later]
        scales = sampling.scales[sampling.times.find(group[later], ticks[later])]
        noise = np.zeros(self.traces.n_events, np.int64)
        place = later - self.traces.offsets[row]
        noise[later] = self._drawn(randomness, row, place, scales * self.copies[row])
        if params.choices.negative_steps == "mirrored":
            return np.where(self.traces.durations + noise < 0, np.abs(noise), noise)
        return noise

    def _drawn(
        self,
        randomness: Randomness,
        cases: np.ndarray | slice,
        place: np.ndarray | int,
        scales: np.ndarray,
    ) -> np.ndarray:
        """One draw a scale, keyed by case, replica and place of the event in the case."""
        counter = (self.replica[cases] << 32) + place
        words = randomness.words("amun/time", self.cells[cases], counter)
        return laplace_by_inversion(words, scales)

    def retimed(
        self, decisions: Decisions, params: AmunParams, randomness: Randomness
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adds the noise and compresses (section 3.7).

        Returns:
            (starts int64[n_cases], durations int64[n_events]) in microseconds.
        """
        start_noise = self.start_noise(decisions, params, randomness)
        noise = self.noise(decisions, params, randomness)
        starts = self.traces.starts + start_noise
        durations = np.maximum(self.traces.durations + noise, 0)
        decided: CompressionDecision | None = decisions.get("compression")
        if decided is None or decided.noised_starts.is_empty:
            return starts, durations
        noised = decided.noised_starts
        known: DafsaDecision = decisions["dafsa"]
        first, last = known.log_start_us, known.log_end_us
        compression = params.choices.compression
        if compression == "starts":
            low = max(first, min(noised.first_us, last))
            high = min(last, max(noised.last_us, first))
            factor = (high - low) / max(noised.width_us, 1)
            starts = low + _scaled(starts - noised.first_us, factor)
            return np.clip(starts, low, high), durations  # floats are inexact over centuries
        anonymised_range = noised.width_us
        if compression == "shifts":
            anonymised_range = max(abs(noised.first_us), abs(noised.last_us))
        factor = equation_4(last - first, anonymised_range)
        if compression == "equation_4":
            return first + _scaled(starts - first, factor), _scaled(durations, factor)
        starts = self.traces.starts + _scaled(start_noise, factor)
        return starts, np.maximum(self.traces.durations + _scaled(noise, factor), 0)


def equation_4(original_range: int, anonymised_range: int) -> float:
    """The compression factor; 1/4, its value for equal ranges, where both are 0."""
    both = original_range + anonymised_range
    return 0.5 * original_range / both if both else 0.25


def _scaled(values: np.ndarray, factor: float) -> np.ndarray:
    return np.rint(values * factor).astype(np.int64)
