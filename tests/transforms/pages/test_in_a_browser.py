"""Pages in a real browser: nothing is asked of a server, everything moves, and everybody reads it.

They need Chromium, and say that they were skipped where it is not there.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.pages import watched
from tests.support.releasing import csv_log, fix_key, released, tracecloak
from tests.support.tiers import at_night

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

Page = Any
WORDS = ("RTD", "RTPD", "RTPXPD", "RTLPD", "RTPLLPAD", "RTNG", "RTNPD", "RTPG")
NAMES = {
    "R": "Registration", "T": "Triage", "P": "Physician examination", "D": "Discharge home",
    "X": "X-ray", "L": "Leucocytes", "A": "Admission", "N": 'Nurse & "others"', "G": "To the <GP>",
}  # fmt: skip
KINDS = {
    "log": ("--method", "private-log", "--epsilon", 4, "--max_trace_length", 10,
            "--first_date", "2026-01-01", "--last_date", "2026-06-30"),
    "graph": ("--method", "private-dfg", "--epsilon", 0.5, "--durations"),
    "tree": ("--method", "process-tree", "--epsilon", 4),
    "variants": ("--method", "variant-histogram", "--epsilon", 2),
    "syntactic": ("--method", "k-anonymous-variants", "--k", 3),
    "groups": ("--method", "joint-variants", "--epsilon", 4, "--max_trace_length", 10,
               "--groups", '{"X-ray": "Tests", "Leucocytes": "Tests"}'),
    "indicators": ("--method", "private-indicators", "--epsilon", 4,
                   "--first_date", "2026-01-01", "--last_date", "2026-06-30", "--indicators",
                   "cases,within limit=2h,cases by=month,cases by=day,"
                   "throughput of=histogram at_most=1d n_bins=8,frequency by=activity,"
                   "throughput of=0.25|0.5|0.9 at_most=1d"),
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    rows = [
        (
            f"c{case}",
            NAMES[word],
            f"2026-0{1 + case % 5}-{1 + case % 28:02d}T{6 + place:02d}:0{place}:00Z",
        )
        for case in range(800)
        for place, word in enumerate(WORDS[case % 7 if case % 11 else 7])
    ]
    log = csv_log(
        folder / "log.csv", [(c, '"' + a.replace('"', '""') + '"', t) for c, a, t in rows]
    )
    (folder / "names.txt").write_text("\n".join(NAMES.values()) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)  # the same noise, and the same doubtful paths, each time
        for name, flags in KINDS.items():
            bought = ("k-anonymous-variants",)
            names = () if flags[1] in bought else ("--vocabulary", folder / "names.txt")
            said = ("--title", f"A page of a {name}", "--controller", "A hospital")
            released(folder, log, "--release_id", name, *said, *flags, *names)
        assert tracecloak(
            "report", folder / "out" / "run_id=log", "--log", folder / "log.csv",
            "--key_store", folder / "keys", "--curve", "1",
            "--output", folder / "out" / "run_id=internal" / "report.html",
        ) == 0  # fmt: skip
    return folder / "out"


Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Any, pages: Path) -> Iterator[Open]:
    """Opens the page of a release; what it logs or asks for fails the test at its end."""
    with watched(browser) as of_file:

        def open_page(name: str, **context: Any) -> Page:
            page = of_file(pages / f"run_id={name}" / "report.html", **context)
            if context.get("java_script_enabled", True) and page.locator("#map").count():
                drawn(page)
            return page

        yield open_page


def drawn(page: Page) -> None:
    """Waits for what the map was told to show."""
    page.wait_for_selector("#map:not([aria-busy]) svg")


def move(page: Page, slider: str, to: str | int) -> None:
    page.locator(slider).fill(str(to))
    drawn(page)


def n_paths(page: Page) -> int:
    return int(page.locator("#map g.edge").count())


@pytest.mark.parametrize("name", KINDS)
def test_a_page_opens_without_a_word_in_the_console(opened: Open, name: str) -> None:
    """Catches a script that fails, one that the page's own policy refuses, and any request."""
    page = opened(name)
    assert page.title() == f"A page of a {name}"
    shown = {"log": 3, "graph": 1, "tree": 1, "variants": 0, "syntactic": 1, "groups": 1,
             "indicators": 1}[name]  # fmt: skip
    assert page.locator(".chart svg").count() >= shown
    if name == "tree":
        page.wait_for_selector("#tree svg")
        assert page.locator("#tree g.node").count() >= 3
    page.set_viewport_size({"width": 375, "height": 740})  # a phone scrolls in no other direction
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_indicators_are_drawn_without_scripts(opened: Open) -> None:
    """Catches a chart that a script would have to draw, and one that makes the page scroll."""
    page = opened("indicators", java_script_enabled=False, viewport={"width": 390, "height": 900})
    panels = page.locator("figure.panel")
    assert panels.count() == 5
    for drawn in panels.locator("svg").all():
        assert drawn.is_visible()
        assert drawn.locator(".whisker").count() >= drawn.locator(".extent, .dot").count()
    assert page.locator("figure.panel details").first.locator("td").count() >= 6
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print")
    assert panels.locator(".extent").first.is_visible()  # no rule for the frame hides a shape


