"""Stable hashes of text: golden values, a naive reference, spread over shards."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.arrays.hashing import hash_text, text_words

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
