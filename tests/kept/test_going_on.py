"""This build goes on from what each version left behind, or says the remedy.

A release whose method has another version now may not be finished: the noise would be another. All
else that a version wrote is read, verified, recognised, summed and finished by every later one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.kept.places import HOME, scenario, versions
from tests.kept.record import CUT_OFF, DATABASE, OFFICER, STREAMS, URL, shared_ledger
from tests.support.local_streams import run_script
from tests.support.releasing import (
    Commands,
    Ended,
    counting_charges,
    digests,
    fix_key,
    ledger_entries,
    manifest,
)
from tests.support.stream_runs import Sent, files_of, stream_config
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS, REMOVED
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.pipelines.stream.plan import load_stream, resolve
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.schemas.published.step import StepRelease

FIRST, SECOND = b"k" * 32, b"2" * 32
BY_DAY = {"private-dfg"}

pytestmark = pytest.mark.skipif(
    HOME.parent.resolve() != HOME.parent, reason=f"{HOME.parent} is a link on this machine"
)


@pytest.fixture(params=versions())
def kept(request: pytest.FixtureRequest) -> str:
    """The version that wrote what the test goes on from."""
    return str(request.param)


class Releases:
    """The releases that a version left behind, and their commands."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder, self.keys = folder, folder / "keys"
        self._commands = commands

    def place(self, name: str) -> Path:
        return self.folder / "out" / f"run_id={name}"

    def again(self, name: str) -> Ended:
        return self._commands.run("release", self.folder / name / "release.yaml", secret=SECOND)

    def command(self, *words: object) -> Ended:
        return self._commands.run(*words)

    def ledger(self, action: str, *flags: object) -> Ended:
        return self.command("ledger", action, "--key_store", self.keys, *flags)

    def actions(self, name: str) -> list[str]:
        return [e.action for e in ledger_entries(self.keys) if e.release_id == name]


@pytest.fixture
def releases(kept: str, commands: Commands) -> Iterator[Releases]:
    with scenario(kept, "releases") as folder:
        migrate(commands, "--key_store", folder / "keys")
        yield Releases(folder, commands)


def migrate(commands: Commands, *flags: object) -> None:
    ended = commands.run("ledger", "migrate", *flags)
    assert ended.code == 0, ended.text


def is_finished(ended: Ended, begun_by_version: int, version: int) -> bool:
    """Whether a release was finished; else its method has another version, and that is said."""
    if begun_by_version == version:
        assert ended.code == 0, ended.text
        return True
    told = "another spend", "whose noise is another"
    assert ended.code == 6 and any(words in ended.text for words in told), ended.text
    return False


@pytest.mark.parametrize(
    "method", [name if name in BY_DAY else at_night(name) for name in sorted(METHODS)]
)
def test_a_finished_release_is_verified_recognised_and_reported(
    releases: Releases, method: str
) -> None:
    name = f"finished-{method}"
    if not releases.place(name).exists():
        pytest.skip(f"{method} is younger than what is kept")
    before, files = releases.actions(name), digests(releases.place(name))
    verified = releases.command("verify", releases.place(name))
    # What another version promises, and how it words that, cannot be judged here; all else is.
    is_of_now = manifest(releases.place(name))["tool"]["version"] == TOOL_VERSION
    unsure = [] if is_of_now else ["statement", "method", "page"]
    assert verified.code == (0 if is_of_now else 8), verified.text
    assert re.findall(r"\nUNSURE (\w+)", verified.text) == unsure
    again = releases.again(name)
    assert again.code == 0 and "already released" in again.text, again.text
    assert releases.actions(name) == before
    assert digests(releases.place(name)) == files
    report = releases.folder / "report.html"
    config = releases.folder / name / "release.yaml"
    flags = ("--config", config, "--output", report)
    reported = releases.command("report", releases.place(name), *flags)
    assert reported.code == 0 and report.exists(), reported.text


@pytest.mark.parametrize("method", REMOVED)
def test_a_release_of_a_removed_method_is_accounted_for_without_it(
    releases: Releases, method: str
) -> None:
    """Catches a manifest that only the method's own code can account for."""
    place = releases.place(f"finished-{method}")
    verified = releases.command("verify", place)
    assert verified.code == 8, verified.text
    assert f"The method {method} was removed from tracecloak" in verified.text
    assert re.search(r"\nok +budget +The parts of the budget add up", verified.text)
    path = place / "manifest.json"
    body = path.read_text()
    assert '"epsilon": 1.0' in body
    path.write_text(body.replace('"epsilon": 1.0', '"epsilon": 0.5', 1))
    assert releases.command("verify", place).code == 5
    again = releases.again(f"finished-{method}")
    assert again.code == 2 and f"{method} was removed from tracecloak: use " in again.text


def test_a_signed_release_is_verified_against_its_key(releases: Releases) -> None:
    public = releases.folder / "signer.pem.pub"
    verified = releases.command("verify", releases.place("signed"), "--key", public)
    assert verified.code in (0, 8) and "\nok     signature" in verified.text, verified.text


@pytest.mark.parametrize("method", CUT_OFF)
def test_a_cut_off_release_is_finished_with_the_same_noise(releases: Releases, method: str) -> None:
    name = f"drawn-{method}"
    receipt = KeyStore(releases.keys).receipt(str(releases.folder / "out"), name)
    assert receipt is not None
    ended = releases.again(name)
    if is_finished(ended, receipt.origin.method_version, METHODS[method].version):
        key = manifest(releases.place(name))["randomness"]["key_fingerprint"]
        assert key == ReleaseKey(FIRST).fingerprint
        assert releases.actions(name) == ["reserve", "draw", "commit"]
    else:
        given_up = releases.ledger(
            "forfeit", "--output", releases.folder / "out", "--release_id", name, *OFFICER
        )
        assert given_up.code == 0, given_up.text


