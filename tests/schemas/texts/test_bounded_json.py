"""JSON within bounds, and read in one way only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.texts.bounded_json import bounded_json


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "500 deep"),
        ("[" * 501 + "]" * 501, "500 deep"),
        ('{"a":' * 501 + "1" + "}" * 501, "500 deep"),
        ("9" * 2_000_000, "more than 400 digits"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key given twice: c"),
        ("[NaN]", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ("[1", "Expecting"),
        (b'"\xff"', "utf-8"),
    ],
)
def test_what_readers_differ_in_or_fail_on_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        bounded_json(text)
    assert len(str(raised.value)) < 1000


def test_what_is_as_deep_as_it_may_be_is_read() -> None:
    assert json.dumps(bounded_json("[" * 500 + "]" * 500)) == "[" * 500 + "]" * 500


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_all_else_is_read_as_json(value: object) -> None:
    if "Infinity" not in (text := json.dumps(value)):
        assert bounded_json(text) == bounded_json(text.encode()) == value
