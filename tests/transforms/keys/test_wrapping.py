"""Keys that wrap keys: RFC 3394, and what is said where another key, or none, is named."""

from __future__ import annotations

import pickle

import pytest

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, KeyReference

OUTER, OTHER, INNER = (
    bytes(range(32)),
    b"o" * 32,
    bytes.fromhex("00112233445566778899aabbccddeeff") + bytes(range(16)),
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", OUTER.hex())
    monkeypatch.setenv("OTHER", OTHER.hex())
    monkeypatch.setenv("WRAPPED", KeyEncryptionKey(OUTER, "env:OUTER").wrap(INNER))


def test_a_key_is_wrapped_as_in_the_standard() -> None:
    """RFC 3394, section 4.6."""
    wrapped = KeyEncryptionKey(OUTER, "").wrap(INNER)
    assert wrapped.rpartition(":")[2] == (
        "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"
    )


def test_a_reference_unwraps_where_it_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = KeyReference("env:WRAPPED", wrapped_by="env:OUTER")
    assert reference.resolve().hex() == INNER.hex()
    # What is in clear is found without asking for the other key.
    monkeypatch.setenv("WRAPPED", INNER.hex())
    monkeypatch.delenv("OUTER")
    assert reference.resolve().hex() == INNER.hex()


def test_another_key_none_and_damage_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is encrypted; name the key that"):
        KeyReference("env:WRAPPED").resolve()
    with pytest.raises(UsageError, match="is encrypted by another"):
        KeyReference("env:WRAPPED", wrapped_by="env:OTHER").resolve()
    wrapped = KeyEncryptionKey(OUTER, "").wrap(INNER)
    for damaged in (wrapped[:-1] + "0", wrapped[:-2], wrapped[:-1] + "x", wrapped[:25]):
        monkeypatch.setenv("WRAPPED", damaged)
        with pytest.raises(UsageError, match="the encrypted key at 'env:WRAPPED' is"):
            KeyReference("env:WRAPPED", wrapped_by="env:OUTER").resolve()


def test_a_key_encryption_key_neither_shows_nor_travels() -> None:
    key = KeyEncryptionKey(OUTER, "env:OUTER")
    assert OUTER.hex() not in repr(key) and repr(OUTER) not in repr(key)
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(key)
