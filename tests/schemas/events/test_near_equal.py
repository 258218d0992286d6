"""Names that may be one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.events.near_equal import misspellings, normalized_id, spellings


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