def test_sliders_show_more_and_less(opened: Open) -> None:
    """Which paths these are is in `test_map.py`."""
    page = opened("log")
    data = json.loads(page.locator("#data").text_content())["map"]
    move(page, "#paths", page.locator("#paths").get_attribute("max"))
    assert n_paths(page) == len(data["edges"])
    move(page, "#paths", page.locator("#paths").get_attribute("min"))
    assert n_paths(page) < len(data["edges"])
    move(page, "#activities", 3)
    assert len(ids_of(page, "node")) == 3 + 2
    of = f"3 of {len(data['nodes']) - 2}"
    assert page.locator("#n-activities").text_content() == of


def ids_of(page: Page, kind: str) -> set[int]:
    ids = page.locator(f"#map g.{kind}").evaluate_all("found => found.map((g) => g.id)")
    return {int(text.split("-")[1]) for text in ids}


def test_a_path_tells_its_numbers_and_whether_it_is_doubtful(opened: Open) -> None:
    page = opened("graph")
    data = json.loads(page.locator("#data").text_content())["map"]
    move(page, "#paths", page.locator("#paths").get_attribute("max"))
    for i in sorted(ids_of(page, "edge")):
        edge, g = data["edges"][i], page.locator(f"#edge-{i}")
        g.focus()
        told = page.locator(".tip").text_content()
        assert f"{edge['count']:,} times" in told
        assert f"95 % interval {edge['low']:,} to {edge['high']:,}" in told
        assert ("doubtful" in told) == edge["doubtful"] == (edge["low"] <= 0)
        dashes = g.locator("path").evaluate("path => getComputedStyle(path).strokeDasharray")
        assert (dashes != "none") == edge["doubtful"]
        assert g.get_attribute("aria-label") == told
    assert any(edge["doubtful"] for edge in data["edges"])


def test_a_release_and_its_log_are_shown_one_beside_the_other(opened: Open) -> None:
    page = opened("internal")
    data = json.loads(page.locator("#data").text_content())["map"]
    move(page, "#paths", page.locator("#paths").get_attribute("max"))
    shown = sorted(ids_of(page, "edge"))
    for metric, said in (
        ("count", lambda e: f"{e['count']:,}"),
        ("original", lambda e: f"{e['original']:,}"),
        ("difference", lambda e: f"{e['count'] - e['original']:+,}".replace("+0", "0")),
    ):
        page.locator(f"#metric-{metric}").click()
        drawn(page)
        for i in shown[:12]:
            label = page.locator(f"#edge-{i} text").text_content().strip()
            assert label == said(data["edges"][i])
    assert page.locator("#curve-chart svg").count() == 1
    assert page.locator("#linkage-chart svg").count() >= 1


def test_the_map_folds_to_groups_and_unfolds(opened: Open) -> None:
    """A variant is of activities: who follows one sees these again."""
    page = opened("groups")

    def names() -> set[str]:
        return set(page.locator("#map g.node text:first-of-type").all_text_contents())

    def pressed(level: str) -> str | None:
        return page.locator(f"#level-{level}").get_attribute("aria-pressed")

    assert "X-ray" in names() and "Tests" not in names()
    page.locator("#level-groups").click()
    page.locator("#map", has_text="Tests").wait_for()
    assert not names() & {"X-ray", "Leucocytes"}
    assert (pressed("activities"), pressed("groups")) == ("false", "true")
    page.locator("#variants button").first.click()
    page.locator("#map", has_text="Triage").wait_for()
    assert (pressed("activities"), pressed("groups")) == ("true", "false")
    page.locator("#members summary").click()
    assert page.locator("#members").get_by_text("Leucocytes, X-ray").is_visible()
    assert not opened("variants").locator("#levels, #level-groups, #members").count()


