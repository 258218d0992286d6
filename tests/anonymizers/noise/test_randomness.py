"""Keys and the keyed stream: what words depend on, and against AES, HMAC and HKDF themselves."""

from __future__ import annotations

import copy
import hashlib
import hmac
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tracecloak.anonymizers.noise.randomness import (
    KeyedBlocks,
    Randomness,
    ReleaseKey,
    below,
    text_digest,
    uniform,
)
from tracecloak.schemas.errors import UsageError

TOP = 2**64 - 1
CELLS = np.array([[0, 0], [1, 0], [0, 1], [TOP, TOP], [3, 1 << 40]], np.uint64)

texts = st.lists(st.text(max_size=40), max_size=12)
words_64 = st.integers(0, TOP)
cells = st.lists(st.tuples(words_64, words_64), max_size=20).map(
    lambda rows: np.array(rows, np.uint64).reshape(-1, 2)
)


def column(names: list[str]) -> pa.Array:
    return pa.array(names, pa.string())


def one_block(key: bytes, block: bytes) -> bytes:
    """AES-256 of one block, by the `cryptography` package alone."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def naive_cbc_mac(key: bytes, text: str) -> bytes:
    """First the length, then the bytes in words of 8, the last one padded with zeros."""
    raw = text.encode()
    state = one_block(key, bytes(8) + len(raw).to_bytes(8, "little"))
    if len(raw) > 4096:
        raw = hashlib.sha256(raw).digest()
    for start in range(0, len(raw), 8):
        word = raw[start : start + 8].ljust(8, b"\0")
        mixed = bytes(a ^ b for a, b in zip(state[:8], word, strict=True)) + state[8:]
        state = one_block(key, mixed)
    return state


def test_a_key_of_another_length_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError, match="32 bytes, got 31"):
        ReleaseKey(b"x" * 31)


@pytest.mark.parametrize("value", [release_key(), randomness()], ids=["key", "randomness"])
@pytest.mark.parametrize(
    "travels",
    [pickle.dumps, copy.copy, copy.deepcopy, lambda value: pickle.dumps([value], protocol=2)],
    ids=["pickle", "copy", "deepcopy", "protocol 2"],
)
def test_what_holds_the_secret_does_not_pickle(
    value: Any, travels: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError, match="does not pickle"):
        travels(value)


@pytest.mark.parametrize(
    "other",
    [
        (1, "r", "i", "c"),
        (0, "s", "i", "c"),
        (0, "r", "j", "c"),
        (0, "r", "i", "d"),
        # The same letters, parted elsewhere.
        (0, "ri", "", "c"),
        (0, "r", "ic", ""),
    ],
)
def test_key_release_input_and_configuration_each_change_every_word(
    other: tuple[int, str, str, str],
) -> None:
    ours, theirs = randomness(0, "r", "i", "c"), randomness(*other)
    assert (ours.words("purpose", CELLS) != theirs.words("purpose", CELLS)).all()
    names = column(["a", "b", ""])
    assert (ours.identify("case", names) != theirs.identify("case", names)).all()


def test_purpose_cell_and_counter_each_change_the_words() -> None:
    keyed = randomness()
    results = [
        tuple(keyed.words(purpose, np.array([cell], np.uint64), counter)[0].tolist())
        for purpose in ("a", "b", "")
        for cell in ((0, 0), (1, 0), (5, 0))
        for counter in (0, 1, 2, 1 << 32, 1 << 62)
    ]
    assert len(set(results)) == len(results)


@given(cells, st.randoms(use_true_random=False), st.integers(0, 2**63 - 1))
def test_words_do_not_depend_on_batches_or_their_order(
    all_cells: np.ndarray, order: Any, counter: int
) -> None:
    whole = randomness().words("p", all_cells, counter)
    places = list(range(len(all_cells)))
    order.shuffle(places)
    np.testing.assert_array_equal(
        randomness().words("p", all_cells[places], counter), whole[places]
    )
    cut = order.randint(0, len(all_cells))
    keyed = randomness()
    parts = [keyed.words("p", part, counter) for part in (all_cells[:cut], all_cells[cut:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_the_derivation_is_the_documented_one() -> None:
    """Pins the format: a change of it changes every release that is repeated under its key."""
    key = release_key(2)
    parts = (b"release 7", b"input", "Zürich".encode())
    info = b"tracecloak/1/release/" + b"".join(len(p).to_bytes(8, "big") + p for p in parts)
    root = HKDF(SHA256(), 32, salt=None, info=info).derive(bytes.fromhex(key.hex()))
    keyed = Randomness(key, "release 7", "input", "Zürich")

    secret = hmac.digest(root, b"amun/time", hashlib.sha256)
    block = (11).to_bytes(8, "little") + (13 ^ 6).to_bytes(8, "little")
    word = keyed.words("amun/time", np.array([[11, 13]], np.uint64), 6)
    assert word.astype("<u8").tobytes() == one_block(secret, block)

    secret = hmac.digest(root, b"identity/case", hashlib.sha256)
    identity = keyed.identify("case", column(["case 1"]))
    assert identity.astype("<u8").tobytes() == naive_cbc_mac(secret, "case 1")


@given(texts)
def test_texts_go_through_a_cbc_mac_with_their_length_in_front(names: list[str]) -> None:
    key = bytes(range(32))
    out = KeyedBlocks(key).text_blocks(column(names))
    assert out.tobytes() == b"".join(naive_cbc_mac(key, name) for name in names)


def test_uniform_is_never_0_or_1() -> None:
    extremes = [0, 1, 2**11, 2**12, 2**63, TOP - 2**12, TOP - 2**11, TOP - 1, TOP]
    numbers = uniform(np.array(extremes, np.uint64))
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    assert numbers[0] == 2.0**-53
    assert numbers[-1] == 1 - 2.0**-53


@given(words_64, st.integers(1, 2**63 - 1))
def test_below_stays_below_its_bound(word: int, bound: int) -> None:
    number = below(np.array([word], np.uint64), np.array([bound]))
    assert number.dtype == np.int64
    assert number[0] == word % bound


def test_a_text_digest_is_sha_256_of_lengths_and_texts() -> None:
    raw = (2).to_bytes(8, "big") + b"ab" + (2).to_bytes(8, "big") + b"17"
    assert text_digest("ab", 17) == hashlib.sha256(raw).hexdigest()


def test_a_key_does_not_print() -> None:
    assert str([release_key(1)]) == f"[{release_key(1)}]" == "[ReleaseKey(…)]"
