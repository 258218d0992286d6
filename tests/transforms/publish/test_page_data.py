"""What a page shows of a log: counts that are those of the files, cut where there is too much."""

import itertools
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tests.support.logs import trace_batch
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Figure, ReleasedFigures
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedGroups
from tracecloak.schemas.published.variants import variants_of_log
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.pages import page as page_module
from tracecloak.transforms.publish import figures_data as shown_module
from tracecloak.transforms.publish.figures_data import (
    figures_data,
    folded_map,
    map_data,
    times_data,
    variants_data,
)

HOUR, DAY = 3_600_000_000, 86_400_000_000


def log(*cases: tuple[str, int]) -> TraceBatch:
    """Cases of one-letter activities, an hour apart, from a day on."""
    return trace_batch(
        [
            (f"c{i}", name, day * DAY + place * HOUR)
            for i, (word, day) in enumerate(cases)
            for place, name in enumerate(word)
        ]
    )


def graph(*rows: tuple[str, str, int, int, int]) -> ReleasedGraph:
    keys = ("source", "target", "count", "low", "high")
    return ReleasedGraph.from_edges([dict(zip(keys, row, strict=True)) for row in rows])


def test_rare_paths_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_module, "MAX_PATHS", 2)
    shown = map_data(
        graph(("▶", "A", 9, 9, 9), ("A", "B", 1, 1, 1), ("A", "■", 8, 8, 8), ("B", "■", 1, 1, 1)),
        {},
    )
    assert [edge["count"] for edge in shown["edges"]] == [9, 8]
    assert (shown["n_left_out"], shown["n_activities_left_out"]) == (2, 1)
    assert sorted(node["name"] for node in shown["nodes"]) == sorted("▶A■")


def test_names_in_a_page_are_plain() -> None:
    """Catches a name that turns the direction of the text after it."""
    shown = map_data(graph(("▶", "A\u202eB\nC", 2, 2, 2), ("A\u202eB\nC", "■", 2, 2, 2)), {})
    assert {node["name"] for node in shown["nodes"]} == {"▶", "A\ufffdB C", "■"}


def test_long_and_rare_variants_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_module, "MAX_VARIANTS", 1)
    monkeypatch.setattr(shown_module, "_MAX_EVENTS", 3)
    traces = log(("ABABAB", 0), ("ABABAB", 0), ("B", 0))
    variants = variants_of_log(VariantHistogram.from_traces(traces), traces.vocabulary)
    [row] = variants_data(variants, [])["rows"]
    assert (row["codes"], row["n_events"], row["count"]) == ([0, 1, 0], 6, 2)


def test_beginnings_are_summed_by_a_fitting_period() -> None:
    for days, period, names in [
        ([0, 1, 61], "day", ["1970-01-01", "1970-01-02", "1970-03-03"]),
        ([0, 4, 5, 100], "week", ["1970-W01", "1970-W02", "1970-W15"]),
        ([0, 30, 31, 500], "month", ["1970-01", "1970-02", "1971-05"]),
        ([0, 364, 365, 5000], "year", ["1970", "1971", "1983"]),
    ]:
        shown = times_data(LogTimes.from_traces(log(*(("A", day) for day in days))))
        assert shown["period"] == period
        assert [row["name"] for row in shown["starts"]] == names
        assert sum(row["count"] for row in shown["starts"]) == len(days)
        for row in shown["starts"]:
            held = [day for day in days if row["first_day"] <= day < row["last_day"]]
            assert len(held) == row["count"]


def test_days_beyond_the_calendar_are_shown_as_numbers() -> None:
    shown = times_data(LogTimes.from_traces(log(("A", 4_000_000), ("A", 0))))
    assert [row["name"] for row in shown["starts"]] == ["1970", "day 4000000 of 1970"]


def test_hours_of_a_log_of_dates_are_not_shown() -> None:
    assert times_data(LogTimes.from_traces(log(("A", 3), ("A", 9))))["week"] is None
    week = times_data(LogTimes.from_traces(log(("AB", 4))))["week"]
    assert week[:3] == [1, 1, 0]
    assert sum(week) == 2


def test_durations_of_cases_are_in_few_bars_that_hold_all() -> None:
    rng = np.random.default_rng(1)
    lasted = np.round(np.exp(rng.uniform(-2, 19, 500)) * 1e6).astype(np.int64).tolist()
    traces = trace_batch([(f"c{i}", "A", t) for i, s in enumerate(lasted) for t in (0, s)])
    spans = times_data(LogTimes.from_traces(traces))["spans"]
    assert len(spans) <= shown_module._MAX_BARS + 1
    assert all(a["to_s"] <= b["from_s"] for a, b in itertools.pairwise(spans))
    for bar in spans:
        n_in = sum(bar["from_s"] <= s / 1e6 < bar["to_s"] for s in lasted)
        assert abs(n_in - bar["count"]) <= 1  # a border is shown to six digits


def test_a_folded_map_has_groups_for_nodes_and_says_what_is_in_each() -> None:
    names = pa.array(["A", "C"])
    graph = ReleasedGraph(
        names,
        np.array([0, 0, 1, 2], np.int32),
        np.array([0, 1, 3, 0], np.int32),
        *(np.array(column) for column in ([4, 30, 30, 30], [0, 25, 26, 20], [9, 36, 35, 33])),
    )
    groups = ReleasedGroups(pa.array(["A1", "A2", "C"]), pa.array(["A", "A", "C"]), graph)
    folded = folded_map(groups)
    assert folded["members"] == {"A": ["A1", "A2"]}  # C is a group by itself
    shown = folded["map"]
    names_of = [node["name"] for node in shown["nodes"]]
    paths = {
        (names_of[edge["source"]], names_of[edge["target"]]): (edge["count"], edge["grade"])
        for edge in shown["edges"]
    }
    assert paths["A", "C"] == (30, "good") and paths["A", "A"] == (4, "noise")
    assert not any("grade" in node for node in shown["nodes"])


# --- How far to trust a log's numbers -------------------------------------------------------------


def test_a_page_says_that_paths_are_modelled_where_none_was_counted() -> None:
    """As at delta 0, where cases are drawn from counts of how they begin."""
    cases = Figure("cases", (), 100, 90, 110, "measured")
    activity = Figure("activity", ("A",), 100, 90, 110, "derived")
    form = page_module._TEMPLATES.get_template("figures.html.j2")
    for rows, is_modelled in (([cases], True), ([cases, activity], False)):
        figures = figures_data(ReleasedFigures.of(rows))
        shown = form.render(shown={"figures": figures}, manifest=SimpleNamespace(params={}))
        limited = SimpleNamespace(params={"max_cases_per_individual": 3})
        assert "at most 3 cases" in form.render(shown={"figures": figures}, manifest=limited)
        assert "individual" not in shown
        assert ("is modelled" in shown) == is_modelled
        assert ("count all paths" in shown) != is_modelled
        assert "100 (90\u2013110)" in shown
