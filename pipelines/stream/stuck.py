"""Stuck is an end: a stream that makes no step although one is due ends, and is started again.

A step that waits for a backlog is due as well; while more and more of it is read, nothing is stuck.
What hangs may be a call of a client library, a file system or a database, from which no error comes
back. So a thread of its own watches, by a clock that only goes forward, and ends the process if the
stream does not end when it is asked to. The state survives that at any point. A stream that was
stuck at one step in three starts is not helped by a fourth one: it stays down, and says so to the
operator, until somebody deletes the note of it.

Other background work of a stream is here as well, such as what is noted of a job each minute. What
workers with keys of their own decide is noted by the command that started them. It also
compares the topics of Kafka that they read with what is kept of these logs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracecloak.pipelines.budget.opening import open_store
from tracecloak.pipelines.runners.failures import reason_of
from tracecloak.pipelines.stream.epoch import Epoch
from tracecloak.pipelines.stream.plan import StreamPlan
from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.errors import SourceChanged, StaysStuck, Stuck, TracecloakError, UsageError
from tracecloak.transforms.files import make_private_folder, write_anew
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.stream.stream_status import StreamStatus

_LOG = logging.getLogger("tracecloak")
_NOTE_SECONDS = 60.0


@contextlib.contextmanager
def background_task(
    do: Callable[[threading.Event], None], join_seconds: float | None = None
) -> Iterator[None]:
    """Runs a function while the block runs.

    Args:
        do: What is run; it ends soon after its event is set.
        join_seconds: How long its end is waited for, where it may hang; None: whatever it takes.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=do, args=(is_over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(join_seconds)


@contextlib.contextmanager
def noting(epoch: Epoch, is_ended: threading.Event, standing: StreamStatus) -> Iterator[None]:
    """Calls `Epoch.note_kept` once a minute during the block, and at its end; and ends the epoch.

    If a step cannot be noted, that is a warning and stops nothing: a later call notes it, at the
    latest that of the next start. Topics are compared at the begin and once a minute.

    Args:
        epoch: What is noted, if its workers do not find the ledger.
        is_ended: Set when the block is to end: a minute after the files of the last step were seen,
            once all that get the step have it, which the job sends after them; or when a topic is
            another log.
        standing: Where it says why a topic cannot be read, or not as it is set.

    Raises:
        SourceChanged: A topic is another log.
    """
    was_spent = False
    changed: list[SourceChanged] = []

    def note() -> None:
        nonlocal was_spent
        if is_ended.is_set() or epoch.plan.keys.worker_keys is None:
            return
        try:
            epoch.note_kept()
            if was_spent:
                epoch.send_last()
                epoch.end()
                is_ended.set()
            was_spent = epoch.is_spent
        except Exception as error:  # of file systems elsewhere, too
            said = "what workers decided is not noted in the ledger, or not sent to all: %s"
            _LOG.warning(said, reason_of(error))

    def again(is_over: threading.Event) -> None:
        while not is_over.wait(_NOTE_SECONDS):
            note()
            try:
                _compare(epoch, standing)
            except SourceChanged as error:
                changed.append(error)
                is_ended.set()

    _compare(epoch, standing)
    try:
        with background_task(again):
            yield
    finally:
        was_spent = False  # what follows may have to be read under the key
        note()
    if changed:
        raise changed[0]


def _compare(epoch: Epoch, standing: StreamStatus) -> None:
    """Compares topics with what is kept of them, or keeps it; and looks how they are set."""
    topics = [one.topic for one in epoch.plan.inputs if one.topic is not None]
    if not topics:
        return
    from tracecloak.transforms.services.kafka_identity import KnownLog, compared, look_at

    reasons, logs = [], {}
    try:
        number, kept = epoch.logs.last()
        for topic in topics:
            known = kept.get(topic.source_name, KnownLog({}))
            logs[topic.source_name] = compared(topic, known, look_at(topic))
            reasons += topic.problems(epoch.plan.rule.longest_us)
        if not kept:
            epoch.logs.keep(number, logs)
    except SourceChanged:
        raise
    except TracecloakError as error:
        reasons.append(str(error))
    standing.source_away = "; ".join(reasons) or None
    if reasons:
        _LOG.warning("%s", standing.source_away)


_OPERATOR = logging.getLogger("tracecloak.operator")
_NOTE = "stuck.json"
_MOST_STARTS = 3
_US = 1_000_000
# What librdkafka does unless kafka_properties say otherwise: it waits so long for an answer, and so
# long before it connects again.
_OF_KAFKA = {"socket.timeout.ms": 60_000, "reconnect.backoff.max.ms": 10_000}
# The longest deadline of acknowledgement of a subscription: messages that were pulled by a process
# that was killed come again after it, and steps wait for them.
_OF_PUBSUB_SECONDS = 600
_TICK_SECONDS = 1.0
# How long the stream has to end by itself, and how long what is written at its end may take.
_GRACE_SECONDS = 10.0
_WRITE_SECONDS = 5.0


def check_stuck_after(plan: StreamPlan) -> None:
    """Makes sure that a stream does not end while its message service connects again by itself.

    Raises:
        UsageError: stuck_after is too short, or the properties of Kafka cannot be read.
    """
    stuck_after, topic = plan.keys.stuck_after, plan.inputs[0].topic
    assert stuck_after is not None
    if topic is None:
        least, what = _OF_PUBSUB_SECONDS, "Pub/Sub sends again what was pulled and not acknowledged"
    else:
        settings = topic.settings()
        least = sum(int(settings.get(name, ms)) for name, ms in _OF_KAFKA.items()) // 1_000
        what = f"the client of Kafka may take to connect again ({' and '.join(_OF_KAFKA)})"
    if stuck_after <= least * _US:
        raise UsageError(
            f"stuck_after is {duration_text(stuck_after)}, and {what} within {least} s: "
            f"give more than {least}s, or leave it out"
        )


class StuckNote:
    """At which step a stream was stuck, and in how many starts one after the other."""

    def __init__(self, plan: StreamPlan) -> None:
        """Keeps where the note is: in the folder of the operator."""
        store = open_store(plan.keys)
        self.folder = Path(store.operator_folder(*plan.place))
        self.path = self.folder / _NOTE
        last_step = store.last_step(*plan.place)
        self.first_step = 0 if last_step is None else last_step + 1

    def check(self) -> None:
        """Makes sure that the stream may start.

        Raises:
            StaysStuck: It was stuck at one step too often, and nobody has corrected that.
        """
        step, n_starts, why = self._read()
        if n_starts >= _MOST_STARTS:
            raise self.error(step, n_starts, why)

    def add(self, step: int, why: str) -> TracecloakError:
        """Notes that the stream is stuck, for the operator; returns the error that it ends with.

        Args:
            step: The step that is due.
            why: A sentence of what it waits for; empty: nobody knows.
        """
        before, n_starts, _ = self._read()
        n_starts = n_starts + 1 if step == before else 1
        note = {"step": step, "n_starts": n_starts, "why": why}
        make_private_folder(self.folder)
        write_anew(str(self.path), json.dumps(note).encode())
        error = self.error(step, n_starts, why)
        with kept_on_worker(str(self.folder)):  # unless the epoch keeps it already
            _OPERATOR.warning("start %d that was stuck: %s", n_starts, error)
        return error

    def error(self, step: int | None, n_starts: int, why: str) -> TracecloakError:
        """Returns the error of a stream that is stuck at a step in so many starts."""
        waited = f". It waited: {why}" if why else ""
        if n_starts < _MOST_STARTS:
            return Stuck(
                f"step {step} is due for longer than stuck_after, and was not published: the "
                "stream ends. Run the same command again, which goes on from here and spends "
                f"nothing twice{waited}"
            )
        return StaysStuck(
            f"the stream was stuck at step {step} in {n_starts} starts, and stays down. Correct "
            f"what it waited for, delete {self.path}, and run the same command again{waited}"
        )

    def _read(self) -> tuple[int | None, int, str]:
        """The step, in how many starts, and what the last one waited for."""
        try:
            note = json.loads(self.path.read_bytes())
            return note["step"], note["n_starts"], note["why"]
        except FileNotFoundError:
            return None, 0, ""
        except (ValueError, TypeError, KeyError):  # of a disk that was full
            return None, 1, ""


@dataclass(eq=False, repr=False)
class Overdue:
    """Whether a step is due for too long; asked again and again.

    Attributes:
        plan: Of the stream.
        standing: What its loop says.
        step: The step that is waited for; until the state is loaded the first one of the start.
        now: Seconds since 1970 UTC: says when a step becomes due, and nothing else.
        monotonic: Seconds of a clock that only goes forward: says how long that is ago.
    """

    plan: StreamPlan
    standing: StreamStatus
    step: int
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Begins with no step that is due."""
        assert self.plan.keys.stuck_after is not None
        self._after_seconds = self.plan.keys.stuck_after / _US
        self._due_seconds: float | None = None
        self._complete_us = -1

    def is_stuck(self) -> bool:
        """Returns whether the step that the stream waits for is due for longer than it may be.

        That counts from the moment at which it is due, or up to which messages were last read on.
        """
        step, complete_us = self.standing.step, self.standing.complete_us
        if step is not None and step != self.step:
            self.step, self._due_seconds = step, None
        if complete_us is not None and complete_us > self._complete_us:
            self._complete_us, self._due_seconds = complete_us, None
        if self.step >= self.plan.keys.horizon:
            return False
        if self._due_seconds is None:
            if self.now() * _US < self.plan.rule.release_time(self.step):
                return False
            self._due_seconds = self.monotonic()
        return self.monotonic() - self._due_seconds > self._after_seconds


@contextlib.contextmanager
def stop_if_stuck(
    plan: StreamPlan,
    standing: StreamStatus,
    stop: threading.Event,
    last_words: Callable[[TracecloakError], None],
    end: Callable[[int], None] = os._exit,
) -> Iterator[None]:
    """Ends the stream of the block if it is stuck: by `stop` first, or else with the process.

    Args:
        plan: Of the stream.
        standing: What its loop says.
        stop: Set when the stream is to end.
        last_words: Called with the error before the process ends.
        end: Ends the process with an exit code.

    Raises:
        UsageError: stuck_after is too short.
        StaysStuck: The stream was stuck at one step too often.
        Stuck: It is stuck, and ended when it was asked to.
    """
    check_stuck_after(plan)
    note = StuckNote(plan)
    note.check()
    overdue = Overdue(plan, standing, note.first_step)
    errors: list[TracecloakError] = []

    def watch(is_over: threading.Event) -> None:
        while not overdue.is_stuck():
            if is_over.wait(_TICK_SECONDS):
                return
        why = standing.sink_away or standing.source_away or ""
        errors.append(note.error(overdue.step, 0, why))  # if it cannot be noted
        _within(_WRITE_SECONDS, lambda: errors.append(note.add(overdue.step, why)))
        stop.set()
        if not is_over.wait(_GRACE_SECONDS):
            _within(_WRITE_SECONDS, lambda: last_words(errors[-1]))
            end(errors[-1].exit_code)

    with background_task(watch):
        yield
    if errors:
        raise errors[-1]


def _within(seconds: float, write: Callable[[], None]) -> None:
    """Waits for something that may hang, such as a write to a disk that is gone, so long."""

    def write_or_not(_: threading.Event) -> None:
        with contextlib.suppress(Exception):  # the end comes in any case
            write()

    with background_task(write_or_not, seconds):
        pass
