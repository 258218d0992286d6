"""A stream whose runner, messages or budget fail: nothing is counted, drawn or shown twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.transforms.window import TimestampedValue

from tests.support.local_streams import run_script
from tests.support.releasing import counting_charges, key_files
from tests.support.stream_runs import (
    PERIOD,
    Happening,
    Sent,
    accepted,
    batch_pairs,
    counts_of,
    files_of,
    in_time,
    no_noise,
    published,
    random_messages,
    rejected,
    run,
    stream_config,
    stream_of,
    ticking,
)
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import (
    BudgetExhausted,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.stream import local_stream
from tracecloak.transforms.stream.topic_sinks import LineSink

# --- Failures ---------------------------------------------------------------------------------


class Failing(beam.DoFn):
    """Fails at a step, as a process that dies does."""

    def process(self, release: Any) -> None:
        if release.step == 2:
            raise ValueError("secret-of-a-patient")


def cut_off(config: StreamConfig, happenings: Iterable[Happening]) -> None:
    """Runs a stream that dies after its step 2 was written."""
    with pytest.raises(TracecloakError, match="stays published") as failure:
        run_stream(config, messages=stream_of(happenings), sinks=[beam.ParDo(Failing())])
    assert "secret-of-a-patient" not in str(failure.value)


# --- Budget -----------------------------------------------------------------------------------


class NeverRead(beam.PTransform):
    """A source that must not be asked for anything."""

    def expand(self, pipeline: Any) -> Any:
        raise AssertionError("the source was read")


def test_a_budget_that_does_not_suffice_ends_before_anything_is_read(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.yaml"
    accounts.write_text('accounts:\n  ward: {epsilon: "1.5", delta: "1e-5", unit: case}\n')
    paid = {"account": "ward", "accounts": str(accounts)}
    run(stream_config(tmp_path, horizon=1, **paid), [20.0])
    other = stream_config(tmp_path, epoch="2", **paid)
    with pytest.raises(BudgetExhausted) as refused:
        run_stream(other, messages=NeverRead())
    assert refused.value.exit_code == 4
    assert files_of(other) == {}
    assert len(counting_charges(tmp_path / "keys")) == 1
    assert len(key_files(tmp_path / "keys")) == 1  # that of identities


def test_a_stream_without_a_ledger_pays_nothing_and_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist, so what was spent before is not known"):
        run_stream(stream_config(tmp_path, new_ledger=None), messages=NeverRead())
    assert not (tmp_path / "keys").exists()


# --- Messages that are not what they should be ------------------------------------------------


def test_a_poison_message_stops_nothing_and_is_listed_without_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic gets the places, too."""
    of_topic: list[str] = []
    monkeypatch.setattr(LineSink, "send", lambda _, lines: of_topic.extend(lines))
    sent = random_messages()
    poison = [
        TimestampedValue(PubsubMessage(b'{"case_id": "patient-7"', {}), 12.5),
        TimestampedValue(PubsubMessage(b"\xff\x00 patient-8", {}), 13),
        TimestampedValue(PubsubMessage(b'{"case_id": "patient-9", "activity": "A"}', {}), 14),
    ]
    happenings = in_time(sent, 120)
    config = stream_config(tmp_path, horizon=9, reject_topic="projects/ward/topics/unread")
    with no_noise():
        run(config, [*happenings[:4], poison, [poison[0]], *happenings[4:]])
    expected = {step: batch_pairs(own) for step, own in accepted(sent).items() if step < 9}
    assert {r.step: counts_of(r) for r in published(config) if counts_of(r)} == expected
    files = list((tmp_path / "keys" / "operator").rglob("*.jsonl"))
    lines = rejected(tmp_path / "keys")
    assert Counter(line["publish_time"] for line in lines)[12_500_000] >= 1
    assert {line["publish_time"] for line in lines} == {12_500_000, 13_000_000, 14_000_000}
    assert "patient" not in "".join(path.read_text() for path in files)
    places = {line["publish_time"] for line in map(json.loads, of_topic)}
    assert places == {12_500_000, 13_000_000, 14_000_000}