@pytest.mark.parametrize(
    ("name", "code", "last"),
    [at_night("reserved", 0, "commit"), ("visible", 0, "commit"),
     at_night("given-up", 0, "commit"), ("withdrawn", 2, "withdraw")],
)  # fmt: skip
def test_other_ends_are_known(releases: Releases, name: str, code: int, last: str) -> None:
    ended = releases.again(name)
    assert ended.code == code, ended.text
    assert releases.actions(name)[-1] == last
    counting = [e for e in counting_charges(releases.keys) if e.release_id == name]
    assert len(counting) == (2 if name == "given-up" else 1)


def test_the_ledger_counts_caps_and_takes_back(releases: Releases) -> None:
    entries = ledger_entries(releases.keys)
    assert problems(entries) == []
    balances = releases.ledger("show", "--json")
    assert balances.code == 0, balances.text
    body = (releases.folder / "signed" / "release.yaml").read_text()
    path = releases.folder / "too-much.yaml"
    path.write_text(body.replace("release_id: signed", "release_id: too-much"))
    ended = releases.command("release", path, "--epsilon", 1000)
    assert ended.code == 4, ended.text
    where = ("--output", releases.folder / "out", "--release_id", "finished-private-dfg")
    ended = releases.ledger("withdraw", *where, *OFFICER)
    assert ended.code == 0, ended.text
    assert not releases.place("finished-private-dfg").exists()
    waiting = releases.ledger("list-unfinished")
    assert waiting.code == 0 and "drawn-private-log" in waiting.text, waiting.text


def test_windows_go_on(kept: str, commands: Commands) -> None:
    with scenario(kept, "windows") as folder:
        lake, keys = folder / "lake", folder / "lake" / "keys"
        receipt = KeyStore(keys).receipt(str(lake / "out"), "ward-2026-02")
        assert receipt is not None
        config = lake / "release.yaml"
        migrate(commands, config)
        ended = commands.run("release", config, "--window", "2026-02", secret=SECOND)
        version = METHODS["variant-histogram"].version
        if not is_finished(ended, receipt.origin.method_version, version):
            return
        assert commands.run("release", config, "--window", "2026-03").code == 0
        calendar = commands.run("windows", config, "--json")
        assert calendar.code == 0
        # Several windows cost a unit what one of them costs: the book knows who counted before.
        assert OfficersLedger(KeyStore(keys).ledger_url).balance("default").spent_epsilon == 3
        assert commands.run("ledger", "verify", config).code == 0


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on(
    kept: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    commands: Commands,
) -> None:
    fix_key(monkeypatch)
    with scenario(kept, "streams") as folder:
        migrate(commands, "--key_store", folder / name / "keys")
        happenings: list[Any] = json.loads((folder / "happenings.json").read_text())
        happenings = [
            h if isinstance(h, float | int) else [Sent(*sent) for sent in h] for h in happenings
        ]
        flags = yaml.safe_load((folder / name / "stream.yaml").read_text())
        config = load_stream(None, flags)
        before = files_of(config)
        assert before
        receipt = KeyStore(folder / name / "keys").receipt(config.output, resolve(config).name.both)
        assert receipt is not None
        if receipt.origin.method_version != STREAM_PRODUCTS[config.product].version:
            with pytest.raises(TracecloakError, match="begin another epoch"):
                run_script(config, happenings)
            return
        assert run_script(config, happenings).is_spent
        after = files_of(config)
        steps = {path: data for path, data in before.items() if path.startswith("product")}
        assert steps and all(after[path] == data for path, data in steps.items())
        assert len(counting_charges(folder / name / "keys")) == 1
        whole = stream_config(tmp_path, **STREAMS[name])
        run_script(whole, happenings)
        anew = {p: data for p, data in files_of(whole).items() if p.startswith("product")}
        anew |= {path: _in_form_of(anew[path], data) for path, data in steps.items()}
        assert anew == {p: data for p, data in after.items() if p.startswith("product")}


def _in_form_of(data: bytes, kept_data: bytes) -> bytes:
    """A file of a step as an earlier version wrote it: of its form, if it says the same."""
    if data.startswith(b"PAR1"):
        before = pq.read_table(io.BytesIO(kept_data))
        table = pq.read_table(io.BytesIO(data)).select(before.column_names)
        return kept_data if table.equals(before) else data
    if b'"cells":' not in data:  # of a log
        return data
    return StepRelease.from_json(data).in_form_of(StepRelease.from_json(kept_data)).to_json()


@pytest.mark.slow
def test_a_shared_ledger_is_restored_and_goes_on(kept: str, tmp_path: Path) -> None:
    with scenario(kept, "postgresql") as folder, shared_ledger(tmp_path) as server:
        server.restore(DATABASE, folder / "ledger.sql")
        with Commands() as commands:
            migrate(commands, "--key_store", folder / "keys", "--ledger", URL)
            again = commands.run("release", folder / "finished.yaml", secret=SECOND)
            assert again.code == 0 and "already released" in again.text, again.text
            receipt = KeyStore(folder / "keys").receipt(str(folder / "out"), "drawn")
            assert receipt is not None
            ended = commands.run("release", folder / "drawn.yaml", secret=SECOND)
        if is_finished(ended, receipt.origin.method_version, METHODS["private-dfg"].version):
            entries = OfficersLedger(URL).entries()
            assert problems(entries) == []
            assert [e.action for e in entries if e.release_id == "drawn"][-1] == "commit"
