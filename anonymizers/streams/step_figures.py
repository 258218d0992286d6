"""How far to trust the numbers of a step: limits of its counts, and the numbers that go with them.

All of it follows from what the step publishes: from counts with noise, their public standard errors
and the delta of the stream, which says which law the noise has. So it costs nothing, and whoever
has the step can compute it again. It is the arithmetic of `private-dfg`, with one difference: a
step publishes every possible pair, so no count is shown for being large, and totals add up all.

The counts are of cases as the stream counts them: ended at max_trace_length, and scaled down by
l2_clip. How much that takes is not measured in a stream, so the limits say nothing of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracecloak.anonymizers.graphs.count_intervals import intervals_of_all
from tracecloak.anonymizers.graphs.graph_figures import figures_of_graph
from tracecloak.anonymizers.graphs.noisy_graph import NoisyCells
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.evidence import is_noise_laplace, laplace_scales
from tracecloak.schemas.published.figures import Figure, ReleasedFigures, grades
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import StepRelease

# The variance that rounding to a whole number adds; sums with Laplace noise are whole already.
_ROUNDING = 1 / 12


def with_intervals(release: StepRelease) -> StepRelease:
    """Returns the graph of a step with 95 % intervals of its counts, and with its figures.

    The figures are those of `private-dfg`; `path_not_shown` is of the paths whose counts are noise.

    Args:
        release: Of possible pairs of activities.
    """
    is_laplace = is_noise_laplace(release)
    scales = _scales(release.standard_errors, is_laplace)
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
    shown = order[is_shown[order]]
    sources, targets = ends[shown].astype(np.int32).T
    counts = release.counts[shown]
    graph = ReleasedGraph(vocabulary.names, sources, targets, counts, counts, counts)
    sums = _sums(release, pairs, order)
    return figures_of_graph(sums, graph, vocabulary, sums.values)


def _sums(release: StepRelease, pairs: np.ndarray, order: np.ndarray) -> NoisyCells:
    """The counts of a step in the order of their pairs, with the law of their noise."""
    is_laplace = is_noise_laplace(release)
    errors = release.standard_errors[order]
    if not is_laplace:
        errors = np.sqrt(errors * errors + _ROUNDING)
    scales = _scales(errors, is_laplace)
    one = float(scales.max(initial=1e-6)).as_integer_ratio()
    noise = SumNoise(one, units=1, is_laplace=is_laplace)
    return NoisyCells(pairs[order], release.counts[order].astype(np.float64), scales, noise)


def _scales(standard_errors: np.ndarray, is_laplace: bool) -> np.ndarray:
    """float64[n], of noise of these deviations: what `NoisyCells` calls its scale."""
    return laplace_scales(standard_errors) if is_laplace else standard_errors
