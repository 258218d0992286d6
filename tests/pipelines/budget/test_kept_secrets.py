"""Keys at rest: wrapped by a key of a service, in no release and in no folder that others read."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.releasing import (
    Commands,
    Place,
    digests,
    fix_key,
    key_files,
    ledger_entries,
    manifest,
    small_release,
    tracecloak,
    visible,
)
from tests.support.stream_runs import Sent, files_of, in_time, run, stream_config
from tests.support.tiers import at_night
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.keys import kept_secrets, key_store
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError, Receipt, snapshot_of
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, KeyReference

FIRST, SECOND, NOISE = b"1" * 32, b"2" * 32, b"k" * 32


class Hospital(Place):
    """One log, one key store, and references to the keys of two services."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.first, self.second = f"file:{folder}/first", f"file:{folder}/second"
        (folder / "first").write_text(FIRST.hex())
        (folder / "second").write_text(SECOND.hex())

    def made(self, name: str, key: str | None = None, *flags: object) -> int:
        return self.run("--release_id", name, *_named(key), *flags)

    def line(self, name: str, key: str | None = None) -> list[object]:
        return small_release(self.folder, *_named(key), "--release_id", name)

    def drew(self, name: str, key: str | None = None, *flags: object) -> None:
        """Ends a run as a kill would, after it drew noise."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReleaseRegistry, "void", lambda *_: False)
            self.cut_off("--release_id", name, *_named(key), *flags)

    def rewrap(self, before: str, after: str) -> int:
        return tracecloak(
            "key", "rewrap", "--key_store", self.keys, "--from", before, "--to", after
        )

    def store(self, key: str | None = None) -> KeyStore:
        return KeyStore(self.keys, None, key)

    def secrets(self) -> dict[str, str]:
        """What lies in the files of secrets."""
        paths = sorted([*self.keys.glob("*.secret"), *key_files(self.keys)])
        return {path.name: path.read_text() for path in paths}

    def wrapped_by(self) -> set[str]:
        """Which keys wrap them."""
        names = {"first": FIRST, "second": SECOND}
        marks = {KeyEncryptionKey(key, "").fingerprint: name for name, key in names.items()}
        return {
            marks[text.split(":")[1]] if text.startswith("wrapped:") else "none"
            for text in self.secrets().values()
        }


def _named(key: str | None) -> list[str]:
    return [] if key is None else ["--key_encryption_key", key]


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hospital:
    fix_key(monkeypatch, NOISE)
    return Hospital(tmp_path)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


# --- What lies where ------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_no_release_changes_by_how_its_key_is_kept(
    hospital: Hospital, tmp_path: Path, runner: str
) -> None:
    assert hospital.made("r", hospital.first, "--runner", runner) == 0
    (tmp_path / "other").mkdir()
    plain = Hospital(tmp_path / "other")
    assert plain.made("r", None, "--runner", runner) == 0
    made, expected = (at / "out" / "run_id=r" for at in (tmp_path, plain.folder))
    assert digests(made) == digests(expected)
    assert manifest(made) == manifest(expected)
    assert ledger_entries(hospital.keys)[0].config_digest == manifest(made)["config_digest"]
    assert hospital.wrapped_by() == {"first"} and plain.wrapped_by() == {"none"}
    # Run again, with the key kept in another way, it is the same release.
    assert plain.made("r", plain.first, "--runner", runner) == 0
    assert plain.wrapped_by() == {"first"}
    assert len(ledger_entries(plain.keys)) == 3


def test_neither_key_nor_service_can_be_read_where_keys_lie(
    hospital: Hospital, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    hospital.drew("r", hospital.first, "--worker_keys", tmp_path / "shared")
    (copy,) = (tmp_path / "shared").iterdir()
    (key,) = key_files(hospital.keys)
    assert copy.read_bytes() == key.read_bytes()
    with pytest.raises(UsageError, match="is encrypted; name the key"):
        KeyReference(f"file:{copy}").resolve()
    assert KeyReference(f"file:{copy}", wrapped_by=hospital.first).resolve().hex() == NOISE.hex()
    for folder in (hospital.keys, tmp_path / "shared", tmp_path / "_incomplete-out"):
        for path in filter(Path.is_file, folder.rglob("*")):
            for secret in (NOISE, FIRST):
                assert secret not in path.read_bytes()
                assert secret.hex().encode() not in path.read_bytes()


def test_a_stream_keeps_its_keys_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital = Hospital(tmp_path)
    config = stream_config(tmp_path, key_encryption_key=hospital.first, horizon=2)
    expected = stream_config(tmp_path, output=str(tmp_path / "plain"), horizon=2,
                             key_store=str(tmp_path / "plain keys"))  # fmt: skip
    sent = [Sent(i, f"c{i}", "END") for i in range(25)]
    fix_key(monkeypatch)
    assert run(config, in_time(sent, 80)).is_spent
    assert run(expected, in_time(sent, 80)).is_spent
    assert files_of(config) == files_of(expected)
    assert hospital.wrapped_by() == {"first"}
    assert len(key_files(hospital.keys)) == 1  # that of identities


# --- Without the key, or with another -------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "is encrypted; name the key that encrypted it with key_encryption_key"),
        ("second", "is encrypted by another than 'file:"),
        ("none", "no key of 64 hex digits at 'file:"),
    ],
)
def test_a_wrapped_store_without_its_key_releases_nothing(
    hospital: Hospital, capsys: pytest.CaptureFixture[str], key: str | None, said: str
) -> None:
    assert hospital.made("made", hospital.first) == 0
    hospital.drew("r", hospital.first)
    before = hospital.secrets(), ledger_entries(hospital.keys), visible(hospital.folder / "out")
    named = key and f"file:{hospital.folder}/{key}"
    told(capsys)
    for name in ("r", "made", "new"):
        assert hospital.made(name, named) == 2
        assert said in told(capsys)
    # Without its own secret the store could not be told from a new one.
    (hospital.keys / "store.secret").rename(hospital.keys / "away")
    assert hospital.made("new", named) == 2
    assert said in told(capsys)
    assert not (hospital.keys / "store.secret").exists()
    (hospital.keys / "away").rename(hospital.keys / "store.secret")
    found = hospital.secrets(), ledger_entries(hospital.keys), visible(hospital.folder / "out")
    assert found == before
    assert hospital.made("r", hospital.first) == 0
    assert [e.action for e in ledger_entries(hospital.keys)[3:]] == ["reserve", "draw", "commit"]


def test_a_program_that_makes_keys_up_is_refused_before_it_wraps_anything(
    hospital: Hospital, capsys: pytest.CaptureFixture[str]
) -> None:
    service = hospital.folder / "service"
    service.write_text('#!/bin/sh\necho x >> "$0.calls"\nprintf %064d "$(wc -l < "$0.calls")"\n')
    service.chmod(0o700)
    assert hospital.made("r", f"command:{service}") == 2
    assert "gives another key whenever it is asked" in told(capsys)
    assert not hospital.keys.exists()
    hospital.drew("r")
    assert hospital.made("r", f"command:{service}") == 2
    assert hospital.wrapped_by() == {"none"}
    assert hospital.rewrap(hospital.first, f"command:{service}") == 2
    assert "'command:" in told(capsys)
    assert hospital.wrapped_by() == {"none"}


# --- Another key ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["takes over", "rewraps"])
def test_keys_are_wrapped_anew_while_no_release_is_at_work(
    hospital: Hospital, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    def wraps() -> int:
        if way == "rewraps":
            return hospital.rewrap(hospital.first, hospital.second)
        return hospital.made("new", hospital.first)

    hospital.drew("r", hospital.first if way == "rewraps" else None)
    before = hospital.secrets()
    with hospital.store().alone(str(hospital.folder / "out"), "r"):
        assert wraps() == 75
        assert "is at work" in told(capsys)
    assert hospital.secrets() == before
    assert wraps() == 0


@pytest.mark.parametrize("key", [None, "first"])
def test_who_opened_the_store_before_its_keys_were_wrapped_anew_makes_none(
    hospital: Hospital, key: str | None
) -> None:
    named = key and hospital.first
    store = hospital.store(named)
    store.identity()
    hospital.store(hospital.second).rewrap(hospital.first)
    before = hospital.secrets()
    with pytest.raises(UsageError, match=r"is encrypted( by another than|; name the key)"):
        store.reserve("out", "r", "input", "configuration")
    assert hospital.secrets() == before


def test_a_rewrap_that_is_cut_off_goes_on(
    hospital: Hospital, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("r", "s"):
        hospital.drew(name, hospital.first)
    assert hospital.rewrap(hospital.second, hospital.first) == 0
    assert capsys.readouterr().out.startswith("0 encrypted anew")
    write, n_left = kept_secrets.write_private, 3

    def some(*arguments: object) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(28, os.strerror(28))
        write(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(kept_secrets, "write_private", some)
        assert hospital.rewrap(hospital.first, hospital.second) == 6
    assert hospital.wrapped_by() == {"first", "second"}
    for key in (hospital.first, hospital.second):
        assert hospital.made("r", key) == 2
        assert "run an interrupted `tracecloak key rewrap` again" in told(capsys)
    assert hospital.rewrap(hospital.first, hospital.second) == 0
    assert capsys.readouterr().out.startswith("1 encrypted anew")
    assert hospital.wrapped_by() == {"second"}
    (hospital.folder / "first").unlink()  # nothing needs it any more
    assert hospital.rewrap(hospital.first, hospital.second) == 0
    assert hospital.made("r", hospital.second) == hospital.made("s", hospital.second) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "at", [f"{when} wrapped {n}" for n in (1, 2) for when in ("before", "after")]
)
@pytest.mark.parametrize("way", ["takes over", "rewraps"])
def test_wherever_wrapping_is_killed_it_goes_on(
    tmp_path: Path, commands: Commands, way: str, at: str
) -> None:
    hospital = Hospital(tmp_path)
    before = hospital.first if way == "rewraps" else None
    cut_off = commands.run(*hospital.line("r", before), at="kill before commit", secret=NOISE)
    assert cut_off.code == -9
    rewrap = ["key", "rewrap", "--key_store", hospital.keys, "--from", hospital.first, "--to",
              hospital.second]  # fmt: skip
    wraps = rewrap if way == "rewraps" else hospital.line("r", hospital.second)
    assert commands.run(*wraps, at=f"kill {at}").code == -9
    assert commands.run(*wraps).code == 0
    assert hospital.wrapped_by() == {"second"}
    assert commands.run(*hospital.line("r", hospital.second)).code == 0
    actions = [entry.action for entry in ledger_entries(hospital.keys)]
    assert actions == ["reserve", "draw", "commit"]


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "store")


RECEIPT = asdict(Receipt("r", "/out", "in", "conf", "k", "2026-11-23"))


UNREADABLE = (
    (json.dumps({**RECEIPT, "colour": "red"}), "has colour"),
    (json.dumps({**RECEIPT, "origin": {**RECEIPT["origin"], "size": 1}}), "has size"),
    (json.dumps({"release_id": "r0"}), "is damaged; restore the key store"),
    ("[]", "is damaged"),
    ("{", "is damaged"),
)


def test_a_receipt_that_cannot_be_read_is_told() -> None:
    for text, told in UNREADABLE:
        with pytest.raises(KeyStoreError, match=told):
            Receipt.read(text)


def test_who_was_cut_off_while_a_release_was_forgotten_left_no_receipt_alone(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_removed in range(5):
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
    again = store.reserve("out", "r", "input", "configuration")
    assert again.resolve().hex() == own.resolve().hex()
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
        with pytest.raises(RetryLater, match="another process has held") as told:
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
