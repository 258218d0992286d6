"""The secret of one release: whoever has it can subtract the noise."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.schemas.arrays.hashing import shortened, text_words
from tracecloak.schemas.arrays.merging import places_among
from tracecloak.schemas.errors import UsageError

# --- The secret of one release: whoever has it can subtract the noise. ----------------------------


KEY_BYTES = 32


class ReleaseKey:
    """256 secret bits of one release. Does not print, pickle or compare by accident."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise UsageError(f"a release key has {KEY_BYTES} bytes, got {len(secret)}")
        self._secret = secret

    @classmethod
    def generate(cls) -> ReleaseKey:
        """Draws a key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell keys apart and say nothing else about them."""
        return self.derive(b"fingerprint")[:8].hex()

    def resolve(self) -> Self:
        """Returns itself, as a reference to a key returns the key."""
        return self

    def hex(self) -> str:
        """The secret as 64 hex digits, for the key store alone."""
        return self._secret.hex()

    def derive(self, purpose: bytes) -> bytes:
        """Returns 32 bytes that are independent for different purposes (HKDF-SHA256)."""
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"tracecloak/1/" + purpose).derive(
            self._secret
        )

    def blocks(self, purpose: bytes) -> KeyedBlocks:
        """Returns the random function that a purpose has for itself."""
        return KeyedBlocks(self.derive(purpose))

    def __repr__(self) -> str:
        return "ReleaseKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a release key does not pickle; pass a reference that the worker resolves")


# --- Keys, and noise that depends on what a cell is and on nothing else. --------------------------
# Every random number of a release is a pseudorandom function of (what the number is for, which
# case or cell it belongs to, a counter) under a key of that release. So it is the same whatever
# the shard, the bundle, the worker or the retry that asks for it, and two cells never share one.
# The function is AES-256 over 16-byte blocks; text enters through a CBC-MAC with its length in
# front.
#
# The key itself comes from the operating system. There is no seed, and a key does not pickle:
# workers resolve a reference to it where they run. Whoever has the key can subtract the noise.


_IDENTITY = "identity/"


class Randomness:
    """The keyed stream of one release.

    A cell is two 64-bit words: either the identity of a case (`identify`), or small integers chosen
    by the method (`cell_numbers`). One purpose never mixes the two kinds.

    Attributes:
        input_digest: Of what went in.
        decided: Of what the rounds before decided; empty in the first.
        noise: What draws the noise; exact, but in audits and in the controls of tests.
    """

    def __init__(
        self,
        key: ReleaseKey,
        release_id: str,
        input_digest: str,
        noise_digest: str,
    ) -> None:
        self.input_digest = input_digest
        self.decided = ""
        self.noise: Noise = EXACT
        self._unit_key = key, release_id, noise_digest
        # Lengths in front keep the parts apart: ("ab", "c") is not ("a", "bc").
        parts = b"".join(
            len(p).to_bytes(8, "big") + p
            for p in (s.encode() for s in (release_id, input_digest, noise_digest))
        )
        self._first_root = self._root = key.derive(b"release/" + parts)
        self._blocks: dict[str, KeyedBlocks] = {}

    def after(self, decided: str) -> Randomness:
        """Returns the stream of what comes after some rounds; the identities are the same.

        So a round never meets the noise of a release that took another course before it.

        Args:
            decided: Digest of what they decided (`contract.draws.decided`); empty: nothing yet.
        """
        if not decided:
            return self
        other: Randomness = object.__new__(type(self))
        root = hmac.digest(self._first_root, b"decided/" + decided.encode(), hashlib.sha256)
        other.__dict__.update(self.__dict__, decided=decided, _root=root, _blocks={})
        return other

    @cached_property
    def unit_stream(self) -> Randomness:
        """The stream for choices within one unit's own data, such as which of its cases count.

        It does not depend on the input: the choice must not, and it is made before the input's
        digest is known. Noise is never drawn from it.
        """
        key, release_id, noise_digest = self._unit_key
        return Randomness(key, release_id, "", noise_digest)

    def with_noise(self, noise: Noise) -> Randomness:
        """Returns the same stream with something else to draw the noise."""
        other: Randomness = object.__new__(type(self))
        other.__dict__.update(self.__dict__, noise=noise)
        return other

    def _purpose(self, name: str) -> KeyedBlocks:
        if name not in self._blocks:
            root = self._first_root if name.startswith(_IDENTITY) else self._root
            self._blocks[name] = KeyedBlocks(hmac.digest(root, name.encode(), hashlib.sha256))
        return self._blocks[name]

    def identify(self, kind: str, names: pa.Array) -> np.ndarray:
        """Returns uint64[n, 2], the keyed identity of each name of a kind, such as case ids."""
        return self._purpose(_IDENTITY + kind).text_blocks(names)

    def words(self, purpose: str, cells: np.ndarray, counter: np.ndarray | int = 0) -> np.ndarray:
        """Returns uint64[n, 2], 128 random bits of each (cell, counter).

        Args:
            purpose: What the bits are for; different purposes are independent.
            cells: uint64[n, 2], identities or cell numbers.
            counter: Non-negative, below 2^63: which of a cell's draws this is.
        """
        blocks = cells.copy()
        blocks[:, 1] ^= np.asarray(counter, np.uint64)
        return self._purpose(purpose).encrypt(blocks)

    def __reduce__(self) -> NoReturn:
        raise TypeError("randomness does not pickle; build it on the worker from its key")


