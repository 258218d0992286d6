"""Counts of what is released, for what a release says of its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.figure import grades
from tracecloak.schemas.published.yields import Yield

if TYPE_CHECKING:
    from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
    from tracecloak.schemas.statistics.log_times import LogTimes
    from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True)
class LogCounts:
    """What is counted on a released log, for its page and its graph.

    Attributes:
        graph: Its directly-follows counts.
        variants: Its variants.
        times: When its cases begin, and how long they and their steps take.
        names: What the codes mean.
    """

    graph: DirectlyFollows
    variants: VariantHistogram
    times: LogTimes
    names: ActivityVocabulary

    @property
    def came_out(self) -> Yield:
        """What the log holds."""
        return yield_of_log(self.graph, self.variants, self.names)


def yield_of_log(
    graph: DirectlyFollows, variants: VariantHistogram, vocabulary: ActivityVocabulary
) -> Yield:
    """Returns what a released log holds, by its own graph and variants."""
    n_cases = int(graph.counts[graph.sources == vocabulary.start].sum())
    inner = graph.targets != vocabulary.end
    passed = np.bincount(
        graph.targets[inner], graph.counts[inner].astype(np.float64), len(vocabulary)
    )
    n_activities, share = named(vocabulary.names, passed)
    longest = longest_of(np.diff(variants.offsets), variants.counts)
    return Yield(n_cases, variants.n_variants, n_activities, None, share, None, *longest)


def longest_of(lengths: np.ndarray, counts: np.ndarray) -> tuple[int, float] | tuple[None, None]:
    """Returns how many events the longest cases have, and their share of all; None of no case.

    Args:
        lengths: int64[n], events of each variant.
        counts: int64[n], cases of each, not negative.
    """
    n_cases = int(counts.sum())
    if not n_cases:
        return None, None
    most = int(lengths[counts > 0].max())
    return most, int(counts[lengths == most].sum()) / n_cases


def unclear_share(counts: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> float | None:
    """Returns of the sum of counts the share of those that are noise; None if the sum is 0.

    Args:
        counts: int64[n], released counts, not negative.
        lows: int64[n], lower ends of their intervals.
        highs: int64[n], upper ends.
    """
    exact = counts.astype(np.float64)
    total = float(exact.sum())
    is_unclear = grades(counts, lows, highs) == "noise"
    return float(exact[is_unclear].sum()) / total if total else None


def named(names: pa.StringArray, occurrences: np.ndarray) -> tuple[int, float | None]:
    """Returns how many names but OTHER occur, and their share of all occurrences.

    Args:
        names: string[n].
        occurrences: int64[n] or float64[n], of each name.
    """
    is_other = np.asarray(pc.equal(names, OTHER)) if len(names) else np.zeros(0, bool)
    total = float(occurrences.sum())
    share = float(occurrences[~is_other].sum()) / total if total else None
    return int(np.count_nonzero(occurrences[~is_other] > 0)), share