def test_an_activity_is_found_and_what_is_around_it_stands_out(opened: Open) -> None:
    page = opened("log")
    page.locator("#search").fill("physician")
    assert page.locator("#found").text_content() == "1 found"
    on = page.locator("#map g.node.on").evaluate_all("found => found.map((g) => g.textContent)")
    assert len(on) == 1
    assert "Physician" in on[0]
    page.locator("#search").fill("")
    assert page.locator("#map.chosen").count() == 0
    page.locator("#map g.node").nth(2).focus()
    page.keyboard.press("Enter")
    assert page.locator("#map.chosen").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("#map.chosen").count() == 0


def test_variants_are_found_shown_and_followed(opened: Open) -> None:
    page = opened("log")
    rows = json.loads(page.locator("#data").text_content())["variants"]["rows"]
    first = page.locator("#variants li").first
    assert f"{rows[0]['count']:,}" in first.text_content()
    page.locator("#variant-search").fill("x-ray")
    for steps in page.locator("#variants .steps").all_text_contents():
        assert "X-ray" in steps
    page.locator("#variant-search").fill("")
    first.locator("button").click()
    page.wait_for_selector("#map.chosen")
    assert page.locator("#map g.node.on").count() == len(set(rows[0]["codes"])) + 2


def saved(page: Page, button: str) -> tuple[str, str]:
    with page.expect_download() as download:
        page.locator(button).click()
    return download.value.suggested_filename, Path(download.value.path()).read_text("utf-8")


def test_the_map_is_saved_as_a_picture_as_dot_and_as_bpmn(opened: Open) -> None:
    page = opened("log")
    data = json.loads(page.locator("#data").text_content())["map"]
    shown = [data["edges"][i] for i in sorted(ids_of(page, "edge"))]

    name, svg = saved(page, "#save-svg")
    assert name == "log.svg"
    drawing = ET.fromstring(svg)
    texts = re.sub(r"\s+", " ", " ".join(drawing.itertext()))
    assert "To the <GP>" in texts
    assert 'Nurse & "others"' in texts
    assert "var(" not in svg

    name, dot = saved(page, "#save-dot")
    assert name == "log.dot"
    assert dot.count(" -> ") == len(shown)

    name, bpmn = saved(page, "#save-bpmn")
    assert name == "log.bpmn"
    check_bpmn(bpmn, {(e["source"], e["target"]) for e in shown}, data)


