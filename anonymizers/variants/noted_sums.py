"""What `joint-variants` measured, as rows that a release publishes beside its cases.

Arcs that no drawn case has are not listed one by one, as there are as many as the square of the
activities: the largest of their sums says how many cases can have such an arc. Only noisy sums are
looked at, so it costs no privacy.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, note
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

if TYPE_CHECKING:
    from tracecloak.anonymizers.variants.joint_variants import Measured


def note_arcs(drawn: VariantHistogram, measured: Measured) -> None:
    """Notes how often arcs are taken, the number of cases, and how cases were clipped.

    An arc within a case is counted twice where positions count: over the whole case, and in bins
    of positions. The mean of both, each by its variance, is noted. Elsewhere it is counted once.

    Args:
        drawn: The variants that are released.
        measured: What is known of the log.
    """
    cells, noise, chain = measured.cells, measured.chain_noise, measured.chain
    names, randomness = measured.domain.vocabulary, measured.randomness
    n, side, n_bins = cells.n_names, cells.side, cells.n_blocks - 2
    blocks = cells.by_block(chain / noise.units)
    sums, deviations = blocks[2:].sum(axis=0), np.full((side, side), math.sqrt(n_bins))
    if cells.has_whole:
        sums = (blocks[0] + sums / n_bins) / (1 + 1 / n_bins)
        deviations /= math.sqrt(n_bins + 1)
    sums[n], deviations[n] = blocks[1][n], 1.0
    deviations *= noise.deviation

    is_taken = _taken(drawn, names)
    is_possible = np.ones((side, side), bool)
    is_possible[n, n] = False
    froms, tos = ([*names.labels[:n], names.labels[end]] for end in (names.start, names.end))

    def pairs(sources: np.ndarray, targets: np.ndarray) -> list[tuple[str, ...]]:
        columns = sources.tolist(), targets.tolist()
        return [(froms[a], tos[b]) for a, b in zip(*columns, strict=True)]

    for rows in (slice(0, n), slice(n, side)):
        source, target = np.nonzero(is_taken[rows])
        ends = (source + rows.start, target)
        deviation = float(deviations[rows.start, 0])
        note(randomness, figures.ARC, partial(pairs, *ends), sums[ends], deviation)
    others = np.where(is_possible & ~is_taken, sums, -np.inf)
    if np.isfinite(others).any():
        widest = float(deviations[is_possible & ~is_taken].max())
        note(randomness, figures.ARC_NOT_SHOWN, lambda: [()], np.array([others.max()]), widest)
    number = np.array([blocks[0][n, n]])
    note(randomness, figures.CASES, lambda: [("arcs",)], number, noise.deviation)
    _note_totals(names, np.where(is_possible, sums, 0), deviations, randomness)
    note(randomness, figures.CLIP, lambda: [()], np.array([measured.clip_units / noise.units]), 0.0)
    if cells.has_whole:  # else an arc counts once, whatever its position
        begins = np.flatnonzero(np.diff(cells.blocks, prepend=-1))[1:]
        note(randomness, figures.POSITION, lambda: [()] * len(begins), begins, 0.0)


def _note_totals(
    names: ActivityVocabulary, sums: np.ndarray, deviations: np.ndarray, randomness: Randomness
) -> None:
    """Notes how often each activity occurs, and how many events there are, by all arcs together.

    What leads to an activity and what leads on from it are as many arcs: the mean of both is noted.
    An arc from an activity to itself is in both.

    Args:
        names: The activities.
        sums: float64[n+1, n+1], the arcs; 0 where there can be none.
        deviations: float64[n+1, n+1], of the noise of each.
        randomness: The release's.
    """
    n = len(names)
    variances = deviations**2
    own = np.diagonal(variances)[:n]
    totals = (sums[:, :n].sum(axis=0) + sums[:n].sum(axis=1)) / 2
    # They differ by the arc from START alone, which is the same for all.
    total_variances = (variances[:, :n].sum(axis=0) + variances[:n].sum(axis=1) + 2 * own) / 4
    labels = [(name,) for name in names.names.to_pylist()]
    widest = math.sqrt(float(total_variances.max()))
    note(randomness, figures.ACTIVITY, lambda: labels, totals, widest)
    events = np.array([sums[:, :n].sum()])
    event_deviation = math.sqrt(float(variances[:, :n].sum()))
    note(randomness, figures.EVENTS, lambda: [()], events, event_deviation)


def _taken(drawn: VariantHistogram, names: ActivityVocabulary) -> np.ndarray:
    """bool[n+1, n+1], the arcs of variants; n is START as a source, and END as a target."""
    arcs, n = DirectlyFollows.from_variants(drawn, names), len(names)
    taken = np.zeros((n + 1, n + 1), bool)
    taken[np.minimum(arcs.sources, n), np.minimum(arcs.targets, n)] = True
    taken[n, n] = False  # of a case without events
    return taken


def note_variants(
    seen: VariantHistogram,
    noise: SumNoise,
    least: float,
    names: ActivityVocabulary,
    randomness: Randomness,
) -> None:
    """Notes the cases of variants that enough cases have, and from how many on that is.

    Args:
        seen: With their noisy counts, each at or above the threshold.
        noise: Of these counts.
        least: The threshold, in cases.
        names: What the codes mean.
        randomness: The release's.
    """

    def variants() -> list[tuple[str, ...]]:
        words = names.names.take(pa.array(seen.codes)).to_pylist()
        ends = seen.offsets.tolist()
        return [tuple(words[a:b]) for a, b in pairwise(ends)]

    note(randomness, figures.LEAST_OF_VARIANT, lambda: [()], np.array([least]), 0.0)
    note(randomness, figures.VARIANT, variants, seen.counts, noise.deviation)


def note_occurrences(measured: Measured, used: np.ndarray, noisy: np.ndarray) -> None:
    """Notes how many cases have an activity how often.

    Args:
        measured: What is known of the log.
        used: int64[n], the cells of the partitions that are looked at.
        noisy: int64[n], their noisy counts, in lattice steps.
    """
    noise, names = measured.marginals_noise, measured.domain.vocabulary
    activity, least, most = measured.marginals.occurrences(used)
    is_some = least > 0
    labels = names.names.to_pylist()

    def of() -> list[tuple[str, ...]]:
        columns = (column[is_some].tolist() for column in (activity, least, most))
        return [
            (labels[code], str(low), str(high) if high else "")
            for code, low, high in zip(*columns, strict=True)
        ]

    cases = noisy[is_some] / noise.units
    note(measured.randomness, figures.OCCURRENCES, of, cases, noise.deviation)
