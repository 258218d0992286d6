"""Released indicators as rows, as a table and as JSON, and which of them are of use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators

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
    for row in body["indicators"]:
        del row["grade"]
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
