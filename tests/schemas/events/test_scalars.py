"""The text of a scalar: worked examples, a naive reference, and that each is decided alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.events.source_column import (
    fractions,
    text_of,
    texts,
    texts_of_scalars,
)

SCALARS = st.none() | st.text() | st.booleans() | st.integers() | st.floats()


@given(st.lists(SCALARS, max_size=12), st.integers(0, 12), SCALARS)
def test_no_value_changes_the_text_of_another(values: list[Any], place: int, intruder: Any) -> None:
    def each(given: list[Any]) -> list[tuple[str | None, bool]]:
        text, marks = texts_of_scalars(given)
        assert text.type == pa.string()
        return list(zip(text.to_pylist(), marks.tolist(), strict=True))

    alone = [each([value])[0] for value in values]
    assert each(values) == alone
    assert each([*values[:place], intruder, *values[place:]]) == [
        *alone[:place], *each([intruder]), *alone[place:]
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[1], {}, b"x", 1j])
def test_what_is_no_scalar_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        texts_of_scalars(["x", value])
    with pytest.raises(TypeError):
        text_of(value)


def test_a_float_names_somebody_as_far_as_its_width_tells_whole_numbers_apart() -> None:
    for kind, largest in ((pa.float64(), 2**53), (pa.float32(), 2**24), (pa.float16(), 2**11)):
        numbers = np.array([largest - 1, largest, -largest, largest + 2], kind.to_pandas_dtype())
        column = pa.array(numbers, kind)
        assert fractions(column).tolist() == [False, False, False, True], kind
        assert texts(column).to_pylist() == [str(int(number)) for number in numbers], kind