def cell_numbers(indices: np.ndarray) -> np.ndarray:
    """Returns uint64[n, 2], the cells of non-negative integers."""
    cells = np.zeros((len(indices), 2), np.uint64)
    cells[:, 0] = indices
    return cells


class KeyedBlocks:
    """AES-256 as a random function on arrays of 16-byte blocks."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(
            algorithms.AES(key), modes.ECB()
        )  # one block a cell: a function, not a mode

    def encrypt(self, blocks: np.ndarray) -> np.ndarray:
        """Returns uint64[n, 2], the image of each block of two 64-bit words."""
        data = np.ascontiguousarray(blocks, "<u8").tobytes()
        out = self._cipher.encryptor().update(data)
        return np.frombuffer(out, "<u8").reshape(-1, 2)

    def text_blocks(self, names: pa.Array) -> np.ndarray:
        """Returns uint64[n, 2], the CBC-MAC of each text's length and UTF-8 bytes.

        Of a text of more than 4,096 bytes it is that of the length and the SHA-256 of the bytes.
        """
        state = np.zeros((len(names), 2), np.uint64)
        lengths = np.asarray(pc.binary_length(names), np.uint64)
        state[:, 1] = lengths
        state = self.encrypt(state).copy()
        for rows, words in text_words(shortened(names)):
            state[rows, 0] ^= words
            state[rows] = self.encrypt(state[rows])
        return state


def uniform(words: np.ndarray) -> np.ndarray:
    """Returns float64[n] in (0, 1), never 0 or 1, from uint64[n] words (52 bits)."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def below(words: np.ndarray, bounds: np.ndarray | int) -> np.ndarray:
    """Returns int64[n] in [0, bound) from uint64[n] words; biased by less than bound / 2^64."""
    return (words % np.asarray(bounds, np.uint64)).astype(np.int64)


def text_digest(*parts: Any) -> str:
    """Returns 64 hex digits identifying a sequence of texts; public, not keyed."""
    digest = hashlib.sha256()
    for part in parts:
        raw = str(part).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


_ID_BYTES = 12


def hex_ids(words: np.ndarray) -> pa.StringArray:
    """Returns string[n], 96 random bits each, as 24 hex digits."""
    raw = words.view(np.uint8).reshape(-1, 16)[:, :_ID_BYTES]
    data = raw.tobytes().hex().encode()
    offsets = np.arange(len(words) + 1, dtype=np.int32) * (2 * _ID_BYTES)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(data))


@dataclass(frozen=True, eq=False)
class CellLaws:
    """Laws of a cell, many at once, that cells are drawn by.

    Attributes:
        ends: float64[n * n_cells], of each cell the chance of it or a lower one, plus the number of
            its row: rows lie one after the other, and each ends at a whole number.
        n_cells: Cells of a row.
    """

    ends: np.ndarray
    n_cells: int

    @classmethod
    def of(cls, shares: np.ndarray) -> CellLaws:
        """Takes float64[n, n_cells], not negative, of which no row is all zeros."""
        ends = np.cumsum(shares, axis=1)
        ends /= ends[:, -1:]
        ends += np.arange(len(ends))[:, None]
        return cls(ends.ravel(), shares.shape[1])

    def draw(self, rows: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Returns int64[m], a cell by each row's law; never one that has no share.

        Args:
            rows: int[m], the row of each.
            uniforms: float64[m] in [0, 1).
        """
        at = rows + np.minimum(uniforms, 1 - 1e-9)  # a sum may be rounded up to the next row
        places = places_among(self.ends, at, self.n_cells)
        return places - rows * self.n_cells
