"""The synthetic hospital as messages: what they say, their order, and what is wrong with some."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from tracecloak.examination.demo.hospital import END_ACTIVITIES, hospital_log
from tracecloak.examination.demo.hospital_feed import HospitalFeed, Sending, Sent, send
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.messages import MessageFormat

BEGIN = 1_767_225_600_000_000  # 2026-01-01 in microseconds UTC
N_CASES = 1000
FEED = HospitalFeed(cases_per_second=50.0)


@pytest.fixture(scope="module")
def sendings() -> list[Sending]:
    return list(FEED.sendings(BEGIN, N_CASES))


def decoded(sendings: list[Sending]) -> tuple[list[dict[str, Any]], int]:
    """(events, number of messages that cannot be read)."""
    messages = [SimpleNamespace(data=s.data, attributes={}) for s in sendings]
    events, rejects = MessageFormat().decode(messages, [BEGIN + s.due_us for s in sendings])
    return events.to_pylist(), rejects.num_rows


def test_messages_are_in_the_order_in_which_they_are_due(sendings: list[Sending]) -> None:
    assert all(a.due_us <= b.due_us for a, b in itertools.pairwise(sendings))
    # Case i begins at i / 50 seconds.
    events, _ = decoded([s for s in sendings if s.kind == "event"])
    first: dict[str, int] = {}
    for event in events:
        first.setdefault(event["case_id"], event["timestamp"])
    assert first == {f"P{i + 1:07d}": BEGIN + i * 20_000 for i in range(N_CASES)}


def test_the_events_are_those_of_the_sample_but_for_ends_that_never_come(
    sendings: list[Sending],
) -> None:
    expected: dict[str, list[str]] = {}
    for batch in hospital_log(N_CASES):
        for row in batch.to_pylist():
            expected.setdefault(row["case_id"], []).append(row["activity"])
    events, n_rejects = decoded([s for s in sendings if s.kind == "event"])
    assert n_rejects == 0
    found: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda e: int(e["event_id"][1:])):
        found.setdefault(event["case_id"], []).append(event["activity"])
    endless = [case for case in found if found[case] != expected[case]]
    assert all(found[case] == expected[case][:-1] for case in endless)
    assert all(expected[case][-1] in END_ACTIVITIES for case in endless)
    # Of 1,000 cases 5 %: within six standard deviations of 6.9.
    assert 9 <= len(endless) <= 91


def test_events_of_one_moment_have_times_in_their_order(sendings: list[Sending]) -> None:
    """Tests of one sample of blood have one stamp in the hospital, and an order."""
    events, _ = decoded([s for s in sendings if s.kind == "event"])
    cases: dict[str, list[tuple[int, int]]] = {}
    for event in events:
        number = int(event["event_id"][1:])
        cases.setdefault(event["case_id"], []).append((event["timestamp"], number))
    for both in cases.values():
        times = [time for time, _ in sorted(both, key=lambda one: one[1])]
        assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_some_messages_come_twice_and_some_cannot_be_read(sendings: list[Sending]) -> None:
    kinds = Counter(s.kind for s in sendings)
    n = kinds["event"]
    assert kinds["duplicate"] == pytest.approx(0.05 * n, rel=0.3)
    assert kinds["malformed"] == pytest.approx(0.01 * n, rel=0.6)
    events = [s.data for s in sendings if s.kind == "event"]
    assert len(set(events)) == n
    assert {s.data for s in sendings if s.kind == "duplicate"} <= set(events)
    malformed = [s for s in sendings if s.kind == "malformed"]
    assert len({s.data for s in malformed}) == 4
    assert decoded(malformed) == ([], len(malformed))


def test_both_formats_are_sent(sendings: list[Sending]) -> None:
    events = [s.data[:1] == b"{" for s in sendings if s.kind == "event"]
    assert sum(events) == pytest.approx(len(events) / 2, rel=0.1)


def test_the_feed_is_the_same_every_time_and_has_no_end(sendings: list[Sending]) -> None:
    n = 5000
    endless = itertools.islice(HospitalFeed(cases_per_second=50.0).sendings(BEGIN), n)
    assert list(endless) == sendings[:n]


@pytest.mark.parametrize(
    ("name", "value"),
    [("cases_per_second", 0.0), ("speed", float("inf")), ("endless", 1.5), ("malformed", -0.1)],
)
def test_a_number_out_of_range_is_named(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} must be .*, got {value}"):
        HospitalFeed(**{name: value})


class _Publisher:
    """Takes messages, and notes when."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.taken: list[tuple[float, bytes]] = []

    def publish(self, topic: str, data: bytes) -> Future[str]:
        assert topic == "projects/p/topics/t"
        self.taken.append((time.monotonic() - self.begin, data))
        done: Future[str] = Future()
        done.set_result("1")
        return done


def test_messages_are_sent_when_they_are_due() -> None:
    publisher, sent = _Publisher(), Sent()
    send(FEED, publisher, "projects/p/topics/t", 0.6, threading.Event(), sent)
    due = [s for s in FEED.sendings(0, N_CASES) if s.due_us < 600_000]
    assert len(publisher.taken) == sum(sent.counts.values()) == len(due)
    assert sent.counts == {kind: sum(s.kind == kind for s in due) for kind in sent.counts}
    # As much as a slice early, and as late as a busy machine is.
    delays = [at - s.due_us / 1e6 for (at, _), s in zip(publisher.taken, due, strict=True)]
    assert -0.06 < min(delays)
    assert sorted(delays)[len(delays) // 2] < 5


def test_a_feed_is_stopped() -> None:
    stop = threading.Event()
    stop.set()
    begun = time.monotonic()
    send(FEED, _Publisher(), "projects/p/topics/t", 60.0, stop, Sent())
    assert time.monotonic() - begun < 10
