"""Activity names and their codes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.vocabulary import ActivityVocabulary

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


def test_codes_are_ranks_in_the_order_of_the_bytes():
    words = ActivityVocabulary.of(["b", "a", "Z", "é", "\U0001f600", "\uffff", "", "aa", "a"])
    assert words.names.to_pylist() == ["", "Z", "a", "aa", "b", "é", "\uffff", "\U0001f600"]
    assert len(words) == words.weight == 8
    codes = words.codes(pa.array(["é", "", "\U0001f600", "é"]))
    assert codes.tolist() == [5, 0, 7, 5] and codes.dtype == "int32"


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


def test_start_and_end_come_after_the_names():
    words = ActivityVocabulary.of("BA")
    assert (words.start, words.end) == (2, 3)
    assert words.labels == ["A", "B", "▶", "■"]
    assert words.labels[words.start] == "▶" and words.labels[words.end] == "■"
    assert ActivityVocabulary.of([]).labels == ["▶", "■"]


def test_vocabularies_are_equal_if_their_names_are():
    assert ActivityVocabulary.of("AB") == ActivityVocabulary.of(["B", "A"])
    assert ActivityVocabulary.of("AB") != ActivityVocabulary.of("ABC")
    assert ActivityVocabulary.of("A") != "A"


def test_an_unknown_name_is_refused_but_not_told():
    with pytest.raises(ValueError, match="an activity is not in the vocabulary") as caught:
        ActivityVocabulary.of("AB").codes(pa.array(["A", "canary"]))
    assert "canary" not in str(caught.value)


def test_names_of_a_dictionary_are_its_values():
    column = pa.array(["B", "A", "B"]).dictionary_encode()
    assert ActivityVocabulary.of(column).names.to_pylist() == ["A", "B"]
