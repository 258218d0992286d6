"""The board in a real browser: what is chosen is drawn, the best is right, and everybody reads it.

They need Chromium, and say that they were skipped where it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.hooks import results
from tests.support.pages import watched
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.report import Results, board

Page = Any
Open = Callable[..., Page]
RECORDED = results.comparison()
# The selects in their order.
LOG, KIND, EPSILON, MEASURE, METHOD = range(5)


def with_disclosure() -> Results:
    """The recorded results as if some could be singled out, the more the larger the epsilon."""
    logs = []
    for log in RECORDED.logs[:3]:
        releases = []
        for number, one in enumerate(log.releases):
            share = float(one.epsilon) / 10 + number / 1000
            of_kind = {
                "variants": {"singled_out": (share, share, share)},
                "log": {"singled_out": None, "singled_out_in_time": (share, 0.0, 1.0)},
                "graph": {},
            }[one.kind]
            releases.append(one.model_copy(update={"figures": {**one.figures, **of_kind}}))
        # One method had no time at an epsilon, one had little, and one refused.
        releases[0] = releases[0].model_copy(update={"n_releases": 2})
        releases[5] = releases[5].model_copy(
            update={"figures": {}, "n_releases": 0, "refused": "epsilon is too small"}
        )
        of_log = {**log.of_log, "singled_out": 0.25}
        changes = {"releases": (*releases[:10], *releases[11:]), "of_log": of_log}
        logs.append(log.model_copy(update=changes))
    return RECORDED.model_copy(update={"logs": tuple(logs)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("boards")
    empty = RECORDED.logs[0].model_copy(update={"releases": (), "lines": ()})
    boards = {
        "recorded": RECORDED,
        "disclosed": with_disclosure(),
        "empty": RECORDED.model_copy(update={"logs": (empty,), "recorded": ()}),
    }
    for name, compared in boards.items():
        (place / f"{name}.html").write_bytes(board(compared))
    return place


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Open]:
    """Opens a board; what it logs or asks for fails the test at its end."""
    with watched(browser) as of_file:

        def open_page(name: str, width: int = 1280, **context: Any) -> Page:
            viewport = {"width": width, "height": 900}
            return of_file(folder / f"{name}.html", viewport=viewport, **context)

        yield open_page


def choose(page: Page, which: int, value: str) -> None:
    page.locator("#choice select").nth(which).select_option(value)


def rows_of(page: Page) -> dict[str, list[tuple[str, bool]]]:
    """By method the cells of the table of figures, and whether each is bold."""
    rows = page.eval_on_selector_all(
        "#figures tbody tr",
        "all => all.map(row => [...row.cells].map(td => [td.textContent, !!td.firstElementChild]))",
    )
    return {cells[0][0]: [tuple(cell) for cell in cells[2:]] for cells in rows}


def methods_of(log: str, kind: str, epsilon: str, measure: str) -> dict[str, float]:
    """Medians that are known, the best first; less is better."""
    [of_log] = [one for one in RECORDED.logs if one.name == log]
    medians = {
        one.method: one.figures[measure]
        for one in of_log.releases
        if (one.kind, one.epsilon) == (kind, epsilon)
    }
    known = {name: quartiles[0] for name, quartiles in medians.items() if quartiles}
    return dict(sorted(known.items(), key=lambda one: one[1]))


def test_what_is_chosen_is_drawn_and_the_best_is_bold(opened: Open) -> None:
    page = opened("recorded")
    assert page.locator("#choice select").nth(EPSILON).input_value() == "1"
    choose(page, LOG, "coselog_receipt")
    choose(page, EPSILON, "2")
    choose(page, MEASURE, "edge_relative_error")
    assert "At epsilon 2 a guess of 50 %" in page.locator("#chosen").text_content()
    assert "becomes 88 % at most" in page.locator("#chosen").text_content()
    expected = methods_of("coselog_receipt", "variants", "2", "edge_relative_error")
    rows = rows_of(page)
    assert list(rows)[: len(expected)] == list(expected)
    column = [
        text
        for text in page.locator("#figures thead th").all_text_contents()
        if text not in ("method", "delta")
    ].index("DFG error")
    first, *others = expected
    assert rows[first][column][1] and not any(rows[name][column][1] for name in others)
    assert rows[first][column][0].startswith(f"{expected[first]:.3f}")
    drawn = page.locator("#by-method svg text").all_text_contents()
    assert {f"{value:.3f}" for value in expected.values()} <= set(drawn)
    [best] = [
        row.locator("td").all_text_contents()
        for row in page.locator("#best tbody tr").all()
        if row.locator("td").first.text_content() == "coselog_receipt"
    ]
    assert best[1 + RECORDED.epsilons.index("2")] == f"{first} {expected[first]:.3f}"
    assert "Not measured in this run" in page.locator("#unmeasured").text_content()


def test_what_is_recorded_stands_apart_and_is_never_the_best(opened: Open) -> None:
    page = opened("recorded")
    choose(page, KIND, "log")
    rows = rows_of(page)
    assert list(rows)[:2] == ["private-log", "palsyn (recorded)"]
    assert not any(is_bold for _, is_bold in rows["palsyn (recorded)"])
    assert "made on 2026-11-24" in page.locator("#figures").text_content()


def test_disclosure_stands_beside_utility_in_the_same_order(opened: Open) -> None:
    page = opened("disclosed")
    methods = [name for name in rows_of(page) if name in METHODS]
    for figure in ("#by-method", "#disclosed"):
        texts = page.locator(f"{figure} svg text").all_text_contents()
        assert [text for text in texts if text in METHODS] == methods
    said = page.locator("#disclosed").text_content()
    assert "in the same order; less is better; the log itself has 0.250" in said
    assert page.locator("#disclosed-in-time").is_hidden()
    choose(page, KIND, "log")
    assert "nothing was measured" in page.locator("#disclosed").text_content()
    assert page.locator("#disclosed-in-time svg").is_visible()
    choose(page, KIND, "graph")
    assert "A graph has no cases" in page.locator("#disclosed").text_content()
    assert page.locator("#unmeasured").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(opened: Open, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    page = opened("disclosed", color_scheme=scheme)
    for kind in ("variants", "log", "graph"):
        choose(page, KIND, kind)
        found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]] == []
