"""The page of a release: made for every kind of release, equal to its files, and of no secrets."""

import dataclasses
import json
from typing import Any

from tests.golden.releases import data_of
from tracecloak.schemas.published.manifest import (
    Guarantee,
    Operation,
    OutputFile,
    ReleaseManifest,
    Yield,
)
from tracecloak.transforms.publish.report import report_html


def told(manifest_of_it: ReleaseManifest, n_files: int = 0) -> str:
    files = [OutputFile(f"file-{i}.json", "0" * 64, 10) for i in range(n_files)]
    return report_html(manifest_of_it, files, (), None).decode()


def made_up(**changes: Any) -> ReleaseManifest:
    guarantee = Guarantee("rigorous", "case", "add_remove", 1.0, 1e-6, "claimed", "why", ("not",))
    base = ReleaseManifest(
        "r", "private-dfg", 1, {}, guarantee, (Operation("addition", "case", "case"),), (), "", "",
        True, False, None,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def test_guesses_stay_guesses_whatever_epsilon_is() -> None:
    for epsilon in [1e-9, 1000.0, 1e6]:
        guarantee = Guarantee("rigorous", "case", "add_remove", epsilon, 0.0, "", "")
        curve = json.loads(data_of(told(made_up(guarantee=guarantee)).encode()))["guess"]
        assert (curve[0]["posterior"], curve[-1]["posterior"]) == (0, 1)
        assert all(point["prior"] <= point["posterior"] <= 1 for point in curve)


def test_what_all_windows_cost_together_stands_below_the_headline() -> None:
    text = told(made_up(window={"sentence": "A case counts in one window <only>."}))
    box = text.split('id="promise-in-short"')[1].split('<h2 id="promise"')[0]
    assert box.index("73.2\u00a0%") < box.index("A case counts in one window &lt;only&gt;.")


def test_a_release_without_epsilon_shows_no_guesses() -> None:
    syntactic = Guarantee("syntactic", "case", "add_remove", None, None, "k is 3.", "")
    published = Guarantee("published", "case", "add_remove", None, None, "epsilon 1.", "No.")
    for guarantee in (syntactic, published):
        text = told(made_up(guarantee=guarantee))
        assert "Is an epsilon" not in text
        assert "becomes at most" not in text
        assert json.loads(data_of(text.encode()))["guess"] is None
        assert "promise weak" in text


def test_cases_that_a_graph_does_not_count_are_on_no_card() -> None:
    """A graph without a path from the start has edges, and would show 0 cases beside them."""
    assert "<dt>cases</dt><dd>9</dd>" in told(made_up(came_out=Yield(9, None, 2, 3)))
    text = told(made_up(came_out=Yield(0, None, 2, 3)))
    assert "<dt>cases</dt>" not in text and "<dt>paths</dt><dd>3</dd>" in text


def test_what_was_declared_is_escaped_and_what_was_not_is_left_out() -> None:
    text = told(made_up(about={"title": "<b>bold</b>", "purpose": '"><script>'}))
    assert "&lt;b&gt;bold" in text
    assert '"><script>' not in text
    assert "Whose data" not in text
    assert "declared this" in text and "declared this" not in told(made_up())
