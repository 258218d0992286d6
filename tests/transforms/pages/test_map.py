"""The map of a page in a browser: what is drawn of a graph, where its numbers stand, and by whom.

The graphs are made up, so that they have what a map could leave out or draw badly.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pages import watched
from tests.support.tiers import at_night, few_examples
from tracecloak.transforms.pages.page import Page, rendered

Graph = dict[str, Any]
Show = Callable[..., Any]
SCRIPTS = ("graphviz.js", "layout.js", "labels.js", "bpmn.js", "map.js")
TEMPLATE = Path(__file__).parents[3] / "transforms/pages/templates/map.html.j2"


def graph(n: int, counts: dict[tuple[int, int], int], n_left_out: int = 0) -> Graph:
    """A map of n activities; n is the start and n + 1 is the end."""
    passed = np.zeros((2, n + 2), int)
    for ends, count in counts.items():
        passed[[0, 1], ends] += count
    return {
        "nodes": [{"name": f"Do {i}", "count": int(c)} for i, c in enumerate(passed.max(axis=0))],
        "start": n,
        "end": n + 1,
        "edges": [
            {"source": a, "target": b, "count": c, "low": None, "high": None, "doubtful": False,
             "median_s": None}
            for (a, b), c in counts.items()
        ],
        "n_left_out": n_left_out,
        "n_activities_left_out": 3 if n_left_out else 0,
    }  # fmt: skip


def line_with_rework(n: int) -> Graph:
    """A line of activities with frequent loops and ways back, and many rare ways ahead."""
    counts = {(i, i + 1): 400 - 9 * i for i in range(n - 1)}
    counts |= {(n, 0): 500, (n - 1, n + 1): 500}
    counts |= {(i, i): 900 + i for i in range(0, n, 3)}
    counts |= {(i + 2, i): 700 + i for i in range(0, n - 2, 4)}
    counts |= {(i, j): 1 + (i * j) % 5 for i in range(n) for j in range(i + 3, n, 2)}
    return graph(n, counts)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(1, 26))
    ends = st.tuples(st.integers(0, n), st.integers(0, n + 1).filter(lambda i: i != n))
    pairs = draw(st.lists(ends, min_size=1, max_size=90, unique=True))
    most = draw(st.sampled_from([2, 10, 10_000]))
    return graph(n, {pair: draw(st.integers(1, most)) for pair in pairs})


@pytest.fixture(scope="module")
def show(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    """Opens the page of a graph; what it logs fails the test."""
    folder = tmp_path_factory.mktemp("maps")
    given_to_template = {"shown": {"map": {"edges": []}}, "told": {}, "is_compared": False}
    above = jinja2.Template(TEMPLATE.read_text()).render(given_to_template)

    def opened(map_: Graph, **context: Any) -> Any:
        data = {"file_name": "map", "map": map_}
        page_of_it = Page(
            "document.html.j2", "A map", (), {"above": above, "below": "", "figures": []},
            data, SCRIPTS, ("Viz.js", "D3"),
        )  # fmt: skip
        file = folder / f"{len(list(folder.iterdir()))}.html"
        file.write_bytes(rendered(page_of_it))
        page = of_file(file, **context)
        page.wait_for_selector("#map:not([aria-busy]) svg")
        return page

    with watched(browser) as of_file:
        yield opened


@pytest.fixture(scope="module")
def page(show: Show) -> Any:
    return show(line_with_rework(12))


def drawn(page: Any) -> set[int]:
    ids = page.locator("#map g.edge").evaluate_all("all => all.map((g) => g.id)")
    return {int(text.split("-")[1]) for text in ids}


def test_loops_and_ways_back_that_are_frequent_are_on_the_first_map(page: Any) -> None:
    edges = line_with_rework(12)["edges"]
    rework = {i for i, e in enumerate(edges) if e["source"] >= e["target"] and e["target"] < 12}
    frequent = {i for i in rework if edges[i]["count"] >= 700}
    assert len(frequent) >= 6 and frequent <= drawn(page)
    told = page.locator("#map-shown").text_content()
    assert f"12 activities and {len(drawn(page))} paths" in told
    assert f"Not on the map: 0 activities and {len(edges) - len(drawn(page))} paths." in told
    most = max(edge["count"] for i, edge in enumerate(edges) if i not in drawn(page))
    assert told.endswith(f" The most frequent of these paths was taken {most} times.")


def test_a_map_of_few_paths_is_shown_whole_at_first(show: Show) -> None:
    """However much of the log goes through some of them: rejections are rare, and looked for."""
    counts = {(i, i + 1): 2_000 for i in range(5)} | {(6, 0): 2_000, (5, 7): 2_000, (1, 4): 3}
    page = show(graph(6, counts))
    assert drawn(page) == set(range(len(counts)))
    told = page.locator("#map-shown").text_content()
    assert told.endswith("Not on the map: 0 activities and 0 paths.")


@given(shown=graphs(), nearness=st.floats(0, 1), n_activities=st.integers(0, 26))
@few_examples()
def test_no_path_is_left_out_for_a_rarer_one_unless_that_one_connects(
    page: Any, shown: Graph, nearness: float, n_activities: int
) -> None:
    """What is drawn is the most frequent paths and the fewest others that keep the widest ways."""
    edges, counts = shown["edges"], [edge["count"] for edge in shown["edges"]]
    n_paths = round(nearness * len(edges))
    script = "([map, a, p]) => [tracecloak.firstPart(map), tracecloak.part(map, a, p)]"
    first, part = page.evaluate(script, [shown, n_activities, n_paths])
    [first_part] = page.evaluate(
        "([map, a, p]) => [tracecloak.part(map, a, p)]",
        [shown, first["nActivities"], first["nPaths"]],
    )
    for n, each in ((n_paths, part), (first["nPaths"], first_part)):
        nodes, on = set(each["nodes"]), set(each["edges"])
        possible = [i for i, e in enumerate(edges) if {e["source"], e["target"]} <= nodes]
        ranked = sorted((counts[i] for i in possible), reverse=True)
        least = ranked[min(n, len(ranked)) - 1] if n and ranked else np.inf
        frequent = {i for i in possible if counts[i] >= least}
        assert frequent <= on <= set(possible) and each["nFrequent"] == len(frequent)
        for end, here, there in (("start", "source", "target"), ("end", "target", "source")):
            both = [
                widths(shown[end], [(edges[i][here], edges[i][there], counts[i]) for i in some])
                for some in (possible, on)
            ]
            assert both[0] == both[1]
        assert len(on - frequent) <= 2 * (len(nodes) - 1)
    # Of the first map that holds for the paths of all activities.
    ranked = sorted(counts, reverse=True)
    if first["nPaths"]:
        least = ranked[first["nPaths"] - 1]
        assert {i for i, count in enumerate(counts) if count >= least} <= set(first_part["edges"])
    assert first["nActivities"] <= 30 and first_part["nFrequent"] <= 40


def widths(root: int, ways: list[tuple[int, int, int]]) -> dict[int, float]:
    """How frequent the rarest path of the best way to each is, by as many passes as ways."""
    best = {root: np.inf}
    for _ in range(len(ways) + 1):
        for here, there, count in ways:
            if here in best:
                best[there] = max(best.get(there, 0), min(best[here], count))
    return best


LABELS = """() => [...document.querySelectorAll("#map g.edge")].map((g) => {
  const [text, path] = [g.querySelector("text").getBBox(), g.querySelector("path")];
  const inside = (at) => at.x > text.x - 2 && at.x < text.x + text.width + 2 &&
    at.y > text.y && at.y < text.y + text.height;
  const length = path.getTotalLength();
  const ats = Array.from({ length: 400 }, (_, k) => path.getPointAtLength((length * k) / 399));
  const style = getComputedStyle(g.querySelector("text"));
  return {
    box: [text.x, text.y, text.x + text.width, text.y + text.height],
    touches: ats.some(inside),
    halo: style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 3,
  };
})"""
BOXES = """() => [...document.querySelectorAll("#map g.node > path, #map g.node > ellipse")].map(
  (shape) => { const b = shape.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; })"""


@pytest.mark.parametrize("n", [at_night(12), 20])
def test_numbers_stand_on_their_arrows_and_not_on_boxes_or_on_one_another(
    show: Show, n: int
) -> None:
    page = show(line_with_rework(n))
    labels, boxes = page.evaluate(LABELS), page.evaluate(BOXES)
    assert len(labels) >= 20
    assert all(label["touches"] and label["halo"] for label in labels)
    rows = np.array([label["box"] for label in labels])
    rows += [1, 2.5, -1, -2.5]  # what letters leave free of their box
    apart = np.triu_indices(len(rows), 1)
    assert not overlap(rows, rows)[apart].any()
    assert not overlap(rows, np.array(boxes)).any()


def overlap(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """bool[n_some, n_others] of boxes with rows of x, y, x, y."""
    low = np.maximum(some[:, None, :2], others[None, :, :2])
    high = np.minimum(some[:, None, 2:], others[None, :, 2:])
    return np.asarray((low < high).all(axis=2))


def test_six_hundred_activities_are_drawn_by_a_worker_while_the_page_answers(show: Show) -> None:
    """Catches a policy that refuses the worker, and a map that takes the place of a newer one."""
    n, rng = 600, np.random.default_rng(3)
    counts = {(i, i + 1): int(rng.integers(1, 5000)) for i in range(n - 1)} | {
        (n, 0): 9,
        (n - 1, n + 1): 9,
    }
    counts |= {
        tuple(pair): int(rng.integers(1, 300)) for pair in rng.integers(0, n, (1400, 2)).tolist()
    }
    page = show(graph(n, counts, n_left_out=77))
    assert len(page.workers) == 1
    told = page.locator("#map-shown").text_content()
    n_shown = page.locator("#map g.node.activity").count()
    assert 0 < n_shown <= 30
    n_missing = len(counts) - len(drawn(page)) + 77
    assert f"Not on the map: {600 - n_shown + 3} activities and {n_missing:,} paths" in told
    assert "of which 77 paths are in the files alone." in told
    page.locator("#activities").fill("600")
    page.locator("#paths").fill(str(len(counts)))
    assert page.locator("#map").get_attribute("aria-busy") == "true"
    assert f"{len(counts)} of {len(counts)} paths" in page.locator("#map").get_attribute(
        "data-busy"
    )
    page.locator("#paths").fill("0")
    page.locator("#activities").fill("4")  # given up for this, which is soon there
    page.wait_for_selector("#map:not([aria-busy])")
    assert page.locator("#map g.node.activity").count() == 4


def test_a_worker_is_under_the_policy_of_its_page(browser: Any, page: Any) -> None:
    """Catches a browser in which a script that got in could ask a server by way of a worker."""
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        other = browser.new_page()
        other.goto(page.url)
        said = other.evaluate(WORKER, f"http://127.0.0.1:{server.server_port}/")
        other.close()
        server.shutdown()
    assert [name for name in said if not re.search("Error|refused", name)] == []
    assert len(said) == 4 and asked == []


WORKER = """(url) => new Promise((done) => {
  const body = async (url) => {
    const tries = [
      () => fetch(url), () => importScripts(url), () => eval("1"),
      () => new Promise((_, no) => { new Worker(url).onerror = () => no("refused"); }),
    ];
    const said = [];
    for (const act of tries)
      try { await act(); said.push("went"); } catch (error) { said.push(String(error)); }
    postMessage(said);
  };
  const worker = new Worker(URL.createObjectURL(new Blob([`(${body})("${url}")`])));
  worker.onmessage = ({ data }) => done(data);
})"""


@pytest.mark.parametrize("n", [at_night(4), 16])
def test_a_phone_shows_all_of_the_map_and_leaves_no_third_of_it_blank(show: Show, n: int) -> None:
    page = show(line_with_rework(n), viewport={"width": 375, "height": 740}, is_mobile=True)
    frame = page.locator("#map").bounding_box()
    things = [g.bounding_box() for g in page.locator("#map g.node, #map g.edge").all()]
    left, top = (min(thing[axis] for thing in things) for axis in ("x", "y"))
    right = max(thing["x"] + thing["width"] for thing in things)
    bottom = max(thing["y"] + thing["height"] for thing in things)
    assert frame["x"] <= left and right <= frame["x"] + frame["width"]
    assert frame["y"] <= top and bottom <= frame["y"] + frame["height"]
    assert right - left > 2 / 3 * frame["width"] or bottom - top > 1.4 * 740
    assert bottom - top > 0.85 * frame["height"]
