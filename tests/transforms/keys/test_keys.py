"""Keys: where they come from, what they wrap, and what they sign, in no message."""

from __future__ import annotations

import os
import pickle
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

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.keys import sources
from tracecloak.transforms.keys.signing import PublicKey, SigningReference, new_pair
from tracecloak.transforms.keys.sources import KEY_SOURCES
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, KeyReference

KEY = "0123456789abcdef" * 4


def program(folder: Path, *lines: str) -> Path:
    """A program of these lines of a shell."""
    path = folder / "service"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return path


def refused(reference: str, kind: type[TracecloakError] = UsageError) -> str:
    with pytest.raises(kind) as raised:
        KeyReference(reference).resolve()
    return str(raised.value)


def test_a_file_a_variable_and_a_command_give_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("TEST_KEY", KEY)
    service = program(tmp_path, f'test "$1 $2" = "get a key" && echo && echo " {KEY} "')
    references = [f"file:{tmp_path}/key", "env:TEST_KEY", f"command:{service} get 'a key'"]
    assert {KeyReference(text).resolve().hex() for text in references} == {KEY}
    assert list(KEY_SOURCES.builtins) == ["file", "env", "command"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["echo hunter2"], "no key of 64 hex digits at 'command:{} …' (ValueError)"),
        (["true"], "(0 bytes, not 32)"),
        ([f"echo {KEY}{KEY}"], "(64 bytes, not 32)"),
        (["printf 'hunter2\\377'"], "(UnicodeDecodeError)"),
        (["yes hunter2"], "(ValueError)"),  # for ever
        (["echo hunter2; echo hunter2 >&2; exit 3"], "key command '{}' ended with exit code 3"),
        (["kill -9 $$"], "exit code -9"),
    ],
)
def test_what_a_command_prints_that_is_no_key_is_not_shown(
    tmp_path: Path, lines: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    service = program(tmp_path, *lines)
    error = refused(f"command:{service} --token=secret1 unlock")
    assert told.format(service) in error
    assert "hunter2" not in error and "secret1" not in error
    assert capfd.readouterr() == ("", "")


def test_a_command_that_asks_for_another_try_gets_one(tmp_path: Path) -> None:
    service = program(tmp_path, "exit 75")
    assert "ended with exit code 75: run" in refused(f"command:{service}", RetryLater)


@pytest.mark.parametrize("of_child", ["", ">&-"])  # with and without the pipe of the key
def test_a_command_that_does_not_end_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_child: str
) -> None:
    monkeypatch.setattr(sources, "PATIENCE_SECONDS", 1.0)
    os.mkfifo(tmp_path / "alive")
    with open(os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK), "rb") as alive:
        # As long as one of the two lives, the pipe `alive` has a writer.
        service = program(
            tmp_path, f"exec 3>{tmp_path}/alive", f"sleep 600 {of_child} &", "echo x >&3",
            f"echo {KEY}", f"exec {of_child}", "wait",
        )  # fmt: skip
        assert "did not end within 1 s" in refused(f"command:{service}", RetryLater)
        os.set_blocking(alive.fileno(), True)
        assert alive.read() == b"x\n"  # to the end, which comes with the last writer's


def test_a_command_is_no_line_of_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = program(tmp_path, 'echo "$@" > "$(dirname "$0")/given"', f"echo {KEY}")
    KeyReference(f"command:{service} $HOME; touch {tmp_path}/x '`id`' | cat").resolve()
    given = (tmp_path / "given").read_text()
    assert given == f"$HOME; touch {tmp_path}/x `id` | cat\n"
    assert not (tmp_path / "x").exists()
    error = refused("command:TOKEN=hunter2 vault read")
    assert "key command 'TOKEN' cannot be run" in error
    assert "cannot be read (No closing quotation)" in refused("command:vault 'x")
    assert "hunter2" not in error


def test_a_command_gets_no_input(tmp_path: Path) -> None:
    """Catches a service that waits for a password on the terminal of a scheduled job."""
    service = program(tmp_path, "if read line; then exit 1; fi", f"echo {KEY}")
    reader, writer = os.pipe()
    saved = os.dup(0)
    try:
        os.dup2(reader, 0)
        os.write(writer, b"yes\n")
        assert KeyReference(f"command:{service}").resolve().hex() == KEY
    finally:
        os.dup2(saved, 0)
        for descriptor in (reader, writer, saved):
            os.close(descriptor)


@pytest.mark.parametrize("text", [KEY, "file:", ":", "command: ", "env:"])
def test_what_is_no_reference_is_not_shown_as_it_may_be_the_key(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        KeyReference(text)
    assert "it may be the key itself" in str(raised.value)
    assert KEY not in str(raised.value)


def test_of_an_unknown_source_its_name_is_told() -> None:
    with pytest.raises(UsageError, match="key source must be one of command, env,"):
        KeyReference("ftp:x")
    with pytest.raises(UsageError, match="one of command, env, file"):
        KeyReference("env:X", wrapped_by="ftp:x")


def test_a_file_that_is_no_key_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as stream:
        stream.truncate(1 << 40)
    assert "(ValueError)" in refused(f"file:{tmp_path}/zeros")
    assert "(FileNotFoundError)" in refused(f"file:{tmp_path}/none")
    assert "(KeyError)" in refused("env:TRACECLOAK_NO_SUCH_VARIABLE")


def test_a_reference_travels_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    reference = KeyReference("env:TEST_KEY", wrapped_by="command:service")
    reference.resolve()
    assert KEY.encode() not in pickle.dumps(reference)
    with pytest.raises(UsageError, match="whose release was abandoned"):
        KeyReference("env:TEST_KEY", "1" * 64).resolve()


# --- Keys that wrap keys --------------------------------------------------------------------------


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


# --- Keys that sign -------------------------------------------------------------------------------


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
