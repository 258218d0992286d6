"""Stable hashes and keyed blocks of text columns, computed for all values of a column at once.

`hash_text` spreads cases over shards: equal for equal text in every process, version and batch. It
is public and no protection; what protects is keyed and lives in `anonymizers.noise.randomness`,
which takes its words from `text_words` here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WORD_BYTES = 8
_LONG_TEXT_BYTES = 4096


def shortened(values: pa.Array) -> pa.Array:
    """Returns the texts, with the SHA-256 in the place of each of more than 4,096 bytes.

    Every word of the longest text is a step of `text_words`, and one text shall not take minutes. A
    caller that must tell a long text from one that is its digest adds the length of the text.

    Args:
        values: string[n] or binary[n] without nulls.

    Returns:
        `values` themselves if none is long, else large_binary[n].
    """
    is_long = pc.greater(pc.binary_length(values), _LONG_TEXT_BYTES)
    if not is_long.true_count:
        return values
    digests = [hashlib.sha256(text.as_buffer()).digest() for text in values.filter(is_long)]
    return pc.replace_with_mask(
        values.cast(pa.large_binary()), is_long, pa.array(digests, pa.large_binary())
    )


def text_words(values: pa.Array) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the UTF-8 bytes of all values in steps of one 8-byte word.

    Args:
        values: string[n] or binary[n] without nulls.

    Yields:
        (rows int64[m], words uint64[m]): the values that still have bytes at this step and their
        next word, little endian and padded with zeros. Values of different length may agree in all
        words; a caller that must tell them apart adds the length.
    """
    values = values.cast(pa.large_binary())
    _, raw_offsets, data = values.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    lengths = np.diff(offsets)
    flat = np.zeros((int(offsets[-1]) if len(values) else 0) + _WORD_BYTES, np.uint8)
    if data is not None and len(values):
        flat[: offsets[-1]] = np.frombuffer(data, np.uint8)[: offsets[-1]]
    windows = np.lib.stride_tricks.sliding_window_view(flat, _WORD_BYTES)
    rows = np.flatnonzero(lengths > 0)
    step = 0
    while len(rows):
        words = windows[offsets[rows] + step].view("<u8").ravel()
        left = lengths[rows] - step
        partial = left < _WORD_BYTES
        if partial.any():
            bits = (left[partial] * 8).astype(np.uint64)
            words[partial] &= (np.uint64(1) << bits) - np.uint64(1)
        yield rows, words
        step += _WORD_BYTES
        rows = rows[left > _WORD_BYTES]


def mix(words: np.ndarray) -> np.ndarray:
    """Finalises uint64 words so that every input bit moves every output bit (splitmix64)."""
    words = words ^ (words >> np.uint64(30))
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words = words ^ (words >> np.uint64(27))
    words = words * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hash_text(values: pa.Array) -> np.ndarray:
    """Returns uint64[n], a stable hash of each text; not keyed and not collision resistant.

    Of a text of more than 4,096 bytes it is that of the length and the SHA-256 of the bytes.
    """
    lengths = np.asarray(pc.binary_length(values), np.uint64)
    state = mix(lengths + np.uint64(0x9E3779B97F4A7C15))
    for rows, words in text_words(shortened(values)):
        state[rows] = mix(state[rows] ^ words) + np.uint64(0x9E3779B97F4A7C15)
    return mix(state)
