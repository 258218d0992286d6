"""Graphs that are drawn side by side: their edges by hand, and that the drawing has all of them."""

from __future__ import annotations

import pytest

from tests.support.paper_log import MINUTE_US, traces_of
from tracecloak.examination.experiments import report
from tracecloak.examination.experiments.networks import (
    END,
    START,
    Log,
    Network,
    edges_of_graph,
    inner,
    names_of,
    nodes_of,
    receiver,
    slowest,
    widest,
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
    assert names_of(Log("log", LOG), "activity") == {A: "A", B: "B", C: "C"}


def test_the_slowest_are_among_the_frequent() -> None:
    edges = [(A, B, 500, 2.0), (B, C, 500, 5.0), (C, A, 9, 90.0), (START, A, 1, 0.0)]
    assert slowest(edges, 2) == [(B, C), (A, B)]


def test_the_widest_lead_into_and_out_of_every_node() -> None:
    edges = [(A, B, 5, 0.0), (B, C, 3, 0.0), (A, C, 1, 0.0), (C, C, 90, 0.0), (B, A, 2, 0.0)]
    assert [tuple(edge[:2]) for edge in widest(edges)] == [(A, B), (B, C), (B, A)]
    assert (A, C) in [tuple(edge[:2]) for edge in widest(edges, [(A, C)])]


def test_a_receiver_hands_nothing_on() -> None:
    edges = [(A, C, 1, 0.0), (B, C, 1, 0.0), (A, B, 1, 0.0), (C, C, 1, 0.0)]
    assert receiver(edges, {A, B, C}) == C
    assert receiver(edges, {A, B}) == B
    assert receiver(edges, {A}) is None and receiver([], set()) is None


@pytest.mark.parametrize("layout", ["circle", "layers"])
def test_two_graphs_are_drawn_with_their_names(layout: str) -> None:
    pytest.importorskip("matplotlib")
    edges = edges_of_graph(LOG, LOG, "activity")
    shown = inner(edges) if layout == "circle" else edges
    names = names_of(Log("log", LOG), "activity")
    networks = [
        Network(title, layout, names, shown, frozenset({(A, B)}))  # type: ignore[arg-type]
        for title in ("before", "after")
    ]
    with report._drawing():
        figure = report._drawn(networks)
    assert [axes.get_title() for axes in figure.axes] == ["before", "after"]
    for axes in figure.axes:
        texts = [text.get_text() for text in axes.texts]
        assert set(names.values()) <= set(texts)
        arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
        assert len(arrows) == len(shown)
    assert nodes_of(shown) == {A, B, C}
