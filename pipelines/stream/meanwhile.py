"""What goes on beside a stream, in a thread of its own, such as what is noted of a job each minute.

What workers with keys of their own decide is noted by the command that started them. It also
compares the topics of Kafka that they read with what is kept of these logs.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from tracecloak.pipelines.runners.failures import reason_of
from tracecloak.pipelines.stream.epoch import Epoch
from tracecloak.pipelines.stream.noted_steps import note_kept
from tracecloak.schemas.errors import SourceChanged, TracecloakError
from tracecloak.transforms.stream.standing import Standing

_LOG = logging.getLogger("tracecloak")
_NOTE_SECONDS = 60.0


@contextlib.contextmanager
def meanwhile(
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
def noting(epoch: Epoch, is_ended: threading.Event, standing: Standing) -> Iterator[None]:
    """Calls `note_kept` once a minute during the block, and at its end; and ends the epoch.

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
        if is_ended.is_set() or epoch.config.worker_keys is None:
            return
        try:
            note_kept(epoch.noted, epoch.steps, epoch.keys[0].resolve())
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
        with meanwhile(again):
            yield
    finally:
        was_spent = False  # what follows may have to be read under the key
        note()
    if changed:
        raise changed[0]


def _compare(epoch: Epoch, standing: Standing) -> None:
    """Compares topics with what is kept of them, or keeps it; and looks how they are set."""
    topics = [topic for one in epoch.config.sources if (topic := one.input_kafka) is not None]
    if not topics:
        return
    from tracecloak.transforms.services.kafka_identity import KnownLog, compared, look_at

    reasons, logs = [], {}
    try:
        number, kept = epoch.logs.last()
        for topic in topics:
            known = kept.get(topic.source_name, KnownLog({}))
            logs[topic.source_name] = compared(topic, known, look_at(topic))
            reasons += topic.problems(epoch.config.rule.longest_us)
        if not kept:
            epoch.logs.keep(number, logs)
    except SourceChanged:
        raise
    except TracecloakError as error:
        reasons.append(str(error))
    standing.source_away = "; ".join(reasons) or None
    if reasons:
        _LOG.warning("%s", standing.source_away)
