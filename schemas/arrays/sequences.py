"""Rows of small integers: as byte strings, by their distinct prefixes, and cases in keyed order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import OfArrays, offsets_of, order_of_small

# --- Rows of small integers as byte strings: what variants and signatures are compared by. --------
# Equal rows have equal bytes, so Arrow's hash tables and sorts do the work that tuples of Python
# integers would do, without an object per row.


# A code below _SHORT is one byte. Any other is a head of 11xxxxxx and _TAIL bytes of 10xxxxxx, big
# endian: heads are above every one-byte code, so bytes compare as codes do whatever the alphabet,
# and no two batches have to agree on a width.
_SHORT = 0x80
_HEAD = 0xC0
_TAIL = 4
_BITS = 6
MAX_CODE = (1 << _BITS * (_TAIL + 1)) - 1


# Characters that there are: all but the surrogates, which no text may have.
_SURROGATES, _N_SURROGATES = 0xD800, 0x800
N_CHARACTERS = 0x110000 - _N_SURROGATES


def characters_of(codes: np.ndarray) -> str:
    """Returns a text with a character of its own for each code.

    Args:
        codes: int[n], from 0, below N_CHARACTERS.
    """
    points = np.where(codes < _SURROGATES, codes, codes + _N_SURROGATES)
    return points.astype("<u4").tobytes().decode("utf-32-le")


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


def arcs_of(
    offsets: np.ndarray, codes: np.ndarray, start: int, end: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n_positions+n] twice, sources and targets of the arcs of rows, in their order.

    A row has one more than it has codes: each code after its predecessor or the start, then the
    end.

    Args:
        offsets: int64[n+1], CSR offsets into `codes`, from 0.
        codes: int[n_positions].
        start: The source of each row's first arc.
        end: The target of its last one.
    """
    targets = np.insert(codes.astype(np.int64), offsets[1:], end)
    sources = np.empty_like(targets)
    sources[1:] = targets[:-1]
    sources[offsets[:-1] + np.arange(len(offsets) - 1)] = start
    return sources, targets


def _binary(offsets: np.ndarray, data: np.ndarray) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


# --- The distinct prefixes of sorted sequences, without a loop over the sequences. ----------------


def number_prefixes(
    offsets: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers the prefixes of sorted and distinct sequences that are not empty.

    Returns:
        int32[n_positions], the place of each position in its sequence; int32[n_positions], the
        number of the prefix that ends there, from 1; int64[n], the first position of each prefix.
    """
    begins = offsets[:-1].astype(np.int32)
    lengths = np.diff(offsets).astype(np.int32)
    row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    depth = np.arange(len(row), dtype=np.int32) - begins[row]
    previous_length = np.append(np.zeros(1, np.int32), lengths[:-1])
    has_previous = depth < previous_length[row]
    previous = np.where(has_previous, begins[row - 1] + depth, 0)
    differs = ~has_previous | (codes[previous] != codes)
    # Sorted and distinct variants: a row shares its beginning with the row before it, and differs
    # from the first mismatch on.
    shared = np.minimum.reduceat(np.where(differs, depth, np.iinfo(np.int32).max), offsets[:-1])
    is_new = depth >= shared[row]
    number = np.cumsum(is_new, dtype=np.int32)
    # A position that is shared with the row before has the number that was last assigned at its
    # depth. The first position of each depth is new, so the search for that number stays within the
    # depth.
    order = order_of_small(depth, int(lengths.max()))
    last_new = np.where(is_new[order], np.arange(len(order), dtype=np.int32), 0)
    number[order] = number[order[np.maximum.accumulate(last_new)]]
    first = np.empty(int(number.max()) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return depth, number, first[1:]


# --- Cases by group in the order of keyed identities, so that choosing some of them is repeatable.


_BYTES = pa.binary(16)


def case_bytes(identities: np.ndarray) -> pa.FixedSizeBinaryArray:
    """Returns fixed_size_binary(16)[n], the two words of each identity, to look them up."""
    data = np.ascontiguousarray(identities, "<u8")
    return pa.FixedSizeBinaryArray.from_buffers(_BYTES, len(data), [None, pa.py_buffer(data)])


class CaseRanks(OfArrays, wire_name="case-ranks"):
    """Some cases, sorted by group and, within it, by identity: a uniformly random keyed order.

    Attributes:
        groups: int64[n], for example variant numbers.
        cases: fixed_size_binary(16)[n], keyed identities.
    """

    _types = (np.int64, _BYTES)
    _keys = ("cases",)

    groups: np.ndarray
    cases: pa.FixedSizeBinaryArray

    @classmethod
    def of(cls, groups: np.ndarray, cases: pa.FixedSizeBinaryArray) -> CaseRanks:
        """Ranks cases in any order.

        Args:
            groups: int64[n].
            cases: fixed_size_binary(16)[n], as `case_bytes` returns them.
        """
        table = pa.table({"group": groups, "case": cases})
        order = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("case", "ascending")])
        return cls(groups[np.asarray(order)], cases.take(order))