def test_a_registry_that_is_away_is_waited_for_or_ends_a_runner_of_beam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rejects nothing, and no case is lost."""
    decode, away = MessageFormat.decode, [RetryLater("HTTP 503")] * 99

    def sometimes(layout: MessageFormat, *given: Any) -> Any:
        if away:
            raise away.pop()
        return decode(layout, *given)

    monkeypatch.setattr(MessageFormat, "decode", sometimes)
    monkeypatch.setattr(local_stream, "_AGAIN_SECONDS", 0.01)
    on_beam, here = (stream_config(tmp_path, epoch=epoch) for epoch in "12")
    sent = random_messages(30, 30)
    with pytest.raises(RetryLater, match="HTTP 503"):
        run(on_beam, in_time(sent, 60))
    del away[3:]
    with no_noise():
        assert run_script(here, [*in_time(sent, 60), *ticking(60, 90)]).is_spent
    found = {release.step: counts_of(release) for release in published(here)}
    expected = {step: batch_pairs(own) for step, own in accepted(sent).items() if step < 6}
    assert not away and {step: pairs for step, pairs in found.items() if pairs} == expected
    assert not rejected(tmp_path / "keys")


def test_clocks_that_jump_do_not_touch_the_cases_of_others(tmp_path: Path) -> None:
    """Events from 1970 and from 2099 in the batches of others: event times move no watermark."""
    sent = random_messages()
    century = 130 * 365 * 86_400
    jumps = [
        Sent(float(second), f"jump{second}", "END", "1", age)
        for second, age in ((6, 1e6), (11, -century), (23, 5.0), (37, -1e9))
    ]
    config = stream_config(tmp_path, horizon=9)
    with no_noise():
        run(config, in_time([*sent, *jumps], 120))
    expected = {step: Counter(batch_pairs(own)) for step, own in accepted(sent).items()}
    for jump in jumps:
        expected[int((jump.publish + 3) // PERIOD)] += Counter({("▶", "END"): 1, ("END", "■"): 1})
    found = {r.step: Counter(counts_of(r)) for r in published(config) if counts_of(r)}
    assert found == {step: pairs for step, pairs in expected.items() if step < 9}


# --- What is said of it -----------------------------------------------------------------------


def test_the_manifest_says_what_holds_and_is_written_once(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    happenings = in_time(random_messages(), 120)
    cut_off(config, happenings)
    path = tmp_path / "out" / "run_id=ward" / "epoch=1" / "manifest.json"
    written = path.stat().st_mtime_ns
    body = json.loads(path.read_text())
    assert body["guarantee"]["epsilon"] == 1
    assert body["randomness"]["unsafe_barrier"] is True
    assert body["stream"]["n_steps"] == 6
    assert any("in its memory" in fact for fact in body["stream"]["runner_facts"])
    assert "standard deviation" in body["stream"]["explained"][-2]
    assert "remembered until the horizon ends" in body["stream"]["explained"][-1]
    statement = path.with_name("statement.md").read_text()
    assert "epsilon = 1 and delta = 0.000001 for one case" in statement
    run(config, happenings)
    assert path.stat().st_mtime_ns == written


def test_an_output_that_cannot_be_written_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for flag in ("output", "dead_letter"):
        config = stream_config(tmp_path, **{flag: str(tmp_path / "file" / "out")})
        with pytest.raises(UsageError, match=rf"^{flag} '.*' cannot be written: .*--{flag}$"):
            run(config, [])
    assert counting_charges(tmp_path / "keys") == key_files(tmp_path / "keys") == []


def test_a_place_among_releases_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    """Catches epochs that go when another release is withdrawn, and rejects that are published."""
    for flag, place in (("output", "run_id=a"), ("dead_letter", "out/rejects")):
        chosen = {"output": str(tmp_path / "out"), flag: str(tmp_path / place)}
        with pytest.raises(UsageError, match=rf"^{flag} '.*' is or lies in .*--{flag}"):
            run(stream_config(tmp_path, **chosen), [])
    assert counting_charges(tmp_path / "keys") == key_files(tmp_path / "keys") == []
