"""Case ids of released cases: random, never a function of the old id that others could compute."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_HEX = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2")
_ID_BYTES = 12


def hex_ids(words: np.ndarray) -> pa.StringArray:
    """Returns string[n], 96 random bits each, as 24 hex digits."""
    raw = words.view(np.uint8).reshape(-1, 16)[:, :_ID_BYTES]
    data = np.ascontiguousarray(_HEX[raw]).tobytes()
    offsets = np.arange(len(words) + 1, dtype=np.int32) * (2 * _ID_BYTES)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(data))
