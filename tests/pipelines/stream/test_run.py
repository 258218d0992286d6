"""A stream from messages to files: that it counts right, and alike here and on Beam."""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.transforms.window import TimestampedValue

from tests.support.local_streams import run_script
from tests.support.releasing import counting_charges, fix_key, key_files
from tests.support.stream_runs import (
    PERIOD,
    STREAMS,
    Happening,
    Sent,
    accepted,
    batch_pairs,
    counts_of,
    files_of,
    in_time,
    made,
    no_noise,
    published,
    random_messages,
    rejected,
    run,
    steps_of,
    stream_config,
    stream_of,
    ticking,
)
from tests.support.tiers import at_night
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import (
    BudgetExhausted,
    GuaranteeError,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.stream import local_stream, step_sinks


def person_messages() -> list[Sent]:
    """One person with a case in each of six steps and two in the first; another with one."""
    sent = [Sent(10 * i + 1, f"c{i}", "END", f"{i}", 0, "p") for i in range(6)]
    return [*sent, Sent(2, "again", "END", "7", 0, "p"), Sent(21, "d", "END", "8", 0, "q")]


@pytest.mark.parametrize(
    ("changes", "counts", "charged"),
    [
        ({"epsilon": "2"}, [1, 0, 1, 0, 0, 0], "2"),
        ({"max_cases_per_individual": 2}, [2, 0, 1, 0, 0, 0], "1"),
        ({"max_cases_per_individual": 3}, [2, 1, 1, 0, 0, 0], "1"),
        # Three times two steps are paid.
        ({"guarantee": "w_event", "w_event_steps": 2, "delta": "0"}, [1, 1, 2, 1, 1, 1], "3"),
    ],
)
def test_so_many_cases_of_an_individual_count(
    tmp_path: Path, changes: dict[str, Any], counts: list[int], charged: str
) -> None:
    """Over the horizon, or in each step."""
    config = stream_config(tmp_path, individual_id="person", **changes)
    with no_noise():
        run_script(config, [*in_time(person_messages(), 80), *ticking(80, 90)])
    assert [counts_of(r).get(("▶", "END"), 0) for r in published(config)] == counts
    [charge] = counting_charges(tmp_path / "keys")
    assert (charge.unit, charge.epsilon) == ("individual", charged)
    guarantee = json.loads(files_of(config)["manifest.json"])["guarantee"]
    assert guarantee["epsilon"] == float(charged)
    assert ("within any 2 of 6 steps" in guarantee["reality"]) == ("guarantee" in changes)


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


def test_poison_and_clocks_that_jump_touch_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unreadable is listed without itself, for a topic too; event times move no watermark.

    Events are from 1970 and from 2099 in the batches of others.
    """
    of_topic: list[str] = []
    take = lambda keyed, _: of_topic.extend(line.decode() for _, line in keyed)  # noqa: E731
    monkeypatch.setattr(step_sinks.Topic, "writer", SimpleNamespace(send=take))
    sent, century = random_messages(), 130 * 365 * 86_400
    jumps = [
        Sent(float(second), f"jump{second}", "END", "1", age)
        for second, age in ((6, 1e6), (11, -century), (23, 5.0), (37, -1e9))
    ]
    poison = [
        TimestampedValue(PubsubMessage(b'{"case_id": "patient-7"', {}), 12.5),
        TimestampedValue(PubsubMessage(b"\xff\x00 patient-8", {}), 13),
        TimestampedValue(PubsubMessage(b'{"case_id": "patient-9", "activity": "A"}', {}), 14),
    ]
    happenings = in_time([*sent, *jumps], 120)
    config = stream_config(tmp_path, horizon=9, reject_topic="projects/ward/topics/unread")
    with no_noise():
        run(config, [*happenings[:4], poison, [poison[0]], *happenings[4:]])
    expected = {step: Counter(batch_pairs(own)) for step, own in accepted(sent).items()}
    for jump in jumps:
        expected[int((jump.publish + 3) // PERIOD)] += Counter({("▶", "END"): 1, ("END", "■"): 1})
    found = {r.step: Counter(counts_of(r)) for r in published(config) if counts_of(r)}
    assert found == {step: pairs for step, pairs in expected.items() if step < 9}
    files = list((tmp_path / "keys" / "operator").rglob("*.jsonl"))
    assert "patient" not in "".join(path.read_text() for path in files)
    for lines in (rejected(tmp_path / "keys"), list(map(json.loads, of_topic))):
        assert {line["publish_time"] for line in lines} == {12_500_000, 13_000_000, 14_000_000}


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


@pytest.mark.parametrize(
    ("flag", "place", "said"),
    [
        ("output", "file/out", "cannot be written"),
        ("dead_letter", "file/out", "cannot be written"),
        ("output", "run_id=a", "is or lies in"),  # it would go when another one is withdrawn
        ("dead_letter", "out/rejects", "is or lies in"),  # rejects would be published
    ],
)
def test_a_wrong_place_is_found_before_anything_is_paid(
    tmp_path: Path, flag: str, place: str, said: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    chosen = {"output": str(tmp_path / "out"), flag: str(tmp_path / place)}
    with pytest.raises(UsageError, match=rf"^{flag} '.*' {said}.*; name a"):
        run(stream_config(tmp_path, **chosen), [])
    assert counting_charges(tmp_path / "keys") == key_files(tmp_path / "keys") == []


WHOLE = re.compile(
    r"manifest\.json|statement\.md|product=\w+/view=\w+/step-\d{6}"
    r"(\.json|\.parquet|/step\.json|/log\.parquet|/log\.xes\.gz)"
)
_SENT: list[tuple[int, bytes]] = []


class Topic(beam.DoFn):
    """A topic: it has what was sent to it before, and cannot give it back."""

    def process(self, release: Any) -> None:
        _SENT.append((release.key[-1], release.to_json()))


def sent_again(config: StreamConfig, happenings: Sequence[Happening]) -> dict[int, set[bytes]]:
    """Runs a stream; returns what its topic got of each step."""
    _SENT.clear()
    run_stream(config, messages=stream_of(happenings), sinks=[beam.ParDo(Topic())])
    return {step: {data for at, data in _SENT if at == step} for step, _ in _SENT}


def messages() -> list[Sent]:
    return random_messages(until=30)


def fewer(step: int = 1) -> list[Sent]:
    """What comes after a restart: the messages of a case of this step were acknowledged."""
    lost = accepted(messages())[step][0].case
    return [sent for sent in messages() if sent.case != lost]


@contextmanager
def failing_at(step: int) -> Iterator[None]:
    """No file of a step can be moved to its place: it is as if the process had been killed."""
    original = step_sinks.rename

    def rename(sources: list[str], targets: list[str]) -> None:
        if f"step-{step:06d}" in targets[0]:
            raise OSError("cut off")
        original(sources, targets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_sinks, "rename", rename)
        yield


def cut_off_at(config: StreamConfig, step: int) -> None:
    with failing_at(step), pytest.raises(TracecloakError, match="stays published"):
        run(config, in_time(messages(), 60))


@pytest.mark.parametrize("name", ["dfg totals", *map(at_night, ("dfg", "variants totals", "log"))])
def test_a_step_that_was_cut_off_before_it_appeared_appears_as_it_was_decided(
    tmp_path: Path, name: str
) -> None:
    """With other messages at the restart; then the epoch ends, for a case could count twice."""
    whole, config = (
        stream_config(tmp_path / place, horizon=3, **STREAMS[name])
        for place in made(tmp_path, "whole", "cut off")
    )
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        run(whole, in_time(messages(), 60))
        cut_off_at(config, 1)
        cut = steps_of(config)
        assert cut and not any("step-000001" in path for path in cut)
        with pytest.raises(GuaranteeError, match=r"step 2 cannot be published.*another"):
            sent_again(config, in_time(fewer(), 60))
    expected = {path: data for path, data in steps_of(whole).items() if "step-000002" not in path}
    assert steps_of(config) == expected
    assert {step for step, _ in _SENT} == {0, 1}
    if name != "log":
        for step, data in _SENT:
            assert data in expected.values(), step


def test_under_the_output_lies_nothing_but_whole_steps_at_any_time(tmp_path: Path) -> None:
    """And what a step releases is kept before a byte of it is written anywhere else."""
    config = stream_config(tmp_path, horizon=2, **STREAMS["log"])
    seen: set[str] = set()
    original = {name: getattr(step_sinks, name) for name in ("create", "rename")}

    def look() -> None:
        names = list(files_of(config))
        assert all(WHOLE.fullmatch(name) for name in names), names
        assert not list((tmp_path / "out").rglob("_*"))
        seen.update(names)

    def create(path: str, *others: Any, **named: Any) -> Any:
        place = Path(path)
        assert tmp_path / "out" not in place.parents
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
        if place.name.startswith(("step", "log")):
            decided = list((tmp_path / "keys" / "operator").rglob("*.decision"))
            n_whole = len({name for name in files_of(config) if name.endswith("step.json")})
            assert len(decided) == n_whole + 1
            assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in decided)
        look()
        return original["create"](path, *others, **named)

    def rename(sources: list[str], targets: list[str]) -> None:
        look()
        original["rename"](sources, targets)
        look()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_sinks, "create", create)
        patch.setattr(step_sinks, "rename", rename)
        run(config, in_time(messages(), 60))
    assert len(seen) == 2 + 2 * 3
    [charge] = counting_charges(tmp_path / "keys")  # once: the steps hold different cases
    assert sum(float(part["epsilon"]) for part in json.loads(charge.spends)) == pytest.approx(40)
    # The epoch is over: what was kept of it goes with its key.
    assert not list((tmp_path / "keys").rglob("*.decision"))
    assert not list((tmp_path / "_incomplete-out").rglob("*.part"))
    assert len(key_files(tmp_path / "keys")) == 1  # that of identities


# --- Here as on Beam, byte for byte ---------------------------------------------------------------


def messages_of(by_individual: bool) -> list[Sent]:
    sent = random_messages(20, 30)
    if by_individual:
        sent = [s._replace(individual=f"p{int(s.case[1:]) % 12}") for s in sent]
    return sent


def out_of_order(sent: Sequence[Sent]) -> list[Happening]:
    """Duplicates, shuffled arrival, and stragglers of up to 8 seconds behind the watermark."""
    rng = np.random.default_rng(5)
    arrival = [s.publish + float(rng.choice([0, 0, 0, 8])) for s in sent]
    happenings: list[Happening] = []
    for second in range(0, 60, 5):
        own = [s for s, at in zip(sent, arrival, strict=True) if second <= at < second + 5]
        own += own[: len(own) // 4]
        shuffled = [own[i] for i in rng.permutation(len(own))]
        happenings += [[s] for s in shuffled[:2]]
        if shuffled[2:]:
            happenings.append(shuffled[2:])
        happenings.append(float(second + 5))
    return happenings


def both(tmp_path: Path, happenings: list[Happening], **changes: Any) -> tuple[Any, Any]:
    """The step files that Beam's runner writes, and the local stream's."""
    beam, local = (
        stream_config(tmp_path / n, horizon=4, **changes) for n in made(tmp_path, "beam", "local")
    )
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        run(beam, happenings)
        run_script(local, happenings)
    return steps_of(beam), steps_of(local)


@pytest.mark.parametrize(
    "name",
    [
        "dfg w_event",
        "variants totals",
        "indicators totals",
        *(at_night(n) for n in ("dfg", "dfg totals", "dfg sliding", "dfg of individuals")),
        *(at_night(n) for n in ("variants", "variants of individuals", "log of individuals")),
        *(at_night(n) for n in ("indicators", "log")),
    ],
)
def test_every_product_is_the_same_bytes(tmp_path: Path, name: str) -> None:
    changes = STREAMS[name]
    sent = messages_of("individual_id" in changes)
    happenings = [*in_time(sent, 50), *ticking(50, 60)]
    on_beam, here = both(tmp_path, happenings, **changes)
    assert len([path for path in here if path.endswith(".json")]) == 4
    assert here == on_beam


@pytest.mark.parametrize("name", ["dfg of individuals", at_night("dfg w_event"), at_night("dfg")])
def test_they_are_where_messages_come_late_and_again(tmp_path: Path, name: str) -> None:
    changes = STREAMS[name]
    happenings = out_of_order(messages_of("individual_id" in changes))
    on_beam, here = both(tmp_path, happenings, **changes)
    assert here == on_beam
