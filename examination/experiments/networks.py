"""Graphs of a log and of a release side by side: handovers of work, and how long steps take.

A log whose resource X hands work to Y forty times, after two hours in the mean, has an edge from X
to Y of forty and two. A row keeps such edges by numbers (`edges_of_graph`), the page draws them
with names (`draw`): in a circle where it is who hands over to whom, and from top to bottom where it
is the way that cases take. matplotlib draws; it is given by the caller as an empty axes.

A log of an experiment: what releases are made of and compared with.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.behaviour_measures import N_BOTTLENECKS
from tracecloak.examination.measure.perspectives import Elements, projected
from tracecloak.examination.measure.quality import NormalBehaviour
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import Perspective
from tracecloak.transforms.models.graph_layout import Box, Route, lay_out


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
_PALE, _DARK, _MARKED = "#b9c3cc", "#33475b", "#cc3311"

# [source, target, how often, mean hours], by the codes of elements, and START and END.
Edge = Sequence[float]


@dataclass(frozen=True)
class Network:
    """A graph to be drawn.

    Attributes:
        title: What stands above it.
        layout: A circle of all nodes, or layers from top to bottom.
        names: Names of the nodes by their codes.
        edges: What joins them; START and END only in layers.
        marked: Pairs of nodes whose edges are drawn in colour, such as bottlenecks.
        labels: Texts at the edges, by pairs of nodes; in layers only.
    """

    title: str
    layout: Literal["circle", "layers"]
    names: Mapping[int, str]
    edges: Sequence[Edge]
    marked: frozenset[tuple[int, int]] = frozenset()
    labels: Mapping[tuple[int, int], str] = field(default_factory=dict)


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


def names_of(log: Log, perspective: Perspective) -> dict[int, str]:
    """Returns the names of the elements of a log by their codes; activities or resources."""
    elements = Elements.of([log.traces], perspective)
    known = elements.activities if perspective == "activity" else elements.resources
    return dict(enumerate(known.names.to_pylist(), 1))


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


def widest(edges: Sequence[Edge], also: Sequence[tuple[int, int]] = ()) -> list[Edge]:
    """Returns the most frequent edge into each node and out of it, without loops, and others.

    Args:
        edges: With START and END.
        also: Pairs whose edges are there too.
    """
    pairs = set(also)
    for end in (0, 1):
        best: dict[float, Edge] = {}
        for edge in edges:
            if edge[0] != edge[1] and edge[2] > best.get(edge[end], (0, 0, 0))[2]:
                best[edge[end]] = edge
        pairs |= {(int(edge[0]), int(edge[1])) for edge in best.values()}
    return [edge for edge in edges if (int(edge[0]), int(edge[1])) in pairs]


def timed(title: str, names: Mapping[int, str], edges: Sequence[Edge]) -> Network:
    """Returns the main edges with their mean times, the bottlenecks in colour."""
    marked = slowest(edges, N_BOTTLENECKS)
    drawn = widest(edges, marked)
    labels = {
        (int(a), int(b)): f"{mean / 24:.1f} d" if mean >= 48 else f"{mean:.1f} h"
        for a, b, _, mean in inner(drawn)
    }
    return Network(title, "layers", names, drawn, frozenset(marked), labels)


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


def draw(axes: Any, network: Network) -> None:
    """Draws a graph in axes, which it fills."""
    axes.set_axis_off()
    axes.set_title(network.title, fontsize=9)
    if network.layout == "circle":
        _draw_circle(axes, network)
    else:
        _draw_layers(axes, network)


def _draw_circle(axes: Any, network: Network) -> None:
    nodes = sorted(network.names)
    angle = {node: 2 * np.pi * i / max(len(nodes), 1) for i, node in enumerate(nodes)}
    most = max((edge[2] for edge in network.edges), default=1)
    present = nodes_of(network.edges)
    for a, b, n, _ in sorted(
        network.edges, key=lambda edge: (int(edge[0]), int(edge[1])) in network.marked
    ):
        pair = int(a), int(b)
        if pair[0] == pair[1] or min(pair) < 1:
            continue
        is_marked = pair in network.marked
        ends = [(np.cos(angle[node]), np.sin(angle[node])) for node in pair]
        axes.annotate(
            "", xy=ends[1], xytext=ends[0],
            arrowprops={
                "arrowstyle": "-|>", "color": _MARKED if is_marked else _PALE,
                "linewidth": 0.3 + 2.2 * float(np.sqrt(n / most)),
                "shrinkA": 3, "shrinkB": 3, "mutation_scale": 6,
            },
        )  # fmt: skip
    for node in nodes:
        x, y, turn = np.cos(angle[node]), np.sin(angle[node]), np.degrees(angle[node])
        is_left = 90 < turn < 270
        axes.plot([x], [y], "o", color=_DARK if node in present else "white",
                  markeredgecolor=_DARK, markersize=3)  # fmt: skip
        axes.text(
            1.05 * x, 1.05 * y, network.names[node], fontsize=5, parse_math=False,
            rotation=turn + 180 * is_left, rotation_mode="anchor",
            ha="right" if is_left else "left", va="center",
        )  # fmt: skip
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(-1.45, 1.45)
    axes.set_aspect("equal")


def _draw_layers(axes: Any, network: Network) -> None:
    between = [edge for edge in network.edges if edge[0] != edge[1]]
    if not between:
        return
    nodes = [START, *sorted(nodes_of(between)), END]
    place = {node: i for i, node in enumerate(nodes)}
    boxes = [
        Box(8.0, 8.0, has_ports=False)
        if node < 0
        else Box(6.0 + 3.2 * len(network.names[node]), 11.0)
        for node in nodes
    ]
    pairs = [(int(edge[0]), int(edge[1])) for edge in between]
    labels = [network.labels.get(pair, "") for pair in pairs]
    laid = lay_out(
        boxes,
        np.array([place[a] for a, _ in pairs]),
        np.array([place[b] for _, b in pairs]),
        np.array([float(edge[2]) for edge in between]),
        np.array([4.6 * len(label) for label in labels]),
        12.0,
        0,
        len(nodes) - 1,
    )
    most = max(edge[2] for edge in between)
    for pair, edge, label, route in zip(pairs, between, labels, laid.routes, strict=True):
        colour = _MARKED if pair in network.marked else _PALE
        width = 0.6 + 2.4 * float(np.sqrt(edge[2] / most))
        _draw_route(axes, route, colour, width)
        axes.text(
            *route.label, label, fontsize=5, color=_MARKED if pair in network.marked else _DARK,
            va="center", parse_math=False,
        )  # fmt: skip
    for node, x, y in zip(nodes, laid.x, laid.y, strict=True):
        text = {START: "▶", END: "■"}.get(node) or network.names[node]
        axes.text(
            x, y, text, fontsize=6, ha="center", va="center", parse_math=False, zorder=3,
            bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": _DARK,
                  "linewidth": 0.6} if node > 0 else None,
        )  # fmt: skip
    axes.set_xlim(-10, laid.width + 10)
    axes.set_ylim(laid.height + 10, -10)


def _draw_route(axes: Any, route: Route, colour: str, width: float) -> None:
    """A line through the pieces of a route, which swings over between them, and its head."""
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    for one, following in itertools.pairwise(route.pieces):
        share = np.linspace(0, 1, 16)
        smooth = share * share * (3 - 2 * share)
        x += [np.array([one[0], one[0]]), one[0] + (following[0] - one[0]) * smooth]
        y += [np.array(one[1:]), one[2] + (following[1] - one[2]) * share]
    xs, ys = np.concatenate(x), np.concatenate(y)
    axes.plot(xs, ys, color=colour, linewidth=width, zorder=1, solid_capstyle="butt")
    if route.is_backward:
        xs, ys = xs[::-1], ys[::-1]
    axes.annotate(
        "", xy=(xs[-1], ys[-1]), xytext=(xs[-1], ys[-1] + (6 if route.is_backward else -6)),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 0, "mutation_scale": 7,
                    "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip
