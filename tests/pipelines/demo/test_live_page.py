"""The live page: it shows what was published, whatever it is called, and reaches nothing else."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import math
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from tests.support.keys import release_key
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.steps import StreamName
from tracecloak.pipelines.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.pipelines.demo.live_charts import (
    Total,
    edge_bars,
    graph_picture,
    shown_graph,
    timeline,
    total_of,
    totals_chart,
    totals_of,
)
from tracecloak.pipelines.demo.live_page import LivePage, PublishedSteps, page, state
from tracecloak.pipelines.demo.stream_demo import Demo, stream_flags
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.stream.step_files import step_path

HARMFUL = "</svg><script>alert(1)</script>\u202e&amp;\"'"
SVG = "{http://www.w3.org/2000/svg}"


def release(
    step: int = 4, cells: dict[tuple[str, str], tuple[int, float]] | None = None, **others: Any
) -> StepRelease:
    if cells is None:
        cells = {
            ("▶", "Triage"): (100, 3.0),
            ("▶", "Surgery"): (5, 4.0),
            ("Triage", "Surgery"): (60, 2.0),
            ("Triage", "■"): (43, 2.0),
            ("Surgery", "■"): (62, 2.0),
            ("Surgery", "Triage"): (-3, 2.0),
            ("Surgery", "Surgery"): (4, 2.5),
        }
    values = {
        "release_id": "hospital",
        "epoch": "1",
        "product": "dfg",
        "view": "total",
        "start_us": 0,
        "end_us": (step + 1) * 10_000_000,
        "n_steps_left": 9 - step,
        "epsilon": "0.5",
        "delta": "1e-6",
        **others,
    }
    counts, errors = zip(*cells.values(), strict=True) if cells else ((), ())
    return StepRelease.of(
        list(cells), np.array(counts, np.int64), np.array(errors), step=step, **values
    )


def to_canonical(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Events of the hospital as a method counts them."""
    mapping = ColumnMapping().resolve(batch.schema.names, xes_names=False)
    nothing = np.zeros(0, np.int64)
    return mapping.canonicalise(batch, np.arange(batch.num_rows), nothing, file_rank=0)[0]


