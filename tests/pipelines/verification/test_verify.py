"""`tracecloak verify`: what was released holds, whatever it is; what was changed is found."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.object_store import ObjectStore
from tests.support.received import copied, edited, failed, made, rewritten, states
from tests.support.registered import forget
from tests.support.releasing import as_typed, tracecloak
from tests.support.tiers import few_examples
from tests.support.xes_schema import schema_problems
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.verification import received
from tracecloak.pipelines.verification.folder import Finding
from tracecloak.pipelines.verification.verify import Verification, verify
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.keys.signing import SigningReference, new_pair
from tracecloak.transforms.publish.release_files import GZIP_LEVEL

CHECKS = (
    "manifest", "signature", "files", "leftovers", "statement", "copies", "method", "budget",
    "data", "forms", "numbers", "property", "pictures", "page",
)  # fmt: skip


def compared(found: Verification) -> list[str]:
    """What is said to be the same in two forms."""
    [sentence] = [f.sentence for f in found.findings if f.check == "forms"]
    return sentence.removeprefix("The same is said by ").removesuffix(".").split("; ")


# --- What was released holds ----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_a_log_in_one_form_alone_is_looked_at_as_closely(tmp_path: Path, form: str) -> None:
    found = verify(str(made(tmp_path, "pretsa", 2, formats=[form])))
    assert failed(found) == {}
    assert {states(found)[c] for c in ("data", "forms", "numbers", "property")} == {"ok"}
    assert compared(found) == ["the log and its graph, dfg.json"]


def of_names(
    folder: Path, activities: Sequence[str], attributes: dict[str, str], formats: str
) -> Path:
    """A release of 60 cases of these activities, whose attributes have one value each."""
    rows = [
        (case, activity, f"2026-01-0{1 + case % 9}T0{hour}:00:00Z", *attributes.values())
        for case in range(60)
        for hour, activity in enumerate(activities)
    ]
    with (folder / "log.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("case_id", "activity", "timestamp", *attributes), *rows])
    declared = {name: {"values": [value, "other"]} for name, value in attributes.items()}
    config = {
        "log": str(folder / "log.csv"), "output": str(folder / "out"), "release_id": "r",
        "key_store": str(folder / "keys"), "method": "private-log", "runner": "InMemory",
        "params": {"epsilon": 50, "vocabulary": list(activities), "attributes": declared},
        "formats": formats.split(), "even_if_unusable": True,
    }  # fmt: skip
    (folder / "r.yaml").write_text(json.dumps(config))
    assert tracecloak("release", folder / "r.yaml", "--json") == 0
    return folder / "out" / "run_id=r"


def test_attributes_of_any_name_hold_in_xes_as_they_are_written_and_as_they_were(
    tmp_path: Path,
) -> None:
    """A key is a name of XML now; in what earlier versions wrote it is the attribute's name."""
    keys = {"cost center": "cost_center_2", "cost_center": "cost_center", "1st": "_1st"}
    release = of_names(tmp_path, "AB", dict(zip(keys, "xyz", strict=True)), "parquet csv xes")
    data = gzip.decompress((release / "log.xes.gz").read_bytes())
    assert schema_problems(data) == []
    found = verify(str(release))
    assert failed(found) == {} and "parquet and csv and xes" in compared(found)[0]
    other = data.replace(b'"tracecloak:epsilon" value="50', b'"tracecloak:epsilon" value="5')
    assert other != data
    rewritten(release, "log.xes.gz", gzip.compress(other, GZIP_LEVEL))
    assert set(failed(verify(str(release)))) == {"copies"}
    for name, key in keys.items():
        quoted = f'"{key}"'.encode()
        assert quoted in data
        data = data.replace(quoted, f'"{name}"'.encode())
    rewritten(release, "log.xes.gz", gzip.compress(data, GZIP_LEVEL))
    assert states(verify(str(release)))["forms"] == "ok"
    rewritten(release, "log.xes.gz", gzip.compress(data.replace(b'value="x"', b'value="w"', 1)))
    assert states(verify(str(release)))["forms"] == "failed"


def test_formulas_are_told_of_a_csv_and_have_an_apostrophe_in_a_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["=HYPERLINK(0)", "'=A1", "\uff1d1", "-1", "A=1"]
    release = of_names(tmp_path, names, {"+cost": "@x"}, "parquet csv spreadsheet xes")
    told = capsys.readouterr().err
    plain, sheet = (
        list(csv.reader(gzip.decompress((release / name).read_bytes()).decode().splitlines()))
        for name in ("log.csv.gz", "log.spreadsheet.csv.gz")
    )
    assert plain[0][3] == "+cost" and sheet[0][3] == "'+cost"
    for row, beside in zip(plain[1:], sheet[1:], strict=True):
        for cell, other in zip(row, beside, strict=True):
            assert other == "'" * cell.startswith(("=", "-", "@", "\uff1d", "'=")) + cell
    assert told.count("a spreadsheet computes") == 1 and "1 of 'the header', " in told
    found = verify(str(release))
    assert failed(found) == {} and "parquet and csv and spreadsheet" in compared(found)[0]
    data = gzip.decompress((release / "log.spreadsheet.csv.gz").read_bytes())
    for other in (data.replace(b"'=HYP", b"=HYP", 1), data.replace(b"''=A1", b"'=A1", 1)):
        rewritten(release, "log.spreadsheet.csv.gz", gzip.compress(other))
        assert states(verify(str(release)))["forms"] == "failed"


def test_the_folder_alone_gives_the_same_bytes(
    figures_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither key store nor ledger is there, and no key and no stream of one can be made."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("what was released needs no key")

    alone = copied(figures_release, tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "nothing here"))
    for kind in (Randomness, ReleaseKey):
        monkeypatch.setattr(kind, "__init__", refuse)
    found = verify(str(alone))
    assert found.holds
    [forms] = [finding.sentence for finding in found.findings if finding.check == "forms"]
    assert "the log and its figures" in forms
    assert not (tmp_path / "nothing here").exists()


def test_an_epoch_of_a_stream_holds(stream_release: Path) -> None:
    found = verify(str(stream_release))
    assert failed(found) == {}
    assert states(found)["files"] == "not applicable"
    assert {states(found)[c] for c in ("leftovers", "statement", "copies", "budget", "data")} == {
        "ok"
    }


def test_a_release_in_an_object_store_holds(
    log_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "root", tmp_path)
    shutil.copytree(log_release.parent, tmp_path / "o")
    assert failed(verify("objects://o")) == {}
    (tmp_path / "o" / "run_id=golden" / ".more").write_text("x")
    assert set(failed(verify("objects://o/run_id=golden"))) == {"leftovers"}


# --- By another version ---------------------------------------------------------------------------


@pytest.fixture
def of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """What verifies is of a later version than what released."""
    monkeypatch.setattr(received, "TOOL_VERSION", "99.0")


@pytest.mark.usefixtures("of_another_version")
@pytest.mark.parametrize("kind", ["log_release", "signed_release", "stream_release"])
def test_a_release_of_another_version_holds_by_what_does_not_depend_on_it(
    kind: str, request: pytest.FixtureRequest
) -> None:
    found = verify(str(request.getfixturevalue(kind)))
    assert failed(found) == {}
    assert found.verdict == "unsure"
    said = {finding.check: finding for finding in found.findings}
    assert said["method"].state == ("unsure" if kind != "stream_release" else "not applicable")
    # The page is the one that is made here, so what it does is known whoever made it.
    assert kind == "stream_release" or said["page"].state == "ok"
    assert said["statement"].state == "unsure"
    assert "words are not known here" in said["statement"].sentence
    for check in ("manifest", "leftovers", "copies", "data"):
        assert said[check].state == "ok"
    assert said["budget"].state == ("ok" if kind != "log_release" else "not applicable")
    assert kind != "log_release" or said["property"].state == "ok"


def _gone(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "private-dfg")
    patch.setattr(METHODS, "_made", {})


