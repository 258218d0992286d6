"""`tracecloak doctor --sample`: what messages from before the start say, and to whom."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.support.kafka_double import BY_SENDER, TopicDouble
from tests.support.releasing import as_typed
from tests.support.stream_runs import stream_config, stream_keys
from tracecloak.examination.doctor.run import Line, exit_code_of, run_checks
from tracecloak.examination.doctor.setting import Setting
from tracecloak.examination.doctor.sources import check_messages
from tracecloak.pipelines.stream.plan import load_stream, resolve

START = 1_796_000_000  # seconds since 1970: 30 November 2026
KAFKA: dict[str, Any] = {
    "input_subscription": None,
    "input_topic": "kafka://broker:9092/events",
    "start": "2026-12-02T00:00:00Z",
}


def body(case: str, activity: str, time: float) -> bytes:
    return json.dumps({"case_id": case, "activity": activity, "timestamp": time}).encode()


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> TopicDouble:
    made = TopicDouble(ends={0: 0, 1: 0})
    made.used_by(monkeypatch)
    return made


def sampled(folder: Path, n: int = 1_000, **changes: Any) -> list[Line]:
    config = stream_config(folder, **{**KAFKA, **changes})
    setting = Setting(resolve(config), n_sampled=n, now=lambda: START + 900_000)
    return list(run_checks(setting, {"messages": check_messages}))


def fill(topic: TopicDouble, factor: float = 1, n: int = 40) -> None:
    """Cases of two events, each in one partition, published five seconds after they happened."""
    for number in range(n):
        for place, activity in enumerate(("A", "END")):
            at = START + 60 * number + place
            event = body(f"case-{number}", activity, int(at * factor))
            topic.add(number % 2, event, millis=(at + 5) * 1_000)


FACTORS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


@pytest.mark.parametrize(
    ("written", "given"), [("s", "s"), ("ms", None), ("us", "s"), ("ns", "us"), ("ms", "ns")]
)
def test_a_wrong_unit_is_told_with_the_one_that_fits(
    topic: TopicDouble, tmp_path: Path, written: str, given: str | None
) -> None:
    fill(topic, FACTORS[written])
    lines = sampled(tmp_path, timestamp_unit=given)
    failures = [line for line in lines if line.status == "failure"]
    if given == written:
        assert failures == []
    else:
        assert exit_code_of(lines) == 2 and f"set it to {written}" in failures[0].text


def test_each_finding_has_its_share_and_no_name(topic: TopicDouble, tmp_path: Path) -> None:
    fill(topic)
    last = START + 3_000
    topic.add(0, b"no json", millis=last * 1_000)
    topic.add(0, body("case-1", "end ", last), millis=last * 1_000)  # of partition 1 otherwise
    topic.add(0, body("case-2", "Secret", last), millis=(last + 1) * 1_000)
    topic.add(0, body("case-2", "A", last - 9), millis=(last + 11) * 1_000)  # 10 s after it
    texts = [line.text for line in sampled(tmp_path, timestamp_unit="s")]
    assert "84 messages of 2 partitions: 83 (98.8 %) are events" in texts[0]
    assert texts[1].endswith("1 (1.2 %)")
    assert texts[2].startswith("81 (97.6 %) of the events have an activity of vocabulary")
    assert "2 further names; 1 of them differ by case or blanks" in texts[2]
    assert texts[3].startswith("1 (2.5 %) of the cases are in several partitions, up to 2")
    assert "1 (1.2 %) of the events" in texts[4] and "up to 10 seconds" in texts[4]
    assert "max_disorder is 3 seconds" in texts[4]
    assert not any(name in text for name in ("Secret", "case-", "end ") for text in texts)
    assert topic.committed == {} and not (tmp_path / "keys").exists()


def test_messages_that_are_no_events_fail(topic: TopicDouble, tmp_path: Path) -> None:
    topic.add(0, b"no json", millis=START * 1_000)
    lines = sampled(tmp_path, timestamp_unit="s")
    assert exit_code_of(lines) == 2 and "no message of the sample is an event" in lines[-1].text


def test_messages_that_no_broker_stamped_are_events_and_named(
    topic: TopicDouble, tmp_path: Path
) -> None:
    """Also one whose sender gave no time, or one of the far future."""
    fill(topic)
    last = START + 3_000
    for millis in (-1, last * 1_000, (START + 10**8) * 1_000):
        topic.add(1, body("case-1", "A", last), millis=millis, kind=BY_SENDER)
    lines = sampled(tmp_path, timestamp_unit="s")
    assert "82 messages of 2 partitions: 82 (100.0 %) are events" in lines[0].text
    assert lines[1].status == "warning" and lines[1].text.startswith("2 (2.4 %) have no stamp")
    assert exit_code_of(lines) == 0


def test_the_newest_messages_before_the_start_are_spread_over_partitions(
    topic: TopicDouble, tmp_path: Path
) -> None:
    fill(topic)
    topic.add(1, body("late", "A", START + 900_000), millis=(START + 800_000) * 1_000)
    lines = sampled(tmp_path, n=20, timestamp_unit="s")
    assert lines[0].text.startswith("20 messages of 2 partitions: 20 (100.0 %)")
    only_later = sampled(tmp_path, start="2026-11-29T00:00:00Z", timestamp_unit="s")
    assert exit_code_of(only_later) == 2 and "has no messages from before" in only_later[0].text


@pytest.mark.parametrize(
    ("changes", "flags", "is_terminal", "said"),
    [
        (KAFKA, ("--json",), True, "needs a terminal"),
        (KAFKA, (), False, "needs a terminal"),
        (KAFKA, ("--sample", "0"), True, "at least 1"),
        ({}, (), True, "would lease the messages"),
    ],
)
def test_others_are_shown_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any], flags: tuple[str, ...], is_terminal: bool, said: str,
) -> None:  # fmt: skip
    keys = {name: value for name, value in stream_keys(tmp_path, **changes).items() if value}
    keys["columns"] = {"timestamp_unit": keys.pop("timestamp_unit")}
    path = tmp_path / "stream.yaml"
    path.write_text(yaml.safe_dump(keys))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert as_typed("doctor", path, "--sample", "10", *flags) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.out == ""


def test_each_of_several_topics_is_read_by_its_own_mapping(
    topic: TopicDouble, tmp_path: Path
) -> None:
    fill(topic, 1e3)  # which stands for both
    one = {"input_topic": KAFKA["input_topic"], "columns": {"timestamp_unit": "ms"}}
    two = {**one, "columns": {"timestamp_unit": "s"}, "input_topic": "kafka://broker:9092/others"}
    keys = stream_keys(tmp_path, **{**KAFKA, "input_topic": None, "timestamp_unit": None})
    path = tmp_path / "stream.yaml"
    path.write_text(yaml.safe_dump({**keys, "inputs": [one, two]}))
    setting = Setting(
        resolve(load_stream(str(path), {})), n_sampled=100, now=lambda: START + 900_000
    )
    lines = list(run_checks(setting, {"messages": check_messages}))
    assert lines[0].text.startswith("events: 80 messages of 2 partitions: 80 (100.0 %)")
    assert lines[-1].status == "failure" and "set it to ms" in lines[-1].text
