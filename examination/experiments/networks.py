"""Graphs of a log and of a release: handovers of work, and how long steps take.

A log whose resource X hands work to Y forty times, after two hours in the mean, has an edge from X
to Y of forty and two. A row keeps such edges by numbers (`edges_of_graph`), the page draws them
with names (`graph_of`).

A log of an experiment: what releases are made of and compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.perspectives import Elements, projected
from tracecloak.examination.measure.quality import NormalBehaviour
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.background_knowledge import Perspective


@dataclass(frozen=True)
class Log(Original):
    """A log that releases are made of and compared with.

    Attributes:
        read_seconds: How long it took to read.
        columns: Source columns of the attributes that were read with it, by name.
    """

    read_seconds: float = 0.0
    columns: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def normal(self) -> NormalBehaviour:
        """What distinguishes its normal traces from others."""
        return NormalBehaviour(self.variants)


START, END = -1, -2
_HOUR_US = 3_600_000_000
# An arc with less than this share of all pairs is no bottleneck; the paper has pictures only.
_FREQUENT_SHARE = 0.01

# [source, target, how often, mean hours], by the codes of elements, and START and END.
Edge = Sequence[float]


def edges_of_graph(log: TraceBatch, traces: TraceBatch, perspective: Perspective) -> list[Edge]:
    """Returns the directly-follows graph of some cases, and where they begin and end.

    Args:
        log: The log; the codes of the elements are by its names.
        traces: Cases with no names that the log lacks.
        perspective: What an element is.

    Returns:
        Edges by code; with START and END the hours are 0.
    """
    _, cases = projected([log, traces], perspective)
    if not cases.n_events:
        return []
    of_code = np.array([int(name) for name in cases.vocabulary.names.to_pylist()], np.int64)
    codes = of_code[cases.activities]
    later = np.flatnonzero(~cases.is_first)
    last = cases.offsets[1:] - 1
    sources = np.concatenate([codes[later - 1], np.full(cases.n_cases, START), codes[last]])
    targets = np.concatenate([codes[later], codes[cases.offsets[:-1]], np.full(cases.n_cases, END)])
    hours = np.zeros(len(sources))
    hours[: len(later)] = cases.durations[later] / _HOUR_US
    pairs, edge = np.unique(np.stack([sources, targets]), axis=1, return_inverse=True)
    edge = edge.reshape(-1)
    counts = np.bincount(edge)
    means = sum_groups(edge, hours, len(counts)) / counts
    return [
        [int(a), int(b), int(n), round(float(mean), 4)]
        for a, b, n, mean in zip(*pairs, counts, means, strict=True)
    ]


def names_of(log: Log, perspective: Perspective) -> pa.StringArray:
    """Returns the names of a log's activities or resources, in the order of their codes."""
    elements = Elements.of([log.traces], perspective)
    return (elements.activities if perspective == "activity" else elements.resources).names


def graph_of(names: pa.StringArray, edges: Sequence[Edge]) -> ReleasedGraph:
    """Returns the edges as a graph with their counts, to be drawn."""
    code = {START: len(names), END: len(names) + 1}
    whole = [(int(a), int(b), int(n)) for a, b, n, _ in edges]
    ordered = sorted((code.get(a, a - 1), code.get(b, b - 1), n) for a, b, n in whole)
    sources, targets, counts = np.array(ordered, np.int64).reshape(-1, 3).T
    pairs = sources.astype(np.int32), targets.astype(np.int32)
    return ReleasedGraph(names, *pairs, counts, counts, counts)


def inner(edges: Sequence[Edge]) -> list[Edge]:
    """Returns the edges between elements."""
    return [edge for edge in edges if edge[0] > 0 and edge[1] > 0]


def nodes_of(edges: Sequence[Edge]) -> set[int]:
    """Returns the elements that some edges join."""
    return {int(node) for edge in edges for node in edge[:2] if node > 0}


def slowest(edges: Sequence[Edge], n: int) -> list[tuple[int, int]]:
    """Returns the pairs of the slowest edges among the frequent ones, the slowest first."""
    between = inner(edges)
    least = _FREQUENT_SHARE * sum(edge[2] for edge in between)
    frequent = [edge for edge in between if edge[2] >= least]
    ranked = sorted(frequent, key=lambda edge: (-edge[3], edge[0], edge[1]))
    return [(int(edge[0]), int(edge[1])) for edge in ranked[:n]]


def receiver(edges: Sequence[Edge], among: set[int]) -> int | None:
    """Returns the node that most others hand work to of those that hand on to the fewest.

    Figure 8 of the TLKC paper follows one that is given work by eight and hands none on.

    Args:
        edges: Of the whole log.
        among: The nodes to choose from; None is returned if nobody hands work to any of them.
    """
    pairs = [(int(a), int(b)) for a, b, *_ in inner(edges) if a != b]
    n_out = {node: sum(a == node for a, _ in pairs) for node in among}
    n_in = {node: sum(b == node for _, b in pairs) for node in among}
    known = [node for node in among if n_in[node]]
    return min(known, key=lambda node: (n_out[node], -n_in[node], node), default=None)
