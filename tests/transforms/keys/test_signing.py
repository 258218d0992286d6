"""Signatures: made by keys of any tool, the same each time, checked by any tool, never shown."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.keys.signing import PublicKey, SigningReference, new_pair

DATA = b'{"release_id": "a"}\n'
OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
KEYGEN = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")


def ran(*words: object) -> bytes:
    return subprocess.run([str(w) for w in words], check=True, capture_output=True).stdout


def test_a_pair_signs_the_same_bytes_each_time_and_its_owner_alone_reads_it(
    tmp_path: Path,
) -> None:
    private, public = tmp_path / "keys" / "sign.pem", tmp_path / "sign.pub"
    made = new_pair(private, public)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    first, second = (SigningReference.given(str(private)).sign(DATA) for _ in range(2))
    assert first == second
    signature, own = first
    assert len(signature) == 64 and own == public.read_bytes()
    key = PublicKey.given(str(public))
    assert key.fingerprint == made.fingerprint
    assert key.signed(DATA, signature)
    assert not key.signed(DATA + b" ", signature)
    other = new_pair(tmp_path / "other.pem", tmp_path / "other.pub")
    assert not other.signed(DATA, signature) and other.fingerprint != made.fingerprint


@pytest.mark.parametrize("there", ["sign.pem", "sign.pub"])
def test_no_key_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(UsageError, match=f"{there} exists; a key is never"):
        new_pair(tmp_path / "sign.pem", tmp_path / "sign.pub")
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@OPENSSL
def test_openssl_checks_what_we_sign_and_its_keys_sign(tmp_path: Path) -> None:
    private = tmp_path / "key.pem"
    ran("openssl", "genpkey", "-algorithm", "ed25519", "-out", private)
    signature, public = SigningReference.given(str(private)).sign(DATA)
    (tmp_path / "data").write_bytes(DATA)
    (tmp_path / "data.sig").write_bytes(signature)
    (tmp_path / "data.pub").write_bytes(public)
    assert public == ran("openssl", "pkey", "-in", private, "-pubout")
    check = [
        "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", tmp_path / "data.pub", "-rawin",
        "-in", tmp_path / "data", "-sigfile", tmp_path / "data.sig",
    ]  # fmt: skip
    assert b"Success" in ran(*check)
    der = ran("openssl", "pkey", "-pubin", "-in", tmp_path / "data.pub", "-outform", "DER")
    (tmp_path / "der").write_bytes(der)
    told = ran("openssl", "dgst", "-sha256", tmp_path / "der").decode()
    assert PublicKey.from_text(public, "x").fingerprint in told
    (tmp_path / "data").write_bytes(DATA + b" ")
    with pytest.raises(subprocess.CalledProcessError):
        ran(*check)


@KEYGEN
def test_keys_of_ssh_keygen_sign_and_check(tmp_path: Path) -> None:
    ran("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id")
    signature, _ = SigningReference.given(str(tmp_path / "id")).sign(DATA)
    assert PublicKey.given(f"file:{tmp_path}/id.pub").signed(DATA, signature)
    ran("ssh-keygen", "-q", "-t", "ed25519", "-N", "hunter2", "-f", tmp_path / "locked")
    with pytest.raises(UsageError, match="has a passphrase"):
        SigningReference.given(str(tmp_path / "locked")).key()


def test_a_key_is_found_by_the_references_of_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_pair(tmp_path / "a b.pem", tmp_path / "p.pem")
    monkeypatch.setenv("TEST_SIGN", (tmp_path / "a b.pem").read_text())
    texts = ["env:TEST_SIGN", f"command:cat '{tmp_path}/a b.pem'", f"file:{tmp_path}/a b.pem"]
    assert len({SigningReference.given(text).sign(DATA) for text in texts}) == 1
    with pytest.raises(RetryLater):
        SigningReference.given("command:sh -c 'exit 75'").key()


OWN, CURVE = Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())
AS_PRIVATE, AS_PUBLIC = (Encoding.PEM, PrivateFormat.PKCS8), PublicFormat.SubjectPublicKeyInfo
KEYS = {
    "passphrase": OWN.private_bytes(*AS_PRIVATE, BestAvailableEncryption(b"hunter2")),
    "private": OWN.private_bytes(*AS_PRIVATE, NoEncryption()),
    "public": OWN.public_key().public_bytes(Encoding.PEM, AS_PUBLIC),
    "curve": CURVE.private_bytes(*AS_PRIVATE, NoEncryption()),
    "curve's public": CURVE.public_key().public_bytes(Encoding.PEM, AS_PUBLIC),
    "text": b"hunter2",
}


@pytest.mark.parametrize(
    ("of", "kind", "told"),
    [
        (SigningReference, "passphrase", "has a passphrase"),
        (SigningReference, "curve", "of another kind than ed25519"),
        (SigningReference, "public", "is a public one; sign with the private one"),
        (SigningReference, "text", "no private key in PEM"),
        (PublicKey, "private", "is private"),
        (PublicKey, "curve's public", "of another kind than ed25519"),
        (PublicKey, "text", "no public key in PEM"),
    ],
)
def test_another_key_does_not_sign_is_not_trusted_and_is_not_shown(
    tmp_path: Path, of: Any, kind: str, told: str
) -> None:
    data = KEYS[kind]
    (tmp_path / "key").write_bytes(data)
    with pytest.raises(UsageError, match=told) as raised:
        of.given(str(tmp_path / "key")).key()
    body = data.decode().splitlines()[1] if b"\n" in data else data.decode()
    assert body not in str(raised.value)


def test_a_key_that_is_given_as_it_is_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no private key in PEM at"):
        SigningReference.given(str(tmp_path / "none.pem")).key()
    key = KEYS["private"].decode()
    with pytest.raises(UsageError, match="not the key itself") as raised:
        SigningReference.given(key)
    assert key.splitlines()[1] not in str(raised.value)
