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

from tests.benchmarks.hospital_feed import HospitalFeed, Sending, Sent, send
from tracecloak.examination.demo.hospital import END_ACTIVITIES, hospital_log
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
