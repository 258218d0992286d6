"""Activity names and their codes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.pipelines.configuration.flags import read_vocabulary
from tracecloak.pipelines.planning.names import misspellings, normalized_id, spellings
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ESCAPES_REMARK, ActivityVocabulary

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


# --- public vocabularies --------------------------------------------------------------------------


def test_a_file_has_one_name_a_line():
    files = {
        b"b\na\n": ("b", "a"), b"a": ("a",), b"\xef\xbb\xbfa\r\nb\r\n": ("a", "b"),
        b"\n \t\na\n\n\nb\n\n": ("a", "b"), b" a \n\ta b\n": (" a ", "\ta b"),
        "é\n\u2028x\x0by\n".encode(): ("é", "\u2028x\x0by"),  # no line ends of ours
        b"a\na ": ("a", "a "), b"# remark\n# another\n\n# a name\nb\n": ("# a name", "b"),
        b"\n# a name\n": ("# a name",), b"a\n#b\n": ("a", "#b"),
    }  # fmt: skip
    assert {data: read_vocabulary(data) for data in files} == files


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"canary\n\nb\ncanary\n", "line 4 .* repeats line 1"),
        (b"canary\r\ncanary", "line 2 .* repeats line 1"),
        (b"a\n__other__\n", "line 2 .* is __other__"),
        (b"a\nb\n\xffcanary", "line 3 .* not UTF-8"),
        (b"", "no name"),
        (b"\xef\xbb\xbf\n  \r\n", "no name"),
        *((f"{ESCAPES_REMARK}\n\n{line}\n".encode(), "line 3 of the activity")
          for line in ("A\\B", "\\", "\\ud800", "\\x1B")),
    ],
)  # fmt: skip
def test_a_file_that_is_no_vocabulary_is_refused_with_its_line(data, message):
    with pytest.raises(UsageError, match=message) as caught:
        read_vocabulary(data)
    assert "canary" not in str(caught.value)


def test_escapes_are_read_where_a_remark_says_so_and_nowhere_else():
    lines = "A\\\\B\n\\x1b[2J\n\\u202egnihton\nplain\n"
    assert read_vocabulary(f"# names\n{ESCAPES_REMARK}\n\n{lines}".encode()) == (
        "A\\B",
        "\x1b[2J",
        "\u202egnihton",
        "plain",
    )
    assert read_vocabulary(lines.encode()) == ("A\\\\B", "\\x1b[2J", "\\u202egnihton", "plain")
    # A name that is called like the remark is none.
    assert read_vocabulary(f"a\n{ESCAPES_REMARK}\n\\x1b\n".encode())[2] == "\\x1b"


# --- names that may be one ------------------------------------------------------------------------


def test_ids_are_alike_by_case_blanks_and_forms_and_not_by_signs() -> None:
    alike = ["K0", "k0 ", "K\xa00", "\uff2b0", "k\u200b0", "\u212a0", "\ufeffK 0"]
    assert len(set(map(normalized_id, alike))) == 1
    assert len(set(map(normalized_id, ["a-1", "a1", "a.1", "a_1", "05", "5", "5.0", " ", ""]))) == 9


@given(st.dictionaries(st.text(max_size=5), st.integers(1, 9), max_size=9))
def test_no_name_is_renamed_to_one_that_is_renamed(counts: dict[str, int]) -> None:
    """Catches a chain, which a rename does not follow."""
    other = spellings(counts)
    assert not set(other) & set(other.values())
    assert all(counts[name] >= counts[old] for old, name in other.items())


def test_one_letter_of_a_long_word_is_told_and_numbers_and_short_words_are_not() -> None:
    names = [
        "Untersuchung", "Untersuchnug", "Release A", "Release B", "Check 12345", "Check 12346",
        "CODE OK", "CODE NOK", "Untersuchung zwei",
    ]  # fmt: skip
    assert misspellings(names) == [("Untersuchnug", "Untersuchung")]
    assert misspellings([f"abcdefgh{i}" for i in range(3000)]) == []