def check_bpmn(text: str, pairs: set[tuple[int, int]], data: dict[str, Any]) -> None:
    """Every reference is to something, everything is drawn, and ways are those of the map."""
    root = ET.fromstring(text)
    model = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
    drawn = "{http://www.omg.org/spec/BPMN/20100524/DI}"
    [process] = root.findall(f"{model}process")
    flows = {
        f.get("id"): (f.get("sourceRef"), f.get("targetRef"))
        for f in process.iter(f"{model}sequenceFlow")
    }
    nodes = {n.get("id"): n for n in process if n.tag != f"{model}sequenceFlow"}
    assert {end for flow in flows.values() for end in flow} <= nodes.keys()
    for key, node in nodes.items():
        into = {f.text for f in node.findall(f"{model}incoming")}
        out_of = {f.text for f in node.findall(f"{model}outgoing")}
        assert into == {f for f, (_, to) in flows.items() if to == key}
        assert out_of == {f for f, (of, _) in flows.items() if of == key}
    shapes = {s.get("bpmnElement") for s in root.iter(f"{drawn}BPMNShape")}
    edges = {e.get("bpmnElement"): len(e) for e in root.iter(f"{drawn}BPMNEdge")}
    assert shapes == nodes.keys()
    assert edges.keys() == flows.keys()
    assert min(edges.values()) >= 2
    names = {n.get("name") for n in nodes.values() if n.tag == f"{model}task"}
    inner = {i for pair in pairs for i in pair} - {data["start"], data["end"]}
    assert names == {data["nodes"][i]["name"] for i in inner}
    ways = set()
    for key, node in nodes.items():
        if "Gateway" in node.tag:
            continue
        seen, todo = set(), [to for of, to in flows.values() if of == key]
        while todo:
            to = todo.pop()
            if "Gateway" not in nodes[to].tag:
                ways.add((int(key[1:]), int(to[1:])))
            elif to not in seen:
                seen.add(to)
                todo += [after for of, after in flows.values() if of == to]
    assert ways == pairs


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("log", "light"), at_night("log", "dark"), at_night("graph", "light"), ("tree", "dark"),
        at_night("variants", "light"), ("indicators", "light"), at_night("indicators", "dark"),
    ],
)  # fmt: skip
def test_everybody_can_read_it(opened: Open, name: str, scheme: str) -> None:
    """Catches a contrast too low, a control without a name, a heading out of order."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    page = opened(name, color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    found = axe.Axe().run(
        page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
    )
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]] == []


@pytest.mark.parametrize(
    "name", [n if n in ("graph", "variants") else at_night(n) for n in (*KINDS, "internal")]
)
def test_it_prints_all_of_its_map_and_nothing_to_press_and_leaves_no_page_half_empty(
    opened: Open, name: str
) -> None:
    """Catches a map that is cut as on the screen, or that takes the page before it for itself."""
    pdfium = pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    page = opened(name, color_scheme="dark")
    if page.locator("#map").count():
        for _ in range(3):
            page.locator("#zoom-in").click()  # where it was moved to is no matter
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pressed = "button:not(.row), input, select, summary, .tip"
    assert [
        e.evaluate("e => e.outerHTML") for e in page.locator(pressed).all() if e.is_visible()
    ] == []
    with contextlib.closing(pdfium.PdfDocument(page.pdf(format="A4"))) as printed:
        first = printed[0].render(scale=0.5, grayscale=True).to_numpy()
        texts = [sheet.get_textpage().get_text_bounded() for sheet in printed]
    assert np.flatnonzero((first < 200).any(axis=1))[-1] > 0.7 * len(first)
    boxes = page.locator("#map g.node text:first-of-type").all_text_contents()
    assert any(all(box in text for box in boxes) for text in texts)


def test_without_scripts_the_numbers_are_there(opened: Open) -> None:
    page = opened("log", java_script_enabled=False)
    assert page.locator(".without-script table").is_visible()
    assert not page.locator("#paths").is_visible()
    assert "Registration → Triage" in page.locator("ol.variants.without-script").text_content()


def test_a_page_that_shares_its_scripts_draws_from_a_disk_and_from_a_server_and_says_what_is_gone(
    browser: Any, tmp_path: Path
) -> None:
    """Catches a policy or a digest by which a browser runs nothing, or runs what was changed."""
    log = csv_log(tmp_path / "log.csv", [(f"c{n}", "A", "2026-01-01T00:00:00Z") for n in range(50)])
    (tmp_path / "names.txt").write_text("A\n")
    given = ("--page", "shared", "--vocabulary", tmp_path / "names.txt")
    release = released(tmp_path, log, "--method", "private-dfg", "--epsilon", 1, *given)
    file, static = release / "report.html", tmp_path / "out" / "_static"

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Says nothing."""

    def shown(url: str) -> tuple[int, str]:
        page = browser.new_page()
        page.goto(url)
        with contextlib.suppress(playwright_api.TimeoutError):
            page.wait_for_selector("#map svg, #gone:not([hidden])")
        found = page.locator("#map svg").count(), page.locator("#gone").inner_text()
        assert "The promise" in page.locator("main").inner_text()
        page.close()
        return found

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served = f"http://127.0.0.1:{server.server_port}/out/run_id=r/report.html"
        assert shown(file.as_uri()) == (1, "") and shown(served) == (1, "")
        for script in static.iterdir():
            script.write_bytes(script.read_bytes() + b"\n")
        assert "could not be read from the folder _static" in shown(served)[1]
        shutil.rmtree(static)
        assert "Viz.js, D3, Observable Plot could not be read" in shown(file.as_uri())[1]
        server.shutdown()
