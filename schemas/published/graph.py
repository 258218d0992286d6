"""Released graphs of activities and of groups, their durations, and released process trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.models import ProcessTree, parse_tree
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.manifest import Yield

if TYPE_CHECKING:
    from tracecloak.schemas.statistics.variants import DirectlyFollows


# --- A directly-follows graph as it is published: public names, counts, and their noise. ----------
# It holds nothing that was not paid for: the activities are those of a public vocabulary or of
# one bought with budget, the counts are post-processed noisy ones, and the intervals follow from
# these and the scale of the noise.


def unclear_share(counts: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> float | None:
    """Returns of the sum of counts the share of those that are noise; None if the sum is 0.

    Args:
        counts: int64[n], released counts, not negative.
        lows: int64[n], lower ends of their intervals.
        highs: int64[n], upper ends.
    """
    exact = counts.astype(np.float64)
    total = float(exact.sum())
    is_unclear = figures.grades(counts, lows, highs) == "noise"
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


class ReleasedGraph(figures.ReleasedProduct, Columnar, wire_name="released-graph"):
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

    def counted(self, vocabulary: ActivityVocabulary) -> DirectlyFollows:
        """Returns its pairs, in their order, in the codes of a vocabulary that has their names."""
        from tracecloak.schemas.statistics.variants import DirectlyFollows

        code = {label: number for number, label in enumerate(vocabulary.labels)}
        codes = np.array([code.get(label, -1) for label in self.labels], np.int32)
        return DirectlyFollows(codes[self.sources], codes[self.targets], self.counts)

    @property
    def cells(self) -> np.ndarray:
        """int64[n_edges], the number of each pair: its source times `end` + 1, plus its target."""
        return self.sources.astype(np.int64) * (self.end + 1) + self.targets

    def throughputs(self) -> np.ndarray:
        """Returns int64[n_names + 2]: how often each node is passed.

        That is what flows in, or what flows out where that is more: the two differ by what the
        pairs have that are not shown, and `start` has an outflow only.
        """
        ends = (self.targets, self.sources)
        inflow, outflow = (sum_groups(of, self.counts, self.end + 1) for of in ends)
        return np.maximum(inflow, outflow)

    def to_table(self) -> pa.Table:
        """Returns the edges: source, target, count, low, high (int64), kind, usable, grade.

        The last three are as of `schemas.published.figures`: string, bool and string. Without
        `has_kinds` there are none.
        """
        labels = pa.array(self.labels, pa.string())
        ends = {"source": self.sources, "target": self.targets}
        columns = {name: labels.take(pa.array(end, pa.int32())) for name, end in ends.items()}
        columns["count"] = pa.array(self.counts, pa.int64())
        return pa.table(columns | figures.interval_columns(self))

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
        return cls._from_rows(vocabulary, body["edges"])

    @classmethod
    def from_edges(cls, rows: Sequence[Mapping[str, Any]]) -> ReleasedGraph:
        """Returns the graph of edges as a file has them, in their order.

        Args:
            rows: Of each source, target and count, and low and high, which are the
                count where the graph was made of a released log. Activities are those of edges.
        """
        artificial = set(ActivityVocabulary.of([]).labels)
        ends = {row[end] for row in rows for end in ("source", "target")}
        return cls._from_rows(ActivityVocabulary.of(sorted(ends - artificial)), rows)

    @classmethod
    def _from_rows(
        cls, vocabulary: ActivityVocabulary, rows: Sequence[Mapping[str, Any]]
    ) -> ReleasedGraph:
        columns = [[r.get(name, r["count"]) for r in rows] for name in ("count", "low", "high")]
        for numbers in columns:
            if not all(type(n) is int for n in numbers) or sum(map(abs, numbers)) >= 1 << 62:
                raise ValueError("counts of edges are whole numbers, together below 2 ** 62")
        counts, lows, highs = (np.array(numbers, np.int64) for numbers in columns)
        sources, targets = figures.codes_of_ends(rows, vocabulary.labels)
        graph = cls(vocabulary.names, sources, targets, counts, lows, highs)
        return graph if not rows or "kind" in rows[0] else figures.without_kinds(graph)

    def came_out(self) -> Yield:
        """Returns its cases, which begin, its activities and edges, and how clear these are."""
        n_activities, share = named(self.names, self.throughputs()[: self.start])
        n_cases = int(self.counts[self.sources == self.start].sum())
        unclear = unclear_share(self.counts, self.lows, self.highs)
        n_edges = len(self.counts)
        return Yield(n_cases, None, n_activities, n_edges, share, unclear_share=unclear)

    def numbers(self, watched: Sequence[figures.Key] | None = None) -> dict[figures.Key, float]:
        """Returns the counts of each ("pair", …), their sum and the number of ("activities",)."""
        labels = self.labels
        rows = zip(self.sources, self.targets, self.counts.tolist(), strict=True)
        return {
            **{("pair", labels[a], labels[b]): float(count) for a, b, count in rows},
            ("total",): float(self.counts.sum()),
            ("activities",): float(len(self.names)),
        }


# --- The groups of a release's activities, and the graph in which each group is one node. ---------


class ReleasedGroups(figures.ReleasedProduct, Columnar, wire_name="released-groups"):
    """Groups and how cases go from one to another.

    Attributes:
        activities: string[n], every activity of the vocabulary, in its order.
        groups: string[n], the group of each.
        graph: Its nodes are the groups. Counts are those of the released log, and intervals hold
            what was counted of the original, as of the graph of activities.
    """

    activities: pa.StringArray
    groups: pa.StringArray
    graph: ReleasedGraph

    @property
    def members(self) -> Mapping[str, str]:
        """The group of each activity."""
        return dict(zip(self.activities.to_pylist(), self.groups.to_pylist(), strict=True))

    def to_table(self) -> pa.Table:
        """Returns the edges, as `ReleasedGraph` does: sources and targets are groups."""
        return self.graph.to_table()

    def to_json(self) -> dict[str, Any]:
        """Returns the group of each activity, and the graph, as JSON values."""
        return {"members": dict(self.members), "graph": self.graph.to_json()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedGroups:
        """Returns the groups that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        members = body["members"]
        names, groups = (pa.array([*of], pa.string()) for of in (members, members.values()))
        return cls(names, groups, ReleasedGraph.from_json(body["graph"]))


