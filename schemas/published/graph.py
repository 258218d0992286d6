"""A directly-follows graph as it is published: public names, counts, and their noise.

It holds nothing that was not paid for: the activities are those of a public vocabulary or of one
bought with budget, the counts are post-processed noisy ones, and the intervals follow from these
and the scale of the noise.

Counts of what is released, for what a release says of its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.published.figures import codes_of_ends, grades, kind_columns, without_kinds
from tracecloak.schemas.published.product import Key
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


@dataclass(frozen=True, eq=False)
class ReleasedGraph:
    """The edges of a released directly-follows graph, sorted by (source, target).

    Attributes:
        names: string[n_names], the activities of the vocabulary; a code is a position in it. An
            activity without an edge stays: that nothing was published of it is public.
        sources: int32[n_edges], code of the earlier activity, or `start`.
        targets: int32[n_edges], code of the later activity, or `end`.
        counts: int64[n_edges], post-processed noisy counts, all positive.
        lows: int64[n_edges], lower ends of 95 % intervals for what was counted of the log after
            any cut of its cases at a length, around the counts, from noisy numbers and the public
            scale of their noise; none is negative.
        highs: int64[n_edges], upper ends of these intervals.
        has_kinds: Whether its table says that a count is measured, and its grade; see
            `without_kinds`.
    """

    wire_name: ClassVar[str] = "released-graph"
    has_kinds: ClassVar[bool] = True

    names: pa.StringArray
    sources: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def start(self) -> int:
        """Code of the artificial start."""
        return ActivityVocabulary(self.names).start

    @property
    def end(self) -> int:
        """Code of the artificial end."""
        return ActivityVocabulary(self.names).end

    @property
    def labels(self) -> list[str]:
        """The names by code, then ▶ for `start` and ■ for `end`."""
        return ActivityVocabulary(self.names).labels

    @property
    def weight(self) -> int:
        """Number of edges."""
        return len(self.counts)

    @property
    def cells(self) -> np.ndarray:
        """int64[n_edges], the number of each pair: its source times `end` + 1, plus its target."""
        return self.sources.astype(np.int64) * (self.end + 1) + self.targets

    def throughputs(self) -> np.ndarray:
        """Returns int64[n_names + 2]: how often each node is passed.

        That is what flows in, or what flows out where that is more: the two differ by what the
        pairs have that are not shown, and `start` has an outflow only.
        """
        inflow = np.zeros(self.end + 1, np.int64)
        outflow = np.zeros_like(inflow)
        np.add.at(inflow, self.targets, self.counts)
        np.add.at(outflow, self.sources, self.counts)
        return np.maximum(inflow, outflow)

    def to_table(self) -> pa.Table:
        """Returns the edges: source, target, count, low, high (int64), kind, usable, grade.

        The last three are as of `schemas.published.figures`: string, bool and string. Without
        `has_kinds` there are none.
        """
        labels = pa.array(self.labels, pa.string())
        columns = {
            "source": labels.take(pa.array(self.sources, pa.int32())),
            "target": labels.take(pa.array(self.targets, pa.int32())),
            "count": pa.array(self.counts, pa.int64()),
            "low": pa.array(self.lows, pa.int64()),
            "high": pa.array(self.highs, pa.int64()),
        }
        if self.has_kinds:
            columns |= kind_columns(self.counts, self.lows, self.highs)
        return pa.table(columns)

    def to_json(self) -> dict[str, Any]:
        """Returns the graph as JSON values: start, end, activities, and edges with the columns."""
        labels = self.labels
        return {
            "start": labels[self.start],
            "end": labels[self.end],
            "activities": labels[: self.start],
            "edges": self.to_table().to_pylist(),
        }

    @classmethod
    def from_json(cls, body: Any) -> ReleasedGraph:
        """Returns the graph that `to_json` gave.

        Raises:
            ValueError: An activity is called as the start or the end is, so that it cannot be told
                from it; or it is no such graph, for which other errors are raised as well.
        """
        vocabulary = ActivityVocabulary.of(body["activities"])
        if len(set(vocabulary.labels)) < len(vocabulary.labels):
            raise ValueError("an activity is called as the start or the end is")
        return cls._of_rows(vocabulary, body["edges"])

    @classmethod
    def of_edges(cls, rows: Sequence[Mapping[str, Any]]) -> ReleasedGraph:
        """Returns the graph of edges as a file has them, in their order.

        Args:
            rows: At least one; of each source, target and count, and low and high, which are the
                count where the graph was made of a released log. Activities are those of edges.
        """
        artificial = set(ActivityVocabulary.of([]).labels)
        ends = {row[end] for row in rows for end in ("source", "target")}
        return cls._of_rows(ActivityVocabulary.of(sorted(ends - artificial)), rows)

    @classmethod
    def _of_rows(
        cls, vocabulary: ActivityVocabulary, rows: Sequence[Mapping[str, Any]]
    ) -> ReleasedGraph:
        of_edges = [[r.get(name, r["count"]) for r in rows] for name in ("count", "low", "high")]
        for numbers in of_edges:
            if not all(type(n) is int for n in numbers) or sum(map(abs, numbers)) >= 1 << 62:
                raise ValueError("counts of edges are whole numbers, together below 2 ** 62")
        counts, lows, highs = (np.array(numbers, np.int64) for numbers in of_edges)
        sources, targets = codes_of_ends(rows, vocabulary.labels)
        graph = cls(vocabulary.names, sources, targets, counts, lows, highs)
        return graph if not rows or "kind" in rows[0] else without_kinds(graph)

    def came_out(self) -> Yield:
        """Returns its cases, which begin, its activities and edges, and how clear these are."""
        n_activities, share = named(self.names, self.throughputs()[: self.start])
        n_cases = int(self.counts[self.sources == self.start].sum())
        unclear = unclear_share(self.counts, self.lows, self.highs)
        n_edges = len(self.counts)
        return Yield(n_cases, None, n_activities, n_edges, share, unclear_share=unclear)

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns the counts of each ("pair", …), their sum and the number of ("activities",)."""
        labels = self.labels
        rows = zip(self.sources, self.targets, self.counts.tolist(), strict=True)
        return {
            **{("pair", labels[a], labels[b]): float(count) for a, b, count in rows},
            ("total",): float(self.counts.sum()),
            ("activities",): float(len(self.names)),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleasedGraph) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # holds arrays
