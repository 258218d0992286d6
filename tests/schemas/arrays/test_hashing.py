"""Stable hashes of text: golden values, a naive reference, spread over shards."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counted_calls import counted_calls
from tracecloak.schemas.arrays.hashing import hash_text, mix, text_words

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A case's shard must be the same in every version: these numbers may never change.
        ("", 5197578548964807871),
        ("a", 9276849315651099174),
        ("case 1", 10196633659804785220),
        ("Größe", 13998934861560440943),
        ("0123456789abcdef", 9513453270187398947),
        ("a\0", 8445848741412690198),
    ],
)
def test_hashes_never_change(text, expected):
    assert hash_text(pa.array([text])).tolist() == [expected] == [naive_hash(text)]


def test_mix_is_the_finaliser_of_splitmix64():
    # The generator's first outputs from state 0, as published with it.
    states = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@settings(deadline=None)
@given(texts)
def test_hashes_and_words_are_those_of_the_bytes(values):
    column = pa.array(values, pa.string())
    assert words_of(column) == [naive_words(value.encode()) for value in values]
    hashes = hash_text(column)
    assert hashes.dtype == np.uint64 and hashes.tolist() == [naive_hash(value) for value in values]


@settings(deadline=None)
@given(texts, st.data())
def test_a_text_hashes_alike_wherever_it_lies(values, data):
    # Other offsets, other neighbours, other widths of the offsets.
    around = [*data.draw(texts), *values, *data.draw(texts)]
    first = data.draw(st.integers(0, len(around)))
    count = data.draw(st.integers(0, len(around) - first))
    expected = [naive_hash(value) for value in around[first : first + count]]
    column = pa.array(around, pa.string())
    assert hash_text(column.slice(first, count)).tolist() == expected
    assert hash_text(column.cast(pa.large_string()).slice(first, count)).tolist() == expected
    assert words_of(column.slice(first, count)) == [
        naive_words(value.encode()) for value in around[first : first + count]
    ]


@pytest.mark.parametrize(
    "values",
    [
        ["", "\0", "\0\0", "\0" * 7, "\0" * 8, "\0" * 9, "\0" * 16],
        ["a", "a\0", "a\0\0", "a" + "\0" * 7, "a" + "\0" * 8],
        ["12345678", "12345678\0", "1234567", "1234567\0"],
        # Two words in either order, and the same words shifted.
        ["aaaaaaaabbbbbbbb", "bbbbbbbbaaaaaaaa", "aaaaaaaa", "bbbbbbbb"],
        [" aaaaaaaa", "aaaaaaaa "],
    ],
)
def test_texts_of_the_same_words_differ(values):
    assert len(set(hash_text(pa.array(values)).tolist())) == len(values)


def test_words_are_padded_with_zeros_whatever_follows():
    # The bytes after a text belong to the next one.
    assert words_of(pa.array(["abc", "\xff" * 8])) == [
        [int.from_bytes(b"abc", "little")],
        [0xBFC3BFC3BFC3BFC3, 0xBFC3BFC3BFC3BFC3],
    ]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([], pa.string()),
        pa.array([], pa.large_string()),
        pa.array(["a"]).slice(1),
        pa.nulls(0, pa.string()),
    ],
)
def test_no_texts_have_no_hashes(values):
    assert hash_text(values).tolist() == [] and list(text_words(values)) == []


@pytest.mark.parametrize("n_shards", [2, 16, 61, 64, 1000])
@pytest.mark.parametrize(
    "pattern", ["{}", "case {:08}", "{:064b}", "173688-{}-with a long common tail"]
)
def test_ids_of_every_pattern_spread_evenly(pattern, n_shards):
    n = 50_000
    ids = pa.array([pattern.format(i) for i in range(n)])
    counts = np.bincount((hash_text(ids) % np.uint64(n_shards)).astype(int), minlength=n_shards)
    expected = n / n_shards
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # Mean k-1, variance 2(k-1): within 6 standard deviations, and not suspiciously even.
    mean, deviation = n_shards - 1, (2 * (n_shards - 1)) ** 0.5
    assert chi_square < mean + 6 * deviation
    assert n_shards < 10 or chi_square > mean - 6 * deviation
    assert len(counts) == n_shards


def test_hashes_do_not_collide_on_many_ids():
    hashes = hash_text(pa.array([f"case {i}" for i in range(200_000)]))
    assert len(np.unique(hashes)) == 200_000


def test_of_a_long_text_the_digest_is_hashed():
    values = ["a" * 4096, "a" * 4097, "b", "a" * 4096 + "b", "ä" * 600_000, "ä" * 599_999 + "bb"]
    assert hash_text(pa.array(values)).tolist() == [naive_hash(value) for value in values]


def calls_while_hashing(column: pa.Array) -> int:
    return counted_calls(lambda: hash_text(column))[1]


def test_one_long_text_among_short_ones_takes_no_more_steps_than_a_kibibyte():
    ids = [f"case {i}" for i in range(1000)]
    assert calls_while_hashing(pa.array([*ids, "x" * 3_000_000])) < calls_while_hashing(
        pa.array([*ids, "x" * 1024])
    )
