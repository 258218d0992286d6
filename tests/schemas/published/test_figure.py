"""What a number is worth: grades and intervals of figures, indicators, and what a log holds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from tests.support.keys import randomness
from tests.support.logs import trace_batch
from tracecloak.anonymizers.graphs.noisy_graph import intervals_of_all
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_gaussian, draw_laplace
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.manifest import Yield
from tracecloak.schemas.published.step import EXPECTED_FALSE, evidence, laplace_scales
from tracecloak.schemas.published.variants import most_frequent_first, variants_of_log
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.publish.statement import came_out_in_words

N_CELLS = 783  # possible pairs of the hospital's 26 activities
N_KEYS = 2000


def decided(
    counts: np.ndarray, errors: np.ndarray, *, is_laplace: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    scales = laplace_scales(errors) if is_laplace else errors
    lows, _ = intervals_of_all(counts, scales, is_laplace=is_laplace)
    return evidence(counts, errors, lows, is_laplace=is_laplace)


@pytest.mark.parametrize("is_laplace", [False, True])
def test_noise_alone_makes_as_few_sure_cells_as_is_said(is_laplace: bool) -> None:
    """Over many keys, of all cells together; one by one, a fortieth of them would be taken."""
    draw = draw_laplace if is_laplace else draw_gaussian
    cells = cell_numbers(np.arange(N_CELLS * N_KEYS, dtype=np.int64))
    scale = 20
    noise = draw(CellStream(randomness(), "nothing but noise", cells), scale, 1)
    noise = noise.reshape(N_KEYS, N_CELLS)
    # The standard deviation of discrete Laplace noise is not quite root 2 times its scale.
    error = 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) if is_laplace else float(scale)
    errors = np.full(N_CELLS, error)
    found = [decided(row, errors, is_laplace=is_laplace) for row in noise]
    n_sure = sum(int(is_sure.sum()) for is_sure, _ in found)
    allowed = EXPECTED_FALSE * N_KEYS
    # Nearly Poisson: beyond 4 standard deviations once in some ten thousand times.
    assert allowed / 3 < n_sure < allowed + 4 * math.sqrt(allowed)
    # Half intervals are rounded up, so a little fewer than one in forty.
    n_doubtful = sum(int(is_doubtful.sum()) for _, is_doubtful in found)
    assert 0.8 < n_doubtful / (N_CELLS / 40 * N_KEYS) < 1


def test_a_count_is_sure_doubtful_or_hidden() -> None:
    # Of 783 cells of noise 10, one in 78,300 may pass each: 42.1 and half a unit for rounding.
    counts = np.array([43, 42, 21, 20, 0, -50] + [0] * (N_CELLS - 6))
    is_sure, is_doubtful = decided(counts, np.full(N_CELLS, 10.0))
    assert is_sure[:6].tolist() == [True, False, False, False, False, False]
    assert is_doubtful[:6].tolist() == [False, True, True, False, False, False]


def test_the_scale_of_laplace_noise_follows_from_its_deviation() -> None:
    """Against the variance of discrete Laplace noise, 2 a / (1 - a)^2 with a = e^(-1/b)."""
    for scale in (0.05, 0.3, 1.0, 20.0, 1e6):
        a = math.exp(-1 / scale)
        deviation = math.sqrt(2 * a) / -math.expm1(-1 / scale)
        assert laplace_scales(np.array([deviation]))[0] == pytest.approx(scale, rel=1e-9)
    assert laplace_scales(np.zeros(1)).tolist() == [0]


def test_examples() -> None:
    for value, low, high, scale, span, grade in [
        (100, 80, 120, "amount", 0, "good"),
        (100, 80, 121, "amount", 0, "rough"),
        (100, 50, 151, "amount", 0, "noise"),
        (419, 0, 419, "amount", 0, "noise"),  # half of it is half of the number, and it reaches 0
        (419, 1, 419, "amount", 0, "rough"),
        (-50, 0, 20, "amount", 0, "noise"),  # a noisy count, of which none is below 0
        (0, 0, 4, "amount", 100, "good"),  # a 0 is compared with what is declared
        (0.9, 0.85, 0.95, "share", 0, "rough"),  # 5 points, and half of what is missing to 1
        (0.9, 0.84, 0.96, "share", 0, "noise"),
        (0.03, 0.0, 0.1, "share", 0, "rough"),
        (5, 0, 10, "position", 100, "rough"),
        (5, 4, 6, "position", 0, "noise"),
    ]:
        assert figures.grade_of(value, low, high, scale, span) == grade


def naive(value: float, low: float, high: float, scale: str, span: float) -> str:
    half = (float(high) - float(low)) / 2
    if scale == "share":
        size, is_clear, span = min(value, 1 - value), low > 0 and high < 1, 1.0
    elif scale == "position" or value == 0:
        size, is_clear = 0.0, False
    else:
        size, is_clear, span = abs(value), low > 0 or high < 0, 0.0
    if half <= size / 5 or half <= span / 50:
        return "good"
    return "rough" if (is_clear and half <= size / 2) or half <= span / 20 else "noise"


SCALES = st.sampled_from(["amount", "share", "position"])


@given(SCALES, st.data())
def test_many_at_once_are_as_one_by_one_and_a_wider_interval_is_never_surer(
    scale: figures.Scale, data: st.DataObject
) -> None:
    ends = st.floats(0, 1) if scale == "share" else st.integers(-(2**62), 2**62)
    rows = data.draw(st.lists(st.lists(ends, min_size=3, max_size=3).map(sorted), min_size=1))
    span = data.draw(st.floats(0, 1e19))
    lows, values, highs = np.array(rows).T
    graded = figures.grades(values, lows, highs, scale, span).tolist()
    assert graded == [
        naive(value, low, high, scale, span)
        for value, low, high in zip(values, lows, highs, strict=True)
    ]
    wider = [
        figures.GRADES.index(figures.grade_of(value, low - 1, high + 1, scale, span))
        for value, low, high in zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)
    ]
    assert all(figures.GRADES.index(one) <= two for one, two in zip(graded, wider, strict=True))


# --- near the border of two grades ----------------------------------------------------------------


def test_the_end_on_the_side_of_a_border_is_further_off() -> None:
    """Half the width is 100, but of the 0."""
    for value, ends in [
        (701, (601, 801)),  # far from both borders, which are 600 and 240
        (650, (510, 750)),
        (599, (499, 739)),
        (499, (399, 599)),
        (300, (160, 400)),
        (239, (139, 379)),
        (130, (30, 230)),
        (0, (0, 100)),
    ]:
        columns = [np.array([n]) for n in (value, max(value - 100, 0), value + 100)]
        assert tuple(int(end[0]) for end in figures.wider_ends(*columns)) == ends
        assert [end.dtype for end in figures.wider_ends(*columns)] == [np.int64, np.int64]


@pytest.mark.parametrize(
    ("law", "half", "least_chance", "coverage", "without"),
    [(stats.norm, 1.959964, 0.05, 0.94, 0.6), (stats.laplace, math.log(20), 0.1, 0.92, 0.78)],
)
def test_intervals_hold_whatever_grade_the_noise_gives(
    law: stats.rv_continuous, half: float, least_chance: float, coverage: float, without: float
) -> None:
    """The chances are exact but for a grid of 1e-3 half widths. Control: the same ends anywhere."""
    noise = np.arange(-8, 8, 1e-3)
    chances = law.cdf((noise + 5e-4) * half) - law.cdf((noise - 5e-4) * half)
    worst = {True: 1.0, False: 1.0}
    for number in np.geomspace(0.5, 30, 200):
        values = np.maximum(number + noise, 0)
        plain = np.maximum(values - 1, 0), values + 1
        for is_wider, (lows, highs) in ((True, figures.wider_ends(values, *plain)), (False, plain)):
            graded = figures.grades(values, lows, highs)
            holds = (lows <= number) & (number <= highs)
            for grade in ("good", "rough"):
                chance = float(chances[graded == grade].sum())
                if chance >= least_chance:
                    held = float(chances[(graded == grade) & holds].sum()) / chance
                    worst[is_wider] = min(worst[is_wider], held)
    assert worst[True] >= coverage and worst[False] < without


# --- Indicators -----------------------------------------------------------------------------------


ROWS = [
    IndicatorRow("cases", None, 12.0, 8.0, 15.5, "cases", "measured"),
    IndicatorRow("share with rework", "A", 0.25, 0.2, 0.3, "share", "derived"),
    IndicatorRow("share with rework", "B → \x1b C", 0.5, 0.0, 1.0, "share", "derived"),
    IndicatorRow("mean case:x", "k1", -3.5, -20.0, 10.0, "", "derived"),
]


def test_rows_survive_every_form() -> None:
    released = ReleasedIndicators.of(ROWS)
    assert released.rows() == ROWS
    body = json.loads(json.dumps(released.to_json(), allow_nan=False))
    assert ReleasedIndicators.from_json(body).rows() == ROWS
    assert decode(encode(released)).rows() == ROWS
    assert released.to_table().num_rows == len(ROWS)
    assert ReleasedIndicators.of([]).rows() == []
    assert ReleasedIndicators.from_json({"indicators": []}).to_table().num_rows == 0


def test_what_is_none_is_an_error() -> None:
    of_rows: list[Any] = [[{}], 5, [{"indicator": "x"}]]
    for body in [{}, [], *({"indicators": rows} for rows in of_rows)]:
        with pytest.raises((KeyError, TypeError, ValueError)):
            ReleasedIndicators.from_json(body)


def test_a_release_without_grades_gets_those_of_its_units() -> None:
    body = ReleasedIndicators.of(ROWS).to_json()
    for row_of in body["indicators"]:
        del row_of["grade"]
    assert ReleasedIndicators.from_json(body).rows() == ROWS
    body["indicators"][0]["grade"] = "sure"
    with pytest.raises(ValueError, match="no such grade"):
        ReleasedIndicators.from_json(body)


def test_what_came_out_says_how_many_and_how_unclear() -> None:
    came_out = ReleasedIndicators.of(ROWS).came_out()
    assert (came_out.n_figures, came_out.unclear_share) == (4, 0.5)
    assert ReleasedIndicators.of([]).came_out().unclear_share is None


def test_numbers_are_told_apart_by_name_and_group() -> None:
    numbers = ReleasedIndicators.of(ROWS).numbers()
    assert numbers["indicator", "cases"] == 12
    assert numbers["indicator", "share with rework", "A"] == 0.25
    watched = ("indicator", "cases"), ("indicator", "cases", "other")
    assert ReleasedIndicators.of(ROWS).numbers(watched) == {watched[0]: 12.0, watched[1]: 0.0}


# --- What came out --------------------------------------------------------------------------------


def said(held: Yield, **params: int | None) -> str:
    return came_out_in_words(held, params).get("held", "")


def cut(held: Yield, declared: int | None) -> str:
    return came_out_in_words(held, {"max_trace_length": declared}).get("cut", "")


def test_a_log_is_counted_by_its_own_graph() -> None:
    traces = trace_batch({"1": "a b", "2": "a b", "3": "a", "4": "b b b"})
    found = variants_of_log(VariantHistogram.from_traces(traces), traces.vocabulary).came_out()
    assert found == Yield(4, 3, 2, None, 1.0, None, 3, 0.25)
    assert said(found) == "4 cases, 3 variants, 2 named activities came out."
    assert not found.is_empty


def test_a_graph_without_paths_from_the_start_is_not_nothing() -> None:
    """Its paths can be right to the last one: only the cases are not counted in it."""
    rows = ({"source": a, "target": b, "count": 9, "low": 0, "high": 20} for a, b in ("ab", "ba"))
    found = ReleasedGraph.from_edges(list(rows)).came_out()
    assert found.lacks_starts and not found.is_empty
    is_clear = replace(found, unclear_share=0.0)
    part = "2 named activities, 2 edges came out. No path from the start"
    assert said(is_clear).startswith(part) and part in said(found)
    assert "0 cases" not in said(found) and "Nothing of it is of use" not in said(found)


def test_a_tree_that_was_not_found_holds_nothing() -> None:
    def tree(is_found: bool) -> Yield:
        return ReleasedTree(pa.array(["a", "b"]), "X( 'a', 'b' )", is_found, None).came_out()

    assert tree(True).n_activities == 2
    assert tree(False).is_empty


def test_parts_of_a_release_complete_each_other() -> None:
    log, share = Yield(n_cases=5, n_variants=1, n_activities=1), Yield(n_cases=9, case_share=0.125)
    both = log.beside(share)
    assert both == Yield(5, 1, 1, None, None, 0.125)
    assert "have 12% of the noisy number of cases" in said(both)
    assert both.to_json() == {
        "n_cases": 5, "n_variants": 1, "n_activities": 1, "n_edges": None, "named_share": None,
        "case_share": 0.125, "unclear_share": None,
    }  # fmt: skip
    assert Yield(**both.to_json()) == both


def test_a_length_that_many_cases_have_is_said_to_cut() -> None:
    """From released numbers alone; one case in fifty or fewer may just be that long."""
    names = pa.array(["a"])

    def lengths(**cases: int) -> Yield:
        counts = np.array(list(cases.values()), np.int64)
        codes = np.zeros(3 * len(counts), np.int32)
        offsets = np.array([0, 1, 4] if len(counts) == 2 else [0, 1])
        return most_frequent_first(names, offsets, codes, counts).came_out()

    many, few = lengths(one=97, four=3), lengths(one=98, four=2)
    assert (many.max_events, many.longest_share) == (3, 0.03)
    assert "3% of the released cases have 3 events" in cut(many, 3)
    assert "leave it out" in cut(many, 3)
    assert cut(few, 3) == cut(many, 4) == cut(many, None) == ""
    assert cut(lengths(one=5), 2) == cut(Yield(), 1) == ""


def test_it_says_that_not_all_cases_of_an_individual_counted() -> None:
    """Or whoever reads how many cases there are takes them for all."""
    some = Yield(n_cases=5)
    assert "at most 3 cases counted" in said(some, max_cases_per_individual=3)
    assert said(some, max_cases_per_individual=None) == "5 cases came out."


def test_nothing_is_called_nothing() -> None:
    for nothing in [Yield(n_cases=0, n_variants=0), Yield(3, 1, 0), Yield(0, None, 0, 0)]:
        assert nothing.is_empty
        assert "Nothing of it is of use" in said(nothing)


@given(st.floats(0, 1), st.floats(0, 1))
@example(0.71496, 0.99496)  # 71 % and all, by four decimals 72 % and nearly all
def test_a_manifest_says_of_its_numbers_what_was_said_when_it_was_written(
    named: float, cases: float
) -> None:
    made = Yield(n_cases=9, n_activities=3, named_share=named, case_share=cases)
    read = Yield(**json.loads(json.dumps(made.to_json())))
    assert (read, said(read)) == (made, said(made))
