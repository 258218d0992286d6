"""Rows of codes as bytes that compare as the codes do, cases in keyed order, hashes of text."""

from __future__ import annotations

import hashlib
import itertools
import struct

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.arrays.hashing import hash_text, text_words
from tracecloak.schemas.arrays.sequences import (
    MAX_CODE,
    CaseRanks,
    case_bytes,
    decode_sequences,
    encode_sequences,
)

codes = st.sampled_from([0, 1, 2, 127, 128, 191, 192, 255, 256, 4095, 65_536, MAX_CODE]) | (
    st.integers(0, MAX_CODE)
)
rows = st.lists(st.lists(codes, max_size=4), max_size=8)


def encoded(lists: list[list[int]]) -> pa.LargeBinaryArray:
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return encode_sequences(offsets, np.array([code for row in lists for code in row], np.int32))


def decoded(sequences: pa.LargeBinaryArray) -> list[list[int]]:
    offsets, found = decode_sequences(sequences)
    assert offsets.dtype == np.int64 and found.dtype == np.int32
    assert offsets[0] == 0 and offsets[-1] == len(found)
    return [found[a:b].tolist() for a, b in itertools.pairwise(offsets)]


@settings(deadline=None)
@given(rows)
def test_bytes_compare_as_codes_do(lists):
    sequences = encoded(lists)
    sequences.validate(full=True)
    data = sequences.to_pylist()
    by_bytes = sorted(range(len(lists)), key=data.__getitem__)
    assert by_bytes == sorted(range(len(lists)), key=lists.__getitem__)


@settings(deadline=None)
@given(rows, st.integers(0, 3), st.integers(0, 3))
def test_what_is_encoded_is_decoded_from_any_slice(lists, before, after):
    assert decoded(encoded(lists)) == lists
    part = slice(before, max(before, len(lists) - after))
    assert decoded(encoded(lists)[part]) == lists[part]


# --- cases ranked by keyed identities

word = st.one_of(st.integers(0, 2), st.sampled_from([256, 2**63, 2**64 - 1]))
cases = st.lists(st.tuples(st.integers(-1, 3), word, word), max_size=12)


@settings(deadline=None)
@given(cases)
def test_ranks_are_sorted_by_group_and_bytes(rows):
    groups = np.array([row[0] for row in rows], np.int64)
    ranks = CaseRanks.of(
        groups, case_bytes(np.array([row[1:] for row in rows], np.uint64).reshape(-1, 2))
    )
    expected = sorted((group, struct.pack("<QQ", *words)) for group, *words in rows)
    found = zip(ranks.groups.tolist(), ranks.cases.to_pylist(), strict=True)
    assert list(found) == expected
    assert ranks.groups.dtype == np.int64


# --- stable hashes of text ------------------------------------------------------------------------


MASK = (1 << 64) - 1


def naive_mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
    return word ^ word >> 31


def naive_words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def naive_hash(text: str) -> int:
    data = text.encode()
    state = naive_mix(len(data) + 0x9E3779B97F4A7C15 & MASK)
    if len(data) > 4096:
        data = hashlib.sha256(data).digest()
    for word in naive_words(data):
        state = naive_mix(state ^ word) + 0x9E3779B97F4A7C15 & MASK
    return naive_mix(state)


def words_of(values: pa.Array) -> list[list[int]]:
    """The words of each text, from the steps that `text_words` yields."""
    found: list[list[int]] = [[] for _ in range(len(values))]
    for rows, words in text_words(values):
        assert words.dtype == np.uint64 and len(rows) == len(words) > 0
        for row, word in zip(rows, words, strict=True):
            found[row].append(int(word))
    return found


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=8)


@settings(deadline=None)
@given(texts)
def test_hashes_and_words_are_those_of_the_bytes(values):
    column = pa.array(values, pa.string())
    assert words_of(column) == [naive_words(value.encode()) for value in values]
    hashes = hash_text(column)
    assert hashes.dtype == np.uint64 and hashes.tolist() == [naive_hash(value) for value in values]


def test_of_a_long_text_the_digest_is_hashed():
    values = ["a" * 4096, "a" * 4097, "b", "a" * 4096 + "b", "ä" * 600_000, "ä" * 599_999 + "bb"]
    assert hash_text(pa.array(values)).tolist() == [naive_hash(value) for value in values]