# --- Released durations: how often each edge of a directly-follows graph took how long. -----------


class ReleasedDurations(figures.ReleasedProduct, Columnar, wire_name="released-durations"):
    """A histogram of durations for each released edge, in public bins; safe to publish.

    Attributes:
        names: string[n_activities]; START and END have the codes after the last.
        edges_us: int64[n_bins-1], ascending inner borders of the bins in microseconds: bin `i`
            holds durations from `edges_us[i-1]` on and below `edges_us[i]`.
        sources: int32[n_rows], code of the earlier activity, or START.
        targets: int32[n_rows], code of the later activity, or END.
        bins: int32[n_rows], number of the bin.
        counts: int64[n_rows], all positive.
        lows: int64[n_rows], lower end of a 95 % interval for what was counted of the log after any
            cut of its cases at a length.
        highs: int64[n_rows], its upper end.
        has_kinds: As of `ReleasedGraph`.
    """

    has_kinds: ClassVar[bool] = True

    names: pa.StringArray
    edges_us: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    bins: np.ndarray
    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def to_table(self) -> pa.Table:
        """Returns source, target, from_us, to_us, count, low, high, kind, usable, grade.

        That there is no upper border is null. The last three are as of `ReleasedGraph`.
        """
        labels = pa.concat_arrays([self.names, pa.array(["▶", "■"], pa.string())])
        lower = np.concatenate([[0], self.edges_us])[self.bins]
        upper = pa.array(np.concatenate([self.edges_us, [0]])[self.bins])
        is_last = pa.array(self.bins == len(self.edges_us))
        return pa.table(
            {
                "source": labels.take(pa.array(self.sources)),
                "target": labels.take(pa.array(self.targets)),
                "from_us": lower,
                "to_us": pc.if_else(is_last, pa.scalar(None, pa.int64()), upper),
                "count": self.counts,
                **figures.interval_columns(self),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the rows of its table as JSON values."""
        return {"durations": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedDurations:
        """Returns the durations that `to_json` gave.

        Names and borders are those that the rows have: codes and numbers of bins are others where
        the original has activities or bins without a row.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        rows = body["durations"]
        labels = ("▶", "■")
        ends = {row[end] for row in rows for end in ("source", "target")}
        vocabulary = ActivityVocabulary.of(sorted(ends.difference(labels)))
        borders = {row[end] for row in rows for end in ("from_us", "to_us")} - {0, None}
        edges_us = np.array(sorted(borders), np.int64)
        lower, *counts = figures.numbers_of(rows, "from_us", "count", "low", "high")
        bins = np.searchsorted(edges_us, lower, side="right").astype(np.int32)
        sources, targets = figures.codes_of_ends(rows, vocabulary.labels)
        durations = cls(vocabulary.names, edges_us, sources, targets, bins, *counts)
        return durations if not rows or "kind" in rows[0] else figures.without_kinds(durations)


# --- A process tree as it is published, with what was said of its fitness. ------------------------
# It holds nothing that was not paid for: activities, tree and fitness are those that the method
# released. That it is kept as text lets it travel and be written like any other product.


class ReleasedTree(figures.ReleasedProduct, Columnar, wire_name="released-tree"):
    """A released process tree.

    Attributes:
        names: string[n], the activities of the vocabulary. One that the tree does not have stays.
        text: The tree in its text form (`schemas.models`).
        is_found: Whether the method found a tree that is good enough; otherwise `text` is one
            that follows from the names alone.
        fitness: Noisy fitness on the input, cut to 0 … 1; None: nothing is said.
        fitness_low: Lower end of its 95 % interval, as the noise is known to be, likewise cut.
        fitness_high: Its upper end.
    """

    names: pa.StringArray
    text: str
    is_found: bool
    fitness: float | None
    fitness_low: float | None = None
    fitness_high: float | None = None

    @property
    def fitness_grade(self) -> figures.Grade:
        """How sure the fitness is, a share; see `schemas.published.figures`."""
        ends = self.fitness_low or 0.0, self.fitness_high or 0.0
        return figures.grade_of(self.fitness or 0.0, *ends, "share")

    @property
    def tree(self) -> ProcessTree:
        """The tree."""
        return parse_tree(self.text)

    def to_table(self) -> pa.Table:
        """Returns a row for each node, parents before their children.

        Columns node and parent (int64; null at the root), kind (sequence, exclusive, parallel,
        loop, activity or silent) and activity (string, or null).
        """
        rows: list[tuple[int | None, ProcessTree]] = []

        def visit(node: ProcessTree, parent: int | None) -> None:
            number = len(rows)
            rows.append((parent, node))
            for child in node.children:
                visit(child, number)

        visit(self.tree, None)
        kinds = [
            node.operator or ("silent" if node.label is None else "activity") for _, node in rows
        ]
        return pa.table(
            {
                "node": pa.array(range(len(rows)), pa.int64()),
                "parent": pa.array([parent for parent, _ in rows], pa.int64()),
                "kind": pa.array(kinds, pa.string()),
                "activity": pa.array([node.label for _, node in rows], pa.string()),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the text, whether it was found, the fitness, the names and the nodes.

        With the fitness come its kind, its interval and its grade, where these are said.
        """
        fitness_columns: dict[str, Any] = {}
        if self.fitness_low is not None:
            fitness_columns = {
                "fitness_low": self.fitness_low,
                "fitness_high": self.fitness_high,
                "fitness_kind": figures.MEASURED,
                "fitness_usable": self.fitness_grade != "noise",
                "fitness_grade": self.fitness_grade,
            }
        return {
            "tree": self.text,
            "is_found": self.is_found,
            "fitness": self.fitness,
            **fitness_columns,
            "activities": self.names.to_pylist(),
            "nodes": self.to_table().to_pylist(),
        }

    @classmethod
    def from_json(cls, body: Any) -> ReleasedTree:
        """Returns the tree that `to_json` gave.

        Raises:
            KeyError, TypeError, TracecloakError: It is none.
        """
        parse_tree(body["tree"])
        names = pa.array(body["activities"], pa.string())
        within = (body.get(f"fitness_{end}") for end in ("low", "high"))
        return cls(names, body["tree"], body["is_found"], body["fitness"], *within)

    def came_out(self) -> Yield:
        """Returns the activities of the tree; none where it follows from the names alone."""
        labels = {node.label for node in self.tree.nodes()} - {None, OTHER}
        return Yield(n_activities=len(labels) if self.is_found else 0)

    def numbers(self, watched: Sequence[figures.Key] | None = None) -> dict[figures.Key, float]:
        """Returns how many ("activities",) and nodes, ("total",), it has, and ("fitness",)."""
        labels = [node.label for node in self.tree.nodes()]
        n_activities, n_nodes = len({*labels} - {None}), len(labels)
        of_fitness: dict[figures.Key, float]
        of_fitness = {} if self.fitness is None else {("fitness",): self.fitness}
        return {("activities",): float(n_activities), ("total",): float(n_nodes), **of_fitness}
