"""Released sums survive their files and the wire."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.published.figures import Measure, ReleasedMeasures

NUMBERS = st.floats(-1e12, 1e12)
ROWS = st.lists(
    st.builds(Measure, st.text(), st.lists(st.text(), max_size=3).map(tuple), NUMBERS, NUMBERS)
)


@given(ROWS)
def test_sums_come_back_from_json_and_from_the_wire(rows: list[Measure]) -> None:
    measures = ReleasedMeasures.of(rows)
    assert measures.rows() == rows
    body = json.loads(json.dumps(measures.to_json()))
    assert ReleasedMeasures.from_json(body).rows() == rows
    assert decode(encode(measures)).rows() == rows
    assert measures.to_table().to_pylist() == body["measures"]


@given(ROWS, ROWS)
def test_joined_sums_are_one_after_the_other(first: list[Measure], second: list[Measure]) -> None:
    joined = ReleasedMeasures.joined(map(ReleasedMeasures.of, (first, second)))
    assert joined.rows() == [*first, *second]
    kinds = {row.what for row in joined.rows()}
    assert sum(len(joined.rows(kind)) for kind in kinds) == len(first) + len(second)
