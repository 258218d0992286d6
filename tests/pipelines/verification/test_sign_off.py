"""`tracecloak verify --sign_off`: a page that an officer signs, of the release alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden.releases import EXIT_CODE, log_file, recorded
from tests.pipelines.verification.test_verify import CHECKS
from tests.support.examples import examples_of
from tests.support.pages import Read
from tests.support.received import copied, digest_of, edited, failed, made, states
from tests.support.releasing import as_typed
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.verification.folder import Finding, ReceivedFolder
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.verify import Verification, sign_off_html, verify
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.publish.statement import in_words

_BY_DAY = {
    *("amun", "private-log", "process-tree", "tlkc", "variant-histogram", "private-indicators"),
}
_REFUSED = {name for name, found in recorded()["digests"].items() if EXIT_CODE in found}
_ALL = [
    (name, n)
    for name, method in METHODS.items()
    for n in range(len(examples_of(method)))
    if f"{name} {n}" not in _REFUSED
]


def signed_off(release: Path, place: Path) -> Read:
    """The page that the command writes for a release that holds."""
    assert as_typed("verify", release, "--sign_off", place, "--quiet") == 0
    return Read(place.read_bytes())


def page_of(release: Path) -> bytes:
    """The page of whatever a manifest says, as if all checks that apply had held."""
    received = Received.of(ReceivedFolder.at(str(release)))
    finding = Finding("signature", "not applicable", "The release is not signed.")
    return sign_off_html(Verification(str(release), (finding,), None), received)


@pytest.mark.parametrize(
    ("method", "number"),
    [case if case[0] in _BY_DAY and not case[1] else at_night(*case) for case in _ALL],
)
def test_every_kind_of_release_holds_and_its_page_has_the_numbers_of_the_manifest(
    tmp_path: Path, method: str, number: int
) -> None:
    release = made(tmp_path, method, number)
    found = verify(str(release))
    assert failed(found) == {} and found.holds and tuple(states(found)) == CHECKS
    expected = "ok" if METHODS[method].verifies else "not applicable"
    assert states(found)["property"] == expected
    for check in ("manifest", "files", "leftovers", "statement", "copies", "method", "data"):
        assert states(found)[check] == "ok"
    # Both are made again of the folder, whatever the method.
    assert "it is the same bytes" in found.findings[CHECKS.index("page")].sentence
    # Of groups a log has a picture, too; figures that are asked for have charts on the page alone.
    has_pictures = any(release.glob("*.svg"))
    assert has_pictures or METHODS[method].log != "none" or (release / "indicators.json").exists()
    assert states(found)["pictures"] == ("ok" if has_pictures else "not applicable")
    text = signed_off(release, tmp_path / "page.html").text.replace("\u00a0", " ")
    data = (release / "manifest.json").read_bytes()
    body = json.loads(data)
    assert hashlib.sha256(data).hexdigest() in text
    assert body["release_id"] in text and f"by the method {method}" in text.replace(" ,", ",")
    for said in in_words(ReleaseManifest.from_json(body)).values():
        assert said in text
    for said in (body["guarantee"]["sentence"], *body["guarantee"]["not_covered"]):
        assert said in text
    quote_names = text.split("What is declared as public")[1].split("Decision")[0]
    quote_names += text.split("Other parameters")[1].split("Checks that do not apply")[0]
    for name, value in body["params"].items():
        is_off = value in (None, [], {}) or value is False
        assert is_off == (re.search(rf"(?<!\w){name} ", quote_names) is None), name
    vocabulary = body["params"].get("vocabulary")
    assert not vocabulary or f"vocabulary {', '.join(vocabulary)}" in text
    assert "that applies holds: the files belong together" in text
    assert "No file can show whether the noise was drawn as it says" in text
    # The sheet that is signed names what it is of.
    decided = text.split("Decision")[1].split("Annex")[0]
    assert f"Release {body['release_id']}, whose manifest has the digest" in decided
    assert hashlib.sha256(data).hexdigest()[:16] in decided
    assert text.index("What is not promised") < text.index("Date and signature")


def test_nothing_of_the_original_is_needed_or_shown(tmp_path: Path) -> None:
    release = made(tmp_path, "private-dfg", 0)
    log = log_file(tmp_path).read_text()
    alone = shutil.move(release, tmp_path / "received")
    shutil.rmtree(tmp_path / "keys")
    signed_off(alone, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert str(tmp_path) not in page
    stamps = {line.split(",")[2] for line in log.splitlines()[1:]}
    assert stamps and not [stamp for stamp in stamps if stamp in page]


def test_nobody_is_asked_to_sign_for_what_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = made(tmp_path, "private-dfg", 0)
    changed = copied(release, tmp_path)
    (changed / "dfg.json").write_text("{}")
    capsys.readouterr()
    assert as_typed("verify", changed, "--sign_off", tmp_path / "page.html") == 5
    told = capsys.readouterr().out
    assert "FAILED files" in told and "not written: nobody should sign" in told
    assert as_typed("verify", changed, "--sign_off", tmp_path / "page.html", "--json") == 5
    assert json.loads(capsys.readouterr().out)["sign_off"] is None
    assert not (tmp_path / "page.html").exists()
    assert as_typed("verify", release, "--sign_off", tmp_path / "page.html", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sign_off"] == str(tmp_path / "page.html")
    # In the release it would be a file that is no part of it.
    assert as_typed("verify", release, "--sign_off", release / "more" / "page.html") == 2
    assert "name a file outside of it" in capsys.readouterr().err
    assert not (release / "more").exists()


def test_what_could_not_be_checked_stands_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = made(tmp_path, "private-dfg", 0)
    monkeypatch.setattr("tracecloak.pipelines.verification.received.TOOL_VERSION", "99.0")
    place = tmp_path / "page.html"
    assert as_typed("verify", release, "--sign_off", place, "--quiet") == 8
    text = Read(place.read_bytes()).text
    assert "Not everything could be checked." in text and "that applies holds" not in text
    assert "method: The release is by tracecloak" in text


HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u0007 {{ 7 * 7 }}"


def test_texts_of_a_hostile_manifest_are_texts(tmp_path: Path) -> None:
    """Catches markup, templates and characters that turn a line round in what others wrote."""
    release = made(tmp_path, "private-log", 0)
    before = Read(page_of(release))

    def edit(body: Any) -> None:
        body["about"] = {name: HOSTILE for name in ("title", "data_subjects", "contact", "purpose")}
        body["guarantee"].update(sentence=HOSTILE, claim=HOSTILE, reality=HOSTILE)
        body["guarantee"]["not_covered"] = [HOSTILE, "x" * 100_000, "two\nlines"]
        body["params"].update(vocabulary=[HOSTILE] * 1000, max_trace_length=HOSTILE, more=HOSTILE)
        body["time_caveats"] = [HOSTILE]
        body["spends"][0]["blocks"][0]["what"] = HOSTILE
        body["outputs"][0]["path"] = HOSTILE

    edited(release, edit)
    page = page_of(release)
    assert len(page) < 200_000
    assert "\u202e" not in page.decode() and "\u0007" not in page.decode()
    read = Read(page)
    assert "<script>alert(1)</script><img" in read.text and "{{ 7 * 7 }}" in read.text
    names = {tag for tag, _ in read.elements}
    assert names <= {tag for tag, _ in before.elements} | {"li", "p"}
    assert not [name for _, names in read.elements for name in names if name.startswith("on")]
    assert len(read.scripts) == len(before.scripts)
    assert "960 more in manifest.json" in read.text and "two lines" in read.text


def test_the_manifest_that_was_verified_is_signed_whatever_is_there_meanwhile(
    tmp_path: Path,
) -> None:
    release = made(tmp_path, "tlkc", 0)
    digest = digest_of(release / "manifest.json")
    verified = verify(str(release))
    assert verified.received is not None
    edited(release, lambda body: body["params"].update(k=50))
    page = sign_off_html(verified, verified.received)
    assert digest in page and digest_of(release / "manifest.json") not in page


@pytest.mark.slow
def test_an_epoch_of_a_stream_has_a_page(stream_release: Path, tmp_path: Path) -> None:
    text = signed_off(stream_release, tmp_path / "page.html").text
    assert "It is epoch 1 of a stream, whose" in text and "steps of the epoch together" in text
