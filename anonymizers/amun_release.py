"""Amun's last step: cases copied and deleted, times noised, cumulated and compressed, new ids.

Algorithm 1, lines 26 to 28, and section 3.7. Sees one batch at a time; all it draws is keyed by the
case, so a case's noise is the same in whichever batch it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonymizers.amun_state import (
    AmunParams,
    CompressionDecision,
    DafsaDecision,
    SamplingDecision,
    SelectionDecision,
    kept_cases,
    ticks_of,
)
from anonymizers.base import Decisions
from anonymizers.mechanisms import laplace_by_inversion
from anonymizers.randomness import Randomness
from schemas.events import MAX_TIME_US, MIN_TIME_US
from schemas.merging import ranges
from schemas.ranks import case_bytes
from schemas.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class Released:
    """The cases of a batch as often as they are released, with the noise of their times.

    Attributes:
        traces: The cases with their original times.
        cells: uint64[n_cases, 2], keyed identity of the original case.
        replica: int64[n_cases], which of the original's released cases this is.
        start_noise: int64[n_cases], microseconds.
        noise: int64[n_events], microseconds; 0 at a case's first event.
    """

    traces: TraceBatch
    cells: np.ndarray
    replica: np.ndarray
    start_noise: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(
        cls, traces: TraceBatch, decisions: Decisions, params: AmunParams, randomness: Randomness
    ) -> Released:
        """Draws the noise of a batch's released cases."""
        sampling: SamplingDecision = decisions["sampling"]
        selection: SelectionDecision = decisions["selection"]
        traces = kept_cases(traces, decisions, params)
        cells = randomness.identify("case", traces.case_ids)
        found = pc.index_in(case_bytes(cells), value_set=selection.changed)
        copies = np.ones(traces.n_cases, np.int64)
        copies[np.asarray(found.is_valid())] = selection.copies[np.asarray(found.drop_null())]

        source = np.repeat(np.arange(traces.n_cases), copies)
        replica = ranges(np.zeros(traces.n_cases, np.int64), copies)
        traces, cells = traces.take(source), cells[source]
        _, group, ticks = ticks_of(traces, decisions, params)
        row = np.repeat(np.arange(traces.n_cases), traces.lengths)
        scale = sampling.scales[sampling.times.find(group, ticks)].astype(np.float64)
        scale *= copies[source][row]
        # A case's first event draws for the start, the others for their relative times.
        counter = (replica[row] << 32) + np.arange(traces.n_events) - traces.offsets[row]
        drawn = laplace_by_inversion(randomness.words("amun/time", cells[row], counter), scale)
        return cls(
            traces,
            cells,
            replica,
            drawn[traces.is_first],
            np.where(traces.is_first, 0, drawn),
        )

    def compressed(self, decisions: Decisions, params: AmunParams) -> tuple[np.ndarray, np.ndarray]:
        """Returns (starts int64[n_cases], durations int64[n_events]) in us, by section 3.7."""
        starts = self.traces.starts + self.start_noise
        durations = np.maximum(self.traces.durations + self.noise, 0)
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
            return low + _scaled(starts - noised.first_us, factor), durations
        factor = equation_4(last - first, noised.width_us)
        if compression == "equation_4":
            return first + _scaled(starts - first, factor), _scaled(durations, factor)
        starts = self.traces.starts + _scaled(self.start_noise, factor)
        return starts, np.maximum(self.traces.durations + _scaled(self.noise, factor), 0)


def equation_4(original_range: int, anonymised_range: int) -> float:
    """The compression factor; 1/4, its value for equal ranges, where both are 0."""
    both = original_range + anonymised_range
    return 0.5 * original_range / both if both else 0.25


def _scaled(values: np.ndarray, factor: float) -> np.ndarray:
    return np.rint(values * factor).astype(np.int64)


def cumulated_stamps(starts: np.ndarray, durations: np.ndarray, traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_events], starts and durations cumulated, within the years 1 to 9999."""
    if traces.n_cases == 0:
        return durations
    durations = np.where(traces.is_first, 0, durations)
    running = np.cumsum(durations)  # may wrap; differences within a case are right all the same
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    since = running - running[traces.offsets[:-1]][row]
    stamps = np.clip(starts, MIN_TIME_US, MAX_TIME_US)[row] + since
    # A case that runs past int64 has passed the year 9999 on the way: from there on it stays at the
    # end of the calendar.
    past = np.zeros(traces.n_events, bool)
    total = np.add.reduceat(durations.astype(np.float64), traces.offsets[:-1])
    for case in np.flatnonzero(total > float(MAX_TIME_US)):
        own = slice(traces.offsets[case], traces.offsets[case + 1])
        past[own] = np.cumsum(durations[own].astype(np.float64)) > float(MAX_TIME_US)
    return np.where(past, MAX_TIME_US, np.minimum(stamps, MAX_TIME_US))


_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2")
_ID_BYTES = 12


def hex_ids(words: np.ndarray) -> pa.StringArray:
    """Returns string[n], 96 random bits each, as 24 hex digits."""
    raw = words.view(np.uint8).reshape(-1, 16)[:, :_ID_BYTES]
    data = np.ascontiguousarray(_HEX[raw]).tobytes()
    offsets = np.arange(len(words) + 1, dtype=np.int32) * (2 * _ID_BYTES)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(data))
