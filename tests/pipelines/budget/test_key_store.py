"""The key store: one key a release, found again after a crash, gone after the commit."""

import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tracecloak.pipelines.keys import key_store
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import (
    KeyStoreError,
    Receipt,
    snapshot_of,
)
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.keys.wrapping import KeyReference


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "store")


RECEIPT = json.loads(Receipt("r", "/out", "in", "conf", "k", "2026-11-23").to_json())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps({**RECEIPT, "colour": "red"}), "has colour, which this version .* not know"),
        (json.dumps({**RECEIPT, "origin": {**RECEIPT["origin"], "size": 1}}), "has size, which"),
        (json.dumps({"release_id": "r0"}), "is damaged; restore the key store"),
        ("[]", "is damaged"),
        ("{", "is damaged"),
    ],
)
def test_a_receipt_that_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(KeyStoreError, match=told):
        Receipt.read(text)


def test_who_was_cut_off_while_a_release_was_forgotten_left_no_receipt_alone(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a receipt without its key, which says that the release was committed."""
    for n_removed in range(4):
        store.reserve("out", "r", "in", "conf")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", _only(n_removed))
            with pytest.raises(KeyboardInterrupt):
                store.forget("out", "r")
        assert store.key_state(store.receipt("out", "r")) != "ended"
    store.forget("out", "r")
    assert store.names("releases/*.key") == []


def _only(n: int) -> Callable[..., None]:
    """`Path.unlink` that does its work so often, and is interrupted then."""
    unlink, left = Path.unlink, [n]

    def some(path: Path, missing_ok: bool = False) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, missing_ok)

    return some


def test_the_fingerprint_is_of_the_bytes_and_of_the_store(tmp_path: Path, store: KeyStore) -> None:
    def fingerprint(of: KeyStore, **texts: str) -> str:
        for path in tmp_path.glob("*.csv"):
            path.unlink()
        for name, text in texts.items():
            (tmp_path / f"{name}.csv").write_text(text)
        return of.fingerprint(snapshot_of(match_files([str(tmp_path / "*.csv")])))

    base = fingerprint(store, a="1", b="2")
    assert base == fingerprint(store, x="2", y="1")  # names and order do not matter
    assert base != fingerprint(store, a="1", b="3")  # a byte does, at the same size
    assert base != fingerprint(store, a="1")
    assert base != fingerprint(KeyStore(tmp_path / "other"), a="1", b="2")


def test_key_references_show_no_key_when_they_fail(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("not a key at all")
    for wrong in (f"file:{path}", "env:TRACECLOAK_NO_SUCH_VARIABLE"):
        with pytest.raises(UsageError) as raised:
            KeyReference(wrong).resolve()
        assert "not a key" not in str(raised.value)
    for wrong in ("k", "file:", "ftp:x"):
        with pytest.raises(UsageError):
            KeyReference(wrong)


def test_workers_elsewhere_find_the_key_in_use_and_no_other(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    store = KeyStore(tmp_path / "own", str(shared))
    given = store.reserve("out", "r", "input", "configuration")
    [copy] = shared.iterdir()
    assert given == KeyReference(f"file:{copy}", given.resolve().fingerprint)
    assert store.reserve("out", "r", "input", "configuration") == given
    own = KeyStore(tmp_path / "own").reserve("out", "r", "input", "configuration")
    assert own.resolve().hex() == given.resolve().hex()
    copy.unlink()  # as by somebody who cleans up: a repetition puts it there again
    assert (
        store.reserve("out", "r", "input", "configuration").resolve().hex() == own.resolve().hex()
    )
    other = store.reserve("out", "s", "input", "configuration")
    store.commit("out", "r")
    assert [f"file:{path}" for path in shared.iterdir()] == [other.text]
    store.forget("out", "s")
    assert list(shared.iterdir()) == []


def test_a_lock_that_nobody_lets_go_is_waited_for_and_then_told(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_store, "_LOCK_SECONDS", 0.1)
    with store.locked("keys.lock"):
        with pytest.raises(RetryLater, match=r"another process holds .*/store/keys\.lock") as told:
            store.reserve("out", "r", "in", "conf")
        assert told.value.exit_code == 75
    store.reserve("out", "r", "in", "conf")


# --- who may look into it -----------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_store_that_others_may_look_into_is_closed_and_the_operator_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "store"
    (folder / "operator").mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "operator").chmod(0o775)
    with caplog.at_level(logging.WARNING, "tracecloak"):
        KeyStore(folder).reserve("out", "r", "in", "conf")
    assert mode_of(folder) == mode_of(folder / "operator") == 0o700
    told = [record.getMessage() for record in caplog.records]
    assert [("mode 755" in line, "mode 775" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    caplog.clear()
    KeyStore(folder).reserve("out", "s", "in", "conf")
    assert not caplog.records


@pytest.mark.parametrize(("mode", "is_told"), [(0o2775, False), (0o2777, True)])
def test_a_volume_of_somebody_else_is_used_and_what_anybody_can_replace_is_told(
    mode: int,
    is_told: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(mode)
    other = os.geteuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: other)
    with caplog.at_level(logging.WARNING, "tracecloak"):
        KeyStore(folder).reserve("out", "r", "in", "conf")
    assert mode_of(folder) == mode and mode_of(folder / "releases") & 0o777 == 0o700
    assert ["anybody can replace" in record.getMessage() for record in caplog.records] == (
        [True] if is_told else []
    )
