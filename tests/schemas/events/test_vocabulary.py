"""Activity names and their codes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.events.events import ActivityVocabulary

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@settings(deadline=None)
@given(st.lists(names), st.randoms(use_true_random=False))
def test_the_order_and_number_of_mentions_do_not_matter(mentioned, random):
    expected = sorted(set(mentioned), key=str.encode)
    words = ActivityVocabulary.of(mentioned)
    assert words.names.to_pylist() == expected
    again = mentioned * 2
    random.shuffle(again)
    other = ActivityVocabulary.of(pa.array(again, pa.large_string()))
    assert other == words and hash(other) == hash(words)
    assert other.names.type == pa.string()
    assert words.codes(pa.array(expected, pa.string())).tolist() == list(range(len(expected)))


def test_an_unknown_name_is_refused_but_not_told():
    with pytest.raises(ValueError, match="an activity is not in the vocabulary") as caught:
        ActivityVocabulary.of("AB").codes(pa.array(["A", "canary"]))
    assert "canary" not in str(caught.value)
