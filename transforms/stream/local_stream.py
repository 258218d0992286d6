"""A stream on one machine: its loop, and its state in a file that survives the process.

The file is an SQLite database in its write-ahead mode, and every commit is on the disk before it
returns. One commit has the messages of a batch together with the positions in their source that
follow them; or, when cases close or steps are over, the whole state together with the releases of
these steps. So the process cannot die and leave one without the other: a message is counted once,
and a step's release is known before anybody has seen a byte of it.

Messages are appended to a journal, which is folded into the state when that is written anyway or
when it has grown as long as half of it. Every record is authenticated with the epoch's key. A file
with a byte changed, cut or missing is an error, and so is one that is older than what was
published: another state could count a case twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.steps import DecidedStep, RunningStream, StreamState
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import RetryLater, TracecloakError
from tracecloak.schemas.published.step import Step
from tracecloak.schemas.streams.open_cases import ClosedKeys
from tracecloak.transforms.files import make_private_folder, sync_folder
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.stream.sources import MessageBatch, Source
from tracecloak.transforms.stream.stream_status import (
    RateLimiter,
    StreamStatus,
    warn_of_times_ahead,
)

# --- LocalState: the state of a stream on one machine, in a file that survives the process. -------
# Messages are appended to a journal, and the journal is folded into the state when that is
# written anyway or when it has grown as long as half of it, so that the cost of a message does
# not depend on how many cases are open.
#
# Every record is authenticated with the epoch's key, and the head says which there are. A file
# with a byte changed, cut or missing is an error, and so is one that is older than what was
# published: another state could count a case twice.


_VERSION = 2
# Of a state whose vocabulary has grown, which versions that know of no growth must not read.
_GROWN = 3
# SQLite holds up to a billion bytes in a value.
_MOST_BYTES = 1 << 28
_PAGE_BYTES = 1 << 14
_REMEDY = (
    "Restore the whole key store as it was when the stream stopped, if there is such a copy; else "
    "begin another epoch, which is another spend"
)


@dataclass(frozen=True)
class Kept:
    """The content of the file.

    Attributes:
        state: Of the stream.
        positions: Where its source goes on, by the source's own names.
        unsent: The decided steps that may not have been published yet, in their order.
        names: The vocabulary of which the state has codes; empty: that of the epoch's begin.
    """

    state: StreamState
    positions: Mapping[str, Any]
    unsent: tuple[DecidedStep, ...]
    names: tuple[str, ...] = ()


class LocalState:
    """The state of one epoch in a file; one process has it, and one thread."""

    def __init__(self, path: Path, key: ReleaseKey, kind: type[Step]) -> None:
        """Keeps where it is; nothing is opened yet.

        Args:
            path: The file, in a folder that only the operator reads.
            key: The epoch's.
            kind: The type of what a step releases.
        """
        self._path = path
        self._key = key.derive(b"stream state")
        self._kind = kind
        self._head: dict[str, Any] = {}
        # What the file has, by the name of its part, or of its list.
        self._written: dict[str, Any] = {}
        self._listed: dict[str, tuple[Any, ...]] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a state."""
        return self._path.exists()

    def create(self, state: StreamState, source: str) -> None:
        """Makes the file, which appears with this state in it or not at all.

        Args:
            state: The first one.
            source: Name of the source in which the positions are.
        """
        make_private_folder(self._path.parent)
        fresh = self._path.with_suffix(".new")
        for ending in ("", "-wal", "-shm"):  # of a process that died here
            Path(f"{fresh}{ending}").unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL, 0o600))
        with self._connected(fresh):
            self._database.execute(
                "CREATE TABLE record (kind TEXT, number INTEGER, seal BLOB, value BLOB, "
                "PRIMARY KEY (kind, number)) WITHOUT ROWID"
            )
            self._head = {"version": _VERSION, "source": source, "parts": {}, "unsent": []}
            self._written, self._listed = {}, {}
            self.write(state, {})
        os.replace(fresh, self._path)
        sync_folder(self._path.parent)

    @contextlib.contextmanager
    def opened(self, source: str, is_read_only: bool = False) -> Iterator[Kept]:
        """Opens the file in the block, and gives what is in it.

        Args:
            source: As `create` had it.
            is_read_only: Whether nothing is written or made, as where a stream may be running.

        Raises:
            TracecloakError: It is damaged, of another version, or of another source.
        """
        with self._connected(self._path, is_read_only):
            yield self._read(source)

    def write(
        self,
        state: StreamState,
        positions: Mapping[str, Any],
        decided: Sequence[DecidedStep] = (),
    ) -> None:
        """Writes what has changed of a state, and the releases of steps; all is on the disk then.

        A batch of messages that came is added to the journal, where nothing else has changed.

        Args:
            state: It has all messages so far.
            positions: Behind these messages.
            decided: The steps that were decided since the last writing.
        """
        opened = replace(state.opened, closed=ClosedKeys({}))
        waiting = Statistics({str(step): counts for step, counts in state.waiting.items()})
        # By the name of a part what it is made of, and as it is written. The memory of closed cases
        # grows for as long as the stream runs, and hardly changes, so it is in parts of its own.
        parts: dict[str, tuple[Any, Any]] = {
            "opened": (state.opened, opened),
            "counted": (state.counted, state.counted),
            "waiting": (state.waiting, waiting),
            **{_CLOSED + name: (run, run) for name, run in state.opened.closed.runs.items()},
        }
        head = self._head
        with self._committing():
            for one in decided:
                self._put("unsent", one.step, one.to_kept())
                head["unsent"].append(one.step)
            for name, (value, to_write) in parts.items():
                if self._written.get(name) is not value:
                    data = encode(to_write)
                    pieces = range(0, len(data), _MOST_BYTES)
                    for number, at in enumerate(pieces):
                        self._put(name, number, data[at : at + _MOST_BYTES])
                    self._drop(name, len(pieces), _LAST)
                    head["parts"][name], self._written[name] = len(pieces), value
            for name in head["parts"].keys() - parts.keys():
                self._drop(name, 0, _LAST)
                del head["parts"][name], self._written[name]
            for name, values in (("past", state.past), ("journal", state.pending)):
                there = self._listed.get(name, ())
                n_kept = len(there) if there == values[: len(there)] else 0
                if n_kept < len(there):
                    self._drop(name, 0, _LAST)
                for number in range(n_kept, len(values)):
                    self._put(name, number, encode(values[number]))
                self._listed[name] = values
            head |= {
                "positions": dict(positions),
                "n_past": len(state.past),
                "journal": [0, len(state.pending)],
                "next_step": state.next_step,
                "digest": state.digest.hex(),
                "n_late": state.n_late,
            }
            self._put_head()

    def grow(self, kept: Kept, state: StreamState, names: Sequence[str]) -> Kept:
        """Writes the state with the codes of a vocabulary that has grown; returns the content."""
        self._head |= {"version": _GROWN, "names": list(names)}
        self.write(state, kept.positions)
        return replace(kept, state=state, names=tuple(names))

    def sent(self, step: int) -> None:
        """Notes that a step is published everywhere."""
        with self._committing():
            self._drop("unsent", step, step)
            self._head["unsent"].remove(step)
            self._put_head()

    # --- Records ------------------------------------------------------------------------------

    def _read(self, source: str) -> Kept:
        head = self._head = json.loads(self._get("head", 0))
        if head["version"] not in (_VERSION, _GROWN):
            raise TracecloakError(
                f"{self._path} is of version {head['version']}, and this is version {_VERSION}: go "
                "on with what wrote it, or begin another epoch, which is another spend"
            )
        if head["source"] != source:
            raise TracecloakError(
                f"this epoch has read {head['source']} so far, and its positions are no places in "
                f"{source}: name that one again, or begin another epoch, which is another spend"
            )
        parts = {
            name: decode(b"".join(self._get(name, i) for i in range(n)))
            for name, n in head["parts"].items()
        }
        first, n = head["journal"]
        n_runs = sum(name.startswith(_CLOSED) for name in parts)
        runs = {str(number): parts[f"{_CLOSED}{number}"] for number in range(n_runs)}
        state = StreamState(
            opened=replace(parts["opened"], closed=ClosedKeys(runs)),
            pending=tuple(decode(self._get("journal", first + i)) for i in range(n)),
            counted=parts["counted"],
            waiting={int(step): counts for step, counts in parts["waiting"].by_name.items()},
            past=tuple(decode(self._get("past", i)) for i in range(head["n_past"])),
            next_step=head["next_step"],
            digest=bytes.fromhex(head["digest"]),
            n_late=head["n_late"],
        )
        # Of an earlier version a journal may begin behind 0: it is written anew.
        self._listed = {"past": state.past, "journal": (None,) if first else state.pending}
        self._written = {"opened": state.opened, "counted": state.counted}
        self._written |= {_CLOSED + name: run for name, run in state.opened.closed.runs.items()}
        decided = (
            DecidedStep.from_kept(step, self._get("unsent", step), self._kind)
            for step in head["unsent"]
        )
        return Kept(state, head["positions"], tuple(decided), tuple(head.get("names", ())))

    def _put_head(self) -> None:
        self._put("head", 0, json.dumps(self._head).encode())

    def _put(self, kind: str, number: int, value: bytes) -> None:
        self._database.execute(
            "REPLACE INTO record VALUES (?, ?, ?, ?)",
            (kind, number, self._seal(kind, number, value), value),
        )

    def _get(self, kind: str, number: int) -> bytes:
        with self._undamaged():
            row = self._database.execute(
                "SELECT seal, value FROM record WHERE kind = ? AND number = ?", (kind, number)
            ).fetchone()
        if row is None or not hmac.compare_digest(row[0], self._seal(kind, number, row[1])):
            raise self._damaged()
        return bytes(row[1])

    def _drop(self, kind: str, first: int, last: int) -> None:
        self._database.execute(
            "DELETE FROM record WHERE kind = ? AND number BETWEEN ? AND ?", (kind, first, last)
        )

    def _seal(self, kind: str, number: int, value: bytes) -> bytes:
        mac = hmac.new(self._key, f"{kind}/{number}\n".encode(), hashlib.sha256)
        mac.update(value)
        return mac.digest()

    @contextlib.contextmanager
    def _connected(self, path: Path, is_read_only: bool = False) -> Iterator[None]:
        address = path.absolute().as_uri()
        if is_read_only:
            # The index of a write-ahead log is written by readers, too, unless they are kept from
            # it; without such a log nobody has the file open.
            has_log = Path(f"{path}-wal").exists()
            if has_log and not Path(f"{path}-shm").exists():
                raise TracecloakError(
                    f"{path} was copied without {path.name}-shm: copy it again with both files "
                    "beside it, or start the stream, which makes that one"
                )
            address += "?mode=ro&readonly_shm=1" if has_log else "?immutable=1"
        with self._undamaged():
            database = self._database = sqlite3.connect(address, isolation_level=None, uri=True)
        with contextlib.closing(database):
            database.text_factory = bytes  # what was changed to text is no error of its own
            with self._undamaged():
                if is_read_only:
                    database.execute("BEGIN")  # one moment of a stream that runs
                else:
                    # Of a new file; batches and states are long, and a page has a price.
                    database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                    database.execute("PRAGMA journal_mode = WAL")
                    database.execute("PRAGMA synchronous = FULL")
            yield

    @contextlib.contextmanager
    def _committing(self) -> Iterator[None]:
        """Commits what the block writes, or nothing of it."""
        with self._undamaged(), self._database as database:
            database.execute("BEGIN IMMEDIATE")
            yield

    @contextlib.contextmanager
    def _undamaged(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # such as a disk that is full
            raise TracecloakError(
                f"{self._path} cannot be read or written: {error}. What was committed is kept; run "
                "this again when that is corrected"
            ) from None
        except sqlite3.DatabaseError:
            raise self._damaged() from None

    def _damaged(self) -> TracecloakError:
        return TracecloakError(f"{self._path} is not what tracecloak wrote there. {_REMEDY}")


_LAST = (1 << 63) - 1
# Begins the name of a run of closed cases, before its number.
_CLOSED = "closed/"


def check_has_decided(path: str, decided: int, next_step: int | None) -> None:
    """Makes sure that a state knows of all steps that were decided.

    Args:
        path: The state, or another place that must have the steps.
        decided: The last step that was decided; -1: none was.
        next_step: The step that the state would publish next; None: there is no state.

    Raises:
        TracecloakError: It does not know of them.
    """
    if decided < (next_step or 0):
        return
    what = "is not there" if next_step is None else f"goes on with step {next_step}"
    raise TracecloakError(
        f"step {decided} of this epoch was decided, and {path}, which must have it, {what}: it was "
        f"deleted, restored from a copy, or is of another machine or runner. {_REMEDY}"
    )


# --- LocalStream: the loop of a stream on one machine, from a source to published steps. ----------
# Each turn of the loop pulls messages, keeps them with the positions behind them, and lets the
# service forget them. Then it ends the steps that are over, keeps the state together with their
# releases, and publishes these. So the process may die at any point: messages that were kept are
# not asked for again, and a step that was decided is published as it was decided, a second time
# if it may have been seen already.
#
# A service that does not answer is asked again until it does. A step waits for its messages: if
# these are read more slowly than they come, steps come later, and a warning says so.


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")

_BATCH_MESSAGES = 1 << 14
_PULL_SECONDS = 1.0
# How long to wait before a service that did not answer is asked again.
_AGAIN_SECONDS = 2.0
_LEAST_BEHIND_US = 30_000_000


class Sink(Protocol):
    """Where steps are published; the same step may come twice."""

    def send(self, released: Step) -> None:
        """Publishes a step; it is there when this returns.

        Raises:
            RetryLater: The service takes nothing now.
        """
        ...


@dataclass(eq=False, repr=False)
class LocalStream:
    """A stream that runs in this process; its whole state is in `Kept` and on the disk.

    Attributes:
        stream: Changes the state.
        layouts: Which part of a message has which value, by the place of its input.
        store: The open store of the state.
        sinks: Where steps are published, in this order.
        reject: Takes batches of messages that cannot be read.
        clock: Seconds since 1970 UTC.
        standing: Where the loop says how it stands.
    """

    stream: RunningStream
    layouts: Sequence[MessageFormat]
    store: LocalState
    sinks: Sequence[Sink]
    reject: Callable[[pa.RecordBatch], object]
    clock: Callable[[], float]
    standing: StreamStatus

    def __post_init__(self) -> None:
        """Begins with nothing read and nothing to publish."""
        self._behind_us = max(self.stream.rule.release_delay_us, _LEAST_BEHIND_US)
        self._away, self._late, self._behind = RateLimiter(), RateLimiter(), RateLimiter()
        self._state: StreamState
        self._positions: dict[str, Any] = {}
        self._unsent: deque[DecidedStep] = deque()
        self._pulled: MessageBatch | None = None
        # For the first unsent step: how many sinks have it, and when the next one is asked again.
        self._n_sinks_done = 0
        self._send_again = -math.inf

    def run(self, source: Source, start: Kept, stop: threading.Event) -> bool:
        """Reads and publishes until all steps are published, or `stop` is set.

        Args:
            source: Where messages come from, from the kept positions on.
            start: The state to go on from.
            stop: Set when the stream is to end; messages that were pulled are kept then.

        Returns:
            Whether all steps of the horizon are published everywhere.

        Raises:
            TracecloakError: It cannot go on.
        """
        self._state, self._positions = start.state, dict(start.positions)
        self._unsent = deque(start.unsent)
        while True:
            self._note_turn()
            self._send()
            self._note_turn()
            is_over = self._state.next_step >= self.stream.product.horizon
            if stop.is_set() or (is_over and not self._unsent):
                return is_over and not self._unsent
            if is_over:  # a sink does not take the last steps yet
                stop.wait(_AGAIN_SECONDS)
                continue
            try:
                self._read(source)
                self._end_steps(source)
                self.standing.source_away = None
            except RetryLater as error:
                self.standing.source_away = str(error)
                self._say_away(error)
                stop.wait(_AGAIN_SECONDS)

    def _note_turn(self) -> None:
        """Says that the loop goes round, and at which step it is."""
        oldest = self._unsent[0].step if self._unsent else self._state.next_step
        self.standing.step = oldest
        self.standing.n_open_cases = self._state.opened.n_cases
        self.standing.turn()

    def _read(self, source: Source) -> None:
        """Pulls messages, keeps them, and lets the service forget them."""
        # The source is behind what it gave, also where that could not be kept yet.
        pulled = self._pulled or source.pull(_BATCH_MESSAGES, _PULL_SECONDS)
        if not pulled.messages and source.positions == self._positions:
            return
        self._pulled = pulled
        layout = self.layouts[pulled.place]
        events, rejects = layout.decode(pulled.messages, pulled.publish)
        if rejects.num_rows:
            self.reject(rejects)
            self.standing.n_rejects.update(rejects["reason"].to_pylist())
        self.standing.n_messages += len(pulled.messages)
        if pulled.messages:
            newest_us = int(np.max(pulled.publish))
            self.standing.newest_us = max(newest_us, self.standing.newest_us or newest_us)
        keyed = self.stream.keyed(events)
        warn_of_times_ahead(keyed.ahead_us)
        after = self.stream.take(self._state, keyed)
        positions = dict(source.positions)
        self.store.write(after, positions)
        self._state, self._positions, self._pulled = after, positions, None
        source.let_go(pulled)

    def _end_steps(self, source: Source) -> None:
        """Decides and keeps the steps that are over and whose messages are all there."""
        now_us = int(self.clock() * 1e6)
        try:
            complete_us = min(source.watermark_us(), now_us)
        finally:  # also where the clocks differ by too much
            self.standing.clock_offset_us = source.clock_offset_us
        self.standing.complete_us = None if complete_us < 0 else complete_us
        after, decided = self.stream.advance(self._state, complete_us)
        if after is not self._state:
            self.store.write(after, self._positions, decided)
            if after.n_late > self._state.n_late and self._late.is_due():
                _OPERATOR.warning("cases were complete too late for their step, and do not count")
            self._state = after
            self._unsent.extend(decided)
        step, horizon = self._state.next_step, self.stream.product.horizon
        since_us = now_us - self.stream.rule.release_time(step)
        if step < horizon and since_us >= self._behind_us and self._behind.is_due():
            how = f"messages are read up to {(now_us - complete_us) / 1e6:,.0f} s before now"
            if complete_us < 0:
                how = "it is not known yet whether all messages are there"
            waits = "step %d should have been published %.0f s ago and waits for its messages"
            _LOG.warning(waits, step, since_us / 1e6)
            _OPERATOR.warning("step %d waits: %s", step, how)

    def _send(self) -> None:
        """Publishes decided steps in their order, as far as the sinks take them."""
        while self._unsent and time.monotonic() >= self._send_again:
            oldest = self._unsent[0]
            try:
                while self._n_sinks_done < len(self.sinks):
                    self.sinks[self._n_sinks_done].send(oldest.released)
                    self._n_sinks_done += 1
            except RetryLater as error:
                self.standing.sink_away = str(error)
                self._say_away(error)
                self._send_again = time.monotonic() + _AGAIN_SECONDS
                return
            self.store.sent(oldest.step)
            self._unsent.popleft()
            self._n_sinks_done = 0
            self.standing.sink_away = None

    def _say_away(self, error: RetryLater) -> None:
        if self._away.is_due():
            _LOG.warning("%s; the stream waits, and goes on when that is over", error)