def _without_a_parameter(patch: pytest.MonkeyPatch) -> None:
    class Fewer(contract.Params):
        """None of those that there were."""

    method = type(METHODS["private-dfg"])
    others = {"version": 3, "has_error_bars": not method.has_error_bars, "Params": Fewer}
    for name, value in others.items():
        patch.setattr(method, name, value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_gone, "does not know the method private-dfg."),
        (_without_a_parameter, "by version 2 of private-dfg"),
    ],
)
def test_what_this_installation_does_not_have_is_nobodys_fault(
    signed_release: Path,
    change: Callable[[pytest.MonkeyPatch], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a sound release that fails, whatever version of tracecloak the method is added to."""
    change(monkeypatch)
    found = verify(str(signed_release))
    assert failed(found) == {} and found.verdict == "unsure"
    said = {finding.check: finding for finding in found.findings}
    assert told in said["method"].sentence
    assert {check for check, one in said.items() if one.state == "unsure"} == {"method"}


def test_a_generator_that_is_not_installed_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = made(tmp_path, "private-log", 3)
    assert verify(str(release)).holds
    edited(release, lambda body: body["params"].update(variants="of-others"))
    said = {finding.check: finding for finding in verify(str(release)).findings}
    assert said["method"].state == "unsure"
    assert "name what this installation does not have" in said["method"].sentence
    edited(release, lambda body: body["params"].update(variants="auto", products="zeal"))
    assert states(verify(str(release)))["method"] == "failed"  # the control


# --- Who signed -----------------------------------------------------------------------------------


def test_only_the_trusted_key_will_do(
    signed_release: Path, log_release: Path, tmp_path: Path
) -> None:
    own = signed_release.parents[1] / "sign.pub"
    other = new_pair(tmp_path / "other.pem", tmp_path / "other.pub")

    def signature(key: Path | None = None) -> Finding:
        found = verify(str(signed_release), None if key is None else str(key))
        return found.findings[CHECKS.index("signature")]

    alone, trusted = signature(), signature(own)
    assert alone.state == "ok" and "which you have not said you trust" in alone.sentence
    assert other.fingerprint not in alone.sentence
    assert trusted.state == "ok" and "by the key that you trust" in trusted.sentence
    with_another = copied(signed_release, tmp_path)
    shutil.copy(tmp_path / "other.pub", with_another / "manifest.json.pub")
    without_key = copied(signed_release, tmp_path / "without")
    (without_key / "manifest.json.pub").unlink()  # so the signature alone decides
    anew = copied(signed_release, tmp_path / "anew")
    signer = SigningReference.given(str(tmp_path / "other.pem"))
    signed, public = signer.sign((anew / "manifest.json").read_bytes())
    (anew / "manifest.json.sig").write_bytes(signed)
    (anew / "manifest.json.pub").write_bytes(public)
    assert failed(verify(str(anew))) == {}
    for release, key in (
        (anew, own),
        (without_key, tmp_path / "other.pub"),
        (signed_release, tmp_path / "other.pub"),
        (log_release, own),
        (with_another, own),
    ):
        assert set(failed(verify(str(release), str(key)))) == {"signature"}


# --- The command ----------------------------------------------------------------------------------


def test_the_command_prints_a_line_a_check_and_its_exit_code_says_whether_all_hold(
    log_release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_typed("verify", log_release.parent) == 0
    lines = capsys.readouterr().out.splitlines()
    assert tuple(line.split()[1] for line in lines[: len(CHECKS)]) == CHECKS
    release = copied(log_release, tmp_path)
    (release / "dfg.json").write_text("{}")
    assert as_typed("verify", release) == 5
    assert "FAILED files" in capsys.readouterr().out
    assert as_typed("verify", release, "--json") == 5
    printed = json.loads(capsys.readouterr().out)
    assert (printed["holds"], printed["verdict"]) == (False, "failed")
    assert printed["release"] == str(release)
    assert {c["check"] for c in printed["checks"] if c["state"] == "failed"} == {"files"}


@pytest.mark.parametrize(
    ("line", "code"),
    [(["none"], 3), (["."], 3), ([".", "--key", "none.pem"], 2), ([], 2), (["nowhere://x"], 2)],
)
def test_what_is_not_there_is_told(
    tmp_path: Path, line: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_typed("verify", *line) == code


@pytest.mark.parametrize("path", ["..", "/etc", "run_id=a/../..", "run_id=none", 7, None])
def test_a_pointer_leads_to_a_release_of_its_folder_alone(tmp_path: Path, path: object) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "latest.json").write_text(json.dumps({"path": path}))
    with pytest.raises(InputSchemaError, match="points at no release"):
        verify(str(tmp_path / "out"))


# --- Whatever is in it ----------------------------------------------------------------------------

_FUZZ = few_examples(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(data=st.data())
@_FUZZ
def test_bytes_that_changed_are_found_and_break_nothing(
    log_release: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    release = copied(log_release, tmp_path_factory.mktemp("fuzz"))
    names = sorted(str(p.relative_to(release)) for p in release.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names) | st.just("report.html"))
    before = (release / name).read_bytes()
    start = data.draw(st.integers(0, len(before) - 1))
    end = data.draw(st.integers(start, min(start + 40, len(before))))
    after = before[:start] + data.draw(st.binary(max_size=40)) + before[end:]
    if name == "manifest.json" or data.draw(st.booleans()):
        (release / name).write_bytes(after)
        found = verify(str(release))
        if name != "manifest.json":
            assert found.holds == (after == before)
    else:  # by somebody who also changes the manifest
        rewritten(release, name, after)
        found = verify(str(release))
        # So no page that asks a server or runs a script passes, whatever browsers take for either.
        assert name != "report.html" or ("page" in failed(found)) == (after != before)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@given(data=st.data())
@_FUZZ
def test_a_manifest_that_says_something_else_breaks_nothing(
    signed_release: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    release = copied(signed_release, tmp_path_factory.mktemp("fuzz"))

    def replace(body: Any) -> None:
        holder = body
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
            inner = holder[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                holder = inner
                continue
            holder[key] = data.draw(_JSON)
            return

    edited(release, replace)
    found = verify(str(release))
    assert states(found)["signature"] == "failed"
