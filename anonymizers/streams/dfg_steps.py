"""The product `dfg` of a stream: counts of all possible pairs, with intervals and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import compress
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from tracecloak.anonymizers.accounting.sensitivity import of_directly_follows
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.graphs.graph_figures import figures_of_pairs
from tracecloak.anonymizers.graphs.noisy_graph import NoisyCells, intervals_of_all
from tracecloak.anonymizers.noise.randomness import ReleaseKey, cell_numbers
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.names import possible_pairs
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.anonymizers.streams.count_steps import (
    UNITS,
    CountSteps,
    KeptCounts,
    StreamParams,
)
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Figure, ReleasedFigures, grades
from tracecloak.schemas.published.step import StepRelease, is_noise_laplace, laplace_scales
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows

# ---
# How far to trust the numbers of a step: limits of its counts, and the numbers that go with them.
# All of it follows from what the step publishes: from counts with noise, their public standard
# errors and the delta of the stream, which says which law the noise has. So it costs nothing, and
# whoever has the step can compute it again. It is the arithmetic of `private-dfg`, with one
# difference: a step publishes every possible pair, so no count is shown for being large, and totals
# add up all. The counts are of cases as the stream counts them: ended at max_trace_length, and
# scaled down by l2_clip. How much that takes is not measured in a stream, so the limits say nothing
# of it.


# The variance that rounding to a whole number adds; sums with Laplace noise are whole already.
_ROUNDING = 1 / 12


def with_intervals(release: StepRelease) -> StepRelease:
    """Returns the graph of a step with 95 % intervals of its counts, and with its figures.

    The figures are those of `private-dfg`; `path_not_shown` is of the paths whose counts are noise.

    Args:
        release: Of possible pairs of activities.
    """
    is_laplace = is_noise_laplace(release)
    errors = release.standard_errors
    scales = laplace_scales(errors) if is_laplace else errors
    lows, highs = intervals_of_all(release.counts, scales, is_laplace=is_laplace)
    figures = figures_within(release, grades(release.counts, lows, highs) != "noise")
    return replace(release, lows=lows, highs=highs, figures=ReleasedFigures.of(figures))


def figures_within(release: StepRelease, is_shown: np.ndarray) -> list[Figure]:
    """Returns the figures of the graph of a step of which some counts are shown.

    Args:
        release: As of `with_intervals`.
        is_shown: bool[n]; the limit of a path that is not shown is one of all others together.
    """
    start, end = ActivityVocabulary.of([]).labels
    names = {name for cell in release.cells for name in cell} - {start, end}
    vocabulary = ActivityVocabulary.of(names)
    codes = {label: code for code, label in enumerate(vocabulary.labels)}
    ends = np.array([[codes[a], codes[b]] for a, b in release.cells], np.int64).reshape(-1, 2)
    pairs = ends[:, 0] * (vocabulary.end + 1) + ends[:, 1]
    order = np.argsort(pairs)
    is_laplace, errors = is_noise_laplace(release), release.standard_errors[order]
    scales = laplace_scales(errors) if is_laplace else np.sqrt(errors * errors + _ROUNDING)
    noise = SumNoise(float(scales.max(initial=1e-6)).as_integer_ratio(), 1, is_laplace=is_laplace)
    values = release.counts[order].astype(np.float64)
    sums = NoisyCells(pairs[order], values, scales, noise)
    return figures_of_pairs(sums, is_shown[order], vocabulary, values)


# --- The product `dfg` of a stream: the directly-follows graph of a public vocabulary. ------------


class DfgParams(StreamParams):
    """Parameters of the graphs that a stream publishes."""

    l2_clip: Exact | None = Field(default=None, ge=2, le=100_000)
    """Largest L2 norm of one case's directly-follows counts, public; a case beyond it is scaled
    down, and noise is proportional to it. By default that of a case of max_trace_length events
    which repeats pairs as little as it can, such as 7.2 for 50 events: loops are scaled down. One
    as large as max_trace_length leaves every case whole."""

    def check_product(self) -> None:
        """See `StreamParams`."""
        if self.delta == 0 and self.l2_clip is not None:
            raise ValueError("l2_clip is for a dfg with delta above 0")

    @cached_property
    def n_cells(self) -> int:
        """Possible pairs: noise is drawn for all of them."""
        return len(possible_pairs(self.words, 1))

    @property
    def units(self) -> int:
        """Units of one occurrence: what is counted in under this noise."""
        return 1 if self.delta == 0 else UNITS

    @property
    def clip(self) -> Fraction | None:
        """The l2_clip that holds, given or not; None with delta 0, where nothing is scaled."""
        if self.delta == 0:
            return None
        if self.l2_clip is None:
            return default_clip(self.max_trace_length, len(self.words))
        return Fraction(self.l2_clip)

    @property
    def whole_units(self) -> int:
        """Norm in units of the case that has the largest one: L2, or L1 with delta 0."""
        largest = of_directly_follows(self.max_trace_length)
        return int(largest.l1) if self.delta == 0 else largest.times(UNITS).l2_whole

    @property
    def clip_units(self) -> int:
        """Largest norm of one case's pairs in units, as of `whole_units`, after scaling down."""
        if self.clip is None:
            return self.whole_units
        return min(int(self.clip * UNITS), self.whole_units)

    @cached_property
    def noises(self) -> dict[str, ContinualNoise]:
        """See `StreamParams`; `pairs` of the graph."""
        return {"pairs": self.noise_of_all(self.clip_units, self.units)}


