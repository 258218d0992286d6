"""How much came out of a release."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.published.manifest import Yield
from tracecloak.schemas.published.variants import most_frequent_first, variants_of_log
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.publish.statement import came_out_in_words


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
