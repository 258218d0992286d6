"""Rows of small integers as byte strings: what variants and signatures are compared by.

Equal rows have equal bytes, so Arrow's hash tables and sorts do the work that tuples of Python
integers would do, without an object per row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.merging import offsets_of

# A code below _SHORT is one byte. Any other is a head of 11xxxxxx and _TAIL bytes of 10xxxxxx, big
# endian: heads are above every one-byte code, so bytes compare as codes do whatever the alphabet,
# and no two batches have to agree on a width.
_SHORT = 0x80
_HEAD = 0xC0
_TAIL = 4
_BITS = 6
MAX_CODE = (1 << _BITS * (_TAIL + 1)) - 1


def word_bytes(offsets: np.ndarray, words: np.ndarray) -> pa.LargeBinaryArray:
    """Returns large_binary[n]: each row's int32 words as they lie in memory; equal if the rows are.

    Args:
        offsets: int64[n+1], CSR offsets into `words`.
        words: int32[n_positions].
    """
    data = words[offsets[0] : offsets[-1]]
    return _binary((offsets - offsets[0]) * words.itemsize, data)


def encode_sequences(offsets: np.ndarray, codes: np.ndarray) -> pa.LargeBinaryArray:
    """Returns large_binary[n]: each row's codes as bytes that compare as the codes do.

    Args:
        offsets: int64[n+1], CSR offsets into `codes`.
        codes: int32[n_positions], from 0 to MAX_CODE.
    """
    codes = codes[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    is_long = codes >= _SHORT
    if not is_long.any():
        return _binary(offsets, codes.astype(np.uint8))
    place = offsets_of(np.where(is_long, 1 + _TAIL, 1))
    data = np.empty(int(place[-1]), np.uint8)
    data[place[:-1][~is_long]] = codes[~is_long]
    heads, long_codes = place[:-1][is_long], codes[is_long]
    data[heads] = _HEAD | long_codes >> _BITS * _TAIL
    for i in range(_TAIL):
        low_bits = long_codes >> _BITS * (_TAIL - 1 - i) & (1 << _BITS) - 1
        data[heads + 1 + i] = _SHORT | low_bits
    return _binary(place[offsets], data)


def decode_sequences(sequences: pa.LargeBinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `encode_sequences` was given: int64[n+1] offsets from 0, int32[n] codes."""
    if not len(sequences):
        return np.zeros(1, np.int64), np.zeros(0, np.int32)
    _, raw_offsets, raw = sequences.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64, len(sequences) + 1, sequences.offset * 8)
    if offsets[0] == offsets[-1]:
        return np.zeros(len(offsets), np.int64), np.zeros(0, np.int32)
    data = np.frombuffer(raw, np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if data.max() < _SHORT:
        return offsets, data.astype(np.int32)
    starts = np.flatnonzero((data < _SHORT) | (data >= _HEAD))
    codes = data[starts].astype(np.int32)
    is_long = codes >= _HEAD
    long_codes = codes[is_long] - _HEAD
    for i in range(_TAIL):
        long_codes = long_codes << _BITS | data[starts[is_long] + 1 + i] - _SHORT
    codes[is_long] = long_codes
    return np.searchsorted(starts, offsets), codes


def _binary(offsets: np.ndarray, data: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
