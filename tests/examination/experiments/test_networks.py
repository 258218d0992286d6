"""Graphs of experiments: their edges by hand."""

from __future__ import annotations

from tests.support.paper_log import MINUTE_US, traces_of
from tracecloak.examination.experiments.paper import (
    END,
    START,
    Log,
    edges_of_graph,
    graph_of,
    names_of,
    receiver,
    slowest,
)

HOUR = 60 * MINUTE_US
A, B, C = 1, 2, 3
[LOG] = traces_of(
    [
        ("1", "A", 0), ("1", "B", HOUR), ("1", "C", 4 * HOUR),
        ("2", "A", 0), ("2", "B", 3 * HOUR), ("2", "A", 4 * HOUR),
    ]
)  # fmt: skip


def test_edges_have_counts_and_mean_hours() -> None:
    """Two A to B of 1 and 3 hours, B to C of 3, B to A of 1."""
    found = {
        (edge[0], edge[1]): (edge[2], edge[3]) for edge in edges_of_graph(LOG, LOG, "activity")
    }
    assert found == {
        (START, A): (2, 0.0), (A, B): (2, 2.0), (B, C): (1, 3.0), (B, A): (1, 1.0),
        (A, END): (1, 0.0), (C, END): (1, 0.0),
    }  # fmt: skip


def test_the_slowest_are_among_the_frequent() -> None:
    edges = [(A, B, 500, 2.0), (B, C, 500, 5.0), (C, A, 9, 90.0), (START, A, 1, 0.0)]
    assert slowest(edges, 2) == [(B, C), (A, B)]


def test_a_receiver_hands_nothing_on() -> None:
    edges = [(A, C, 1, 0.0), (B, C, 1, 0.0), (A, B, 1, 0.0), (C, C, 1, 0.0)]
    assert receiver(edges, {A, B, C}) == C
    assert receiver(edges, {A, B}) == B
    assert receiver(edges, {A}) is None and receiver([], set()) is None


def test_a_graph_to_be_drawn_has_the_counts_under_the_names() -> None:
    graph = graph_of(names_of(Log("log", LOG), "activity"), edges_of_graph(LOG, LOG, "activity"))
    found = [
        (graph.labels[a], graph.labels[b], n)
        for a, b, n in zip(graph.sources, graph.targets, graph.counts, strict=True)
    ]
    assert found == [
        ("A", "B", 2), ("A", "■", 1), ("B", "A", 1), ("B", "C", 1), ("C", "■", 1), ("▶", "A", 2)
    ]  # fmt: skip
