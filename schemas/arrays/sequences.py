"""Rows of small integers as byte strings: what variants and signatures are compared by.

Equal rows have equal bytes, so Arrow's hash tables and sorts do the work that tuples of Python
integers would do, without an object per row.

Records of starts and of completions paired to events, first in, first out.
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


def pairs_of_records(groups: np.ndarray, is_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns which start belongs to which completion.

    The k-th completion of a group that finds an open start takes the k-th start.

    Args:
        groups: int64[n], the activity and case of each record; the records of one are in order.
        is_start: bool[n], whether a record is one of a start; else it is one of a completion.

    Returns:
        Two int64[m]: places of starts, and of the completions that take them.
    """
    order = np.argsort(groups, kind="stable")
    grouped, starts = groups[order], is_start[order]
    number = np.cumsum(np.diff(grouped, prepend=grouped[:1]) != 0)
    # Each group counts its open starts from a level below all that was reached before.
    level = -number * (2 * len(groups) + 2)
    change = np.where(starts, 1, -1)
    reached = np.cumsum(change)
    heads = np.flatnonzero(np.diff(number, prepend=-1))
    reached = reached - np.repeat(reached[heads] - change[heads], np.diff(heads, append=len(order)))
    lowest = np.minimum(np.minimum.accumulate(reached + level), level) - level
    before = np.append(0, lowest[:-1])
    before[heads] = 0
    is_paired = ~starts & (lowest == before)  # a completion that finds none reaches a new low
    n_groups = len(heads)
    n_pairs = np.bincount(number[is_paired], minlength=n_groups)
    n_starts = np.bincount(number[starts], minlength=n_groups)
    rank = np.arange(int(n_starts.sum())) - np.repeat(offsets_of(n_starts)[:-1], n_starts)
    is_taken = rank < np.repeat(n_pairs, n_starts)
    return order[np.flatnonzero(starts)[is_taken]], order[is_paired]
