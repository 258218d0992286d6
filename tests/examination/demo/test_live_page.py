"""The live page: it shows what was published, whatever it is called, and reaches nothing else."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tracecloak.anonymizers.streams.dfg_steps import with_intervals
from tracecloak.examination.demo.live_page import LivePage, PublishedSteps, map_of, page, state
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.pages.page import policy_of, rendered
from tracecloak.transforms.stream.step_sinks import step_path

HARMFUL = "</svg><script>alert(1)</script>\u202e&amp;\"'"


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
        "release_id": "hospital", "epoch": "1", "product": "dfg", "view": "total", "start_us": 0,
        "end_us": (step + 1) * 10_000_000, "n_steps_left": 9 - step, "epsilon": "0.5",
        "delta": "1e-6", **others,
    }  # fmt: skip
    counts, errors = zip(*cells.values(), strict=True) if cells else ((), ())
    made = StepRelease.of(
        list(cells), np.array(counts, np.int64), np.array(errors), step=step, **values
    )
    return with_intervals(made)


def write(output: Path, *releases: StepRelease) -> None:
    for one in releases:
        path = Path(f"{step_path(str(output), one)}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.to_json())


# --- Pictures ---------------------------------------------------------------------------------


def test_the_map_has_what_is_sure_and_what_is_doubtful_between_activities_that_are_sure() -> None:
    cells = {
        ("▶", "Triage"): (100, 3.0),
        ("Triage", "Surgery"): (60, 2.0),
        ("Surgery", "■"): (62, 2.0),
        ("▶", "Surgery"): (9, 4.0),  # beyond 1.96 errors, and not beyond 2.5
        ("Surgery", "Surgery"): (4, 2.5),
        ("Surgery", "Triage"): (-3, 2.0),
        ("Rare", "Triage"): (9, 4.0),  # of Rare there is nothing else
    }
    shown, most_hidden = map_of(release(cells=cells))
    assert shown is not None
    names = [node["name"] for node in shown["nodes"]]
    assert set(names) == {"▶", "■", "Surgery", "Triage"}
    edges = {(names[e["source"]], names[e["target"]]): e for e in shown["edges"]}
    assert {pair: (e["count"], e["doubtful"]) for pair, e in edges.items()} == {
        ("▶", "Triage"): (100, False),
        ("Triage", "Surgery"): (60, False),
        ("Surgery", "■"): (62, False),
        ("▶", "Surgery"): (9, True),
    }
    assert (edges["▶", "Triage"]["low"], edges["▶", "Triage"]["high"]) == (94, 106)
    assert (edges["▶", "Triage"]["grade"], edges["▶", "Surgery"]["grade"]) == ("good", "noise")
    # The largest that is not drawn is the 9 of Rare; 2.24 errors of 4 are once in 4 x 20 times.
    assert most_hidden == 18
    # 0 with a noise of 1: more than 1.64 of it above the least that a map would show.
    assert map_of(release(cells={("▶", "■"): (0, 1.0)})) == (None, 3)


def test_a_name_stays_a_name_on_the_map() -> None:
    shown, _ = map_of(release(cells={("▶", HARMFUL): (50, 1.0), (HARMFUL, "■"): (50, 1.0)}))
    assert shown is not None
    names = {node["name"] for node in shown["nodes"]}
    assert names == {"▶", "■", HARMFUL.replace("\u202e", "\ufffd")}


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


def test_names_are_of_folders(tmp_path: Path) -> None:
    for names in (("../x", "1"), ("a/b", "1"), ("hospital", "")):
        with pytest.raises(UsageError, match="must be the name of a folder"):
            PublishedSteps(tmp_path, *names)


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
    assert shown["headline"].startswith("All cases that have closed so far: 1970-01-01 00:00:00")
    # The chart of totals is there whatever is shown, and is the course of the view of totals.
    assert state(views)["totals"] == state(views, "window")["totals"] != []
    assert state(views)["course"] == [] != state(views, "window")["course"]
    assert state({"sliding": [release(4, view="sliding")]})["totals"] == []
    assert state(views)["version"] != state({"total": [release(3)]})["version"]
    assert "budget is spent" in state({"total": [release(9)]})["notice"]
    assert state({}) == {"version": "", "notice": "Waiting for the first step."}


# --- The page ---------------------------------------------------------------------------------


def test_the_page_may_ask_its_own_server_and_no_other() -> None:
    text, policy = rendered(page(HARMFUL, "show again")).decode(), policy_of(page(HARMFUL))
    assert policy.endswith("; connect-src 'self'")
    assert "default-src 'none'" in policy
    assert "<script>alert" not in text
    assert "show again" in text


def test_a_browser_shows_what_the_server_says(browser: Any, tmp_path: Path) -> None:
    wrong: list[str] = []
    write(tmp_path, release(3), release(4, view="window"))
    with LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital") as made:
        shown = browser.new_page()
        shown.on("pageerror", lambda error: wrong.append(str(error)))
        shown.on("console", lambda said: wrong.append(said.text))
        shown.goto(made.address)
        shown.wait_for_selector("#map svg")
        assert "step 3" in shown.locator("#step").text_content()
        counts = set(shown.locator("#map g.edge text").all_text_contents())
        assert {" 100 ", " 60 "} <= counts <= {" 100 ", " 60 ", " 43 ", " 62 "}
        assert shown.locator("#totals svg").count() == 1
        assert not shown.locator("#course-section").is_visible()
        write(tmp_path, release(4, {("▶", "A"): (500, 2.0), ("A", "■"): (500, 2.0)}))
        shown.wait_for_selector("#step:has-text('step 4')")
        shown.wait_for_selector("#map g.edge:has-text('500')")
        assert shown.locator("#map g.edge").count() == 2
        shown.locator("#views button", has_text="window").click()
        shown.wait_for_selector("#course svg")
        assert shown.locator("#views button[aria-pressed=true]").text_content() == "window"
        assert wrong == []
        made.__exit__()
        shown.wait_for_selector("#notice:has-text('does not answer')")
        shown.close()


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
    assert body == rendered(page("hospital"))
    assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
    assert policy_of(page("hospital")) in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert json.loads(ask(served, "/state.json")[2])["version"] == ""
    write(output, release(3), release(4, view="window"))
    first = json.loads(ask(served, "/state.json?view=total")[2])
    assert first["step_text"] == "hospital, epoch 1, step 3"
    write(output, release(4))
    assert json.loads(ask(served, "/state.json")[2])["step_text"] == "hospital, epoch 1, step 4"
    window = json.loads(ask(served, "/state.json?view=window")[2])
    assert window["view"] == "window"


def test_a_page_of_another_name_cannot_read_it(live: tuple[LivePage, Path]) -> None:
    """A name that its owner lets resolve to 127.0.0.1 (DNS rebinding)."""
    status, _, body = ask(live[0], "/state.json", host="127.0.0.1.example:80")
    assert status == 421 and b"version" not in body


def test_it_listens_on_this_machine_alone_and_stops(tmp_path: Path) -> None:
    with LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital") as made:
        assert made.server_address[0] == "127.0.0.1"
        port = made.server_address[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            LivePage(PublishedSteps(tmp_path, "hospital", "1"), "hospital", port)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    write(tmp_path, release(4))
    module = "tracecloak.examination.demo.live_page"
    command = [sys.executable, "-m", module, str(tmp_path), "hospital", "1"]
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
            shown = json.load(answer)
        assert shown["step_text"] == "hospital, epoch 1, step 4"
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        server.stdout.close()