def write(output: Path, *releases: StepRelease) -> None:
    for one in releases:
        path = Path(f"{step_path(str(output), one)}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.to_json())


# --- Pictures ---------------------------------------------------------------------------------


def test_what_is_shown_is_sure_or_doubtful_between_activities_that_are_sure() -> None:
    cells = {
        ("▶", "Triage"): (100, 3.0),
        ("Triage", "Surgery"): (60, 2.0),
        ("Surgery", "■"): (62, 2.0),
        ("▶", "Surgery"): (9, 4.0),  # beyond 1.96 errors, and not beyond 2.5
        ("Surgery", "Surgery"): (4, 2.5),
        ("Surgery", "Triage"): (-3, 2.0),
        ("Rare", "Triage"): (9, 4.0),  # of Rare there is nothing else
    }
    shown = shown_graph(release(cells=cells))
    edges = {(e["source"], e["target"]): e for e in shown.graph.to_table().to_pylist()}
    doubtful = dict(zip(edges, shown.is_doubtful.tolist(), strict=True))
    assert doubtful == {
        ("▶", "Triage"): False,
        ("Triage", "Surgery"): False,
        ("Surgery", "■"): False,
        ("▶", "Surgery"): True,
    }
    top = edges["▶", "Triage"]
    assert (top["count"], top["low"], top["high"]) == (100, 94, 106)
    assert shown.graph.names.to_pylist() == ["Surgery", "Triage"]


def test_doubtful_edges_look_doubtful_and_the_picture_says_what_that_means() -> None:
    cells = {("▶", "A"): (100, 3.0), ("A", "■"): (90, 3.0), ("A", "A"): (9, 4.0)}
    one = release(cells=cells)
    groups = ElementTree.fromstring(graph_picture(one)).iter(f"{SVG}g")
    dashed = {
        str(group.attrib["class"]): [path.attrib.get("stroke-dasharray") for path in group][1]
        for group in groups
        if group.attrib.get("class", "").startswith("edge")
    }
    assert dashed.keys() == {"edge", "edge doubtful"}
    assert dashed["edge"] is None
    assert dashed["edge doubtful"]
    assert "Dashed edges are doubtful: noise alone may have made them." in graph_picture(one)
    assert "All 3 possible pairs are decided together" in graph_picture(one)
    assert "9 (doubtful)" in edge_bars(one)
    del cells["A", "A"]
    assert "doubtful" not in graph_picture(release(cells=cells)) + edge_bars(release(cells=cells))


def test_nobody_leaves_the_dead_of_the_demo() -> None:
    """Its own parameters, two steps of it, several keys: noise makes no sure edge of them."""
    flags = dict(
        flag.removeprefix("--").split("=", 1) for flag in stream_flags(Demo(Path()), "s", "t", 0.0)
    )
    asked = {name: flags[name] for name in DfgParams.model_fields.keys() & flags.keys()}
    product = DfgSteps(DfgParams(**{**asked, "vocabulary": ACTIVITIES}))
    batches = [to_canonical(batch) for batch in hospital_log(4000, 2000)]
    counted = [product.count(group_into_traces([batch])[0]) for batch in batches]
    name = StreamName("stream-demo", "1", "configuration", 0, 2_000_000)
    after_death: set[str] = set()
    for number in range(8):
        _, kept = product.publish(0, counted[0], [], name, release_key(number))
        newest, _ = product.publish(1, counted[1], [kept], name, release_key(number))
        shown = shown_graph(newest)
        edges = shown.graph.to_table().filter(pa.array(~shown.is_doubtful)).to_pylist()
        assert len(edges) > 80
        after_death |= {edge["target"] for edge in edges if edge["source"] == "Death"}
        assert {edge["target"] for edge in edges if edge["source"] == "Discharge home"} == {"■"}
    assert after_death <= {"■"}


def test_the_graph_has_each_count_with_its_error() -> None:
    picture = graph_picture(release())
    texts = [element.text for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert {"100 ± 6", "60 ± 4", "43 ± 4", "62 ± 4"} <= set(texts)
    assert "epsilon 0.5, delta 1e-6" in picture


def test_the_cases_are_those_that_begin_and_end() -> None:
    # 105 begin, with an error of 5; 43 and 62 end, with one of 2 each.
    total = total_of(release())
    assert (total.step, total.count) == (4, 105)
    assert total.error == pytest.approx(math.hypot(3, 4, 2, 2) / 2)
    assert total_of(release(cells={})) == Total(4, 0.0, 0.0)


def test_totals_are_those_that_were_published_or_sums_of_windows() -> None:
    def window(step: int, n: int, view: str = "window") -> StepRelease:
        return release(step, {("▶", "A"): (n, 4.0), ("A", "■"): (n, 3.0)}, view=view)

    windows = [window(0, 10), window(1, 20), window(3, 30)]  # step 2 is not there
    added = totals_of({"window": windows})
    assert [(t.step, t.count) for t in added] == [(0, 10), (1, 30)]
    assert [t.error for t in added] == pytest.approx([2.5, 2.5 * math.sqrt(2)])
    published = [window(3, 70, "total")]
    assert [(t.step, t.count) for t in totals_of({"window": windows, "total": published})] == [
        (3, 70)
    ]
    assert totals_of({"sliding": [window(0, 10, "sliding")]}) == []
    assert totals_of({"window": windows[1:]}) == []


def test_the_chart_of_totals_has_a_line_and_its_intervals() -> None:
    text = totals_chart([Total(0, 100.0, 10.0), Total(1, 1200.0, 20.0)])
    picture = ElementTree.fromstring(text)
    first, second = (float(point.attrib["cy"]) for point in picture.iter(f"{SVG}circle"))
    assert first > second  # more is higher
    band = next(picture.iter(f"{SVG}path")).attrib["d"]
    heights = [float(y) for y in re.findall(r" ([\d.]+)", band)]
    unit = (first - second) / 1100
    # There along the upper ends, and back along the lower ones.
    errors = [10, 20, -20, -10]
    for y, line, error in zip(heights, [first, second, second, first], errors, strict=True):
        assert line - y == pytest.approx(1.96 * error * unit, abs=0.2)
    assert "1,200 ± 39 cases" in text


def test_the_bars_have_their_intervals_in_proportion() -> None:
    picture = ElementTree.fromstring(edge_bars(release()))
    bars = [float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect")]
    longest = 330 * 100 / 106  # the interval's end is the picture's
    assert bars == pytest.approx([longest, longest * 0.62, longest * 0.6, longest * 0.43], abs=0.1)
    whisker = next(picture.iter(f"{SVG}path")).attrib["d"]
    low, high = re.findall(r"M([\d.]+)", whisker)[0], re.findall(r"H([\d.]+)", whisker)[0]
    assert float(low) - 330 == pytest.approx(330 * 94 / 106, abs=0.1)
    assert float(high) - 330 == pytest.approx(330, abs=0.1)


def test_the_course_has_a_point_and_an_interval_a_step() -> None:
    steps = [
        release(step, {("▶", "A"): (10 * step, 6.0), ("A", "■"): (10 * step, 8.0)})
        for step in (0, 1, 2)
    ]
    picture = ElementTree.fromstring(timeline(steps))
    points = [float(point.attrib["cy"]) for point in picture.iter(f"{SVG}circle")]
    assert points[0] - points[1] == pytest.approx(points[1] - points[2], abs=0.2)
    assert points[0] > points[1]  # more is higher
    intervals = re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", timeline(steps))
    ten = points[0] - points[1]
    assert [float(low) - float(high) for low, high in intervals] == pytest.approx(
        [ten * 2 * 1.96 * 5 / 10] * 3, abs=0.2
    )


@pytest.mark.parametrize("view", ["window", "total", "sliding"])
@pytest.mark.parametrize("cells", [{}, {("▶", "■"): (0, 1.0)}, {("A", "A"): (9, 0.0)}])
def test_every_release_can_be_drawn(view: Any, cells: Any) -> None:
    one = release(cells=cells, view=view)
    for picture in (
        graph_picture(one),
        edge_bars(one),
        timeline([one]),
        totals_chart([total_of(one)]),
    ):
        assert ElementTree.fromstring(picture).tag == f"{SVG}svg"


def test_a_name_stays_a_name_in_every_picture() -> None:
    one = release(cells={("▶", HARMFUL): (50, 1.0), (HARMFUL, "■"): (50, 1.0)})
    allowed = {"svg", "title", "desc", "rect", "g", "path", "text", "circle"}
    for picture in (
        graph_picture(one),
        edge_bars(one),
        timeline([one]),
        totals_chart([total_of(one)]),
    ):
        tree = ElementTree.fromstring(picture)
        assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= allowed
        names = {name for element in tree.iter() for name in element.attrib}
        assert not {name for name in names if name.startswith("on") or name == "style"}
        assert "\u202e" not in picture
        assert not re.search(r"href|url\(|@import", picture)


# --- What is read -----------------------------------------------------------------------------


def test_the_steps_of_a_folder_are_read_as_they_come(tmp_path: Path) -> None:
    steps = PublishedSteps(tmp_path / "later", "hospital", "1")
    assert steps.views() == {}
    output = tmp_path / "later"
    write(output, release(0), release(0, view="window"), release(1))
    others = [
        release(7, release_id="other"),
        release(7, epoch="2"),
        release(7, product="variants", cells={}),
    ]
    write(output, *others)
    folder = output / "run_id=hospital" / "epoch=1" / "product=dfg" / "view=total"
    (folder / "step-000002.parquet").write_bytes(b"not for the page")
    (folder / "step-000003.json").write_bytes(release(3).to_json()[:50])  # not whole yet
    assert {view: [r.step for r in found] for view, found in steps.views().items()} == {
        "total": [0, 1],
        "window": [0],
    }
    write(output, release(3))
    assert [r.step for r in steps.views()["total"]] == [0, 1, 3]


@pytest.mark.parametrize("name", ["../x", "a/b", ""])
def test_names_are_of_folders(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="release_id must be the name of a folder"):
        PublishedSteps(tmp_path, name, "1")
    with pytest.raises(UsageError, match="epoch must be the name of a folder"):
        PublishedSteps(tmp_path, "hospital", name)


def test_the_state_says_what_is_left_of_the_budget() -> None:
    views = {"total": [release(3), release(4)], "window": [release(4, view="window")]}
    shown = state(views)
    assert (shown["view"], shown["views"]) == ("total", ["total", "window"])
    assert (shown["n_steps_left"], shown["horizon"], shown["notice"]) == (5, 10, "")
    assert shown["budget_text"] == (
        "5 of 10 steps are left. All of them together cost epsilon 0.5 and delta 1e-6."
    )
    assert state(views, "window")["view"] == "window"
    assert state(views, "no such")["view"] == "total"
    # The chart of totals is there whatever is shown, and is the course of the view of totals.
    assert state(views)["totals"] == state(views, "window")["totals"] != ""
    assert state(views)["timeline"] == "" != state(views, "window")["timeline"]
    assert state({"sliding": [release(4, view="sliding")]})["totals"] == ""
    assert state(views)["version"] != state({"total": [release(3)]})["version"]
    assert "budget is spent" in state({"total": [release(9)]})["notice"]
    assert state({}) == {"version": "", "notice": "Waiting for the first step."}


# --- The page ---------------------------------------------------------------------------------


class _Parts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inline.setdefault(self.tags[-1][0], data)


def test_the_page_is_one_file_whose_policy_allows_its_own_parts_only() -> None:
    html, policy = page(HARMFUL)
    parts = _Parts()
    parts.feed(html)
    assert html.startswith("<!DOCTYPE html>")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts.inline[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert [tag for tag, _ in parts.tags].count("script") == 1
    (named,) = [a["content"] for t, a in parts.tags if a.get("http-equiv")]
    assert named == policy
    attributes = [(name, value) for _, found in parts.tags for name, value in found.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    links = [value for name, value in attributes if name in ("src", "href", "action")]
    assert links == ["data:,"]
    assert "//" not in parts.inline["style"]
    assert "http" not in parts.inline["script"].replace("http://www.w3.org", "")


# As much of a browser as the page's script asks for; it writes what the page then shows.
BROWSER = """
const made = (tag) => ({
  tag, children: [], attributes: {}, textContent: "", heard: {},
  replaceChildren(...those) { this.children = those; },
  setAttribute(name, value) { this.attributes[name] = value; },
  addEventListener(name, what) { this.heard[name] = what; },
});
const ids = {};
global.document = {
  getElementById: (id) => (ids[id] ??= made(id)),
  createElement: made,
  importNode: (node) => node,
};
global.DOMParser = class { parseFromString(text, kind) { return {documentElement: kind + text}; } };
const asked = [];
global.fetch = async (path) => {
  asked.push(path);
  if (asked.length > ANSWERS.length) throw new Error("gone");
  return {json: async () => ANSWERS[asked.length - 1]};
};
let again;
global.setInterval = (what) => { again = what; };
const settled = () => new Promise((resolve) => setImmediate(resolve));
require(SCRIPT);
(async () => {
  await settled();
  const first = ids.step.textContent;
  const hidden = [ids["timeline-section"].hidden];
  await ids.views.children[1].heard.click();
  await again();
  hidden.push(ids["timeline-section"].hidden);
  console.log(JSON.stringify({first, asked, hidden, ids}));
})();
"""


def test_the_script_shows_what_the_server_says(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    parts = _Parts()
    parts.feed(page("x")[0])
    (tmp_path / "page.js").write_text(parts.inline["script"])
    views = {"total": [release(3)], "window": [release(4, view="window")]}
    answers = [state(views), state(views, "window")]
    names = {"ANSWERS": answers, "SCRIPT": str(tmp_path / "page.js")}
    told = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in names.items())
    (tmp_path / "browser.js").write_text(told + BROWSER)
    ran = subprocess.run(
        [node, str(tmp_path / "browser.js")], check=True, capture_output=True, timeout=60
    )
    found = json.loads(ran.stdout)
    assert found["first"] == answers[0]["step_text"]
    assert found["asked"] == ["state.json?view=", *["state.json?view=window"] * 2]
    shown = found["ids"]
    assert shown["step"]["textContent"] == answers[1]["step_text"]
    assert (shown["left"]["value"], shown["left"]["max"]) == (5, 10)
    buttons = [(b["textContent"], b["attributes"]) for b in shown["views"]["children"]]
    assert buttons == [
        ("total", {"aria-pressed": "false"}),
        ("window", {"aria-pressed": "true"}),
    ]
    for part in ("totals", "graph", "edges", "timeline"):
        assert shown[part]["children"] == ["image/svg+xml" + answers[1][part]]
    # Totals have no other course: its section was hidden, and is shown with the windows.
    assert found["hidden"] == [True, False]
    # The last answer was none.
    assert shown["notice"]["textContent"].startswith("The page's server does not answer")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[LivePage, Path]]:
    with LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital") as made:
        yield made, tmp_path


def ask(live: LivePage, path: str, method: str = "GET", host: str | None = None) -> Any:
    url = urlsplit(live.address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=5)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_server_answers_with_the_page_and_the_newest_step(live: tuple[LivePage, Path]) -> None:
    served, output = live
    status, headers, body = ask(served, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body.decode() == page("hospital")[0]
    assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
    assert page("hospital")[1] in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert json.loads(ask(served, "/state.json")[2])["version"] == ""
    write(output, release(3), release(4, view="window"))
    first = json.loads(ask(served, "/state.json?view=total")[2])
    assert first["step_text"] == "hospital, epoch 1, step 3"
    write(output, release(4))
    assert json.loads(ask(served, "/state.json")[2])["step_text"] == "hospital, epoch 1, step 4"
    window = json.loads(ask(served, "/state.json?view=window")[2])
    assert window["view"] == "window"


@pytest.mark.parametrize("path", ["/x", "/../setup.py", "/state.json/"])
def test_nothing_else_is_served(live: tuple[LivePage, Path], path: str) -> None:
    assert ask(live[0], path)[0] == 404


@pytest.mark.parametrize("host", ["hospital.example", "127.0.0.1", "127.0.0.1.example:80"])
def test_a_page_of_another_name_cannot_read_it(live: tuple[LivePage, Path], host: str) -> None:
    """A name that its owner lets resolve to 127.0.0.1 (DNS rebinding)."""
    status, _, body = ask(live[0], "/state.json", host=host)
    assert (status, body) == (421, b"ask 127.0.0.1\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent_to_it(live: tuple[LivePage, Path], method: str) -> None:
    assert ask(live[0], "/", method)[0] == 501


def test_it_listens_on_this_machine_alone_and_stops(tmp_path: Path) -> None:
    with LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital") as made:
        assert made._server.server_address[0] == "127.0.0.1"
        port = made._server.server_address[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital", port)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    write(tmp_path, release(4))
    command = [
        sys.executable,
        "-m",
        "tracecloak.pipelines.demo.live_page",
        str(tmp_path),
        "hospital",
        "1",
    ]
    # Where a shell runs tests in the background they ignore interrupts, and so would the server.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    finally:
        signal.signal(signal.SIGINT, heard)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}state.json", timeout=10) as answer:
            assert json.load(answer)["step_text"] == "hospital, epoch 1, step 4"
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        server.stdout.close()


def test_many_releases_of_one_step_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(
        "tracecloak.pipelines.demo.live_page.graph_picture",
        lambda one: drawn.append(one.step) or "<svg/>",
    )
    views = {"total": [release(4, release_id="drawn once")]}
    assert state(views) == state(views)
    state({"total": [*views["total"], replace(views["total"][0], step=5)]})
    assert drawn == [4, 5]
