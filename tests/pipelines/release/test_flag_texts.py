"""Values as texts of flags and back, and as lines to read."""

from __future__ import annotations

from typing import Any

import pydantic
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiers import each_row
from tracecloak.pipelines.configuration.flags import (
    flag_text,
    given_value,
    shown,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


class Some(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    names: tuple[str, ...] | None = None
    """Names."""
    parts: dict[str, Any] = {"a": 1}
    """Parts."""
    size: int
    """Size."""
    pair: list[int] = [1, 2]
    """Pair."""
    vocabulary: tuple[str, ...] = ()
    """File."""


FIELDS = Some.model_fields


@given(st.lists(st.text()))
def test_a_list_of_texts_comes_back_from_its_flag(names: list[str]) -> None:
    assert given_value("names", flag_text(names), FIELDS["names"]) == names


@given(st.dictionaries(st.text(), JSON))
def test_a_mapping_comes_back_from_its_flag(parts: dict[str, Any]) -> None:
    assert given_value("parts", flag_text(parts), FIELDS["parts"]) == parts


@each_row(
    ("value", "lines"),
    [
        (None, ["a = not set"]),
        ([], ["a = none"]),
        (True, ["a = true"]),
        (["x", "y, z", 3], ['a = x, "y, z", 3']),
        ({"b": {"c": [1, 2]}}, ["a:", "  b:", "    c = 1, 2"]),
        ([["x", "y"], ["z"]], ["a:", "  - x, y", "  - z"]),
    ],
)
def test_values_as_lines_to_read(value: Any, lines: list[str]) -> None:
    assert list(shown("a", value)) == lines
