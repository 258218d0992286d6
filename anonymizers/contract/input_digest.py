"""Which log went into a release, as a number that reveals nothing about it.

The digest is a sum of keyed hashes, one an event, over (case, individual if the log declares any,
place in the case, activity, time, declared attributes). So it depends on the events and not on
files, shards or their order, and pieces add up.

The digests by which releases are told apart: that of the configuration and that of the noise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.noise.randomness import KeyedBlocks, text_digest
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class InputDigest:
    """The sum over some events.

    Attributes:
        lanes: uint64[2], two sums modulo 2^64.
        n_events: Number of events summed.
    """

    wire_name: ClassVar[str] = "input-digest"

    lanes: np.ndarray
    n_events: int

    @classmethod
    def from_traces(cls, traces: TraceBatch, key: ReleaseKey) -> InputDigest:
        """Digests the events of complete cases under the release's key."""
        cases = KeyedBlocks(key.derive(b"digest/case")).of_text(traces.case_ids)
        if traces.individuals is not None:
            cases ^= KeyedBlocks(key.derive(b"digest/individual")).of_text(traces.individuals)
        names = KeyedBlocks(key.derive(b"digest/activity")).of_text(traces.vocabulary.names)
        row = np.repeat(np.arange(traces.n_cases), traces.lengths)
        # The two keyed words of the case and the activity hide the numbers they are combined with.
        blocks = cases[row] ^ names[traces.activities]
        blocks[:, 0] ^= (np.arange(traces.n_events) - traces.offsets[row]).astype(np.uint64)
        blocks[:, 1] ^= traces.times.astype(np.uint64)
        for name, values in traces.attributes.items():
            blocks ^= _keyed_texts(
                KeyedBlocks(key.derive(b"digest/attribute/" + name.encode())), values
            )
        events = KeyedBlocks(key.derive(b"digest/event")).encrypt(blocks)
        return cls(events.sum(axis=0, dtype=np.uint64), traces.n_events)

    @classmethod
    def merge(cls, pieces: Sequence[InputDigest]) -> InputDigest:
        """Returns the digest of the union of the pieces' events."""
        lanes = np.zeros(2, np.uint64)
        for piece in pieces:
            lanes = lanes + piece.lanes
        return cls(lanes, sum(p.n_events for p in pieces))

    @property
    def weight(self) -> int:
        """Stored elements."""
        return 1

    @property
    def hex(self) -> str:
        """48 hex digits."""
        return f"{int(self.lanes[0]):016x}{int(self.lanes[1]):016x}{self.n_events:016x}"


def _keyed_texts(keyed: KeyedBlocks, values: pa.DictionaryArray) -> np.ndarray:
    """uint64[n, 2]: a word of each text, zeros for a missing one."""
    coded = values.cast(pa.string()).dictionary_encode()
    words = np.append(keyed.of_text(coded.dictionary), np.zeros((1, 2), np.uint64), axis=0)
    return words[np.asarray(pc.fill_null(coded.indices, len(coded.dictionary)))]


def config_digest(given: Mapping[str, Any]) -> str:
    """Returns 64 hex digits of a configuration, by which a finished release is known.

    A key at its default must not be among those given. So a key that a later version adds leaves
    the digests of all configurations without it as they are. The order of keys does not matter.

    Args:
        given: JSON values by key, of all that changes a released byte and is not at its default.
    """
    return text_digest(json.dumps(given, sort_keys=True, allow_nan=False))


def noise_digest(config: str, version: int, inner: Mapping[str, int] | None = None) -> str:
    """Returns 64 hex digits of what noise is drawn for, beside the input, for `Randomness`.

    It has the version of the method, in which its defaults and its steps up to the noise are as
    they are: another version draws other noise, and never the same for other counts.

    Args:
        config: `config_digest` of the configuration.
        version: Of the method, or of the product of a stream.
        inner: `inner_versions` of the method or product; none are as if they were not named.
    """
    return text_digest(config, version, *(f"{n} {of}" for n, of in sorted((inner or {}).items())))
