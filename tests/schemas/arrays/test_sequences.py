"""Rows of codes as bytes that compare as the codes do."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.arrays.sequences import (
    MAX_CODE,
    CaseRanks,
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
    ranks = CaseRanks.of(groups, np.array([row[1:] for row in rows], np.uint64).reshape(-1, 2))
    expected = sorted((group, struct.pack("<QQ", *words)) for group, *words in rows)
    found = zip(ranks.groups.tolist(), ranks.cases.to_pylist(), strict=True)
    assert list(found) == expected
    assert ranks.groups.dtype == np.int64