def default_clip(max_trace_length: int, n_words: int) -> Fraction:
    """Returns an L2 norm that scales down loops and no other case, rounded up to a tenth.

    A case of n events takes n + 1 arcs, START and END included. Where all differ its norm is the
    root of n + 1. Few activities have few arcs; then the smallest norm of so many events is that of
    a case which takes each arc between activities about as often as any other.

    Args:
        max_trace_length: n, public.
        n_words: Activities of the public vocabulary, OTHER included.
    """
    times, once_more = divmod(max_trace_length - 1, n_words**2)
    squared = 2 + (n_words**2 - once_more) * times**2 + once_more * (times + 1) ** 2
    return Fraction(math.isqrt(100 * squared - 1) + 1, 10)


class DfgSteps(CountSteps):
    """The directly-follows counts of all possible pairs of a public vocabulary."""

    name = "dfg"
    summary = "directly-follows graph"
    Params: ClassVar[type[DfgParams]] = DfgParams
    kinds: ClassVar[Mapping[str, type[Mergeable]]] = {"pairs": ClippedFlows}
    params: DfgParams

    def __init__(self, params: DfgParams, since: Mapping[str, int] | None = None) -> None:
        """Keeps the parameters.

        Args:
            params: The parameters.
            since: The first step that publishes pairs of a name, for names that came later. In
                earlier steps these pairs are counted, which gives 0, and not published.
        """
        super().__init__(params)
        words = params.words
        self._domain = possible_pairs(words, 1)
        labels, n_codes = words.labels, words.end + 1
        self._cells = [(labels[key // n_codes], labels[key % n_codes]) for key in self._domain]
        self._since = since or {}
        steps = np.array([self._since.get(label, 0) for label in labels])
        self._first = np.maximum(steps[self._domain // n_codes], steps[self._domain % n_codes])
        self._noise = params.noises["pairs"]

    def count(self, traces: TraceBatch) -> Statistics:
        """Adds up the clipped vectors of cases, as `private-dfg` does."""
        params = self.params
        flows = ClippedFlows.from_traces(self.bounded(traces), params.clip_units, params.units)
        return Statistics({"pairs": flows})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepRelease, KeptCounts | None]:
        """Publishes every possible pair, those that did not occur included."""
        row = counted.by_name["pairs"].dense(self._domain)
        sums, kept_counts = self.sums_of(step, row, self._domain, past, name.randomness(key))
        is_shown = self._first <= step
        shown, rounded = list(compress(self._cells, is_shown)), np.rint(sums[is_shown])
        errors = np.full(len(shown), self._noise.errors(self.params.length)[step])
        release = StepRelease.of(shown, rounded, errors, **self.common(step, name))
        return with_intervals(release), kept_counts

    def grown(
        self,
        before: ActivityVocabulary,
        waiting: Mapping[int, Statistics],
        past: Sequence[KeptCounts],
        name: StreamName,
        key: ReleaseKey,
    ) -> tuple[dict[int, Statistics], tuple[KeptCounts, ...]]:
        """Returns counts, and what is kept of steps, of before names came to the vocabulary.

        It is as if the names had been there from the first step, and no event had had them: a pair
        with one of them was counted 0 times, and noise of its own is drawn for what was measured of
        that. Nothing of any case is in it; other pairs keep the one noise that they have.

        Args:
            before: The vocabulary so far, whose names are all in this one.
            waiting: By step, counts that are not published.
            past: What was kept of each published step, in their order.
            name: The stream's.
            key: The epoch's.
        """
        words = self.params.words
        codes = np.append(words.codes(before.names), [words.start, words.end]).astype(np.int64)

        def renumbered(keys: np.ndarray) -> np.ndarray:  # which stay in their order
            source, target = np.divmod(keys, before.end + 1)
            return codes[source] * (words.end + 1) + codes[target]

        counted = dict(waiting)
        for step, all_of in waiting.items():
            flows: Any = all_of.by_name["pairs"]
            named = {"pairs": replace(flows, keys=renumbered(flows.keys))}
            counted[step] = Statistics({**all_of.by_name, **named})
        is_old = np.isin(self._domain, renumbered(possible_pairs(before, 1)))
        shape = len(past), len(self._domain)
        counts, measured = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        measured[:, ~is_old] = self._noise.add(
            *(0, measured[:, ~is_old], cell_numbers(self._domain[~is_old])),
            *(name.randomness(key), "stream pairs before they were named"),
        )
        for step, kept in enumerate(past):
            counts[step, is_old], measured[step, is_old] = kept.counts, kept.measured
        return counted, tuple(map(KeptCounts, counts, measured))

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published, what a clip takes from loops, and the error."""
        params, said = self.params, partial(sentences, "streams", params=self.params)
        share = Fraction(params.clip_units, params.whole_units)
        clip, shares = params.clip, {"share": float(share), "more": float(1 / share)}
        too_often = 0 if clip is None else math.isqrt(int(clip**2) - 2) + 1
        return (
            *said("dfg", n_pairs=len(self._cells), noise=self._noise),
            *(
                f"{name} came to the vocabulary later: pairs with it are published from step "
                f"{step:,} on, under the same clip and with the same noise"
                for name, step in self._since.items()
            ),
            *(() if clip is None else said("clip", too_often=too_often, **shares)),
            self._noise.explain(params.length),
        )
