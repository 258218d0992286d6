"""Signed releases: the same bytes but for the signature, found wrong before anything is paid."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.releasing import fix_key, ledger_entries, small_release, tracecloak
from tests.support.tiers import at_night
from tracecloak.pipelines.release.opening import signer_of
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.keys.signing import PublicKey, new_pair

SIGNED = ("manifest.json.pub", "manifest.json.sig")


def release(folder: Path, *flags: object, runner: str = "InMemory", out: str = "out") -> int:
    place = ("--output", folder / out, "--key_store", folder / f"{out}-keys", "--release_id", "a")
    return tracecloak(*small_release(folder, *place, "--runner", runner, *flags))


def files(folder: Path, out: str = "out") -> dict[str, bytes]:
    root = folder / out / "run_id=a"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fix_key(monkeypatch)
    new_pair(tmp_path / "sign.pem", tmp_path / "sign.pub")
    return tmp_path / "sign.pem"


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_a_signature_changes_no_other_byte_and_is_the_same_again(
    tmp_path: Path, key: Path, runner: str
) -> None:
    assert release(tmp_path, runner=runner, out="plain") == 0
    assert release(tmp_path, "--sign", key, runner=runner) == 0
    assert release(tmp_path, "--sign", f"file:{key}", runner=runner, out="again") == 0
    plain, signed = files(tmp_path, "plain"), files(tmp_path)
    assert sorted(set(signed) - set(plain)) == list(SIGNED)
    assert {name: signed[name] for name in plain} == plain
    assert files(tmp_path, "again") == signed
    trusted = PublicKey.given(str(tmp_path / "sign.pub"))
    assert trusted.signed(signed["manifest.json"], signed["manifest.json.sig"])


def test_a_finished_release_stays_as_it_is_and_says_whether_it_is_signed(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_pair(tmp_path / "other.pem", tmp_path / "other.pub")
    assert release(tmp_path, out="plain") == release(tmp_path, "--sign", key) == 0
    before = files(tmp_path, "plain"), files(tmp_path)
    place = f"{tmp_path}/out/run_id=a/manifest.json.sig"
    capsys.readouterr()
    for flags, out, told in (
        (["--sign", key], "plain", "missing: the release was made without sign"),
        ([], "out", f"{place}\n"),
        (["--sign", key], "out", f"{place}\n"),
        (["--sign", tmp_path / "other.pem"], "out", f"{place} is by another key"),
    ):
        assert release(tmp_path, *flags, out=out) == 0
        printed = capsys.readouterr().out
        assert "already released" in printed and told in printed
    assert (files(tmp_path, "plain"), files(tmp_path)) == before
    assert release(tmp_path, out="plain") == 0
    assert "sig" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sign", "code"), [("none.pem", 2), ("sign.pub", 2), ("command:sh -c 'exit 75'", 75)]
)
def test_a_key_that_cannot_sign_is_found_before_anything_is_spent(
    tmp_path: Path, key: Path, sign: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert release(tmp_path, "--sign", sign) == code
    assert not (tmp_path / "out").exists()
    assert not ledger_entries(tmp_path / "out-keys")


def test_who_tells_of_a_release_asks_for_no_key_that_may_not_answer_again(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches exit code 75 of a release that is there, as its key answered twice and no more."""
    asked = tmp_path / "asked"
    script = tmp_path / "kms.sh"
    script.write_text(f"echo >> {asked}\n[ $(wc -l < {asked}) -le 2 ] && cat {key} || exit 75\n")
    assert release(tmp_path, "--sign", f"command:sh {script}") == 0
    assert f"{tmp_path}/out/run_id=a/manifest.json.sig\n" in capsys.readouterr().out
    assert [e.action for e in ledger_entries(tmp_path / "out-keys")][-1] == "commit"


def test_a_worker_elsewhere_cannot_read_a_file_of_this_machine(tmp_path: Path, key: Path) -> None:
    driver: Any = SimpleNamespace(is_local=False)

    def plan(text: str) -> Any:
        return SimpleNamespace(keys=SimpleNamespace(runner="DataflowRunner", sign=text))

    with pytest.raises(UsageError, match="sign names a file of this machine"):
        signer_of(plan(str(key)), driver)
    signer_of(plan(f"command:cat {key}"), driver)
