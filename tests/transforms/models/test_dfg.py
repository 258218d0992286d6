"""Pictures of released graphs: DOT read by a small parser of the language, SVG by its geometry."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.hostile_names import HOSTILE
from tests.support.svg import SVG, harmless
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.dfg_svg import plain_name, text_width, write_dot, write_svg


def graph_of(
    edges: dict[tuple[str, str], int], names: list[str] | None = None, half: int = 3
) -> ReleasedGraph:
    """A graph from counts by pairs; > and < stand for start and end."""
    activities = names or sorted({name for pair in edges for name in pair} - {">", "<"})
    code = {name: i for i, name in enumerate([*activities, ">", "<"])}
    rows = sorted((code[a], code[b], n) for (a, b), n in edges.items())
    columns = np.array(rows, np.int64).reshape(-1, 3)
    counts = columns[:, 2]
    ends = (columns[:, i].astype(np.int32) for i in (0, 1))
    limits = np.maximum(counts - half, 0), counts + half
    return ReleasedGraph(pa.array(activities, pa.string()), *ends, counts, *limits)


def random_graph(n: int, n_edges: int, number: int = 0) -> ReleasedGraph:
    """A graph between n activities of about so many random edges, in which flow is conserved.

    Each of the n + n_edges / 2 kinds of cases has three of few activities that begin or end cases.
    """
    rng = np.random.default_rng(number)
    kinds = n + n_edges // 2
    walks = np.full((kinds, 5), n)  # at both ends
    walks[:, 2] = rng.integers(0, n, kinds)
    walks[:, [1, 3]] = rng.integers(0, max(n // 8, 1), (kinds, 2))
    counts = np.zeros((n + 1, n + 1), np.int64)  # the last row is of START, the last column of END
    weights = np.rint(rng.exponential(40, kinds) ** 1.3).astype(np.int64) + 1
    for places in range(4):
        np.add.at(counts, (walks[:, places], walks[:, places + 1]), weights)
    sources, targets = (ends.astype(np.int32) for ends in np.nonzero(counts))
    kept = counts[sources, targets]
    targets = np.where(targets == n, n + 1, targets).astype(np.int32)
    names = pa.array([f"Activity {i}" for i in range(n)])
    return ReleasedGraph(names, sources, targets, kept, np.maximum(kept - 20, 0), kept + 20)


ORDERS = graph_of({
    (">", "Order"): 100, ("Order", "Pay"): 90, ("Order", "Cancel"): 10, ("Pay", "Ship"): 80,
    ("Pay", "Pay"): 5, ("Pay", "Cancel"): 15, ("Ship", "Pay"): 5, ("Ship", "<"): 75,
    ("Cancel", "<"): 25,
})  # fmt: skip
GRAPHS = (
    ORDERS,
    graph_of({(">", "A"): 5, ("A", "B"): 8, ("B", "A"): 3, ("B", "<"): 5}),
    graph_of({(">", "A"): 5, ("A", "<"): 5, ("B", "C"): 3, ("C", "B"): 3}),  # a cycle apart
    graph_of({(">", "<"): 4, (">", "A"): 1, ("A", "<"): 1}),
    graph_of({}, names=["A", "B"]),
    graph_of({}),
    random_graph(12, 70),
)


# --- reading SVG ----------------------------------------------------------------------------------


def read_svg(text: str) -> SimpleNamespace:
    """What a picture shows, in pixels; checks what holds for each.

    Of nodes there are boxes (left, top, right, bottom) and tooltips; of edges tooltips, labels with
    their places, and paths; and words are outside of the graph.
    """
    root = harmless(text)
    width, height = float(root.get("width")), float(root.get("height"))
    assert root.tag == f"{SVG}svg" and root.get("viewBox") == f"0 0 {width:g} {height:g}"
    groups = {kind: root.findall(f".//{SVG}g[@class='{kind}']") for kind in ("node", "edge")}
    boxes = []
    for group in groups["node"]:
        rect, circle = group.find(f"{SVG}rect"), group.find(f"{SVG}circle")
        if circle is not None:
            x, y, r = (float(circle.get(a)) for a in ("cx", "cy", "r"))
            boxes.append((x - r, y - r, x + r, y + r))
        else:
            x, y, w, h = (float(rect.get(a)) for a in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
    labels = []
    for group in groups["edge"]:
        label = group.find(f"{SVG}text")
        labels.append((float(label.get("x")), float(label.get("y")), label.text))
    return SimpleNamespace(
        root=root, width=width, height=height, boxes=boxes, labels=labels,
        nodes=[group.find(f"{SVG}title").text for group in groups["node"]],
        edges=[group.find(f"{SVG}title").text for group in groups["edge"]],
        paths=[group.find(f"{SVG}path").get("d") for group in groups["edge"]],
        words=[e.text or "" for e in root.findall(f"{SVG}text")],
    )  # fmt: skip


def points_of(path: str) -> Iterator[tuple[float, float]]:
    """Points along an edge: each curve at 17 parameters."""
    x = y = 0.0
    for command, arguments in re.findall(r"([MCV])([^MCV]*)", path):
        numbers = [float(n) for n in arguments.split()]
        if command == "M":
            x, y = numbers
        elif command == "V":
            y = numbers[0]
        else:
            (a, b), (c, d), (e, f) = zip(numbers[::2], numbers[1::2], strict=True)
            for t in np.linspace(0, 1, 17):
                s = 1 - t
                yield (
                    s**3 * x + 3 * s * s * t * a + 3 * s * t * t * c + t**3 * e,
                    s**3 * y + 3 * s * s * t * b + 3 * s * t * t * d + t**3 * f,
                )
            x, y = e, f
        yield x, y


def check_geometry(drawing: SimpleNamespace) -> None:
    """No boxes overlap, no labels overlap anything, no edge passes through a box, all is inside."""
    spots = [
        (x, y - 10, x + text_width(text, 11), y + 2) for x, y, text in drawing.labels
    ]  # a little lower than a line: what is drawn, not its spacing
    for one, other in itertools.combinations([*drawing.boxes, *spots], 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    for left, top, right, bottom in [*drawing.boxes, *spots]:
        # The graph is shifted by its group, at least by the margin.
        assert left >= -0.1 and top >= -0.1
        assert right <= drawing.width - 40 and bottom <= drawing.height - 40
    for path, tip in zip(drawing.paths, drawing.edges, strict=True):
        for x, y in points_of(path):
            for left, top, right, bottom in drawing.boxes:
                inside = left + 0.2 < x < right - 0.2 and top + 0.2 < y < bottom - 0.2
                # An edge of a circle begins and ends at it.
                assert not inside, tip


def plain(text: str) -> str:
    """A tooltip without the marks around names."""
    return text.replace("\u2068", "").replace("\u2069", "")


# --- SVG ------------------------------------------------------------------------------------------


def test_everything_is_drawn_once_and_nothing_overlaps():
    for graph in GRAPHS:
        drawing = read_svg(write_svg(graph, "Title", "Caption."))
        labels = graph.labels
        passed = graph.throughputs().tolist()
        expected = [
            f"{row['source']} → {row['target']}: {row['count']}"
            f" (95 % interval {row['low']} to {row['high']})"
            for row in graph.to_table().to_pylist()
        ]
        assert sorted(map(plain, drawing.edges)) == sorted(expected)
        used = {*graph.sources.tolist(), *graph.targets.tolist()} - {graph.start, graph.end}
        assert sorted(map(plain, drawing.nodes)) == sorted(
            [
                *(f"{labels[code]}: {passed[code]}" for code in used),
                f"▶ start: {passed[graph.start]}",
                f"■ end: {passed[graph.end]}",
            ]
        )
        check_geometry(drawing)


def test_the_picture_runs_from_start_to_end_and_back_edges_have_their_own_colour():
    drawing = read_svg(write_svg(ORDERS, "Orders", "Caption."))
    top = {
        plain(tip).split(":")[0]: box[1]
        for tip, box in zip(drawing.nodes, drawing.boxes, strict=True)
    }
    assert top["▶ start"] < top["Order"] < top["Pay"] < top["Ship"] < top["■ end"]
    colours: dict[str, set[str]] = {}
    for group, tip in zip(
        drawing.root.findall(f".//{SVG}g[@class='edge']"), drawing.edges, strict=True
    ):
        colours.setdefault(group.find(f"{SVG}path").get("stroke"), set()).add(
            plain(tip).split(":")[0]
        )
    assert {"Ship → Pay"} in colours.values() and len(colours) == 2
    assert any("lead back are orange" in word for word in drawing.words)
    forward = graph_of({(">", "A"): 1, ("A", "<"): 1})
    assert "orange" not in write_svg(forward, "", "")


def test_doubtful_edges_are_dashed_and_named_below():
    doubtful = np.array([row["count"] < 20 for row in ORDERS.to_table().to_pylist()])
    assert 0 < doubtful.sum() < len(doubtful)
    root = ElementTree.fromstring(write_svg(ORDERS, "Orders", "", is_doubtful=doubtful))
    groups = root.findall(f".//{SVG}g[@class='edge doubtful']")
    assert len(groups) == doubtful.sum()
    for group in groups:
        assert group.find(f"{SVG}title").text.endswith("doubtful: noise alone may have made it")
        assert group.find(f"{SVG}path").get("stroke-dasharray")
    for group in root.findall(f".//{SVG}g[@class='edge']"):
        assert "doubtful" not in group.find(f"{SVG}title").text
        assert group.find(f"{SVG}path").get("stroke-dasharray") is None
    words = "".join(element.text or "" for element in root.findall(f"{SVG}text"))
    assert "Dashed edges are doubtful" in words
    assert "doubtful" not in write_svg(ORDERS, "Orders", "", is_doubtful=doubtful & False)


@pytest.mark.parametrize("max_edges", [1, 10, 60, 150])
def test_a_large_graph_is_drawn_in_part_and_says_so(max_edges):
    graph = random_graph(40, 900)
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        write_svg(graph, "Part", "Caption.", 0)
    drawing = read_svg(write_svg(graph, "Part", "Caption.", max_edges))
    check_geometry(drawing)
    edges = [plain(tip).split(":")[0].split(" → ") for tip in drawing.edges]
    assert 2 <= len(edges) <= max(max_edges, 10) and len({tuple(e) for e in edges}) == len(edges)
    if max_edges >= 10:
        assert len(edges) == max_edges
    # Each shown node is on a way from start to end, as here no cycle lies apart.
    from_start, to_end = {"▶"}, {"■"}
    for _ in edges:
        from_start |= {b for a, b in edges if a in from_start}
        to_end |= {a for a, b in edges if b in to_end}
    shown = {plain(tip).split(":")[0].split(" ")[0] for tip in drawing.nodes if tip[0] in "▶■"}
    shown |= {plain(tip).split(":")[0] for tip in drawing.nodes if tip[0] not in "▶■"}
    assert shown == from_start & to_end
    said = f"Drawn: {len(edges)} of {len(graph.counts)} edges, {len(shown) - 2} of 40 activities."
    assert said in " ".join(drawing.words)


def test_the_busiest_activities_come_before_the_heaviest_edges():
    counts = {(">", "A"): 100, ("A", "B"): 120, ("B", "<"): 90, ("A", "C"): 10, ("C", "<"): 10}
    graph = graph_of({**counts, ("A", "A"): 50, ("B", "A"): 30})
    widest = {"▶ → A", "A → B", "B → ■"}  # on which the two busiest lie
    for max_edges, more in [
        (3, set()),
        (4, {"A → A"}),  # C needs two: the heaviest of the rest
        (5, {"A → C", "C → ■"}),
        (6, {"A → C", "C → ■", "A → A"}),
    ]:
        drawing = read_svg(write_svg(graph, "Part", "", max_edges))
        assert {plain(tip).split(":")[0] for tip in drawing.edges} == widest | more


def test_where_nothing_leads_from_the_start_the_heaviest_edges_are_drawn():
    """As where no count from the start stood out of the noise: the other edges are as right."""
    edges = {(f"A{i}", f"A{(i + 1) % 9}"): 5 + (i == 4) for i in range(9)}
    drawing = read_svg(write_svg(graph_of(edges), "Ring", "", 3))
    assert len(drawing.edges) == 3 and any("A4 → A5" in plain(tip) for tip in drawing.edges)
    assert any(words.startswith("Drawn: 3 of 9 edges") for words in drawing.words)
    assert len(read_svg(write_svg(graph_of(edges), "Ring", "")).edges) == 9


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.integers(1, 60), st.integers(0, 10**6))
def test_no_random_graph_makes_anything_overlap(n, n_edges, number):
    graph = random_graph(n, n_edges, number)
    check_geometry(read_svg(write_svg(graph, "Random", "")))


# --- hostile names --------------------------------------------------------------------------------


def hostile_graph() -> ReleasedGraph:
    n = len(HOSTILE)
    chain = np.arange(n + 1)
    sources = np.array([*range(n), n], np.int32)
    targets = np.array([*range(1, n), n + 1, 0], np.int32)
    names = pa.array([name.encode("utf-8", "replace").decode() for name in HOSTILE])
    return ReleasedGraph(names, sources, targets, 100 + chain, 90 + chain, 110 + chain)


def test_hostile_names_stay_text():
    graph = hostile_graph()
    for name in HOSTILE:
        text = write_svg(graph, name, name)
        drawing = read_svg(text)  # which allows no other elements and attributes
        assert len(drawing.nodes) == len(HOSTILE) + 2 and len(drawing.edges) == len(HOSTILE) + 1
        check_geometry(drawing)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066\u2067]", text)
        assert text.count("\u2068") == text.count("\u2069")
        assert len(text) < 120_000  # a caption of 10,000 characters, twice; names are cut
    tips = "".join(drawing.nodes)
    assert "</text><script>alert(1)</script>" in tips and "שלום עולם" in tips


def test_names_are_made_plain():
    assert plain_name("  Pay \t\n invoice\r\n") == "Pay invoice"
    assert plain_name("a\0b\x9fc\ud800d") == "a\ufffdb\ufffdc\ufffdd"
    assert plain_name("\u202eevil\u2066") == "\ufffdevil\ufffd"
    assert plain_name("x" * 200) == "x" * 200
    assert plain_name("x" * 201) == "x" * 199 + "…"
    assert plain_name("👩‍👧 ü ש") == "👩‍👧 ü ש"


# --- DOT ------------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_ATTRIBUTES = rf"\[((?:\w+=(?:{_STRING}|[\w.]+)(?:, )?)*)\]"
_LINES = (
    r"digraph dfg \{|\}",
    rf"  (graph|node|edge) {_ATTRIBUTES};",
    rf"  (?:\{{ rank=\w+; )?(n\d+(?: -> n\d+)?) {_ATTRIBUTES};(?: \}})?",
)


def read_dot(text: str) -> dict[str, dict[str, str]]:
    """Attributes by node, edge and kind, in order; every line has one of four forms."""
    found: dict[str, dict[str, str]] = {}
    for line in text.split("\n")[:-1]:
        [match] = filter(None, (re.fullmatch(form, line) for form in _LINES))
        if match.lastindex:
            pairs = re.findall(rf"(\w+)=({_STRING}|[\w.]+)", match[2])
            assert match[1] not in found
            found[match[1]] = {
                key: re.sub(r'\\(["\\])', r"\1", value.removeprefix('"').removesuffix('"')).replace(
                    "&amp;", "&"
                )
                for key, value in pairs
            }
    return found


def test_dot_holds_every_node_and_every_edge_once():
    for graph in GRAPHS:
        dot = read_dot(write_dot(graph, "Some title"))
        assert dot.pop("graph")["label"] == "Some title"
        edges = {key: dot.pop(key) for key in list(dot) if "->" in key}
        passed = graph.throughputs().tolist()
        labels = graph.labels
        assert {n: a["label"] for n, a in dot.items() if n not in ("node", "edge")} == {
            f"n{code}": labels[code] + (f"\\n{passed[code]}" if code < graph.start else "")
            for code in range(graph.end + 1)
        }
        assert list(edges) == [
            f"n{s} -> n{t}" for s, t in zip(graph.sources, graph.targets, strict=True)
        ]
        for attributes, row in zip(edges.values(), graph.to_table().to_pylist(), strict=True):
            half = max(row["high"] - row["count"], row["count"] - row["low"])
            assert attributes["label"] == f"{row['count']} ± {half}"
            assert 0.8 < float(attributes["penwidth"]) <= 5
            assert plain(attributes["tooltip"]).startswith(f"{row['source']} → {row['target']}: ")


def test_hostile_names_stay_strings_of_dot():
    graph = hostile_graph()
    for title in HOSTILE:
        text = write_dot(graph, title)
        dot = read_dot(text)
        assert len(dot) == 3 + len(HOSTILE) + 2 + len(HOSTILE) + 1
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    passed = graph.throughputs().tolist()
    labels = [dot[f"n{code}"]["label"] for code in range(len(HOSTILE))]
    assert labels == [
        f"{plain_name(n)}\\n{passed[i]}" for i, n in enumerate(graph.names.to_pylist())
    ]
    # Graphviz would replace \N by a node's name and &lt; by a sign, had they not been escaped.
    assert "\\\\N" in text and "&amp;#0;&amp;lt;" in text
